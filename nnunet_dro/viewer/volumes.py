"""The volumes of a case: cut out around what it is shown for, and packed as small NIfTI files."""

import base64
import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.report.gallery import (
    Choice,
    labels_by_case,
    read_case,
    worst_place,
)
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.readers import reader_for
from nnunet_dro.evaluation.stratifying.images import find_channels, read_onto
from nnunet_dro.pages.pictures import grey_levels

MB = 1_000_000  # Bytes of a megabyte.

#: The size of the page unless another is asked for, MB: mail and browsers can still handle it.
MOST_MB = 100

#: Margin around the labels: a share of their longest side, and the least, in voxels of the finest
#: spacing.
_MARGIN = 0.2
_LEAST_MARGIN = 24

#: Voxels of the largest volume: a graphics card keeps 8 bytes of each, and browsers on telephones
#: have 500 MB.
MOST_VOXELS = 2**24

LONGEST = 2048  # Voxels of its longest side: graphics cards hold no longer one.
LEAST_VOXELS = 2**12  # Fewer voxels than these show nothing.
_LEVEL = 6  # Compression of gzip; higher levels take four times as long and save a hundredth.

Box = tuple[slice, slice, slice]


@dataclass(frozen=True)
class Volumes:
    """What the page holds of one case, every volume on one grid.

    A volume is a NIfTI file, compressed and in base64.
    """

    channels: tuple[str, ...]  # an image per channel, with values from 0 to 255
    reference: str  # label values
    prediction: str  # label values
    #: Name to values of the labels that lie in the volumes as a whole, those it is shown for first.
    labels: Mapping[str, tuple[int, ...]]
    is_flat: bool  # whether it is one plane
    is_cut: bool  # whether the labels it is shown for did not fit as a whole
    has_ignored: bool  # whether voxels to ignore were taken out of the prediction
    shape: tuple[int, ...]  # voxels (x, y, z)

    def n_bytes(self, n_channels: int) -> int:
        """Bytes in the page with the first channels."""
        blocks = [*self.channels[:n_channels], self.reference, self.prediction]
        return sum(len(block) for block in blocks)


def packed_volumes(
    images: Sequence[Path],
    files: tuple[Path, Path],
    labels: Labels,
    wanted: Sequence[str],
    *,
    most_voxels: int = MOST_VOXELS,
) -> Volumes:
    """Read a case and pack what lies around some labels, without resampling.

    Args:
        images: The images of the channels.
        files: The reference and the prediction.
        labels: The labels of the dataset.
        wanted: Names of the labels that the case is shown for.
        most_voxels: Voxels of the largest volume; what is larger is cut.
    """
    reader = reader_for(files[0], labels.reader)
    grid, reference, prediction = read_case(files, labels, images[0])

    values: list[int] = []
    for name in wanted:
        values += labels.values[name]
    box, is_cut = crop(
        np.isin(reference, values),
        np.isin(prediction, values),
        grid.spacing,
        most_voxels,
    )
    affine = _affine(grid, box)

    channels = []
    for path in images:
        image = read_onto(path, grid, files[0], reader)[box]
        # The grey levels are those of the crop: the air around a patient would leave few of them to
        # what is shown.
        grey = np.rint(grey_levels(image) * 255)
        channels.append(_packed(grey.astype(np.uint8), affine))

    return Volumes(
        tuple(channels),
        reference=_packed(reference[box], affine),
        prediction=_packed(prediction[box], affine),
        labels=_whole_labels(labels, wanted, (reference, prediction), box),
        is_flat=grid.shape[0] == 1,
        is_cut=is_cut,
        has_ignored=labels.ignore is not None and bool((reference == labels.ignore).any()),
        shape=tuple(int(n) for n in reference[box].shape[::-1]),
    )


