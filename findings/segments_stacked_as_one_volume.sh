#!/usr/bin/env bash
# SimpleITK reads a DICOM segmentation of two organs as one mask, in a volume of its own.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), highdicom 0.28.2, pydicom 3.0.2, numpy 2.4.6; Python 3.11 or
# later.
#
# Behaviour: A DICOM segmentation keeps a frame for each slice in which a segment is not empty, one
# segment after the other. SimpleITK stacks these frames. Of two segments in a series of 10 slices of
# 3 mm, with 2 and 3 slices, it makes a volume of 5 slices of 1 mm, whose voxels are 0 and 255, so
# that nothing tells the segments apart. Nothing is said.
#
# Guess before the run: two labels, 1 and 2, or an error; and the slices of the series.
#
# Seen:
#   written: 10 slices of 3 mm, segments with 32 and 48 voxels
#   read:    5 slices of 1 mm, values 0 and 255, voxels in the slices 16 16 16 16 16
#
# Why it matters: Hospital systems export masks as DICOM segmentations. Converted this way, a
# reference has other slices than its image, and its volume in ml is a third of the true one here;
# whoever resamples it onto the image gets a mask in the wrong place.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    SimpleITK==2.5.7 highdicom==0.28.2 pydicom==3.0.2 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import highdicom
import numpy as np
import SimpleITK
from highdicom.seg import SegmentAlgorithmTypeValues, SegmentDescription, Segmentation
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sr.codedict import codes
from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage, generate_uid

STATED = (5, 1.0, [0, 255], [16] * 5)

study, series, frame_of_reference = generate_uid(), generate_uid(), generate_uid()
slices = []
for number in range(10):
    image = Dataset()
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image.SOPClassUID, image.SOPInstanceUID = MRImageStorage, generate_uid()
    image.PatientID, image.PatientName = "1", "Doe^Jane"
    image.PatientBirthDate = image.PatientSex = image.AccessionNumber = ""
    image.StudyID, image.StudyDate, image.StudyTime = "1", "20200101", "000000"
    image.ReferringPhysicianName = image.PositionReferenceIndicator = ""
    image.StudyInstanceUID, image.SeriesInstanceUID = study, series
    image.FrameOfReferenceUID = frame_of_reference
    image.SeriesNumber, image.InstanceNumber = 1, number + 1
    image.Modality, image.Manufacturer = "MR", "none"
    image.ImagePositionPatient = [0, 0, 3.0 * number]
    image.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    image.PixelSpacing, image.SliceThickness = [1, 1], 3
    image.Rows = image.Columns = 16
    image.BitsAllocated = image.BitsStored = 16
    image.HighBit, image.PixelRepresentation, image.SamplesPerPixel = 15, 0, 1
    image.PhotometricInterpretation = "MONOCHROME2"
    image.PixelData = np.zeros((16, 16), np.uint16).tobytes()
    slices.append(image)

masks = np.zeros((10, 16, 16, 2), bool)
masks[3:5, 4:8, 4:8, 0] = True
masks[4:7, 8:12, 8:12, 1] = True
descriptions = [
    SegmentDescription(
        segment_number=number,
        segment_label=label,
        segmented_property_category=codes.SCT.Organ,
        segmented_property_type=codes.SCT.Kidney,
        algorithm_type=SegmentAlgorithmTypeValues.MANUAL,
    )
    for number, label in ((1, "left"), (2, "right"))
]
Segmentation(
    source_images=slices,
    pixel_array=masks,
    segmentation_type="BINARY",
    segment_descriptions=descriptions,
    series_instance_uid=generate_uid(),
    series_number=2,
    sop_instance_uid=generate_uid(),
    instance_number=1,
    manufacturer="none",
    manufacturer_model_name="none",
    software_versions="1",
    device_serial_number="1",
).save_as("segmentation.dcm")
print("written: 10 slices of 3 mm, segments with {} and {} voxels".format(*masks.sum((0, 1, 2))))

read = SimpleITK.ReadImage("segmentation.dcm")
voxels = SimpleITK.GetArrayFromImage(read)
seen = (
    len(voxels),
    read.GetSpacing()[2],
    np.unique(voxels).tolist(),
    (voxels > 0).sum((1, 2)).tolist(),
)
print("read:    {} slices of {:g} mm, values {}, voxels in the slices {}".format(*seen))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
