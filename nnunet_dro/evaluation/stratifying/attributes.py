"""Attributes of a case that nobody has to record.

Computed from its reference, its grid and its image.

`--by auto:size` and the like are columns of the case table with these numbers.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.cluster import absolute, each_done
from nnunet_dro.evaluation.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.components import BoolArray, connected_components, dilated
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import LabelMap, read_label_map
from nnunet_dro.evaluation.stratifying.images import align, find_image, read_image
from nnunet_dro.evaluation.stratifying.stratify import MOST_GROUPS, number_in
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import name_some

FloatArray = npt.NDArray[np.float64]

_NAN = float("nan")

_RING = 3  # How far around the labels the contrast looks, in voxels.
_OUTLIERS = 1.0  # Shares of the grey values that are taken for outliers, in per cent.


@dataclass(frozen=True)
class Attribute:
    """A number per case: ``auto:NAME``, its column in a case table, what it is, and whether it needs the image."""

    name: str
    column: str
    definition: str
    of_image: bool = False


#: Name to attribute, in the order of columns.
ATTRIBUTES: dict[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        Attribute("size", "size_ml", "volume of all labels of the reference together, in ml"),
        Attribute(
            "components",
            "components",
            "number of connected components (26 neighbours) of all labels together",
        ),
        Attribute(
            "spacing", "spacing_mm", "longest side of a voxel, in mm: mostly the distance of slices"
        ),
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
    """The label map of a case and the folder of its image, if any attribute needs it.

    ``ignore`` is no label.
    """

    case: str
    reference: Path
    images: Path | None = None
    ignore: int | None = None


def measure_files(files: CaseFiles, names: Sequence[str]) -> tuple[str, dict[str, float]]:
    """A case, and its attributes."""
    reference = read_label_map(files.reference)
    grey = None
    if files.images is not None and any(ATTRIBUTES[name].of_image for name in names):
        path = find_image(files.images, files.case)
        values, grid = read_image(path)
        grey = align(values, grid, reference.grid, path, files.reference)
    return files.case, measure(reference, grey, names, ignore=files.ignore)


def measure(
    reference: LabelMap,
    grey: FloatArray | None,
    names: Collection[str],
    *,
    ignore: int | None = None,
) -> dict[str, float]:
    """Attributes of a label map and its image."""
    mask = reference.values != 0
    if ignore is not None:
        mask &= reference.values != ignore
    measures: Mapping[str, Callable[[], float]] = {
        "size": lambda: float(np.count_nonzero(mask)) * reference.grid.voxel_ml,
        "components": lambda: float(connected_components(mask, connectivity=26).max()),
        "spacing": lambda: _NAN if reference.grid.affine is None else max(reference.grid.spacing),
        "volume": lambda: mask.size * reference.grid.voxel_ml,
        "contrast": lambda: _NAN if grey is None else contrast(grey, mask),
        "noise": lambda: _NAN if grey is None else noise(grey, reference.grid),
    }
    return {name: function() for name, function in measures.items() if name in names}


def contrast(grey: FloatArray, mask: BoolArray) -> float:
    """|mean inside - mean around| / standard deviation around (up to 3 voxels away).

    NaN where there is none.
    """
    if not mask.any():
        return _NAN
    extents = [
        np.flatnonzero(mask.any(axis=tuple(other for other in range(3) if other != axis)))
        for axis in range(3)
    ]
    box = tuple(
        slice(max(0, int(extent[0]) - _RING), int(extent[-1]) + 1 + _RING) for extent in extents
    )
    inside = mask[box]
    values = grey[box]
    around = values[dilated(inside, n_dilations=_RING) & ~inside]
    spread = float(around.std()) if around.size else 0.0
    return abs(float(values[inside].mean()) - float(around.mean())) / spread if spread > 0 else _NAN


def noise(grey: FloatArray, grid: Grid) -> float:
    """The standard deviation of an image's noise, from the median absolute deviation, per range of the grey values.

    Twice the Laplacian minus its rotated version does not see planes and few edges; of independent
    noise with standard deviation s, it has the standard deviation 6 s. It is taken within slices:
    in the plane of the two finest axes. The smallest value is taken for what is outside the body or
    the field of view, and left out. NaN for an image of fewer than 3 voxels along either axis, or
    of one value.

    Source: J. Immerkaer, Fast Noise Variance Estimation, Computer Vision and Image Understanding 64
    (1996).
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


