#!/usr/bin/env bash
# rt-utils reads a lesion of 27 voxels as 27 or as 63, depending on the voxel at which it begins.
#
# Versions: rt-utils 1.2.7, plastimatch 1.10.0, SimpleITK 2.5.7 (ITK 5.4), pydicom 3.0.2, numpy 2.3.5,
# opencv-python 5.0.0.93; Python 3.11 or later, Linux.
#
# Behaviour: plastimatch writes a mask as a DICOM structure set whose contours run along the edges of
# voxels, at 7.5 and 10.5, and reads the same voxels back. rt-utils rounds these numbers to whole
# voxels, halves to the even one, and fills the polygon with its border. From 7.5 to 10.5 it is 8 to 10,
# as it should be; from 8.5 to 11.5 it is 8 to 12. The way back shrinks: the contours of rt-utils run
# through the centres of voxels, and plastimatch leaves the outer ones out on two sides. For that way,
# a pull request offers contours along the edges: https://github.com/qurit/rt-utils/pull/141
#
# Guess before the run: the same voxels, apart from a few at the rim, wherever the lesion lies.
#
# Seen (voxels of a box over three slices; its edge, and the row and column at which it begins):
#   edge  3 at 8: mask  27; by plastimatch, read by rt-utils  27; by rt-utils, read by plastimatch  12
#   edge  3 at 9: mask  27; by plastimatch, read by rt-utils  63; by rt-utils, read by plastimatch  12
#   edge 10 at 8: mask 300; by plastimatch, read by rt-utils 360; by rt-utils, read by plastimatch 243
#   edge 10 at 9: mask 300; by plastimatch, read by rt-utils 360; by rt-utils, read by plastimatch 243
#
# Why it matters: References of radiotherapy are structure sets. Once through two tools, a small lesion
# has half or twice its volume, and a perfect prediction a Dice of 0.6. Whether it does can depend on
# where the lesion lies, so that no look at one patient shows it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile rt-utils==1.2.7 plastimatch==1.10.0 \
    SimpleITK==2.5.7 pydicom==3.0.2 numpy==2.3.5 opencv-python==5.0.0.93
cd "$folder"

venv/bin/python - <<'PYTHON'
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import SimpleITK
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid
from rt_utils import RTStructBuilder

STATED = {(3, 8): (27, 27, 12), (3, 9): (27, 63, 12), (10, 8): (300, 360, 243), (10, 9): (300, 360, 243)}
N_SLICES, SLICE_MM = 8, 3


def write_ct():
    study, series, frame_of_reference = generate_uid(), generate_uid(), generate_uid()
    Path("ct").mkdir()
    for number in range(N_SLICES):
        image = Dataset()
        image.file_meta = FileMetaDataset()
        image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        image.file_meta.MediaStorageSOPClassUID = CTImageStorage
        image.SOPClassUID, image.SOPInstanceUID = CTImageStorage, generate_uid()
        image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
        image.StudyInstanceUID, image.SeriesInstanceUID = study, series
        image.FrameOfReferenceUID = frame_of_reference
        image.Modality, image.PatientID, image.PatientName = "CT", "1", "Doe^Jane"
        image.PatientBirthDate = image.PatientSex = image.AccessionNumber = ""
        image.ReferringPhysicianName = ""
        image.StudyID, image.StudyDate, image.StudyTime = "1", "20200101", "000000"
        image.SeriesNumber, image.InstanceNumber = 1, number + 1
        image.ImagePositionPatient = [0, 0, SLICE_MM * number]
        image.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        image.PixelSpacing, image.SliceThickness = [1, 1], SLICE_MM
        image.Rows = image.Columns = 32
        image.BitsAllocated = image.BitsStored = 16
        image.HighBit, image.PixelRepresentation, image.SamplesPerPixel = 15, 0, 1
        image.RescaleIntercept, image.RescaleSlope = 0, 1
        image.PhotometricInterpretation = "MONOCHROME2"
        image.PixelData = np.zeros((32, 32), np.uint16).tobytes()
        image.save_as(f"ct/{number}.dcm", enforce_file_format=True)


def plastimatch(*arguments):
    command = ["venv/bin/plastimatch", "convert", "--referenced-ct", "ct", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def by_plastimatch_read_by_rt_utils(mask, folder):
    image = SimpleITK.GetImageFromArray(mask.astype(np.uint8).transpose(2, 0, 1))
    image.SetSpacing([1, 1, SLICE_MM])
    SimpleITK.WriteImage(image, "mask.mha")
    plastimatch("--input-ss-img", "mask.mha", "--output-dicom", folder)
    (path,) = Path(folder).glob("rtss*.dcm")
    structures = RTStructBuilder.create_from("ct", str(path))
    (name,) = structures.get_roi_names()
    return int(structures.get_roi_mask_by_name(name).sum())


def by_rt_utils_read_by_plastimatch(mask, folder):
    structures = RTStructBuilder.create_new("ct")
    structures.add_roi(mask=mask, name="lesion")
    structures.save(f"{folder}.dcm")
    plastimatch("--input", f"{folder}.dcm", "--output-prefix", folder, "--prefix-format", "nrrd")
    read = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(f"{folder}/lesion.nrrd"))
    return int((read > 0).sum())


logging.disable()
write_ct()
seen = {}
for edge, first in STATED:
    mask = np.zeros((32, 32, N_SLICES), bool)
    mask[first : first + edge, first : first + edge, 3:6] = True
    seen[edge, first] = (
        int(mask.sum()),
        by_plastimatch_read_by_rt_utils(mask, f"plastimatch_{edge}_{first}"),
        by_rt_utils_read_by_plastimatch(mask, f"rt_utils_{edge}_{first}"),
    )
for (edge, first), counts in seen.items():
    print(
        "edge {} at {}: mask {}; by plastimatch, read by rt-utils {}; "
        "by rt-utils, read by plastimatch {}".format(edge, first, *counts)
    )

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
