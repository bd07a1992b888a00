#!/usr/bin/env bash
# SimpleITK reads a DICOM segmentation with a gap as too much or too little volume.
#
# Versions: highdicom 0.28.2, pydicom 3.0.2, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or
# later.
#
# Behaviour: highdicom, as most writers, stores only the frames of a segmentation that hold a segment.
# SimpleITK reads these frames as neighbours, whatever lies between them. With slices 1 and 4 of 5 mm it
# takes the distance of the two frames for the spacing (15 mm), and the lesion has three times its
# volume. With slices 1, 2 and 5 the distances differ, it takes 1 mm, and the lesion has a fifth. Without
# a gap both are right. The value of the label is 255.
#
# Guess before the run: the gaps are closed and the spacing stays. It was wrong, and in two ways.
#
# Seen (9 voxels of 5 mm3 in each slice):
#   slices 1, 2:    true  90 mm3, SimpleITK  90 mm3, spacing  5 mm
#   slices 1, 4:    true  90 mm3, SimpleITK 270 mm3, spacing 15 mm
#   slices 1, 2, 5: true 135 mm3, SimpleITK  27 mm3, spacing  1 mm
#
# Why it matters: Two lesions in one file are enough for a gap. Volumes, and distances in mm, are wrong
# in both directions within one study, so that no constant factor gives it away.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile highdicom==0.28.2 pydicom==3.0.2 SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import math
import sys

import highdicom
import numpy as np
import SimpleITK as sitk
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sr.codedict import codes
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

STATED = {(1, 2): (90, 90, 5), (1, 4): (90, 270, 15), (1, 2, 5): (135, 27, 1)}
SLICE_MM = 5


def ct_slice(index, study, series, frame):
    image = Dataset()
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.file_meta.MediaStorageSOPClassUID = CTImageStorage
    image.SOPClassUID = CTImageStorage
    image.SOPInstanceUID = generate_uid()
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
    image.StudyInstanceUID, image.SeriesInstanceUID, image.FrameOfReferenceUID = study, series, frame
    image.Modality = "CT"
    image.PatientID, image.PatientName = "phantom", "phantom^"
    image.PatientBirthDate = image.PatientSex = image.AccessionNumber = ""
    image.ReferringPhysicianName = image.PositionReferenceIndicator = ""
    image.StudyDate, image.StudyTime, image.StudyID = "20200101", "000000", "1"
    image.SeriesNumber, image.InstanceNumber = 1, index + 1
    image.Rows = image.Columns = 8
    image.PixelSpacing, image.SliceThickness = [1, 1], SLICE_MM
    image.ImagePositionPatient = [0, 0, SLICE_MM * index]
    image.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    image.BitsAllocated = image.BitsStored = 16
    image.HighBit, image.PixelRepresentation, image.SamplesPerPixel = 15, 0, 1
    image.PhotometricInterpretation = "MONOCHROME2"
    image.PixelData = np.zeros((8, 8), np.uint16).tobytes()
    return image


uids = [generate_uid() for _ in range(3)]
series = [ct_slice(index, *uids) for index in range(6)]
lesion = highdicom.seg.SegmentDescription(
    segment_number=1,
    segment_label="lesion",
    segmented_property_category=codes.SCT.MorphologicallyAbnormalStructure,
    segmented_property_type=codes.SCT.Lesion,
    algorithm_type="MANUAL",
)

seen = {}
for slices in STATED:
    mask = np.zeros((6, 8, 8), np.uint8)
    for index in slices:
        mask[index, 2:5, 2:5] = 1
    segmentation = highdicom.seg.Segmentation(
        source_images=series,
        pixel_array=mask,
        segmentation_type="BINARY",
        segment_descriptions=[lesion],
        series_instance_uid=generate_uid(),
        series_number=2,
        sop_instance_uid=generate_uid(),
        instance_number=1,
        manufacturer="none",
        manufacturer_model_name="none",
        software_versions="1",
        device_serial_number="1",
    )
    segmentation.save_as("mask.dcm")

    image = sitk.ReadImage("mask.dcm")
    n_voxels = int((sitk.GetArrayFromImage(image) == 255).sum())
    volume = n_voxels * math.prod(image.GetSpacing())
    seen[slices] = (int(mask.sum()) * SLICE_MM, round(volume), round(image.GetSpacing()[2]))
    names = ", ".join(str(index) for index in slices)
    print("slices {}: true {} mm3, SimpleITK {} mm3, spacing {} mm".format(names, *seen[slices]))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
