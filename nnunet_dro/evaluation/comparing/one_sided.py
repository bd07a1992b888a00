"""Pairs of which only one method has a value, because the other missed or invented the label.

They count as the worst for that other one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray
from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.scoring.failures import failed_rows, size_columns
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.naming import label_words


@dataclass(frozen=True, eq=False)
class MethodValues:
    """The values of one method and metric, shape (n_cases, n_labels); NaN where undefined."""

    values: FloatArray
    failed: BoolArray  # where that is because the method missed or invented the label
    right: BoolArray  # where it is because neither reference nor prediction has the label


def method_values(evaluation: Evaluation, ground: CommonGround, metric: str) -> MethodValues:
    """The values of an evaluation's common cases, and why some of them are undefined."""
    scores = evaluation.scores
    values = ground.align(scores, metric)
    failed_of_row = failed_rows(scores, metric)
    if not failed_of_row:
        unknown = np.zeros_like(values, dtype=bool)
        return MethodValues(values, failed=unknown, right=unknown)

    left_out = failed_of_row["left_out"].astype(np.float64)
    n_reference, n_prediction = (ground.align(scores, column) for column in size_columns(metric))
    return MethodValues(
        values,
        failed=ground.laid_out(scores, left_out) == 1,
        right=np.isnan(values) & (n_reference == 0) & (n_prediction == 0),
    )


def completed(
    methods: Mapping[str, MethodValues], metric: str, *, among: Collection[str]
) -> dict[str, FloatArray]:
    """The values of some methods, with those that only some of them lack filled in.

    Where a method missed or invented the label and another did not, it has the worst value: 0, or
    the largest distance of any method for the label. Where a method rightly left out a label that
    another invented, it has the best value. NaN stays where all of ``among`` failed, where all were
    right, and where the reason is not known. Values are of shape (n_cases, n_labels).
    """
    described = METRICS[metric]
    chosen = {name: methods[name] for name in among}
    some_failed = np.any([method.failed for method in chosen.values()], axis=0)
    some_right = np.any([method.right for method in chosen.values()], axis=0)
    some_value = np.any([~np.isnan(method.values) for method in chosen.values()], axis=0)

    worst = np.broadcast_to(worst_values(methods, described), some_failed.shape)
    best = float(described.more_is_better)

    filled = {}
    for name, method in chosen.items():
        is_worst = method.failed & (some_right | some_value)
        # Where no method has a distance, failures have no worst one, and there is no pair.
        is_best = method.right & (some_value | (some_failed & ~np.isnan(worst)))
        values = np.where(is_worst, worst, method.values)
        filled[name] = np.where(is_best, best, values)

    return filled


def worst_values(methods: Mapping[str, MethodValues], metric: Metric) -> FloatArray:
    """The worst value of each label, shape (n_labels,): 0, or the largest distance or error.

    Of signed errors it is the one that is farthest from 0, without its sign. NaN without any value.
    """
    every = np.concatenate([method.values for method in methods.values()])
    if metric.more_is_better:
        return np.zeros(every.shape[1])
    return np.asarray(np.fmax.reduce(np.abs(every), axis=0, initial=np.nan))


@dataclass(frozen=True)
class Lacking:
    """Values that some trainings of two methods lack for one reason, and others have."""

    metrics: Sequence[Metric]  # that lack the same values, and count them alike
    reason: str  # ``failed``, ``right``, or ``unknown``
    pairs: Mapping[str, Sequence[str]]  # training to the cases and labels that it lacks
    n_trainings: int  # of both methods

    @property
    def n_pairs(self) -> int:
        """How many values are lacking."""
        return sum(map(len, self.pairs.values()))


def lacking_values(
    values: Mapping[str, Mapping[str, MethodValues]],
    trainings: Mapping[str, Sequence[str]],
    ground: CommonGround,
) -> Iterator[Lacking]:
    """The values that the baseline or a method lacks, by method, the reason why, and metrics.

    ``values`` are by metric and training, and ``trainings`` are the names of each method's, the
    baseline first.
    """
    baseline, *others = trainings
    for method in others:
        names = dict.fromkeys((*trainings[baseline], *trainings[method]))
        alike: list[Lacking] = []
        for metric, values_of_trainings in values.items():
            compared = {name: values_of_trainings[name] for name in names}
            filled = completed(values_of_trainings, metric, among=names)
            for reason, pairs in _pairs_by_reason(compared, filled, ground).items():
                if pairs:
                    _add(alike, Lacking([METRICS[metric]], reason, pairs, len(names)))
        yield from alike


def _add(alike: list[Lacking], lacking: Lacking) -> None:
    """Add values that are lacking, to those of other metrics that say the same of them."""
    (metric,) = lacking.metrics
    for place, other in enumerate(alike):
        same_pairs = (other.reason, other.pairs) == (lacking.reason, lacking.pairs)
        # Where more is better, the worst value is 0 and the best is 1.
        if same_pairs and metric.more_is_better and other.metrics[0].more_is_better:
            alike[place] = replace(other, metrics=[*other.metrics, metric])
            return
    alike.append(lacking)


def _pairs_by_reason(
    compared: Mapping[str, MethodValues], filled: Mapping[str, FloatArray], ground: CommonGround
) -> dict[str, dict[str, list[str]]]:
    """Reason to each training that lacks values which another one has, and the pairs of these."""
    any_value = ~np.isnan(list(filled.values())).all(axis=0)
    pairs: dict[str, dict[str, list[str]]] = {"failed": {}, "right": {}, "unknown": {}}
    for name, values in compared.items():
        is_unknown = np.isnan(filled[name])
        is_filled = np.isnan(values.values) & ~is_unknown
        places = {
            "failed": is_filled & values.failed,
            "right": is_filled & values.right,
            "unknown": is_unknown & any_value,
        }
        for reason, is_lacking in places.items():
            if is_lacking.any():
                pairs[reason][name] = [
                    f"{ground.cases[i]} ({label_words(ground.labels[j])})"
                    for i, j in np.argwhere(is_lacking)
                ]
    return pairs
