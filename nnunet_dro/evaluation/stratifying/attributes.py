"""Attributes of a case that nobody has to record: computed from its reference, its grid and its image."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.components import BoolArray, connected_components, dilated
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import LabelMap, read_label_map
from nnunet_dro.evaluation.stratifying.images import align, find_image, read_image

FloatArray = npt.NDArray[np.float64]

_NAN = float("nan")

#: How far around the labels the contrast looks, in voxels.
_RING = 3

#: Shares of the grey values that are taken for outliers, in per cent.
_OUTLIERS = 1.0


@dataclass(frozen=True)
class Attribute:
    """A number per case.

    Attributes:
        name: Its name after ``auto:``.
        column: Its column in a case table.
        definition: What it is, with its unit.
        of_image: Whether it needs the image.
    """

    name: str
    column: str
    definition: str
    of_image: bool = False


#: Name to attribute, in the order of columns.
ATTRIBUTES: dict[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        Attribute("size", "size_ml", "volume of all labels of the reference together, in ml"),
        Attribute("components", "components", "number of connected components (26 neighbours) of all labels together"),
        Attribute("spacing", "spacing_mm", "longest side of a voxel, in mm: mostly the distance of slices"),
        Attribute("volume", "volume_ml", "volume of the image, in ml"),
        Attribute(
            "contrast",
            "contrast",
            f"difference of the mean grey values of the labels and of {_RING} voxels around them, per standard "
            "deviation of the latter, in the first channel",
            of_image=True,
        ),
        Attribute(
            "noise",
            "noise",
            "standard deviation of the noise (Immerkaer 1996, with the median absolute deviation), per range of the "
            "grey values from the 1st to the 99th percentile, in the first channel",
            of_image=True,
        ),
    )
}


@dataclass(frozen=True)
class CaseFiles:
    """The files of a case.

    Attributes:
        case: Its identifier.
        reference: Its label map.
        images: The folder of its image; None where no attribute needs it.
        ignore: The label value that is not a label; None if there is none.
    """

    case: str
    reference: Path
    images: Path | None = None
    ignore: int | None = None

    def absolute(self) -> "CaseFiles":
        """The same files, from the root."""
        return replace(self, reference=self.reference.absolute(), images=self.images and self.images.absolute())


def measure_files(files: CaseFiles, names: Sequence[str]) -> dict[str, float]:
    """Attributes of a case."""
    reference = read_label_map(files.reference)
    grey = None
    if files.images is not None and any(ATTRIBUTES[name].of_image for name in names):
        path = find_image(files.images, files.case)
        values, grid = read_image(path)
        grey = align(values, grid, reference.grid, path, files.reference)
    return measure(reference, grey, names, ignore=files.ignore)


def measure(
    reference: LabelMap, grey: FloatArray | None, names: Collection[str], *, ignore: int | None = None
) -> dict[str, float]:
    """Attributes of a label map and its image."""
    mask = reference.values != 0
    if ignore is not None:
        mask &= reference.values != ignore
    of_reference: Mapping[str, Callable[[], float]] = {
        "size": lambda: float(np.count_nonzero(mask)) * reference.grid.voxel_ml,
        "components": lambda: _n_components(mask),
        "spacing": lambda: _NAN if reference.grid.affine is None else max(reference.grid.spacing),
        "volume": lambda: mask.size * reference.grid.voxel_ml,
    }
    measured = {name: function() for name, function in of_reference.items() if name in names}
    if "contrast" in names:
        measured["contrast"] = _NAN if grey is None else contrast(grey, mask)
    if "noise" in names:
        measured["noise"] = _NAN if grey is None else noise(grey, reference.grid)
    return measured


def _n_components(mask: BoolArray) -> float:
    return float(connected_components(mask, connectivity=26).max())


def contrast(grey: FloatArray, mask: BoolArray) -> float:
    """The contrast of a structure to its surroundings.

    Returns:
        |mean inside - mean around| / standard deviation around, where *around* is up to 3 voxels away; NaN where there
        is nothing inside or around, or all around is the same.
    """
    if not mask.any():
        return _NAN
    extents = [np.flatnonzero(mask.any(axis=tuple(other for other in range(3) if other != axis))) for axis in range(3)]
    box = tuple(slice(max(0, int(extent[0]) - _RING), int(extent[-1]) + 1 + _RING) for extent in extents)
    inside, values = mask[box], grey[box]
    around = values[dilated(inside, n_dilations=_RING) & ~inside]
    spread = float(around.std()) if around.size else 0.0
    return abs(float(values[inside].mean()) - float(around.mean())) / spread if spread > 0 else _NAN


def noise(grey: FloatArray, grid: Grid) -> float:
    """The noise of an image per range of its grey values.

    Twice the Laplacian minus its rotated version does not see planes and few edges; of independent noise with standard
    deviation s, it has the standard deviation 6 s. It is taken within slices: in the plane of the two finest axes.

    Returns:
        The noise's standard deviation, from the median absolute deviation, divided by the range of the grey values; NaN
        for an image of fewer than 3 voxels along either axis, or of one value. The smallest value is taken for what is
        outside the body or the field of view, and left out.

    Source: J. Immerkaer, Fast Noise Variance Estimation, Computer Vision and Image Understanding 64 (1996).
    """
    # Of equal sides the last axes are those within the slice; axes of length 1 are none.
    sides = [(grey.shape[axis] < 3, grid.spacing[axis], -axis) for axis in range(3)]
    across = -max(sides)[2]
    planes = np.moveaxis(grey, across, 0)
    if min(planes.shape[1:]) < 3:
        return _NAN
    second = planes[:, :-2] - 2 * planes[:, 1:-1] + planes[:, 2:]
    mixed = second[:, :, :-2] - 2 * second[:, :, 1:-1] + second[:, :, 2:]
    inside = planes[:, 1:-1, 1:-1] > grey.min()
    if not inside.any():
        return _NAN
    low, high = np.percentile(planes[:, 1:-1, 1:-1][inside], [_OUTLIERS, 100 - _OUTLIERS])
    found = mixed[inside]
    # 1.4826 times the median absolute deviation is the standard deviation of a normal distribution.
    deviation = 1.4826 * float(np.median(np.abs(found - np.median(found)))) / 6
    return deviation / float(high - low) if high > low else _NAN
