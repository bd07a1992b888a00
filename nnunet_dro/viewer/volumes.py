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
from scipy.ndimage import find_objects

from nnunet_dro.evaluation.report.gallery import Choice, read_case, read_channel, worst_place
from nnunet_dro.evaluation.scoring.grid import FloatArray, Grid
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.stratifying.images import find_channels
from nnunet_dro.pages.pictures import grey_levels

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
    """What the page holds of one case, every volume on one grid."""

    channels: tuple[
        str, ...
    ]  # NIfTI files with values from 0 to 255, compressed and in base64: an image per channel
    reference: str  # a NIfTI file of label values, packed likewise
    prediction: str  # likewise
    #: Name to values of the labels that lie in the volumes as a whole, those it is shown for first.
    labels: Mapping[str, tuple[int, ...]]
    is_flat: bool  # whether it is one plane
    is_cut: bool  # whether the labels it is shown for did not fit as a whole
    has_ignored: bool  # whether voxels to ignore were taken out of the prediction
    shape: tuple[int, ...]  # voxels (x, y, z)

    def n_bytes(self, n_channels: int) -> int:
        """Bytes in the page with the first channels."""
        return sum(map(len, (*self.channels[:n_channels], self.reference, self.prediction)))


def packed_volumes(
    images: Sequence[Path],
    files: tuple[Path, Path],
    labels: Labels,
    wanted: Sequence[str],
    *,
    most_voxels: int = MOST_VOXELS,
) -> Volumes:
    """Read a case and pack what lies around some labels, without resampling.

    What is too large is cut.
    """
    grid, reference, prediction = read_case(files)
    ignored = None if labels.ignore is None else reference == labels.ignore
    if ignored is not None:
        prediction = np.where(ignored, 0, prediction)
    values = [value for name in wanted for value in labels.values[name]]
    box, is_cut = crop(
        np.isin(reference, values), np.isin(prediction, values), grid.spacing, most_voxels
    )
    affine = _affine(grid, box)
    channels = []
    for path in images:
        grey = read_channel(path, grid, files[0])[box]
        # The grey levels are those of the crop: the air around a patient would leave few of them to
        # what is shown.
        channels.append(_packed(np.rint(grey_levels(grey) * 255).astype(np.uint8), affine))
    return Volumes(
        tuple(channels),
        _packed(reference[box], affine),
        _packed(prediction[box], affine),
        _whole_labels(labels, wanted, (reference, prediction), box),
        grid.shape[0] == 1,
        is_cut,
        ignored is not None and bool(ignored.any()),
        tuple(int(n) for n in reference[box].shape[::-1]),
    )


