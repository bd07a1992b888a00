"""The scores of files of label maps, a row per case and label."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.cluster import absolute, each_done
from nnunet_dro.evaluation.scoring.foreground import Foreground
from nnunet_dro.evaluation.scoring.grid import onto
from nnunet_dro.evaluation.scoring.label_maps import LabelMap, Labels, read_label_map
from nnunet_dro.evaluation.scoring.lesion_scores import lesion_columns
from nnunet_dro.evaluation.scoring.score_arrays import PairOfMaps, add_lesions, score_volumes
from nnunet_dro.evaluation.scoring.scoring import COUNTS, Scoring
from nnunet_dro.naming import name_some


@dataclass(frozen=True)
class PairOfFiles:
    """The files of a case; ``prediction`` is None where it is missing."""

    case: str
    reference: Path
    prediction: Path | None

    @property
    def sha256(self) -> tuple[str, str]:
        """SHA-256 of the contents of both, as `ScoredPair` has it."""
        return sha256_of(self.reference), sha256_of(self.prediction) if self.prediction else ""


@dataclass(frozen=True)
class ScoredPair:
    """The scores of one case."""

    case: str  # its identifier
    rows: list[dict[str, Any]] = field(repr=False)  # a row per label
    reference_values: tuple[int, ...]  # the foreground values of its reference
    absent: Mapping[str, float] = field(
        repr=False
    )  # the values of a row for a label that neither map has
    #: SHA-256 of the contents of the reference's file and of the prediction's; empty where it is
    #: missing.
    sha256: tuple[str, str]
    #: A row per lesion of the labels that are compared lesion by lesion.
    lesions: list[dict[str, Any]] = field(default_factory=list, repr=False)


def score_pair(pair: PairOfFiles, labels: Labels | None, scoring: Scoring) -> ScoredPair:
    """Read the files of a case and score them."""
    reference = read_label_map(pair.reference)
    nothing = LabelMap(np.zeros_like(reference.values), reference.grid)
    prediction = read_label_map(pair.prediction) if pair.prediction else nothing
    try:
        values = onto(prediction.values, prediction.grid, reference.grid)
    except ValueError as error:
        cure = "Predict it again, or resample it to the reference."
        raise ValueError(f"{error} The file is {str(pair.prediction)!r}. {cure}") from error
    foreground = Foreground.of(reference.values, values)
    counts = foreground.counts
    found = {"reference": np.unique(counts.reference), "prediction": np.unique(counts.prediction)}
    if labels is not None:
        # The ignore value may also be in another rater's map, where it counts as no label.
        for which, path in (("reference", pair.reference), ("prediction", pair.prediction)):
            if unknown := sorted(set(found[which].tolist()) - labels.known):
                names = name_some([str(v) for v in unknown])
                cure = (
                    "Add the label there, or give the dataset.json that fits with --dataset-json."
                )
                raise ValueError(
                    f"`labels` in dataset.json must list all values, got {names} in {str(path)!r}. {cure}"
                )
    scored = labels or Labels.of_values([*found["reference"], *found["prediction"]])
    grid = reference.grid
    rows = []
    lesions = []
    if scored:
        maps = PairOfMaps(reference.values, values, foreground, grid, scored, scoring)
        rows = score_volumes(maps)
        lesions = add_lesions(rows, maps)
    for row in rows:
        if pair.prediction is None:
            row |= scoring.of_label(row["label"], scoring.worst(grid, row["n_reference"]))
        row["reference_ml"] = row["n_reference"] * grid.voxel_ml
        row["prediction_ml"] = row["n_prediction"] * grid.voxel_ml
    empty = dict.fromkeys(COUNTS, 0) | dict.fromkeys(
        ("reference_ml", "prediction_ml"), 0 * grid.voxel_ml
    )
    worst = scoring.worst(grid, 0) if pair.prediction is None else {}
    absent = scoring.of_counts(0, 0, 0, grid=grid) | scoring.without_lesions() | worst | empty
    return ScoredPair(
        pair.case,
        rows,
        tuple(int(v) for v in found["reference"] if v != 0),
        absent,
        pair.sha256,
        lesions,
    )


def score_unless_known(
    item: tuple[PairOfFiles, ScoredPair | None], labels: Labels | None, scoring: Scoring
) -> tuple[ScoredPair, bool]:
    """Take the known scores of a case if its files are those that were scored, or score them."""
    pair, known = item
    files = [path for path in (pair.reference, pair.prediction) if path]
    # The voxel size of a TIFF file is in another file, which may have changed.
    if known is not None and not any(path.suffix.lower() in (".tif", ".tiff") for path in files):
        # Reading a file to score it tells what is wrong with it.
        with suppress(OSError):
            if pair.sha256 == known.sha256:
                return known, True
    return score_pair(pair, labels, scoring), False


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's contents, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class ScoredPairs:
    """The scores of many cases."""

    table: pd.DataFrame  # a row per case and label, sorted by case: ``case`` and `Scoring.columns`
    #: The values that occur only in predictions and are not scored, where every value in a
    #: reference is a label.
    only_predicted: tuple[str, ...] = ()
    #: Case to the SHA-256 of the contents of its reference and its prediction; see `ScoredPair`.
    sha256: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: A row per lesion, sorted by case: `lesion_columns`; empty where no label is compared lesion
    #: by lesion.
    lesions: pd.DataFrame = field(default_factory=pd.DataFrame)
    n_known: int = 0  # number of cases whose scores were known


def score_pairs(
    pairs: Collection[PairOfFiles],
    labels: Labels | None,
    scoring: Scoring,
    *,
    jobs: int | None,
    workers: str | None,
    known: Mapping[str, ScoredPair],
    keep: Callable[[ScoredPair], None],
    progress: Callable[[int], None],
) -> ScoredPairs:
    """Score many cases, several at a time; cases that are not ``known`` are given to ``keep``."""
    items = [(absolute(pair) if workers else pair, known.get(pair.case)) for pair in pairs]
    scored: list[ScoredPair] = []
    n_known = 0
    score = partial(score_unless_known, labels=labels, scoring=scoring)
    for one, was_known in each_done(score, items, jobs=jobs, workers=workers):
        scored.append(one)
        n_known += was_known
        if not was_known:
            keep(one)
        progress(len(scored))
    scored.sort(key=lambda one: one.case)
    scored, left_out = (scored, ()) if labels else _same_labels(scored, scoring)
    rows = [{"case": one.case} | row for one in scored for row in one.rows]
    scores: pd.DataFrame = pd.DataFrame(rows, columns=["case", *scoring.columns])
    of_lesions = [{"case": one.case} | row for one in scored for row in one.lesions]
    lesions: pd.DataFrame = pd.DataFrame(of_lesions, columns=lesion_columns(scoring.metrics))
    return ScoredPairs(scores, left_out, {one.case: one.sha256 for one in scored}, lesions, n_known)


def _same_labels(
    scored: list[ScoredPair], scoring: Scoring
) -> tuple[list[ScoredPair], tuple[str, ...]]:
    """Give every case a row for each value that is in any reference, and no others."""
    values = sorted({value for one in scored for value in one.reference_values})
    if not values:
        raise ValueError(
            "`reference` must have label maps with a label, got only background. Check the folder."
        )
    names = [str(value) for value in values]
    if scoring.instances:
        scoring.instances.check_labels(names)
    complete = []
    only_predicted = set()
    for one in scored:
        by_label = {row["label"]: row for row in one.rows}
        only_predicted |= by_label.keys() - set(names)
        rows = [
            by_label.get(name, {"label": name} | scoring.of_label(name, one.absent))
            for name in names
        ]
        lesions = [lesion for lesion in one.lesions if lesion["label"] in names]
        complete.append(replace(one, rows=rows, lesions=lesions))
    return complete, tuple(sorted(only_predicted, key=int))
