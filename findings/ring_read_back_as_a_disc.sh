#!/usr/bin/env bash
# A ring that plastimatch writes as a DICOM structure set is a disc when plastimatch reads it back.
#
# Versions: plastimatch 1.10.0, SimpleITK 2.5.7 (ITK 5.4), pydicom 3.0.2, numpy 2.4.6; Python 3.11 or
# later, Linux.
#
# Behaviour: plastimatch writes two contours in each slice of a ring, its outer edge and that of the
# hole. Read, overlapping contours are united, so that the inner one changes nothing and the hole is part
# of the organ. The option --xor-contours, which gives the mask back as it was, has to be known; a convex
# organ in the same file is the same with it and without it. Nothing is said.
#
# Guess before the run: the mask that was written, in any shape.
#
# Seen (voxels of four slices; Dice of a prediction that is the mask that was written):
#   disc:          mask 1600; read 1600, Dice 1.00; read with --xor-contours 1600
#   ring, hole 8:  mask 1344; read 1600, Dice 0.91; read with --xor-contours 1344
#   ring, hole 12: mask 1024; read 1600, Dice 0.78; read with --xor-contours 1024
#
# Why it matters: The wall of the bladder and of the heart, the body without its lungs and a tumour with
# a necrotic core are rings. References of radiotherapy are structure sets: read this way, the volume is
# too large by that of the hole, and a perfect prediction loses a tenth or a fifth of its Dice. Other
# readers of structure sets did the same and changed it, such as
# https://github.com/pyplati/platipy/issues/244
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    plastimatch==1.10.0 SimpleITK==2.5.7 pydicom==3.0.2 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import subprocess
import sys
from pathlib import Path

import numpy as np
import SimpleITK
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

STATED = {0: (1600, 1600, 1.0, 1600), 8: (1344, 1600, 0.91, 1344), 12: (1024, 1600, 0.78, 1024)}
SLICE_MM = 3


def write_ct():
    study, series, frame_of_reference = generate_uid(), generate_uid(), generate_uid()
    Path("ct").mkdir()
    for number in range(8):
        image = Dataset()
        image.file_meta = FileMetaDataset()
        image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        image.SOPClassUID, image.SOPInstanceUID = CTImageStorage, generate_uid()
        image.file_meta.MediaStorageSOPClassUID = CTImageStorage
        image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
        image.StudyInstanceUID, image.SeriesInstanceUID = study, series
        image.FrameOfReferenceUID = frame_of_reference
        image.Modality, image.PatientID, image.PatientName = "CT", "1", "phantom"
        image.PatientBirthDate = image.PatientSex = image.AccessionNumber = ""
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


def convert(*arguments):
    command = ["venv/bin/plastimatch", "convert", "--referenced-ct", "ct", *arguments]
    subprocess.run(command, check=True, capture_output=True)


def written(mask, name):
    image = SimpleITK.GetImageFromArray(mask.astype(np.uint8))
    image.SetSpacing([1, 1, SLICE_MM])
    SimpleITK.WriteImage(image, f"{name}.mha")
    convert("--input-ss-img", f"{name}.mha", "--output-dicom", name)
    (path,) = Path(name).glob("rtss*.dcm")
    return str(path)


def read(path, folder, *options):
    convert("--input", path, "--output-prefix", folder, "--prefix-format", "nrrd", *options)
    (organ,) = Path(folder).glob("*.nrrd")
    return SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(organ))) > 0


write_ct()
seen = {}
for hole in STATED:
    mask = np.zeros((8, 32, 32), bool)
    mask[2:6, 6:26, 6:26] = True
    start = 16 - hole // 2
    mask[2:6, start : start + hole, start : start + hole] = False
    path = written(mask, f"hole_{hole}")

    organ = read(path, f"united_{hole}")
    with_option = read(path, f"xor_{hole}", "--xor-contours")
    dice = 2 * (mask & organ).sum() / (mask.sum() + organ.sum())
    seen[hole] = (int(mask.sum()), int(organ.sum()), round(float(dice), 2), int(with_option.sum()))
    name = f"ring, hole {hole}" if hole else "disc"
    print(
        "{}: mask {}; read {}, Dice {:.2f}; read with --xor-contours {}".format(name, *seen[hole])
    )

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
