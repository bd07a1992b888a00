"""The other figures of reports: a dot per case in two dimensions, and differences with their intervals.

Points are a frame with the columns ``x``, ``y`` (in shown units), ``row`` (of the case table) and ``stratum`` (index).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report.formatting import difference_unit, metric_title
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.svg import (
    WIDTH,
    Scale,
    at,
    axes,
    dot,
    figure,
    line,
    round_step,
    scales,
    shortened,
    text,
    tick_text,
    value_range,
)

#: Measures of `forest`.
_LINE, _TOP, _BOTTOM, _LEFT, _RIGHT = 24.0, 20.0, 52.0, 178.0, 14.0


def against_volume(points: pd.DataFrame, metric: Metric, *, label: str, columns: Sequence[int]) -> Markup:
    """A metric against the reference's volume in ml, logarithmic where it spans more than a decade.

    ``columns`` of the case table are those of the metric and the volume. Cases without a value or a positive volume are
    left out; without any other, the text is empty.
    """
    points = _finite(points[points["x"] > 0])
    if not len(points):
        return Markup("")
    smallest, largest = points["x"].min(), points["x"].max()
    logarithmic = bool(largest / smallest > 10)
    limits = (smallest / 1.15, largest * 1.15) if logarithmic else value_range([largest], fraction=False)
    y_limits = value_range(points["y"].tolist(), fraction=metric.is_bounded)
    x, y = scales(limits, y_limits, logarithmic=logarithmic)
    parts = axes(x, y, "volume of the reference (ml)", metric_title(metric)) + _dots(points, x, y)
    described = f"{metric.title} of {label} against the reference's volume: every case a dot"
    return figure(parts, label=described, columns=columns)


def paired(
    points: pd.DataFrame, metric: Metric, *, methods: Sequence[str], label: str, columns: Sequence[int]
) -> Markup:
    """A method (y) against the baseline (x), with the diagonal where both are equal; empty without a pair of values."""
    points = _finite(points)
    if not len(points):
        return Markup("")
    limits = value_range([*points["x"], *points["y"]], fraction=metric.is_bounded)
    x, y = scales(limits, limits)
    baseline, method = (shortened(name, 30) for name in methods)
    parts = axes(x, y, f"{baseline}, {metric_title(metric)}", f"{method}, {metric_title(metric)}")
    parts.append(line(x.start, y.start, x.end, y.end, "diagonal"))
    hint = f"{'above' if metric.more_is_better else 'below'} the line: {method} is better"
    parts += [text(x.end, 11, hint, anchor="end"), *_dots(points, x, y)]
    described = f"{metric.title} of {label}: {methods[1]} against {methods[0]}, every case a dot"
    return figure(parts, label=described, columns=columns)


def _finite(points: pd.DataFrame) -> pd.DataFrame:
    return points[np.isfinite(points[["x", "y"]]).all(axis=1)]


def _dots(points: pd.DataFrame, x: Scale, y: Scale) -> list[Markup]:
    # From left to right, so that the arrow keys walk along the axis.
    ordered = points.sort_values("x", kind="stable")
    rows = zip(*(ordered[name].tolist() for name in ("x", "y", "row", "stratum")), strict=True)
    return [dot(x(one), y(other), row, colour=stratum, shape=stratum) for one, other, row, stratum in rows]


@dataclass(frozen=True)
class Difference:
    """A line of the figure: method minus baseline and its interval, in points or mm; NaN where it is not defined."""

    label: str  # the heading of consecutive lines
    stratum: str
    value: float
    low: float
    high: float


def forest(differences: Sequence[Difference], metric: Metric, *, statistic: str) -> Markup:
    """Squares with whiskers, and the line of no difference; empty where no difference is defined."""
    finite = [v for d in differences for v in (d.value, d.low, d.high) if math.isfinite(v)]
    if not finite:
        return Markup("")
    low, high = min(0.0, *finite), max(0.0, *finite)
    step = round_step(max(high - low, 1.0) / 5)
    x = Scale(math.floor(low / step) * step, math.ceil(high / step) * step or step, _LEFT, WIDTH - _RIGHT)
    n_headings = len({d.label for d in differences})
    height = _TOP + _LINE * (len(differences) + n_headings) + _BOTTOM
    parts = []
    for tick in x.ticks(5):
        parts.append(line(x(tick), _TOP, x(tick), height - _BOTTOM, "grid" if tick else "zero"))
        parts.append(text(x(tick), height - _BOTTOM + 15, tick_text(tick), anchor="middle"))
    y, heading = _TOP, None
    for entry in differences:
        if entry.label != heading:
            heading = entry.label
            y += _LINE
            parts.append(text(4, y - 6, shortened(heading, 28), kind="name"))
        y += _LINE
        parts += _entry(entry, x, y - 10, metric)
    unit = difference_unit(metric)
    parts.append(text(_LEFT, height - 20, f"difference of the {statistic} ({unit})", kind="axis"))
    better, worse = ("right", "left") if metric.more_is_better else ("left", "right")
    parts.append(text(_LEFT, height - 5, f"better to the {better}, worse to the {worse}", kind="tick"))
    described = f"Difference of the {statistic} of {metric.title} per label and stratum"
    return figure(parts, label=described, height=height)


def _entry(entry: Difference, x: Scale, y: float, metric: Metric) -> list[Markup]:
    parts = [text(14, y + 4, shortened(entry.stratum, 24), kind="tick")]
    if not math.isfinite(entry.value):
        return [*parts, text(x(0) + 6, y + 4, "not defined", kind="tick")]
    gain = metric.sign * entry.value
    kind = "better" if gain > 0 else "worse" if gain < 0 else "same"
    if math.isfinite(entry.low) and math.isfinite(entry.high):
        parts.append(line(x(entry.low), y, x(entry.high), y, f"whisker {kind}"))
    # Shape as well as colour tells the direction: a triangle points to the side that it lies on.
    shapes = {"better": "M{x} {t}l4.6 8h-9.2z", "worse": "M{x} {b}l4.6 -8h-9.2z", "same": "M{l} {t}h8v8h-8z"}
    places = {"x": at(x(entry.value)), "l": at(x(entry.value) - 4), "t": at(y - 4), "b": at(y + 4)}
    return [*parts, Markup('<path class="{}" d="{}"/>').format(f"estimate {kind}", shapes[kind].format(**places))]