def crop(
    reference: npt.NDArray[np.bool_],
    prediction: npt.NDArray[np.bool_],
    spacing: Sequence[float],
    most_voxels: int,
) -> tuple[Box, bool]:
    """The box to show around two masks (z, y, x), everything where both are empty, and whether a mask reaches out."""
    shape = reference.shape
    either = reference | prediction
    around = find_objects(either.astype(np.uint8))
    extents = [(span.start, span.stop) for span in around[0]] if around else [(0, n) for n in shape]
    longest = max((end - start) * mm for (start, end), mm in zip(extents, spacing, strict=True))
    margin = max(_MARGIN * longest, _LEAST_MARGIN * min(spacing))
    margins = [int(np.ceil(margin / mm)) for mm in spacing]
    box = [
        (max(0, a - m), min(n, b + m)) for (a, b), m, n in zip(extents, margins, shape, strict=True)
    ]
    sizes = [min(LONGEST, end - start) for start, end in box]
    while np.prod(sizes) > most_voxels:
        axis = int(np.argmax(sizes))
        sizes[axis] = max(1, int(0.95 * sizes[axis]))
    found: list[slice] = []
    for (start, end), size, middle in zip(
        box, sizes, worst_place(reference, prediction), strict=True
    ):
        first = min(max(start, middle - size // 2), end - size)
        found.append(slice(first, first + size))
    made = (found[0], found[1], found[2])
    return made, bool(either[made].sum() < either.sum())


def _whole_labels(
    labels: Labels, wanted: Sequence[str], maps: Sequence[npt.NDArray[Any]], box: Box
) -> dict[str, tuple[int, ...]]:
    """The wanted labels, then those others that are there and that no side of the box cuts."""
    # Voxels of each value, in the whole of both maps and in the box.
    full, inside = (
        _counts(np.concatenate([m.ravel() for m in part]))
        for part in (maps, [m[box] for m in maps])
    )
    others = [
        name
        for name, values in labels.values.items()
        if name not in wanted
        and 0 < sum(full.get(v, 0) for v in values) == sum(inside.get(v, 0) for v in values)
    ]
    return {name: labels.values[name] for name in (*wanted, *others)}


def _counts(values: npt.NDArray[Any]) -> dict[int, int]:
    found, counts = np.unique(values, return_counts=True)
    return {int(value): int(n) for value, n in zip(found, counts, strict=True)}


def _affine(grid: Grid, box: Box) -> FloatArray:
    """Voxel index (x, y, z) of the crop to position, mm, in NIfTI's axes.

    Right, anterior, superior.
    """
    affine = np.eye(4)
    if grid.affine is not None and grid.shape[0] > 1:
        affine = grid.affine.copy()
        affine[:3, 3] += affine[:3, :3] @ np.array([box[axis].start for axis in (2, 1, 0)])
    else:
        # A picture: its rows go down, and its columns to the right, where the viewer has the
        # patient's left.
        affine[:3, :3] = np.diag(grid.spacing[::-1])
    affine[:2] *= -1
    return affine


def _packed(values: npt.NDArray[Any], affine: FloatArray) -> str:
    """A volume (z, y, x) as a NIfTI file, compressed, in base64."""
    from nibabel.nifti1 import Nifti1Image

    small = values.astype(np.uint8 if values.max() <= 255 else np.uint16)
    file = Nifti1Image(np.ascontiguousarray(small).transpose(), affine).to_bytes()
    return base64.b64encode(gzip.compress(file, _LEVEL, mtime=0)).decode("ascii")


MB = 1_000_000  # Bytes of a megabyte.
MOST_MB = 100  # The size of the page unless another is asked for, MB: mail and browsers can still handle it.


@dataclass
class ShownCases:
    """The volumes of the cases that fit into the page."""

    #: Case to its volumes, in the order in which they were tried.
    volumes: dict[str, Volumes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # cases for which there was no room
    only_first_channel: bool = False  # whether further channels had no room

    def n_channels(self, case: str) -> int:
        """Number of channels of a case that are in the page."""
        return 1 if self.only_first_channel else len(self.volumes[case].channels)

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
) -> ShownCases:
    """Read and pack cases until the room is used up, then with first channels only.

    The first is cut until it fits.
    """
    pairs = dict.fromkeys((choice.case, choice.label) for choice in choices)
    wanted = {case: [label for other, label in pairs if other == case] for case, _ in pairs}
    # All images are looked for before the first is read: a missing one is told at once.
    channels = {case: find_channels(images, case) for case in wanted}
    room = int(most_mb * MB) - frame_bytes
    shown = ShownCases()
    for n_done, (case, names) in enumerate(wanted.items(), start=1):
        paths = channels[case][:1] if shown.only_first_channel else channels[case]
        shown.volumes[case] = packed_volumes(paths, files[case], labels, names)
        if shown.n_bytes > room:
            shown.only_first_channel |= any(
                len(volumes.channels) > 1 for volumes in shown.volumes.values()
            )
        if shown.n_bytes > room and n_done == 1:
            pack = partial(packed_volumes, paths[:1], files[case], labels, names)
            shown.volumes[case] = _cut_to_fit(pack, case, room, most_mb)
        elif shown.n_bytes > room:
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
    least = math.ceil(10 * (most_mb + (volumes.n_bytes(1) - room) / MB)) / 10
    got = f"{case!r}, got {most_mb:g}"
    raise ValueError(
        f"`viewer_mb` must be at least {least:.1f} to have room for one case, {got}. Raise it."
    )
