"""Attributes of a case that nobody has to record.

They are computed from its reference, its grid and its image.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.cluster import absolute, each_done
from nnunet_dro.evaluation.scoring.components import connected_components, dilated
from nnunet_dro.evaluation.scoring.dicom import is_dicom
from nnunet_dro.evaluation.scoring.grid import Grid, Rules, rules_of_pair
from nnunet_dro.evaluation.scoring.label_maps import LabelMap, Labels
from nnunet_dro.evaluation.scoring.map_pairs import read_pair
from nnunet_dro.evaluation.scoring.readers import reader_for
from nnunet_dro.evaluation.stratifying.image_rarity import rarities_of, read_case_image
from nnunet_dro.evaluation.stratifying.images import align, note_on_other_rule
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import name_some

#: How far around the labels the contrast looks, in voxels.
_RING = 3

#: The share of the grey values at either end that is taken for outliers, in per cent.
_OUTLIERS = 1.0

#: The median absolute deviation of a normal distribution times this is its standard deviation.
_MAD_TO_DEVIATION = 1.4826


@dataclass(frozen=True)
class Attribute:
    """A number per case."""

    name: str
    column: str  # in a case table
    definition: str
    needs_image: bool = False
    #: What a case without a value lacks.
    needs: str = "a voxel size"


_VARYING = "a label in an image of finite values that vary"

_ATTRIBUTES = (
    Attribute("size", "size_ml", "volume of all labels of the reference together, in ml"),
    Attribute(
        "components",
        "components",
        "number of connected components (26 neighbours) of all labels together",
    ),
    Attribute(
        "spacing",
        "spacing_mm",
        "longest side of a voxel, in mm: mostly the distance of slices, of an image of one slice a "
        "side in the plane",
    ),
    Attribute("volume", "volume_ml", "volume of the image, in ml"),
    Attribute(
        "contrast",
        "contrast",
        f"difference of the mean grey values of the labels and of {_RING} voxels around them, per "
        "standard deviation of the latter, in the first channel",
        needs_image=True,
        needs=_VARYING,
    ),
    Attribute(
        "noise",
        "noise",
        "standard deviation of the noise (Immerkaer 1996, with the median absolute deviation), per "
        "range of the grey values from the 1st to the 99th percentile, in the first channel",
        needs_image=True,
        needs=_VARYING,
    ),
    Attribute(
        "rarity",
        "image_rarity",
        "inverse density, among the images of all cases, of the fingerprint of the raw image "
        "(percentiles and mean gradient of each channel, as it is and standardised, or how strong "
        "and how bright or dark small details are, whichever is rarer), 1 on average",
        needs_image=True,
        needs="images of finite values, with as many channels in each",
    ),
)

#: Name to attribute, in the order of columns.
ATTRIBUTES: dict[str, Attribute] = {attribute.name: attribute for attribute in _ATTRIBUTES}


@dataclass(frozen=True)
class CaseFiles:
    """The label map of a case, and the folder of its image if any attribute needs it."""

    case: str
    reference: Path
    images: Path | None = None
    labels: Labels | None = None  # None where they are not known


@dataclass(frozen=True, eq=False)
class MeasuredCase:
    """What is measured of one case."""

    case: str
    values: dict[str, float]
    #: What the rules for the headers say of its image.
    rules: Rules | None = None
    #: Whether its image, if it was read, has only finite values.
    is_finite: bool = True
    #: Of its image, where the rarity among all is asked for.
    fingerprint: FloatArray | None = None


def measure_files(files: CaseFiles, names: Sequence[str]) -> MeasuredCase:
    """Measure a case, but for its rarity among others."""
    has_segments = is_dicom(files.reference)
    if has_segments and files.images is None and "volume" in names:
        raise InputError(
            "by",
            must="come with images for auto:volume of DICOM segmentations",
            got=f"none for {str(files.reference)!r}",
            cure="Add --images FOLDER.",
        )

    labels = files.labels
    ignore = labels.ignore if labels else None
    needs_image = has_segments or any(ATTRIBUTES[name].needs_image for name in names)
    if files.images is None or not needs_image:
        (reference,) = read_pair(files.reference, None, labels)
        return MeasuredCase(files.case, measure(reference, None, names, ignore=ignore))

    reader = labels.reader if labels else None
    if not has_segments:
        # One rule for both files, that of the reference.
        reader = reader_for(files.reference, reader)
    image = read_case_image(files.case, files.images, reader, with_fingerprint="rarity" in names)
    (reference,) = read_pair(files.reference, None, labels, image=image.grid)
    grey = None
    if image.grey is not None:
        grey = align(image.grey, image.grid, reference.grid, image.path, files.reference)
    return MeasuredCase(
        files.case,
        measure(reference, grey, names, ignore=ignore),
        rules=rules_of_pair(image.grid, reference.grid),
        is_finite=grey is not None,
        fingerprint=image.fingerprint,
    )


def measure(
    reference: LabelMap,
    grey: FloatArray | None,
    names: Collection[str],
    *,
    ignore: int | None = None,
) -> dict[str, float]:
    """Attributes of a label map and its image; those of an image that is None are NaN."""
    grid = reference.grid
    mask = reference.values != 0
    if ignore is not None:
        mask &= reference.values != ignore

    measures: dict[str, Callable[[], float]] = {
        "size": lambda: float(np.count_nonzero(mask)) * grid.voxel_ml,
        "components": lambda: float(connected_components(mask, connectivity=26).max()),
        "spacing": lambda: _longest_side(grid),
        "volume": lambda: mask.size * grid.voxel_ml,
        "contrast": lambda: math.nan,
        "noise": lambda: math.nan,
    }

    if grey is not None:
        measures["contrast"] = partial(contrast, grey, mask)
        measures["noise"] = partial(noise, grey, grid)
    return {name: function() for name, function in measures.items() if name in names}


def _longest_side(grid: Grid) -> float:
    """The longest side of a voxel along the axes that an image has, mm.

    The side of a plane across itself is made up: 1 in a file of two axes, 999 in others. NaN where
    the format stores no voxel size.
    """
    if grid.affine is None:
        return math.nan
    return max(side for axis, side in enumerate(grid.spacing) if axis not in grid.flat)


def contrast(grey: FloatArray, mask: BoolArray) -> float:
    """|mean inside - mean around| / standard deviation around.

    *Around* is up to 3 voxels away. NaN where there is nothing inside or around, or all around is
    the same.
    """
    from scipy.ndimage import find_objects

    if not mask.any():
        return math.nan

    (sides,) = find_objects(mask.astype(np.uint8))
    box = tuple(slice(max(0, side.start - _RING), side.stop + _RING) for side in sides)
    inside = mask[box]
    values = grey[box]

    ring = dilated(inside, n_dilations=_RING) & ~inside
    around = values[ring]
    if not around.size:
        return math.nan

    deviation = float(around.std())
    difference = float(values[inside].mean()) - float(around.mean())
    # By its rounding error, the deviation of equal values can be above 0.
    if not around.max() > around.min():
        return math.nan
    return abs(difference) / deviation


def noise(grey: FloatArray, grid: Grid) -> float:
    """The standard deviation of an image's noise, per range of the grey values.

    It is taken from the median absolute deviation of the image under Immerkaer's mask: twice the
    Laplacian minus its rotated version does not see planes and few edges; of independent noise with
    standard deviation s, it has the standard deviation 6 s. It is taken within slices: in the plane
    of the two finest axes. The smallest value is taken for what is outside the body or the field of
    view, and left out.

    NaN for an image of fewer than 3 voxels along either axis, or of one value.

    Source: J. Immerkaer, Fast Noise Variance Estimation, Computer Vision and Image Understanding 64
    (1996).
    """
    planes = np.moveaxis(grey, _axis_across(grey, grid), 0)
    if min(planes.shape[1:]) < 3:
        return math.nan

    centres = planes[:, 1:-1, 1:-1]
    inside = centres > grey.min()
    if not inside.any():
        return math.nan

    # Second differences along one axis, and of those along the other.
    second = np.diff(planes, n=2, axis=1)
    mixed = np.diff(second, n=2, axis=2)

    filtered = mixed[inside]
    distances = np.abs(filtered - np.median(filtered))
    deviation = _MAD_TO_DEVIATION * float(np.median(distances)) / 6

    low, high = np.percentile(centres[inside], [_OUTLIERS, 100 - _OUTLIERS])
    if not high > low:
        return math.nan
    return deviation / float(high - low)


def _axis_across(grey: FloatArray, grid: Grid) -> int:
    """The axis across the slices: the one with the longest side of a voxel.

    Of equal sides it is the first axis, so that the last axes are those within the slice. An axis
    of fewer than 3 voxels is across before any other.
    """
    return max(range(3), key=lambda axis: (grey.shape[axis] < 3, grid.spacing[axis]))


def measure_cases(
    files: Collection[CaseFiles],
    names: Sequence[str],
    *,
    jobs: int | None,
    workers: str | None,
    progress: Callable[[int, int], None],
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Attributes of many cases, several at a time.

    Returns:
        Case to the attributes by name, sorted by case; and sentences on images that fit their label
        map only by the rule of another reader, on those with values that are not finite, and on
        those with other channels, if there are any.
    """
    items = map(absolute, files) if workers else files
    measure_one = partial(measure_files, names=tuple(names))

    cases: dict[str, MeasuredCase] = {}
    for result in each_done(measure_one, items, jobs=jobs, workers=workers):
        cases[result.case] = result
        progress(len(cases), len(files))

    ordered = [cases[case] for case in sorted(cases)]
    values = {result.case: result.values for result in ordered}
    notes = _notes_on_images(ordered)
    if "rarity" in names:
        fingerprints = {result.case: result.fingerprint for result in ordered}
        rarities, notes_on_channels = rarities_of(fingerprints)
        notes += notes_on_channels
        for case, value in rarities.items():
            values[case]["rarity"] = value
    return values, notes


def _notes_on_images(results: Sequence[MeasuredCase]) -> list[str]:
    """Sentences on images by another rule than their label map's, and on those not finite."""
    by_other_rule = [result.case for result in results if result.rules is Rules.ONLY_OTHER]
    notes = [note_on_other_rule(by_other_rule)] if by_other_rule else []
    not_finite = [result.case for result in results if not result.is_finite]
    if not_finite:
        notes.append(
            f"Of images with NaN or infinite values, contrast, noise and rarity are not known: "
            f"{name_some(not_finite)}. nnU-Net cannot use such images; replace these values."
        )
    return notes


def case_table_entry(value: float) -> str:
    """A value as an entry of a case table: whole numbers as they are, others with four digits.

    NaN is ``missing``.
    """
    if math.isnan(value):
        return MISSING
    if value == int(value):
        return str(int(value))
    return f"{value:.4g}"
