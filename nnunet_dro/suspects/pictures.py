"""The picture of a case: one slice of its image, with and without the outlines of its reference."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.labels import Labels
from nnunet_dro.pages.contours import line_width, outline
from nnunet_dro.pages.pictures import data_uri
from nnunet_dro.suspects.images import CaseImage

#: Longest side of a picture in pixels, and its bytes: a page of 20 pictures stays below 2 MB.
_LONGEST, _MOST_BYTES = 480, 60_000

#: About how wide it is shown, in CSS pixels.
_SHOWN = 240

#: Slices are taken across another axis than the first only if voxels are longer along it by this factor.
_CLEARLY_LONGER = 1.1


@dataclass(frozen=True)
class Slice:
    """A slice of an image.

    Attributes:
        name: ``axial``, ``coronal``, ``sagittal`` or ``slice``, with its number and the number of slices.
        width: Columns, in voxels.
        height: Rows, in voxels.
        aspect: Physical width / height.
        line: Width of the outlines in CSS pixels, see `line_width`.
        image: The image in grey, as a data URI.
        outlines: Position of a label and its outline as an SVG path in voxels, for the labels in the slice.
        predicted: The same for the prediction, if there is one.
        is_empty: Whether the reference marks nothing in the whole image.
    """

    name: str
    width: int
    height: int
    aspect: float
    line: float
    image: str
    outlines: tuple[tuple[int, str], ...]
    predicted: tuple[tuple[int, str], ...] | None
    is_empty: bool


def slice_of(image: CaseImage, labels: Labels) -> Slice:
    """The slice that shows most of the reference.

    Args:
        image: The image of a case.
        labels: The labels; the outlines refer to them by position.

    Returns:
        The slice with the most labelled voxels (the middle one of several) across the axis with the longest voxels, so
        that its resolution is the best; the middle slice if nothing is labelled. An ignored region is not a label.
    """
    known = [value for values in labels.values.values() for value in values]
    axis, index = choose_slice(np.isin(image.reference, known), image.spacing)

    def cut(volume: npt.NDArray[Any]) -> npt.NDArray[Any]:
        plane: npt.NDArray[Any] = np.take(volume, index, axis=axis)
        return plane[::-1] if axis else plane  # superior is up

    grey = cut(image.grey)
    height, width = grey.shape
    down, across = (image.spacing[other] for other in range(3) if other != axis)
    n_slices = image.grey.shape[axis]
    return Slice(
        name=f"{image.planes[axis]} {index + 1} of {n_slices}" if n_slices > 1 else "the whole image",
        width=width,
        height=height,
        aspect=round(width * across / (height * down), 4),
        line=line_width(width, shown=_SHOWN),
        image=data_uri(grey, longest=_LONGEST, most_bytes=_MOST_BYTES),
        outlines=_outlines(cut(image.reference), labels),
        predicted=None if image.prediction is None else _outlines(cut(image.prediction), labels),
        is_empty=not np.isin(image.reference, known).any(),
    )


def _outlines(label_map: npt.NDArray[np.integer[Any]], labels: Labels) -> tuple[tuple[int, str], ...]:
    paths = ((n, outline(np.isin(label_map, values))) for n, values in enumerate(labels.values.values()))
    return tuple((n, path) for n, path in paths if path)


def choose_slice(mask: npt.NDArray[np.bool_], spacing: Sequence[float]) -> tuple[int, int]:
    """Axis and index of the slice to show.

    Args:
        mask: The labelled voxels, shape (z, y, x).
        spacing: Voxel size (z, y, x), mm.
    """
    axis = 0
    if mask.shape[0] > 1 and max(spacing) > _CLEARLY_LONGER * spacing[0]:
        axis = int(np.argmax(spacing))
    counts: npt.NDArray[Any] = mask.sum(axis=tuple(other for other in range(3) if other != axis))
    most = np.flatnonzero(counts == counts.max())
    return axis, int(most[len(most) // 2])
