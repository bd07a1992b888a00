"""The scores of the files of many cases, several at a time."""

import warnings
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.scoring.cluster import absolute, each_done
from nnunet_dro.evaluation.scoring.grid import Rules
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.lesion_scores import LESION_COLUMNS, distance_columns
from nnunet_dro.evaluation.scoring.score_files import (
    PairOfFiles,
    ScoredPair,
    UnknownValuesError,
    score_unless_known,
)
from nnunet_dro.evaluation.scoring.scoring import Scoring

#: So many files with values that are no labels are looked for, and named.
_MOST_UNKNOWN = 5


@dataclass(frozen=True)
class ScoredPairs:
    """The scores of many cases."""

    table: pd.DataFrame  # a row per case and label, sorted by case: ``case`` and `Scoring.columns`
    #: The values that occur only in predictions and are not scored, where every value in a
    #: reference is a label.
    only_predicted: tuple[str, ...] = ()
    #: Case to the SHA-256 of the contents of its reference and its prediction; see `ScoredPair`.
    sha256: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: A row per lesion, sorted by case: `LESION_COLUMNS` and distances; empty where no label is
    #: compared lesion by lesion.
    lesions: pd.DataFrame = field(default_factory=pd.DataFrame)
    #: Case to what the rules for the headers of its files say, where it matters.
    rules: Mapping[str, Rules | str] = field(default_factory=dict)
    n_known: int = 0  # number of cases whose scores were known


def score_pairs(
    pairs: Collection[PairOfFiles],
    labels: Labels | None,
    scoring: Scoring,
    *,
    jobs: int | None,
    workers: str | None,
    earlier: Mapping[str, ScoredPair],
    keep: Callable[[ScoredPair], None],
    progress: Callable[[int], None],
) -> ScoredPairs:
    """Score many cases, several at a time.

    Args:
        pairs: The files of every case.
        labels: The labels to score; None for one label per value that occurs in a reference.
        scoring: The metrics and their options.
        jobs: How many cases are scored at a time.
        workers: Address of a dask cluster that scores them instead.
        earlier: Case to its scores from an earlier run; see `score_unless_known`.
        keep: Called with the scores of every case that is not taken over.
        progress: Called with the number of finished cases.
    """
    items = []
    for pair in pairs:
        files = absolute(pair) if workers else pair
        items.append((files, earlier.get(pair.case)))
    score = partial(score_unless_known, labels=labels, scoring=scoring)

    done = each_done(score, items, jobs=jobs, workers=workers)
    scored, n_known = _collected(done, keep, progress)

    only_predicted: tuple[str, ...] = ()
    if labels is None:
        scored, only_predicted = _with_same_labels(scored, scoring)

    rows = []
    lesions = []
    for scores in scored:
        rows += [{"case": scores.case, **row} for row in scores.rows]
        lesions += [{"case": scores.case, **lesion} for lesion in scores.lesions]
    return ScoredPairs(
        table=pd.DataFrame(rows, columns=["case", *scoring.columns]),
        only_predicted=only_predicted,
        sha256={scores.case: scores.sha256 for scores in scored},
        lesions=pd.DataFrame(
            lesions, columns=[*LESION_COLUMNS, *distance_columns(scoring.metrics)]
        ),
        rules={scores.case: scores.rules for scores in scored if scores.rules},
        n_known=n_known,
    )


def _collected(
    done: Generator[tuple[ScoredPair | UnknownValuesError, bool], None, None],
    keep: Callable[[ScoredPair], None],
    progress: Callable[[int], None],
) -> tuple[list[ScoredPair], int]:
    """The scores of all cases, sorted by case, and how many of them were known.

    Files with values that are no labels are named together, in the end or once there are so many
    that all may have them.
    """
    scored: list[ScoredPair] = []
    n_known = 0
    unknown: list[str] = []
    for scores, was_known in done:
        if isinstance(scores, UnknownValuesError):
            unknown += scores.args
            if len(unknown) == _MOST_UNKNOWN:
                _leave(done)
                break
            continue
        scored.append(scores)
        if was_known:
            n_known += 1
        else:
            keep(scores)
        progress(len(scored))

    if unknown:
        raise ValueError(str(UnknownValuesError(*sorted(unknown))))
    return sorted(scored, key=lambda scores: scores.case), n_known


def _leave(done: Generator[Any, None, None]) -> None:
    """Do nothing of what is left to do."""
    # joblib warns of it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done.close()


def _with_same_labels(
    scored: list[ScoredPair], scoring: Scoring
) -> tuple[list[ScoredPair], tuple[str, ...]]:
    """Give every case a row for each value that is in any reference, and no others.

    Returns:
        The cases, and the values that are left out because they occur only in predictions.
    """
    values: set[int] = set()
    for scores in scored:
        values.update(scores.reference_values)
    if not values:
        raise ValueError(
            "`reference` must have label maps with a label, got only background. Check the folder."
        )
    names = [str(value) for value in sorted(values)]
    if scoring.instances:
        scoring.instances.check_labels(names)

    complete = []
    only_predicted = set()
    for scores in scored:
        row_of_label = {row["label"]: row for row in scores.rows}
        only_predicted |= row_of_label.keys() - set(names)

        rows = []
        for name in names:
            absent = {"label": name, **scoring.of_label(name, scores.absent)}
            rows.append(row_of_label.get(name, absent))
        lesions = [lesion for lesion in scores.lesions if lesion["label"] in names]
        complete.append(replace(scores, rows=rows, lesions=lesions))
    return complete, tuple(sorted(only_predicted, key=int))