_PREFIX = "auto:"


def auto_names(specs: Sequence[str]) -> list[str]:
    """The attributes that are named in some `--by`, each once: ``size`` of ``centre,auto:size``."""
    pieces = [piece.strip() for spec in specs for piece in spec.split(",")]
    names = [piece.split(":")[1].strip() for piece in pieces if piece.startswith(_PREFIX)]
    if unknown := [name for name in names if name not in ATTRIBUTES]:
        known = name_some([_PREFIX + name for name in ATTRIBUTES], at_most=len(ATTRIBUTES))
        raise ValueError(
            f"`by` must name a known attribute, got {_PREFIX + unknown[0]!r}. Choose from: {known}."
        )
    return list(dict.fromkeys(names))


def names_columns(specs: Sequence[str]) -> bool:
    """Whether some `--by` names a column of the case table, beside attributes that are computed and edges of cuts."""
    pieces = [(n, piece.strip()) for spec in specs for n, piece in enumerate(spec.split(","))]
    # Only what follows a first piece can be an edge.
    return any(
        not piece.startswith(_PREFIX) and (n == 0 or number_in(piece) is None)
        for n, piece in pieces
    )


def measure_cases(
    files: Collection[CaseFiles],
    names: Sequence[str],
    *,
    jobs: int | None,
    workers: str | None,
    progress: Callable[[int, int], None],
) -> dict[str, dict[str, float]]:
    """Attributes of many cases, several at a time."""
    items = map(absolute, files) if workers else files
    found: dict[str, dict[str, float]] = {}
    for case, values in each_done(
        partial(measure_files, names=tuple(names)), items, jobs=jobs, workers=workers
    ):
        found[case] = values
        progress(len(found), len(files))
    return {case: found[case] for case in sorted(found)}


def with_auto_columns(
    table: pd.DataFrame | None,
    files: Sequence[CaseFiles],
    options: EvaluateOptions,
    progress: Callable[[int, int], None],
) -> tuple[pd.DataFrame | None, list[str], list[str]]:
    """Add the columns ``auto:NAME`` that ``--by`` names.

    Those of more than `MOST_GROUPS` values are cut in thirds.
    """
    specs = list(options.by)
    names = auto_names(specs)
    if not names:
        return table, specs, []
    if options.images is None and (
        need := [_PREFIX + name for name in names if ATTRIBUTES[name].of_image]
    ):
        raise ValueError(
            f"`by` must come with images for {name_some(need)}, got none. Add --images FOLDER."
        )
    measured = measure_cases(
        files, names, jobs=options.jobs, workers=options.workers, progress=progress
    )
    wide = pd.DataFrame({"case": [of_case.case for of_case in files]}) if table is None else table
    cut = specs
    notes = []
    for name in names:
        column = pd.Series({case: written(of_case[name]) for case, of_case in measured.items()})
        known = set(column) - {MISSING}
        if not known:
            needs = (
                "a label in an image that varies" if ATTRIBUTES[name].of_image else "a voxel size"
            )
            raise ValueError(
                f"`by` must be computed from {needs}, got no case with {_PREFIX + name!r}. Leave it out."
            )
        wide = wide.assign(**{_PREFIX + name: wide["case"].map(column).fillna(MISSING)})
        note = f"{_PREFIX}{name} is the {ATTRIBUTES[name].definition}"
        if len(known) > MOST_GROUPS:
            # Into three parts of equal size, where it is not cut.
            whole = _PREFIX + name
            cut = [
                ",".join(f"{whole}:q3" if p.strip() == whole else p for p in spec.split(","))
                for spec in cut
            ]
            if cut != specs:
                note += "; it is cut into thirds of the cases, unless --by says otherwise"
        notes.append(f"{note}.")
    return wide, cut, notes


def written(value: float) -> str:
    """A value as an entry of a case table: whole numbers as they are, others with four digits.

    NaN is ``missing``.
    """
    if math.isnan(value):
        return MISSING
    return str(int(value)) if value == int(value) else f"{value:.4g}"
