"""The scores of the files of a case, a row per label."""

import hashlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nnunet_dro.evaluation.scoring.dicom import DICOM_ENDING
from nnunet_dro.evaluation.scoring.foreground import Foreground, Runs
from nnunet_dro.evaluation.scoring.grid import Grid, Rules, onto, rules_of_pair
from nnunet_dro.evaluation.scoring.label_maps import Labels, grid_of_image
from nnunet_dro.evaluation.scoring.map_pairs import read_pair
from nnunet_dro.evaluation.scoring.score_arrays import PairOfMaps, add_lesions, score_volumes
from nnunet_dro.evaluation.scoring.scoring import COUNTS, Scoring
from nnunet_dro.evaluation.scoring.tiff import TIFF_ENDINGS
from nnunet_dro.naming import name_some

#: So many bytes of a file are hashed at a time.
_BYTES_AT_A_TIME = 1 << 20


@dataclass(frozen=True)
class PairOfFiles:
    """The files of a case; ``prediction`` is None where it is missing."""

    case: str
    reference: Path
    prediction: Path | None
    image: Path | None = None  # the image of DICOM segmentations, or the folder of its series

    @property
    def sha256(self) -> tuple[str, str]:
        """SHA-256 of the contents of both, as `ScoredPair` has it."""
        if self.prediction is None:
            return sha256_of(self.reference), ""
        return sha256_of(self.reference), sha256_of(self.prediction)


class UnknownValuesError(ValueError):
    """Files hold values that dataset.json does not list.

    Attributes:
        args: The values in each file, in words.
    """

    def __str__(self) -> str:
        got = name_some(self.args)
        cure = "Add the label there, or give the dataset.json that fits with --dataset-json."
        return f"`labels` in dataset.json must list all values, got {got}. {cure}"


@dataclass(frozen=True)
class ScoredPair:
    """The scores of one case."""

    case: str  # its identifier
    rows: list[dict[str, Any]] = field(repr=False)  # a row per label
    reference_values: tuple[int, ...]  # the foreground values of its reference
    #: The values of a row for a label that neither map has.
    absent: Mapping[str, float] = field(repr=False)
    #: SHA-256 of the contents of the reference's file and of the prediction's; empty where it is
    #: missing.
    sha256: tuple[str, str]
    #: A row per lesion of the labels that are compared lesion by lesion.
    lesions: list[dict[str, Any]] = field(default_factory=list, repr=False)
    #: What the rules of the readers for the headers say, where it matters.
    rules: Rules | str | None = None


def score_pair(pair: PairOfFiles, labels: Labels | None, scoring: Scoring) -> ScoredPair:
    """Read the files of a case and score them.

    Where the prediction is missing, nothing is predicted, and the metrics are the worst ones.

    Args:
        pair: The files.
        labels: The labels to score; None for one label per value that occurs in the files.
        scoring: The metrics and their options.

    Raises:
        ValueError: If a file cannot be read, the two are not on one grid, or a value is no label.
    """
    foreground, grid_of_reference, grid_of_prediction = _read_foreground(pair, labels)
    reference_values = np.unique(foreground.counts.reference).tolist()
    prediction_values = np.unique(foreground.counts.prediction).tolist()

    if labels is None:
        labels = Labels.of_values(reference_values + prediction_values)
    else:
        # The ignore value may also be in another rater's map, where it counts as no label.
        _check_values(reference_values, labels, pair.reference)
        _check_values(prediction_values, labels, pair.prediction)

    grid = grid_of_reference
    if grid.affine is None:
        # nnU-Net writes the voxel size beside a predicted TIFF file, but not beside its copies of
        # the references.
        grid = grid_of_prediction
    rows = []
    lesions = []
    if labels is not None:
        maps = PairOfMaps(
            foreground=foreground,
            grid=grid,
            labels=labels,
            scoring=scoring,
        )
        rows = score_volumes(maps)
        lesions = add_lesions(rows, maps)

    is_missing = pair.prediction is None
    for row in rows:
        if is_missing:
            worst = scoring.worst(grid, row["n_reference"])
            row |= scoring.of_label(row["label"], worst)
        row["reference_ml"] = row["n_reference"] * grid.voxel_ml
        row["prediction_ml"] = row["n_prediction"] * grid.voxel_ml

    return ScoredPair(
        case=pair.case,
        rows=rows,
        reference_values=tuple(value for value in reference_values if value != 0),
        absent=_values_of_absent_label(scoring, grid, is_missing=is_missing),
        sha256=pair.sha256,
        lesions=lesions,
        rules=_rules(grid_of_prediction, grid_of_reference, labels),
    )


