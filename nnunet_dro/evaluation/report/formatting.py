"""How numbers, names and statistics are written in every report."""

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, in_pixels
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import NO_VALUE, written


def metric_named(name: str, scores: pd.DataFrame | None = None) -> Metric:
    """The metric of a column; ``scores`` tell the unit of distances."""
    if name not in METRICS:
        raise ValueError(
            f"`metric` must be among {', '.join(METRICS)}, got {name!r}. Leave it out of the report."
        )
    return METRICS[name].measured(pixels=scores is not None and in_pixels(scores))


def shown_statistics(metric: Metric) -> tuple[str, ...]:
    """The statistics that tables show.

    The centre, the spread, then the bad side of the distribution.
    """
    tail = (
        ("p25", "p10", "p5")
        if metric.more_is_better
        else ("min", "max")
        if metric.is_signed
        else ("p75", "max")
    )
    return ("mean", "median", "iqr", *tail)


def scaled(value: float, metric: Metric) -> float:
    """A value as it is shown: fractions in per cent, distances in mm."""
    return value * 100 if metric.unit == "fraction" else value


def unit_sign(metric: Metric) -> str:
    """The unit of shown values: ``%``, ``mm``, ``ml`` or ``px``."""
    return "%" if metric.unit == "fraction" else metric.unit


def difference_unit(metric: Metric) -> str:
    """The unit of differences of shown values: ``points`` (percentage points), ``mm`` or ``px``."""
    return "points" if metric.unit == "fraction" else metric.unit


def metric_title(metric: Metric) -> str:
    """A metric's heading with its unit."""
    return f"{metric.title} ({unit_sign(metric)})"


def shown(values: "pd.Series[float]", metric: Metric) -> list[float]:
    """Values as they are shown."""
    numbers = values.astype(float)
    return (numbers * 100 if metric.unit == "fraction" else numbers).tolist()


def estimate(row: "Mapping[Hashable, Any]", column: str) -> tuple[float, float, float]:
    """A value of a row and the ends of its interval, NaN where it has none."""
    value, low, high = (float(row.get(f"{column}{end}", math.nan)) for end in ("", "_low", "_high"))
    return value, low, high


def number(value: float, metric: Metric, *, signed: bool = False) -> str:
    """A value in its shown unit with one decimal (ml: three digits), without the unit.

    `NO_VALUE` for NaN.
    """
    if math.isnan(value):
        return NO_VALUE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(scaled(value, metric))
    text = volume(size) if metric.unit == "ml" else f"{size:.1f}"
    sign = "−" if value < 0 else "+" if signed else ""
    return f"{sign}{text}" if text.strip("0.") else text


difference = partial(
    number, signed=True
)  # A difference in percentage points or mm with its sign, such as ``+3.1``.


def quantity(value: float, metric: Metric) -> str:
    """A value with its unit, such as ``61.2 %``; `NO_VALUE` for NaN."""
    return NO_VALUE if math.isnan(value) else f"{number(value, metric)} {unit_sign(metric)}"


def interval(low: float, high: float, metric: Metric, *, signed: bool = False) -> str:
    """An interval such as ``[50.1, 70.3]``; empty text where an end is not defined."""
    ends = [number(end, metric, signed=signed) for end in (low, high)]
    return "" if NO_VALUE in ends else f"[{', '.join(ends)}]"


def bounds(low: float, high: float, metric: Metric, *, signed: bool = False) -> str:
    """An interval, or the one bound that there is.

    ``[50.1, 70.3]``, ``≤ 70.3``, ``≥ 50.1``, or empty text.
    """
    one = [
        f"{sign} {number(x, metric, signed=signed)}"
        for sign, x in zip("≥≤", (low, high), strict=True)
        if x == x
    ]
    return one[0] if len(one) == 1 else interval(low, high, metric, signed=signed)


def change_bounds(row: "Mapping[Hashable, Any]", statistic: str, metric: Metric) -> str:
    """`bounds` of a difference in a comparison's row."""
    _, low, high = estimate(row, f"{statistic}_difference")
    return bounds(low, high, metric, signed=True)


def typical_change(row: "Mapping[Hashable, Any]", metric: Metric) -> str:
    """The typical difference of a comparison's row with its interval; empty where there is none."""
    value, low, high = estimate(row, "typical_difference")
    written = f"{difference(value, metric)} {interval(low, high, metric, signed=True)}".rstrip()
    return "" if math.isnan(value) else written


def range_of_trainings(row: "Mapping[Hashable, Any]", statistic: str, metric: Metric) -> str:
    """The lowest and the highest difference of two trainings.

    Empty where methods have one training each.
    """
    low, high = (
        float(row.get(f"{statistic}_difference_{end}", math.nan)) for end in ("lowest", "highest")
    )
    return (
        ""
        if math.isnan(low)
        else f"trainings {difference(low, metric)} to {difference(high, metric)}"
    )


def p_value(value: float) -> str:
    """A p value with three decimals, ``<0.001`` below that; `NO_VALUE` for NaN."""
    return "<0.001" if value < 0.001 else written(value, ".3f")


def counted_as_worst(row: "Mapping[Hashable, Any]") -> str:
    """How many cases of a comparison's row count as the worst for a method, such as ``2 as worst``.

    Empty for none.
    """
    n = sum(int(row.get(f"n_worst_{which}", 0)) for which in ("baseline", "method"))
    return f"{n} as worst" if n else ""


def volume(value: float) -> str:
    """A volume in ml, three significant digits; `NO_VALUE` for NaN."""
    if math.isnan(value):
        return NO_VALUE
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(decimals, 4)}f}"


def against_baseline(methods: Sequence[str]) -> str:
    """The heading of a comparison.

    ``DRO against ERM``, or with more than three methods beside it ``4 methods ...``.
    """
    others = methods[1:]
    names = " and ".join(others) if len(others) <= 3 else f"{len(others)} methods"
    return f"{names} against {methods[0]}"


def attribute_title(attribute: str) -> str:
    """The heading of an attribute.

    ``All cases``, ``centre``, or ``centre × pathology`` for an intersection.
    """
    return "All cases" if attribute == ALL else attribute.replace(",", " × ")


def stratum_title(attribute: str, stratum: str) -> str:
    """The heading of a stratum; ``all cases`` where there is no attribute."""
    if attribute == ALL and stratum == ALL:
        return "all cases"
    return " × ".join(stratum.split(",")) if "," in attribute else stratum


def at_start(name: str) -> str:
    """A name as a sentence begins with it.

    Only all-lower-case words are changed, never a name such as eTIV.
    """
    return name[:1].upper() + name[1:] if name.islower() else name
