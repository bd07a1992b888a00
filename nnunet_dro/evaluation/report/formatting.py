"""How numbers, names and statistics are written in every report."""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, in_pixels
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import NO_VALUE, written

#: A row of a table of strata or of differences: column to value.
Record = Mapping[Hashable, Any]


def metric_named(
    name: str,
    scores: pd.DataFrame | None = None,
    definitions: Mapping[str, str] | None = None,
) -> Metric:
    """The metric of a column.

    ``scores`` tell the unit of distances, and ``definitions`` what depends on options, such as a
    tolerance.
    """
    if name not in METRICS:
        names = ", ".join(METRICS)
        raise ValueError(
            f"`metric` must be among {names}, got {name!r}. Leave it out of the report."
        )
    return replace(
        METRICS[name].measured(pixels=scores is not None and in_pixels(scores)),
        definition=(definitions or {}).get(name, METRICS[name].definition),
    )


def metrics_of(table: pd.DataFrame, scores: pd.DataFrame | None = None) -> list[Metric]:
    """The metrics of a table's rows, in their order; see `metric_named`."""
    return [metric_named(str(name), scores) for name in table["metric"].unique()]


def records(table: pd.DataFrame) -> list[Any]:
    """The rows as dictionaries: those of `DataFrame.to_dict`, in a fraction of its time."""
    columns = list(table.columns)
    return [dict(zip(columns, row, strict=True)) for row in table.to_numpy(object).tolist()]


def rows_by_metric(table: pd.DataFrame) -> dict[str, Sequence[Record]]:
    """The rows of each metric, by its name."""
    return {str(name): records(rows) for name, rows in table.groupby("metric", sort=False)}


def shown_statistics(metric: Metric) -> tuple[str, ...]:
    """The statistics that tables show.

    The centre, the spread, then the bad side of the distribution.
    """
    centre_and_spread = ("mean", "median", "iqr")

    if metric.more_is_better:
        return (*centre_and_spread, "p25", "p10", "p5")
    if metric.is_signed:
        return (*centre_and_spread, "min", "max")
    return (*centre_and_spread, "p75", "max")


def scaled(value: float, metric: Metric) -> float:
    """A value as it is shown: fractions in per cent, distances in mm."""
    if metric.unit == "fraction":
        return value * 100
    return value


def unit_sign(metric: Metric) -> str:
    """The unit of shown values: ``%``, ``mm``, ``ml`` or ``px``."""
    return "%" if metric.unit == "fraction" else metric.unit


def difference_unit(metric: Metric) -> str:
    """The unit of differences of shown values: ``points`` (percentage points), ``mm`` or ``px``."""
    return "points" if metric.unit == "fraction" else metric.unit


def column_kind(metric: Metric, *, otherwise: str = "number") -> str:
    """The kind of a `SortableColumn` of values: volumes may be too small for one decimal."""
    return "volume" if metric.unit == "ml" else otherwise


def metric_title(metric: Metric) -> str:
    """A metric's heading with its unit."""
    return f"{metric.title} ({unit_sign(metric)})"


def shown(values: "pd.Series[float]", metric: Metric) -> list[float]:
    """Values as they are shown: fractions in per cent, distances in mm."""
    return (values.astype(float) * scaled(1.0, metric)).tolist()


def estimate(row: Record, column: str) -> tuple[float, float, float]:
    """A value of a row and the ends of its interval, NaN where it has none."""
    value = float(row.get(column, math.nan))
    low = float(row.get(f"{column}_low", math.nan))
    return value, low, float(row.get(f"{column}_high", math.nan))


def number(value: float, metric: Metric, *, signed: bool = False) -> str:
    """A value in its shown unit with one decimal (ml: three digits), without the unit.

    `NO_VALUE` for NaN. What is rounded to zero has no sign.
    """
    if math.isnan(value):
        return NO_VALUE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"

    size = abs(scaled(value, metric))
    text = volume(size) if metric.unit == "ml" else f"{size:.1f}"

    if not text.strip("0."):
        return text
    if value < 0:
        return f"−{text}"
    return f"+{text}" if signed else text


def is_shown(value: float, metric: Metric) -> bool:
    """Whether there is anything but zeros in the digits in which a value is written."""
    return bool(number(value, metric).strip("0."))


#: A difference in percentage points or mm with its sign, such as ``+3.1``.
difference = partial(number, signed=True)


def change(value: float, metric: Metric) -> str:
    """A difference with its sign and unit, such as ``+3.1 points``."""
    return f"{difference(value, metric)} {difference_unit(metric)}"


