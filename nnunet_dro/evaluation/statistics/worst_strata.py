"""The worst and the best stratum of each attribute, and the gap between them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.scoring.failures import DECIMALS
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.columns import enough_cases, n_units

#: A row of the table of strata.
_Record = Mapping[Any, Any]

#: The columns of the table.
COLUMNS = (
    "attribute",
    "label",
    "metric",
    "statistic",
    "worst_stratum",
    "worst",
    "best_stratum",
    "best",
    "gap",
    "gap_low",
    "gap_high",
)


def worst_strata(strata: pd.DataFrame, *, reference: str | None = None) -> pd.DataFrame:
    """The worst and the best stratum of each attribute, label and metric, and the gap between them.

    Args:
        strata: From `summarise`.
        reference: A stratum to compare with in place of the best, in the attributes that have it.

    Returns:
        Rows in the order of ``strata``, for the mean and for the metric's `Metric.tail`:
        ``attribute``, ``label``, ``metric``, ``statistic``, ``worst_stratum``, ``worst``,
        ``best_stratum``, ``best``, and ``gap``, by how much the best is better, of signed errors
        nearer to 0 (negative if even the worst of the others is better than the reference).
        ``gap_low`` and ``gap_high`` reach from bound to bound of the two strata, NaN where one is
        missing; they hold for two strata that are chosen beforehand, and the largest of several
        gaps is biased upwards. Of equal strata the first is named. Strata without a value are left
        out, of several strata also those with too few cases for the statistic (see `enough_cases`).
        There is no row without any stratum, nor where the reference has too few cases.
    """
    rows = []
    # Records, not groups of the frame, which take most of the time of reading an evaluation.
    groups: dict[tuple[str, str, str], list[_Record]] = {}
    for record in strata.to_dict("records"):
        key = (record["attribute"], record["label"], record["metric"])
        groups.setdefault(key, []).append(record)

    for (attribute, label, name), group in groups.items():
        metric = METRICS[str(name)]
        for statistic in dict.fromkeys(("mean", metric.tail)):
            compared = _comparable(group, statistic, reference)
            if not compared:
                continue

            row = {
                "attribute": attribute,
                "label": label,
                "metric": metric.name,
                "statistic": statistic,
            }
            rows.append(
                row
                | _worst_and_best(
                    compared,
                    statistic,
                    metric,
                    reference,
                )
            )

    return pd.DataFrame(rows, columns=list(COLUMNS))


def _comparable(group: Sequence[_Record], statistic: str, reference: str | None) -> list[_Record]:
    """The strata with a value that, where there are several strata, rests on enough cases.

    None where that of the reference does not: the others are not compared with the best instead.
    """
    with_value = [row for row in group if not pd.isna(row[statistic])]
    if len(group) == 1:
        return with_value

    enough = [row for row in with_value if enough_cases(statistic, n_units(row))]
    has_value = reference in [row["stratum"] for row in with_value]
    if has_value and reference not in [row["stratum"] for row in enough]:
        return []
    return enough


def _worst_and_best(
    group: Sequence[_Record], statistic: str, metric: Metric, reference: str | None
) -> dict[str, object]:
    """The columns of the worst and the best stratum of a group, all of which have a value."""
    names = [row["stratum"] for row in group]
    values = np.array([row[statistic] for row in group], dtype=np.float64)
    # What differs by rounding alone has no gap.
    goodness = metric.goodness(values.round(DECIMALS))

    best = int(np.nanargmax(goodness))
    others = goodness.copy()
    if reference in names:
        best = names.index(reference)
        # A reference is not compared with itself.
        others[best] = np.nan
    worst = best
    if not np.isnan(others).all():
        worst = int(np.nanargmin(others))

    gap_low, gap_high = _gap_bounds(
        group,
        statistic,
        metric,
        worst=worst,
        best=best,
    )
    return {
        "worst_stratum": names[worst],
        "worst": values[worst],
        "best_stratum": names[best],
        "best": values[best],
        "gap": goodness[best] - goodness[worst],
        "gap_low": gap_low,
        "gap_high": gap_high,
    }


def _gap_bounds(
    group: Sequence[_Record], statistic: str, metric: Metric, *, worst: int, best: int
) -> tuple[float, float]:
    """From bound to bound of two strata; NaN where there is no gap or no interval."""
    if worst == best or metric.is_signed:
        return float("nan"), float("nan")

    ends = (f"{statistic}_low", f"{statistic}_high")
    bounds = np.array([[row.get(end, np.nan) for end in ends] for row in group], dtype=np.float64)
    gap = bounds[worst] - bounds[best][::-1]
    if metric.more_is_better:
        gap = bounds[best] - bounds[worst][::-1]
    return gap[0], gap[1]
