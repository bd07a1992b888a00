"""DICOM series and segmentations, written with highdicom."""

import highdicom
import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sr.codedict import codes
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

#: Directions along rows, columns and slices as columns, as ITK has them: upright, and turned
#: about two axes.
UPRIGHT = np.eye(3)
TURNED = np.array([[0.8, -0.36, 0.48], [0.6, 0.48, -0.64], [0.0, 0.8, 0.6]])

CT = {
    "SOPClassUID": CTImageStorage,
    "Modality": "CT",
    "PatientID": "1",
    "PatientName": "A^B",
    "BitsAllocated": 16,
    "BitsStored": 16,
    "HighBit": 15,
    "PixelRepresentation": 0,
    "SamplesPerPixel": 1,
    "PhotometricInterpretation": "MONOCHROME2",
    "RescaleSlope": 1,
    "RescaleIntercept": 0,
    "SeriesNumber": 1,
}
UNKNOWN = (
    *("PatientBirthDate", "PatientSex", "StudyID", "AccessionNumber", "StudyDate", "StudyTime"),
    *("ReferringPhysicianName", "PositionReferenceIndicator"),
)


def ct_series(grey, spacing=(1.0, 2.0, 5.0), directions=UPRIGHT, origin=(-10.0, 20.0, 30.0)):
    """A slice per plane of an image (z, y, x); lengths along (x, y, z), mm."""
    uids = {name: generate_uid() for name in ("StudyInstanceUID", "SeriesInstanceUID")}
    uids["FrameOfReferenceUID"] = generate_uid()
    slices = []
    for n, plane in enumerate(np.asarray(grey, np.uint16)):
        dataset = Dataset()
        dataset.file_meta = FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        for name, value in {**CT, **dict.fromkeys(UNKNOWN, ""), **uids}.items():
            setattr(dataset, name, value)
        dataset.SOPInstanceUID = generate_uid()
        dataset.InstanceNumber = n + 1
        dataset.Rows, dataset.Columns = plane.shape
        dataset.PixelSpacing = [spacing[1], spacing[0]]
        dataset.SliceThickness = spacing[2]
        dataset.ImageOrientationPatient = [*directions[:, 0], *directions[:, 1]]
        position = np.array(origin) + n * spacing[2] * directions[:, 2]
        dataset.ImagePositionPatient = position.round(6).tolist()
        dataset.PixelData = plane.tobytes()
        slices.append(dataset)
    return slices


def write_series(folder, slices):
    folder.mkdir(parents=True)
    for n, dataset in enumerate(slices):
        dataset.save_as(folder / f"{n}.dcm", enforce_file_format=True)


def described(number, label, description=None):
    segment = highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=label,
        segmented_property_category=codes.SCT.Organ,
        segmented_property_type=codes.SCT.Liver,
        algorithm_type="MANUAL",
    )
    if description is not None:
        segment.SegmentDescription = description
    return segment


def segmentation(slices, values, segments, *, kind="BINARY", **options):
    """A segmentation of a series, from label values (z, y, x), or layers in a fourth axis.

    Empty slices are left out. ``segments`` are labels, or labels and descriptions, from number 1 on.
    """
    descriptions = []
    for number, names in enumerate(segments, start=1):
        names = (names,) if isinstance(names, str) else names
        descriptions.append(described(number, *names))
    pixels = np.asarray(values)
    if kind != "FRACTIONAL":
        pixels = pixels.astype(np.uint8)
    return highdicom.seg.Segmentation(
        slices,
        pixels,
        kind,
        descriptions,
        generate_uid(),
        1,
        generate_uid(),
        1,
        "Maker",
        "Model",
        "1",
        "Device",
        **options,
    )


def write_segmentation(path, slices, values, segments, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    segmentation(slices, values, segments, **options).save_as(path)