def crop(
    reference: npt.NDArray[np.bool_],
    prediction: npt.NDArray[np.bool_],
    spacing: Sequence[float],
    most_voxels: int,
) -> tuple[Box, bool]:
    """The box to show around two masks.

    Args:
        reference: Mask (z, y, x).
        prediction: Mask of the same shape.
        spacing: Spacing (z, y, x), mm.
        most_voxels: The most voxels of the box. Where the masks with their margin have more, it is
            cut around the place of most disagreement.

    Returns:
        The box, which is everything where both masks are empty, and whether a mask reaches out.
    """
    either = reference | prediction
    extents = _surroundings(either, spacing)
    sizes = [min(LONGEST, end - start) for start, end in extents]

    while np.prod(sizes) > most_voxels:
        axis = int(np.argmax(sizes))
        sizes[axis] = max(1, int(0.95 * sizes[axis]))

    middles = worst_place(reference, prediction)
    slices = []
    for (start, end), size, middle in zip(extents, sizes, middles, strict=True):
        # Around the middle, but not beyond the surroundings.
        first = int(np.clip(middle - size // 2, start, end - size))
        slices.append(slice(first, first + size))

    box = (slices[0], slices[1], slices[2])
    is_cut = either[box].sum() < either.sum()
    return box, bool(is_cut)


def _surroundings(mask: npt.NDArray[np.bool_], spacing: Sequence[float]) -> list[tuple[int, int]]:
    """The start and the end, on each axis, of what lies around a mask with a margin.

    The margin is the same on all sides, in mm. All is around an empty mask.
    """
    from scipy.ndimage import find_objects

    around = tuple(slice(0, n_voxels) for n_voxels in mask.shape)
    boxes = find_objects(mask.astype(np.uint8))
    if boxes:
        around = boxes[0]

    longest_mm = 0.0
    for span, mm in zip(around, spacing, strict=True):
        longest_mm = max(longest_mm, (span.stop - span.start) * mm)
    margin_mm = max(_MARGIN * longest_mm, _LEAST_MARGIN * min(spacing))

    extents = []
    for span, mm, n_voxels in zip(around, spacing, mask.shape, strict=True):
        margin = math.ceil(margin_mm / mm)
        start = max(0, span.start - margin)
        extents.append((start, min(n_voxels, span.stop + margin)))
    return extents


def _whole_labels(
    labels: Labels, wanted: Sequence[str], maps: Sequence[npt.NDArray[Any]], box: Box
) -> dict[str, tuple[int, ...]]:
    """The wanted labels, then those others that are there and that no side of the box cuts."""
    everywhere = _n_voxels_by_value(maps)
    inside = _n_voxels_by_value([label_map[box] for label_map in maps])

    names = list(wanted)
    for name, values in labels.values.items():
        if name in wanted:
            continue
        n_voxels = sum(everywhere.get(value, 0) for value in values)
        n_inside = sum(inside.get(value, 0) for value in values)
        if 0 < n_voxels == n_inside:
            names.append(name)
    return {name: labels.values[name] for name in names}


def _n_voxels_by_value(maps: Sequence[npt.NDArray[Any]]) -> dict[int, int]:
    """The number of voxels with each value in some label maps together."""
    voxels = np.concatenate([label_map.ravel() for label_map in maps])
    values, counts = np.unique(voxels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _affine(grid: Grid, box: Box) -> FloatArray:
    """The matrix from a voxel's index (x, y, z) in the crop to its position, mm.

    The axes of the position are NIfTI's: right, anterior, superior. Those of the grid are left,
    posterior, superior, so that two signs change.
    """
    affine = np.eye(4)
    if grid.affine is not None and grid.shape[0] > 1:
        affine = grid.affine.copy()
        start = np.array([box[axis].start for axis in (2, 1, 0)])
        affine[:3, 3] += affine[:3, :3] @ start
    else:
        # A picture: its rows go down, and its columns to the right, where the viewer has the
        # patient's left.
        affine[:3, :3] = np.diag(grid.spacing[::-1])
    affine[:2] *= -1
    return affine


def _packed(values: npt.NDArray[Any], affine: FloatArray) -> str:
    """A volume (z, y, x) as a NIfTI file, compressed, in base64."""
    from nibabel.nifti1 import Nifti1Image

    dtype = np.uint8 if values.max() <= 255 else np.uint16
    small = np.ascontiguousarray(values.astype(dtype))
    file = Nifti1Image(small.transpose(), affine).to_bytes()
    # Without a time, the same volume is the same text.
    compressed = gzip.compress(file, _LEVEL, mtime=0)
    return base64.b64encode(compressed).decode("ascii")


@dataclass
class VolumesOnPage:
    """The volumes of the cases that fit into the page."""

    #: Case to its volumes, in the order in which they were tried.
    volumes: dict[str, Volumes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # cases for which there was no room
    only_first_channel: bool = False  # whether further channels had no room

    def n_channels(self, case: str) -> int:
        """Number of channels of a case that are in the page."""
        return 1 if self.only_first_channel else len(self.volumes[case].channels)

    @property
    def has_further_channels(self) -> bool:
        """Whether any case has a channel after the first."""
        return any(len(volumes.channels) > 1 for volumes in self.volumes.values())

    @property
    def n_bytes(self) -> int:
        """Bytes of all volumes in the page."""
        return sum(volumes.n_bytes(self.n_channels(case)) for case, volumes in self.volumes.items())


def shown_cases(
    choices: Sequence[Choice],
    images: Path,
    files: Mapping[str, tuple[Path, Path]],
    labels: Labels,
    *,
    most_mb: float,
    frame_bytes: int = 0,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> VolumesOnPage:
    """Read and pack cases until the room is used up.

    When a case has no room, further channels are given up, those of all cases. The first case is
    cut until it fits; others that do not fit are left out.

    Args:
        choices: Cases with the labels that they are shown for, the most urgent first.
        images: Folder of the images.
        files: Case to its reference and its prediction.
        labels: The labels of the dataset.
        most_mb: Largest size of the page, MB.
        frame_bytes: Bytes of the page without the volumes.
        progress: Called with the number of cases that are done and that of all.

    Raises:
        ValueError: If there is no room for a single case.
    """
    wanted = labels_by_case(choices)
    # All images are looked for before the first is read: a missing one is told at once.
    channels = {case: find_channels(images, case) for case in wanted}
    room = int(most_mb * MB) - frame_bytes

    shown = VolumesOnPage()
    for n_done, (case, names) in enumerate(wanted.items(), start=1):
        paths = channels[case]
        if shown.only_first_channel:
            paths = paths[:1]
        shown.volumes[case] = packed_volumes(paths, files[case], labels, names)

        if shown.n_bytes > room and shown.has_further_channels:
            shown.only_first_channel = True
        is_too_large = shown.n_bytes > room
        if is_too_large and n_done == 1:
            pack = partial(
                packed_volumes,
                paths[:1],
                files[case],
                labels,
                names,
            )
            shown.volumes[case] = _cut_to_fit(pack, case, room, most_mb)
        elif is_too_large:
            del shown.volumes[case]
            shown.left_out.append(case)
        progress(n_done, len(wanted))
    return shown


def _cut_to_fit(pack: Callable[..., Volumes], case: str, room: int, most_mb: float) -> Volumes:
    """The largest cut-out of a case that fits, halved again and again."""
    most_voxels = MOST_VOXELS
    while most_voxels >= LEAST_VOXELS:
        volumes = pack(most_voxels=most_voxels)
        if volumes.n_bytes(1) <= room:
            return volumes
        most_voxels //= 2

    # Rounded up, so that the number it names is enough.
    lacking_mb = (volumes.n_bytes(1) - room) / MB
    least_mb = math.ceil(10 * (most_mb + lacking_mb)) / 10
    got = f"{case!r}, got {most_mb:g}"
    raise ValueError(
        f"`viewer_mb` must be at least {least_mb:.1f} to have room for one case, {got}. Raise it."
    )