def amount(shown: float, metric: Metric) -> str:
    """A shown difference without its sign: ``1 point``, ``2.5 points``, ``3 mm``."""
    unit = difference_unit(metric)
    if metric.unit == "fraction" and shown == 1:
        unit = "point"
    return f"{shown:g} {unit}"


def quantity(value: float, metric: Metric) -> str:
    """A value with its unit, such as ``61.2 %``; `NO_VALUE` for NaN."""
    if math.isnan(value):
        return NO_VALUE
    return f"{number(value, metric)} {unit_sign(metric)}"


def interval(low: float, high: float, metric: Metric, *, signed: bool = False) -> str:
    """An interval such as ``[50.1, 70.3]``; empty text where an end is not defined."""
    if math.isnan(low) or math.isnan(high):
        return ""

    return f"[{number(low, metric, signed=signed)}, {number(high, metric, signed=signed)}]"


def bounds(low: float, high: float, metric: Metric, *, signed: bool = False) -> str:
    """An interval, or the one bound that there is.

    ``[50.1, 70.3]``, ``≤ 70.3``, ``≥ 50.1``, or empty text.
    """
    if math.isnan(low) == math.isnan(high):
        return interval(low, high, metric, signed=signed)

    if math.isnan(low):
        return f"≤ {number(high, metric, signed=signed)}"
    return f"≥ {number(low, metric, signed=signed)}"


def change_bounds(row: Record, statistic: str, metric: Metric) -> str:
    """`bounds` of a difference in a comparison's row."""
    _, low, high = estimate(row, f"{statistic}_difference")
    return bounds(low, high, metric, signed=True)


def range_of_trainings(row: Record, statistic: str, metric: Metric) -> str:
    """The lowest and the highest difference of two trainings.

    Empty where methods have one training each.
    """
    column = f"{statistic}_difference"
    lowest = float(row.get(f"{column}_lowest", math.nan))
    highest = float(row.get(f"{column}_highest", math.nan))
    if math.isnan(lowest):
        return ""

    return f"trainings {difference(lowest, metric)} to {difference(highest, metric)}"


def p_value(value: float) -> str:
    """A p value with three decimals, ``<0.001`` below that; `NO_VALUE` for NaN.

    Four decimals tell on which side of 0.05 it lies where three do not.
    """
    if value < 0.001:
        return "<0.001"
    form = ".4f" if f"{value:.3f}" == "0.050" else ".3f"
    return written(value, form)


def counted_as_worst(row: Record) -> str:
    """How many cases of a comparison's row count as the worst for a method, such as ``2 as worst``.

    Empty for none.
    """
    n_worst = int(row.get("n_worst_baseline", 0)) + int(row.get("n_worst_method", 0))
    return f"{n_worst} as worst" if n_worst else ""


def volume(value: float) -> str:
    """A volume in ml, three significant digits up to the fourth decimal; `NO_VALUE` for NaN."""
    if math.isnan(value):
        return NO_VALUE
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(decimals, 4)}f}"


def against_baseline(methods: Sequence[str]) -> str:
    """The heading of a comparison, whose first method is the baseline.

    ``DRO against ERM``; with more than three methods besides the baseline, ``4 methods against
    ERM``.
    """
    baseline, *others = methods

    if len(others) > 3:
        return f"{len(others)} methods against {baseline}"
    return f"{' and '.join(others)} against {baseline}"


def attribute_title(attribute: str) -> str:
    """The heading of an attribute.

    ``All cases``, ``centre``, or ``centre × pathology`` for an intersection.
    """
    if attribute == ALL:
        return "All cases"
    return attribute.replace(",", " × ")


def stratum_title(attribute: str, stratum: str) -> str:
    """The heading of a stratum; ``all cases`` where there is no attribute.

    Of an intersection it is ``A × x``. A comma before a space is part of an entry.
    """
    if attribute == ALL and stratum == ALL:
        return "all cases"

    entries = re.split(r",(?=\S)", stratum)
    # With more entries than columns, one of them has a comma, and nobody knows which.
    is_clear = len(entries) == attribute.count(",") + 1
    return " × ".join(entries) if is_clear else stratum


def stratum_of(row: Record) -> str:
    """The stratum of a row and what divides it: ``north (centre)``, or ``all cases``."""
    attribute = str(row["attribute"])
    stratum = stratum_title(attribute, str(row["stratum"]))
    if attribute == ALL:
        return stratum
    return f"{stratum} ({attribute_title(attribute)})"


def at_start(name: str) -> str:
    """A name as a sentence begins with it.

    Only words all in lower case are changed, never a name such as eTIV or white_matter.
    """
    if not name.islower() or "_" in name:
        return name
    return name[:1].upper() + name[1:]