def _rules(grid: Grid, reference: Grid, labels: Labels | None) -> Rules | None:
    """What readers need to know of the rules for the headers of a pair."""
    rules = rules_of_pair(grid, reference)
    names_reader = labels is not None and labels.reader is not None
    # Where the dataset names its reader, it says which of two rules is meant.
    if rules is Rules.DIFFER and names_reader:
        return None
    return rules


def _read_foreground(pair: PairOfFiles, labels: Labels | None) -> tuple[Foreground, Grid, Grid]:
    """The foreground of a case on the reference's grid, and the grids on which both are stored.

    The prediction is background where it is missing. No map is in memory beside the other.
    """
    image = grid_of_image(pair.image, labels)
    maps = read_pair(pair.reference, pair.prediction, labels, image=image)
    reference = next(maps)
    grid = reference.grid
    in_reference = Runs.of(reference.values)
    del reference

    prediction = next(maps, None)
    if prediction is None:
        return Foreground.of(in_reference, in_reference.without_foreground()), grid, grid

    grid_of_prediction = prediction.grid
    try:
        in_prediction = Runs.of(onto(prediction.values, grid_of_prediction, grid))
    except ValueError as error:
        cure = "Predict it again, or resample it to the reference."
        raise ValueError(f"{error} The file is {str(pair.prediction)!r}. {cure}") from error
    del prediction
    return Foreground.of(in_reference, in_prediction), grid, grid_of_prediction


def _check_values(values: Collection[int], labels: Labels, path: Path | None) -> None:
    """Check that the values in a file are those of the labels."""
    unknown = sorted(set(values) - labels.known)
    if unknown:
        names = name_some([str(value) for value in unknown])
        raise UnknownValuesError(f"{names} in {str(path)!r}")


def _values_of_absent_label(scoring: Scoring, grid: Grid, *, is_missing: bool) -> dict[str, float]:
    """The values of a row for a label that neither map has.

    They are the worst ones where the prediction is missing.
    """
    values = scoring.of_counts(0, 0, 0, grid=grid)
    values |= scoring.without_lesions()
    if is_missing:
        values |= scoring.worst(grid, 0)

    values |= dict.fromkeys(COUNTS, 0)
    # NaN where a voxel has no size.
    no_volume = 0 * grid.voxel_ml
    values |= {"reference_ml": no_volume, "prediction_ml": no_volume}
    return values


def score_unless_known(
    item: tuple[PairOfFiles, ScoredPair | None], labels: Labels | None, scoring: Scoring
) -> tuple[ScoredPair | UnknownValuesError, bool]:
    """Take over earlier scores of a case if its files are those that were scored, or score them.

    Args:
        item: The files of the case, and its earlier scores, if any.
        labels: As for `score_pair`.
        scoring: As for `score_pair`.

    Returns:
        The scores, or why there are none, and whether they were taken over.
    """
    pair, earlier = item
    # The voxel size of TIFF, or the image of DICOM, is in other files, which may have changed.
    suffixes = {path.suffix.lower() for path in (pair.reference, pair.prediction) if path}
    if earlier is not None and suffixes.isdisjoint({*TIFF_ENDINGS, DICOM_ENDING}):
        # Reading a file to score it tells what is wrong with it.
        with suppress(OSError):
            if pair.sha256 == earlier.sha256:
                return earlier, True
    try:
        return score_pair(pair, labels, scoring), False
    except UnknownValuesError as error:
        return error, False


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's contents, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        # Part by part: a table of scores may have hundreds of megabytes.
        for part in iter(partial(file.read, _BYTES_AT_A_TIME), b""):
            digest.update(part)
    return digest.hexdigest()
