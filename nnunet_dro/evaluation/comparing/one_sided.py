"""Pairs of which only one method has a value, because the other missed or invented the label.

They count as the worst for that other one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.failures import BoolArray, failed_rows, size_columns
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.naming import name_some

FloatArray = npt.NDArray[np.float64]


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
    if failed_of_row is None:
        unknown = np.zeros_like(values, dtype=bool)
        return MethodValues(values, failed=unknown, right=unknown)

    left_out = scores[["case", "label"]].assign(left_out=failed_of_row["left_out"].astype(float))
    n_reference, n_prediction = (ground.align(scores, column) for column in size_columns(metric))
    return MethodValues(
        values,
        failed=ground.align(left_out, "left_out") == 1,
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
        is_best = method.right & (some_failed | some_value)
        values = np.where(is_worst, worst, method.values)
        filled[name] = np.where(is_best, best, values)

    return filled


def worst_values(methods: Mapping[str, MethodValues], metric: Metric) -> FloatArray:
    """The worst value of each label, shape (n_labels,): 0, or the largest distance.

    NaN without any distance.
    """
    every = np.concatenate([method.values for method in methods.values()])
    if metric.more_is_better:
        return np.zeros(every.shape[1])
    defined = np.where(np.isnan(every), -np.inf, every)
    worst = defined.max(axis=0, initial=-np.inf)
    return np.where(np.isinf(worst), np.nan, worst)


def notes_on_one_sided(
    values: Mapping[str, Mapping[str, MethodValues]],
    trainings: Mapping[str, Sequence[str]],
    ground: CommonGround,
) -> list[str]:
    """Notes on the pairs that have a value in some trainings only, in sentences.

    ``values`` are by metric and training, and ``trainings`` are the names of each method's, the
    baseline first.
    """
    notes = []
    baseline, *others = trainings

    for metric, values_of_trainings in values.items():
        for method in others:
            names = dict.fromkeys((*trainings[baseline], *trainings[method]))
            compared = {name: values_of_trainings[name] for name in names}
            filled = completed(values_of_trainings, metric, among=names)
            notes += _notes_on_pair(
                compared,
                filled,
                metric,
                ground,
            )

    return notes


def _notes_on_pair(
    compared: Mapping[str, MethodValues],
    filled: Mapping[str, FloatArray],
    metric: str,
    ground: CommonGround,
) -> list[str]:
    """Notes on the values that the trainings of two methods lack, by the reason why."""
    any_value = ~np.isnan(list(filled.values())).all(axis=0)
    failed = {}
    right = {}
    unknown = {}
    for name, values in compared.items():
        is_filled = np.isnan(values.values) & ~np.isnan(filled[name])
        failed[name] = is_filled & values.failed
        right[name] = is_filled & values.right
        unknown[name] = np.isnan(filled[name]) & any_value

    worst, best = _extremes_in_words(METRICS[metric])
    reasons = {
        f"missed or invented the label and counts as {worst}": failed,
        f"rightly left out the label and counts as {best}": right,
        "has no value for an unknown reason, and the pair is left out": unknown,
    }

    notes = []
    for reason, places in reasons.items():
        notes += _note(
            places,
            reason,
            metric,
            ground,
        )

    return notes


def _extremes_in_words(metric: Metric) -> tuple[str, str]:
    """The worst and the best value, as `completed` has them."""
    if metric.more_is_better:
        return "0", "1"
    best = "0 mm" if metric.unit == "mm" else "0"
    return f"the largest {metric.noun} of any method for the label", best


def _note(
    places: Mapping[str, BoolArray], reason: str, metric: str, ground: CommonGround
) -> list[str]:
    """A sentence on the places, by training, in which a value is lacking for one reason."""
    n_pairs = 0
    cases = []
    for name, is_lacking in places.items():
        pairs = [f"{ground.cases[i]} ({ground.labels[j]})" for i, j in np.argwhere(is_lacking)]
        n_pairs += len(pairs)
        if pairs:
            cases.append(f"{name} in {name_some(pairs)}")

    if not cases:
        return []

    listed = f"{reason}: {'; '.join(cases)}."
    title = METRICS[metric].title
    if len(places) > 2:
        times = "Once" if n_pairs == 1 else f"{n_pairs} times"
        return [f"{title}: {times} a training lacks a value that another has. It {listed}"]

    subject = "1 pair has" if n_pairs == 1 else f"{n_pairs} pairs have"
    return [f"{title}: {subject} a value in one method only. The other {listed}"]
