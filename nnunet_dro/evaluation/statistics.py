"""Rows of scores to statistics per stratum."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

#: The statistics of a stratum, in the order of their columns.
STATISTICS = ("mean", "std", "median", "iqr", "p75", "p25", "p10", "p5", "min", "max")

#: Attribute and stratum of the row over all cases.
ALL = "all"


def describe(values: npt.NDArray[np.float64]) -> dict[str, float]:
    """Statistics of one stratum.

    Args:
        values: Shape (n,); NaN where a case has no value.

    Returns:
        ``n``, ``n_undefined`` (how many of the n are NaN), and `STATISTICS` of the others: ``std`` is the sample
        standard deviation (n - 1; NaN for a single value), percentiles interpolate linearly, ``iqr`` is p75 - p25.
        Without a defined value every statistic is NaN.
    """
    defined = values[~np.isnan(values)]
    counts: dict[str, float] = {"n": len(values), "n_undefined": len(values) - len(defined)}
    if not len(defined):
        return counts | dict.fromkeys(STATISTICS, float("nan"))
    p5, p10, p25, median, p75 = (float(p) for p in np.percentile(defined, [5, 10, 25, 50, 75]))
    std = float(defined.std(ddof=1)) if len(defined) > 1 else float("nan")
    spread = {"mean": float(defined.mean()), "std": std, "median": median, "iqr": p75 - p25, "p75": p75, "p25": p25}
    return counts | spread | {"p10": p10, "p5": p5, "min": float(defined.min()), "max": float(defined.max())}


def summarise(
    scores: pd.DataFrame,
    strata: "Mapping[str, pd.Series[str]] | None" = None,
    *,
    metrics: Sequence[str] = ("dice",),
) -> pd.DataFrame:
    """Statistics per attribute, stratum, label and metric.

    Args:
        scores: A row per case and label: ``case``, ``label`` and a column per metric; NaN is undefined.
        strata: Attribute to the stratum of each case (a series indexed by case). None is one stratum of all cases,
            whose attribute and name are ``all``.
        metrics: Columns of ``scores``.

    Returns:
        A row per attribute, stratum (sorted), label (in the order of ``scores``) and metric, with the columns
        ``attribute``, ``stratum``, ``label``, ``metric``, ``n``, ``n_undefined`` and `STATISTICS`. Fractions.

    Raises:
        ValueError: If a metric is not in ``scores``, or a case has no stratum.
    """
    for metric in metrics:
        if metric not in scores.columns:
            raise ValueError(f"`metrics` must be columns of the scores, got {metric!r}. Compute it first.")
    rows: list[dict[str, object]] = []
    for attribute, stratum_of_case in (strata or {ALL: pd.Series(ALL, index=scores["case"].unique())}).items():
        if unknown := sorted(set(scores["case"]) - set(stratum_of_case.index)):
            raise ValueError(f"`strata` must give every case a stratum, got none in {attribute!r} for {unknown[0]!r}.")
        stratum_of_row = scores["case"].map(stratum_of_case)
        for stratum in sorted(stratum_of_row.unique()):
            inside = scores[stratum_of_row == stratum]
            for label in scores["label"].unique():
                of_label = inside[inside["label"] == label]
                for metric in metrics:
                    group = {"attribute": attribute, "stratum": stratum, "label": label, "metric": metric}
                    rows.append(group | describe(of_label[metric].to_numpy(dtype=np.float64)))
    columns = ["attribute", "stratum", "label", "metric", "n", "n_undefined", *STATISTICS]
    table: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return table
