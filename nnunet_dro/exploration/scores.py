"""The scores of the cases for each label, in which a label that was missed or invented is the worst."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.failures import failed_rows
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.exploration.rank_sums import BoolArray, FloatArray
from nnunet_dro.pages.wording import count


@dataclass(frozen=True, eq=False)
class LabelScores:
    """The scores of one label; all arrays have the shape (n_cases,).

    Attributes:
        label: Its name.
        values: The metric; NaN where undefined.
        failed: Whether it is undefined because the label was missed or invented.
        goodness: Larger is better: -inf where the label was missed or invented and has no value, NaN where the case
            does not count.
        filled: The metric with the worst value where the label was missed or invented: 0, or the largest distance of
            any case for the label.
    """

    label: str
    values: FloatArray
    failed: BoolArray
    goodness: FloatArray
    filled: FloatArray


def label_scores(
    evaluation: Evaluation, cases: Sequence[str], metric: str, labels: Sequence[str]
) -> tuple[list[LabelScores], list[str]]:
    """The scores of some labels, and notes on those that are undefined.

    Args:
        evaluation: The evaluation.
        cases: Its cases, in the order of the arrays.
        metric: The metric.
        labels: The labels.

    Returns:
        The scores of the labels that have any; metrics on lesions are those of some labels only.

    Raises:
        ValueError: If there are two rows of a case and label, a score is infinite, or there is none.
    """
    scores = evaluation.scores
    twice = scores[["case", "label"]].duplicated().to_numpy()
    if twice.any():
        case, label = scores.loc[twice, ["case", "label"]].iloc[0]
        cure = "Evaluate it again."
        raise ValueError(f"`scores` must have one row per case and label, got two for {case!r}, {label!r}. {cure}")
    kinds = failed_rows(scores, metric)
    either = np.zeros(len(scores), dtype=bool) if kinds is None else kinds["missed"] | kinds["invented"]
    rows = pd.DataFrame({"label": scores["label"], "value": scores[metric].astype(float), "failed": either})
    rows.index = pd.Index(scores["case"].astype(str))
    known = METRICS[metric]
    of_every = [_of_label(label, rows[rows["label"] == label], cases, known) for label in labels]
    found = [of_label for of_label in of_every if not np.isnan(of_label.goodness).all()]
    if not found:
        cure = "Choose another label or metric."
        raise ValueError(f"`metric` must have a value in some case, got {metric!r} without any. {cure}")
    notes = []
    if n_failed := sum(int(of_label.failed.sum()) for of_label in found):
        worst = "0" if known.more_is_better else "the largest distance of any case for the label"
        notes.append(
            f"{count(n_failed, 'score')} without a value, of a label that was missed or invented, "
            f"{'counts' if n_failed == 1 else 'count'} as the worst; in means as {worst}."
        )
    if n_left_out := sum(int(np.isnan(of_label.goodness).sum()) for of_label in found):
        notes.append(f"{count(n_left_out, 'score')} without a value for another reason {_do(n_left_out)} not count.")
    return found, notes


def _do(n: int) -> str:
    return "does" if n == 1 else "do"


def _of_label(label: str, rows: pd.DataFrame, cases: Sequence[str], metric: Metric) -> LabelScores:
    aligned = rows.reindex(list(cases))
    values = aligned["value"].to_numpy(dtype=np.float64)
    if np.isinf(values).any():
        case = cases[int(np.isinf(values).argmax())]
        raise ValueError(f"`scores` must be finite, got an infinite one for {case!r}, {label!r}. Evaluate it again.")
    failed = (aligned["failed"] == True).to_numpy(dtype=bool) & np.isnan(values)  # noqa: E712  # NaN without a row
    sign = 1.0 if metric.more_is_better else -1.0
    largest = float(np.nanmax(values)) if not np.isnan(values).all() else np.nan
    worst = 0.0 if metric.more_is_better else largest
    return LabelScores(
        label=label,
        values=values,
        failed=failed,
        goodness=np.where(failed, -np.inf, sign * values),
        filled=np.where(failed, worst, values),
    )
