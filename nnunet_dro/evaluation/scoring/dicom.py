"""DICOM segmentations, and series of images, read with highdicom."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.grid import TOLERANCE_VOXELS, IntegerArray
from nnunet_dro.evaluation.scoring.slices import DECIMALS, SliceStack
from nnunet_dro.naming import extra_cure

DICOM_ENDING = ".dcm"

#: The classes of segmentations: of binary and fractional ones, and of label maps.
_SEGMENTATIONS = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")

#: How much the directions of parallel frames may differ, as direction cosines.
_PARALLEL = 1e-4

_EXPORT = "Export it as a segmentation of type LABELMAP, or as a label map in NIfTI."

#: The label value of a segment; None for one that may have no voxels.
ValueOf = Callable[["Segment"], int | None]


@dataclass(frozen=True)
class Segment:
    """A segment of a DICOM segmentation: its number in the file, and what it is called."""

    number: int
    label: str
    description: str = ""


def is_dicom(path: Path | None) -> bool:
    """Whether there is a file and its name has the ending of DICOM."""
    return path is not None and path.name.lower().endswith(DICOM_ENDING)


def segments_of(path: Path) -> list[Segment]:
    """The segments that a file describes, with or without voxels, in their order.

    Raises:
        ValueError: If it is no DICOM segmentation, or highdicom is not installed. The message names
            the file.
    """
    with reading_dicom(path):
        import pydicom

        tags = ["SOPClassUID", "SegmentSequence"]
        dataset = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=tags)
    _check_class(dataset, path)
    return _segments(dataset)


def read_segmentation(path: Path, value_of: ValueOf = attrgetter("number")) -> SliceStack:
    """Read the slices of a DICOM segmentation.

    Args:
        path: The file.
        value_of: The label value of each segment, 0 for one that is left out; default: its number.

    Returns:
        The slices that are stored.

    Raises:
        ValueError: If it is no segmentation, is fractional, has segments of different values in one
            voxel, a segment without a value that has voxels, or slices that are not parallel; or if
            highdicom is not installed. The message names the file.
    """
    with reading_dicom(path):
        import highdicom
        import pydicom

        dataset = pydicom.dcmread(path)
    _check_class(dataset, path)
    if dataset.get("SegmentationType") == "FRACTIONAL":
        raise InputError(
            "path",
            must="hold labels or binary segments",
            got=f"the fractions of {str(path)!r}",
            cure=_EXPORT,
        )

    with reading_dicom(path):
        segmentation = highdicom.seg.Segmentation.from_dataset(dataset, copy=False)
    return _stack(_Frames.of(segmentation, path, value_of))


@dataclass(frozen=True)
class _Frames:
    """The frames of a segmentation: each is of one slice, and has one segment or all of them."""

    segmentation: Any
    path: Path
    segments: dict[int, Segment]  # by number
    values: dict[int, int | None]  # segment number to label value

    @classmethod
    def of(cls, segmentation: Any, path: Path, value_of: ValueOf) -> "_Frames":
        segments = {segment.number: segment for segment in _segments(segmentation)}
        values = {number: value_of(segment) for number, segment in segments.items()}
        # Label maps may describe their background.
        values[0] = 0
        padding = segmentation.get("PixelPaddingValue")
        if padding not in segments:
            values[padding] = 0
        return cls(segmentation, path, segments, values)

    def group(self, name: str, n: int) -> Any:
        """What a frame says under a name, or else what all frames say; None for nothing.

        Names are those of DICOM's functional groups, without ``Sequence``.
        """
        per_frame = self.segmentation.get("PerFrameFunctionalGroupsSequence") or []
        shared = self.segmentation.get("SharedFunctionalGroupsSequence") or []
        for groups in (*per_frame[n : n + 1], *shared[:1]):
            entries = groups.get(f"{name}Sequence")
            if entries:
                return entries[0]
        return None

    def plane(self, numbers: Sequence[int]) -> IntegerArray:
        """The label values (y, x) of a slice, from its frames."""
        sizes = (self.segmentation.Rows, self.segmentation.Columns)
        most = max(value or 0 for value in self.values.values())
        plane = np.zeros(sizes, np.min_scalar_type(most))
        for n in numbers:
            identification = self.group("SegmentIdentification", n)
            if identification is None:
                plane = self._labels(n).astype(plane.dtype)
            else:
                self._add(plane, n, int(identification.ReferencedSegmentNumber))
        return plane

    def _labels(self, n: int) -> IntegerArray:
        """The label values of a frame that holds the numbers of segments."""
        frame = self._stored(n)
        n_voxels = np.bincount(frame.ravel())
        values = np.zeros(len(n_voxels), np.int64)
        for number in np.flatnonzero(n_voxels).tolist():
            values[number] = self._value(number)
        labels: IntegerArray = values[frame]
        return labels

    def _add(self, plane: IntegerArray, n: int, number: int) -> None:
        """Add the frame of a segment to the label values of its slice."""
        # Frames of segments that are left out need not be read.
        if self.values.get(number) == 0:
            return
        is_inside = self._stored(n) != 0
        if not is_inside.any():
            return

        value = self._value(number)
        others = plane[is_inside & (plane != 0) & (plane != value)]
        if others.size:
            other = next(key for key, entry in self.values.items() if entry == others[0])
            raise InputError(
                "path",
                must="hold segments that do not overlap",
                got=(
                    f"{self.segments[other].label!r} and {self.segments[number].label!r} in one "
                    f"voxel of {str(self.path)!r}"
                ),
                cure=_EXPORT,
            )
        plane[is_inside] = value

    def _stored(self, n: int) -> IntegerArray:
        with reading_dicom(self.path):
            frame: IntegerArray = self.segmentation.get_stored_frame(n, as_index=True)
        return frame

    def _value(self, number: int) -> int:
        """The label value of a segment that has voxels."""
        value = self.values.get(number)
        if value is not None:
            return value
        if number not in self.segments:
            raise InputError(
                "path",
                must="describe all its segments",
                got=f"{number} in {str(self.path)!r}",
                cure="Write it again.",
            )

        got = f"{self.segments[number].label!r} in {str(self.path)!r}"
        cure = "Add the label there, or give the dataset.json that fits with --dataset-json."
        raise ValueError(
            f"`labels` in dataset.json must have the segments as labels of one value, got {got}. "
            f"{cure}"
        )


def _stack(frames: _Frames) -> SliceStack:
    """The slices of a segmentation."""
    places = []
    for n in range(int(frames.segmentation.get("NumberOfFrames", 1))):
        position = getattr(frames.group("PlanePosition", n), "ImagePositionPatient", None)
        orientation = getattr(frames.group("PlaneOrientation", n), "ImageOrientationPatient", None)
        if position is None or orientation is None:
            raise InputError(
                "path",
                must="have slices with a position",
                got=f"one without in {str(frames.path)!r}",
                cure="Slides and projections are not read.",
            )
        places.append([*position, *orientation])

    measures = frames.group("PixelMeasures", 0)
    spacing = getattr(measures, "PixelSpacing", (1.0, 1.0))
    frame, offsets = _frame(np.array(places, float), spacing, frames.path)
    frames_at: dict[float, list[int]] = defaultdict(list)
    for n, offset in enumerate(offsets):
        frames_at[offset].append(n)
    return SliceStack(
        planes=np.stack([frames.plane(frames_at[offset]) for offset in sorted(frames_at)]),
        offsets_mm=np.array(sorted(frames_at)),
        frame=frame,
        path=frames.path,
        step_mm=_length(measures, "SpacingBetweenSlices"),
        thickness_mm=_length(measures, "SliceThickness"),
    )


def _frame(
    places: FloatArray, spacing: Sequence[float], path: Path
) -> tuple[FloatArray, list[float]]:
    """Where parallel frames are.

    Args:
        places: Position and orientation of each frame as DICOM has them, shape (n_frames, 9).
        spacing: Distance of voxels along (y, x), mm.
        path: The file.

    Returns:
        The frame as in `SliceStack`, and the distance of each frame from the first along the
        normal, mm.
    """
    positions = places[:, :3]
    x_axis = places[0, 3:6]
    y_axis = places[0, 6:]
    normal = np.cross(x_axis, y_axis)
    normal /= np.linalg.norm(normal)
    offsets = (positions - positions[0]) @ normal
    first = positions[offsets.argmin()]

    offsets = ((positions - first) @ normal).round(DECIMALS)
    beside = positions - first - np.outer(offsets, normal)
    y_mm, x_mm = map(float, spacing)
    is_stack = np.abs(beside).max() <= TOLERANCE_VOXELS * min(x_mm, y_mm)
    if not is_stack or np.ptp(places[:, 3:], axis=0).max() > _PARALLEL:
        raise InputError(
            "path",
            must="have parallel slices, one above the other",
            got=f"others in {str(path)!r}",
            cure="Resample image and segmentation to an upright grid, and store them as NIfTI.",
        )

    frame = np.eye(4)
    frame[:3, 0] = x_mm * x_axis
    frame[:3, 1] = y_mm * y_axis
    frame[:3, 2] = normal
    frame[:3, 3] = first
    return frame, offsets.tolist()


def _length(measures: Any, name: str) -> float | None:
    """A length in mm that a file says; None where it says none."""
    length = measures.get(name)
    # Slices may be counted against the normal.
    return abs(float(length)) if length else None


def _segments(dataset: Any) -> list[Segment]:
    """The segments that a file describes, but for the background of label maps."""
    segments = []
    for entry in dataset.get("SegmentSequence") or []:
        number = int(entry.SegmentNumber)
        label = str(entry.get("SegmentLabel") or number)
        if number != 0:
            segments.append(Segment(number, label, str(entry.get("SegmentDescription") or "")))
    return segments


def _check_class(dataset: Any, path: Path) -> None:
    """Check that a DICOM file is a segmentation."""
    sop_class = dataset.get("SOPClassUID")
    if sop_class in _SEGMENTATIONS:
        return
    name = getattr(sop_class, "name", "nothing")
    raise InputError(
        "path",
        must="be a DICOM segmentation",
        got=f"{name} in {str(path)!r}",
        cure="Give one segmentation CASE.dcm per case; 3D Slicer makes it of contours (RTSTRUCT).",
    )


@contextmanager
def reading_dicom(path: Path) -> Iterator[None]:
    """Say in one line what is wrong with a file, whatever pydicom and highdicom raise."""
    try:
        with warnings.catch_warnings():
            # They warn of values that other software writes, and that are not needed here.
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise InputError(
            "path",
            must="come with the package highdicom",
            got=f"{str(path)!r} without it",
            cure=extra_cure("dicom"),
        ) from error
    except Exception as error:  # whatever they meet in a damaged file
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            "path",
            must="be a whole DICOM file",
            got=f"{str(path)!r} ({reason})",
            cure="Write it again.",
        ) from error
