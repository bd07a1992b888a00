"""The cases that changed most between the baseline and each method."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.comparing.comparison_table import Compared
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.stratifying.stratify import ALL

#: How many cases `Comparison.changed` has in each direction, for each method, metric and label.
N_CHANGED = 5

_COLUMNS = (
    "method",
    "metric",
    "label",
    "case",
    "baseline_value",
    "method_value",
    "difference",
)


def changed_cases(compared: Compared) -> pd.DataFrame:
    """The cases that changed most, by the mean over the trainings; see `Comparison.changed`."""
    names = compared.trainings.names
    baseline, *others = names

    rows = []
    for method in others:
        for metric in compared.ground.metrics:
            filled = compared.filled(metric, baseline, method)
            before = _mean(filled, names[baseline])
            after = _mean(filled, names[method])
            rows += _most_changed(
                before,
                after,
                compared.ground,
                method=method,
                metric=metric,
            )

    changed: pd.DataFrame = pd.DataFrame(rows, columns=list(_COLUMNS))
    return _with_strata(changed, compared.strata)


def _mean(values: Mapping[str, FloatArray], names: Sequence[str]) -> FloatArray:
    """The mean over some trainings; NaN where any of them has no value."""
    return np.asarray(np.mean([values[name] for name in names], axis=0))


def _most_changed(
    before: FloatArray, after: FloatArray, ground: CommonGround, *, method: str, metric: str
) -> list[dict[str, object]]:
    """The cases of each label that changed most, from values of shape (n_cases, n_labels)."""
    rows: list[dict[str, object]] = []
    for column, label in enumerate(ground.labels):
        differences = after[:, column] - before[:, column]
        gains = METRICS[metric].sign * differences
        # A stable sort keeps the first of equal changes first.
        best_first = np.argsort(-gains, kind="stable")
        worst_first = np.argsort(gains, kind="stable")
        better = best_first[gains[best_first] > 0]
        worse = worst_first[gains[worst_first] < 0]

        rows += [
            {
                "method": method,
                "metric": metric,
                "label": label,
                "case": ground.cases[i],
                "baseline_value": before[i, column],
                "method_value": after[i, column],
                "difference": differences[i],
            }
            for i in (*better[:N_CHANGED], *worse[:N_CHANGED])
        ]
    return rows


def _with_strata(changed: pd.DataFrame, strata: "Mapping[str, pd.Series[str]]") -> pd.DataFrame:
    """The cases with their stratum of each attribute."""
    attributes = [attribute for attribute in strata if attribute != ALL] or list(strata)
    for attribute in attributes:
        # An attribute may have the name of a column.
        column = f"{attribute} (stratum)" if attribute in _COLUMNS else attribute
        stratum_of_case = strata[attribute].astype(str).to_dict()
        changed[column] = changed["case"].map(stratum_of_case)
    return changed
