"""Pairs of which a method has no value, because it missed or invented the label.

They count as the worst for it.
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
    values = ground.align(evaluation.scores, metric)
    undefined = np.isnan(values)
    if (failed := failed_rows(evaluation.scores, metric)) is None:
        return MethodValues(values, np.zeros_like(undefined), np.zeros_like(undefined))
    left_out = evaluation.scores[["case", "label"]].assign(
        left_out=failed["left_out"].astype(float)
    )
    sizes = [ground.align(evaluation.scores, column) for column in size_columns(metric)]
    return MethodValues(
        values,
        ground.align(left_out, "left_out") == 1,
        undefined & (sizes[0] == 0) & (sizes[1] == 0),
    )


def completed(
    methods: Mapping[str, MethodValues], metric: str, *, among: Collection[str]
) -> dict[str, FloatArray]:
    """The values of some methods, shape (n_cases, n_labels), with those that only some of them lack filled in.

    Where a method missed or invented the label and another did not, it has the worst value: 0, or
    the largest distance of any method for the label. Where a method rightly left out a label that
    another invented, it has the best value. NaN stays where all of ``among`` failed, where all were
    right, and where the reason is not known.
    """
    known = METRICS[metric]
    chosen = {name: methods[name] for name in among}
    some_failed = np.any([m.failed for m in chosen.values()], axis=0)
    some_right = np.any([m.right for m in chosen.values()], axis=0)
    some_value = np.any([~np.isnan(m.values) for m in chosen.values()], axis=0)
    worst = np.broadcast_to(worst_values(methods, known), some_failed.shape)
    filled = {}
    for name, method in chosen.items():
        values = np.where(method.failed & (some_right | some_value), worst, method.values)
        filled[name] = np.where(
            method.right & (some_failed | some_value), float(known.more_is_better), values
        )
    return filled


def worst_values(methods: Mapping[str, MethodValues], metric: Metric) -> FloatArray:
    """The worst value of each label, shape (n_labels,): 0, or the largest distance.

    NaN without any distance.
    """
    every = np.concatenate([method.values for method in methods.values()])
    if metric.more_is_better:
        return np.zeros(every.shape[1])
    worst = np.where(np.isnan(every), -np.inf, every).max(axis=0, initial=-np.inf)
    return np.where(np.isinf(worst), np.nan, worst)


def notes_on_one_sided(
    values: Mapping[str, Mapping[str, MethodValues]],
    of_method: Mapping[str, Sequence[str]],
    ground: CommonGround,
) -> list[str]:
    """Notes on the pairs that have a value in some trainings only, in sentences."""
    notes = []
    baseline, *others = of_method
    for metric, of_metric in values.items():
        for method in others:
            compared = {
                name: of_metric[name] for name in (*of_method[baseline], *of_method[method])
            }
            filled = completed(of_metric, metric, among=compared)
            lacking = {
                name: np.isnan(v.values) & ~np.isnan(filled[name]) for name, v in compared.items()
            }
            any_value = ~np.isnan(list(filled.values())).all(axis=0)
            unknown = {name: np.isnan(of_name) & any_value for name, of_name in filled.items()}
            known = METRICS[metric]
            best = "1" if known.more_is_better else "0" if known.of_volumes else "0 mm"
            worst = (
                "0"
                if known.more_is_better
                else f"the largest {known.noun} of any method for the label"
            )
            failed = {name: lacking[name] & v.failed for name, v in compared.items()}
            right = {name: lacking[name] & v.right for name, v in compared.items()}
            notes += _note(
                failed, f"missed or invented the label and counts as {worst}", metric, ground
            )
            notes += _note(
                right, f"rightly left out the label and counts as {best}", metric, ground
            )
            notes += _note(
                unknown,
                "has no value for an unknown reason, and the pair is left out",
                metric,
                ground,
            )
    return notes


def _note(where: Mapping[str, BoolArray], say: str, metric: str, ground: CommonGround) -> list[str]:
    names = {
        name: [f"{ground.cases[i]} ({ground.labels[j]})" for i, j in np.argwhere(of_method)]
        for name, of_method in where.items()
    }
    if not (n_pairs := sum(map(len, names.values()))):
        return []
    cases = "; ".join(
        f"{name} in {name_some(of_method)}" for name, of_method in names.items() if of_method
    )
    if len(where) > 2:
        times = "Once" if n_pairs == 1 else f"{n_pairs} times"
        return [
            f"{METRICS[metric].title}: {times} a training lacks a value that another has. It {say}: {cases}."
        ]
    pairs = "1 pair has" if n_pairs == 1 else f"{n_pairs} pairs have"
    return [
        f"{METRICS[metric].title}: {pairs} a value in one method only. The other {say}: {cases}."
    ]
