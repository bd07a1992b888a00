"""The distribution of a metric per stratum: a dot for every case, and the quantile functions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report.formatting import metric_title, scaled, shown, stratum_title
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.svg import (
    N_COLOURS,
    WIDTH,
    Scale,
    axes,
    curve,
    dot,
    figure,
    line,
    scales,
    shortened,
    text,
    tick_text,
    value_range,
)

#: The most dots on a page; with more cases, figures draw only the worst of each stratum.
MOST_DOTS = 40_000

_ROW, _TOP, _BOTTOM, _SIDE, _HALF = 82.0, 4.0, 38.0, 14.0, 21.0

#: Points of a curve: enough for every per cent of the cases, and what can be told apart where there are many curves.
_MOST_POINTS, _POINTS_OF_MANY, _MANY_CURVES = 201, 101, 12

_DASHES = ("", "6 3", "2 3", "9 3 2 3", "12 4")


@dataclass(frozen=True)
class StratumCases:
    """The cases of one stratum."""

    index: int  # place among the strata, which decides on the colour
    title: str
    n: int  # number of cases, those without a value too
    values: npt.NDArray[np.float64]  # finite, in shown units, worst first
    rows: npt.NDArray[np.int64]  # the row of the case table of each value
    marks: Mapping[str, float]  # statistic to its value in shown units; NaN if undefined

    @classmethod
    def of(
        cls,
        index: int,
        title: str,
        values: npt.NDArray[np.float64],
        rows: npt.NDArray[np.int64],
        metric: Metric,
        marks: Mapping[str, float] | None = None,
    ) -> "StratumCases":
        """Sort the values of some rows, in shown units; where no marks are given, they are the percentiles."""
        finite = np.flatnonzero(np.isfinite(values))
        order = finite[np.argsort(metric.goodness(values[finite]), kind="stable")]
        if marks is None:
            numbers = np.percentile(values[finite], (5, 25, 50, 75)) if len(finite) else np.full(4, np.nan)
            mean = float(values[finite].mean()) if len(finite) else np.nan
            marks = {"mean": mean, **dict(zip(("p5", "p25", "median", "p75"), numbers.tolist(), strict=True))}
        return cls(index, title, len(values), values[order], rows[order], marks)


def cases_by_stratum(
    scores: pd.DataFrame, stratum_of_case: "pd.Series[str]", strata: pd.DataFrame, *, label: str, metric: Metric
) -> list[StratumCases]:
    """The cases of every stratum of one attribute, for one label and metric; scores are numbered as the case table."""
    of_label = scores[scores["label"] == label]
    stratum_of_row = of_label["case"].map(stratum_of_case.astype(object)).to_numpy(dtype=object)
    values = np.array(shown(of_label[metric.name], metric))
    rows = of_label.index.to_numpy(dtype=np.int64)
    places = {str(name): index for index, name in enumerate(strata["stratum"].unique())}
    found = []
    for record in strata[(strata["label"] == label) & (strata["metric"] == metric.name)].to_dict("records"):
        stratum = str(record["stratum"])
        inside = stratum_of_row == stratum
        marks = {name: scaled(float(record[name]), metric) for name in ("mean", "p5", "p25", "median", "p75")}
        title = stratum_title(str(record["attribute"]), stratum)
        found.append(StratumCases.of(places[stratum], title, values[inside], rows[inside], metric, marks))
    return found


def distribution(
    strata: Sequence[StratumCases], metric: Metric, *, label: str, column: int, at_most: int | None = None
) -> Markup:
    """Dots, the middle half, the median and the bad tail, a row per stratum.

    Dots are those of the worst ``at_most`` cases of each stratum (None: of all). They know the metric's ``column`` of
    the case table.
    """
    values = [float(v) for stratum in strata for v in stratum.values]
    low, high = value_range(values, fraction=metric.is_bounded)
    x = Scale(low, high, _SIDE, WIDTH - _SIDE)
    height = _TOP + _ROW * len(strata) + _BOTTOM
    parts = []
    for tick in x.ticks():
        parts.append(line(x(tick), _TOP + 18, x(tick), height - _BOTTOM, "grid"))
        parts.append(text(x(tick), height - _BOTTOM + 15, tick_text(tick), anchor="middle"))
    parts.append(text(WIDTH / 2, height - 5, metric_title(metric), anchor="middle", kind="axis"))
    for place, stratum in enumerate(strata):
        parts += _row(stratum, metric, x, _TOP + _ROW * place, at_most)
    described = f"{metric.title} of {label}: every case a dot, per stratum"
    return figure(parts, label=described, columns=[column], height=height)


def _row(stratum: StratumCases, metric: Metric, x: Scale, top: float, at_most: int | None) -> list[Markup]:
    middle = top + 22 + _HALF
    undefined = stratum.n - len(stratum.values)
    counted = f"n = {stratum.n:,}" + (f", {undefined:,} without value" if undefined else "")
    parts = [text(_SIDE, top + 13, shortened(stratum.title), kind="name")]
    parts.append(text(WIDTH - _SIDE, top + 13, counted, anchor="end"))
    marks = stratum.marks
    if not math.isnan(marks["median"]) and math.isfinite(marks["p75"]):
        box = Markup('<rect class="box s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
        left, right = x(marks["p25"]), x(marks["p75"])
        parts.append(box.format(stratum.index % N_COLOURS, left, middle - _HALF, max(right - left, 1), 2 * _HALF))
    offsets = swarm(np.array([x(v) for v in stratum.values[:at_most]]))
    for value, row, offset in zip(stratum.values[:at_most], stratum.rows[:at_most], offsets, strict=True):
        parts.append(dot(x(float(value)), middle + float(offset), int(row), colour=stratum.index))
    for statistic, kind in (("median", "median"), (metric.tail, "tail")):
        if math.isfinite(marks[statistic]):
            place = x(marks[statistic])
            parts.append(line(place, middle - _HALF - 2, place, middle + _HALF + 2, kind))
    tail = marks[metric.tail]
    if math.isfinite(tail):
        anchor = "end" if x(tail) > WIDTH - 60 else "start" if x(tail) < 60 else "middle"
        written = f"{metric.tail.upper()} {tail:.1f}"
        parts.append(text(x(tail), middle + _HALF + 14, written, anchor=anchor, kind="value"))
    return parts


def swarm(positions: npt.NDArray[np.float64], *, size: float = 5.6, half: float = _HALF - 3) -> npt.NDArray[np.float64]:
    """Offsets across the axis, at most ``half``, that keep dots of a width apart, the same for the same positions.

    Dots within one width of each other are stacked up and down in turn, closer where there are many.
    """
    columns = np.floor(positions / size).astype(np.int64)
    offsets = np.zeros(len(positions))
    for column in np.unique(columns):
        inside = np.flatnonzero(columns == column)
        place = np.arange(len(inside))
        steps = (place + 1) // 2 * np.where(place % 2, 1, -1)
        most = max(int(np.abs(steps).max()), 1)
        offsets[inside] = steps * min(size, half / most)
    return offsets


def quantile_curves(strata: Sequence[StratumCases], metric: Metric, *, label: str) -> Markup:
    """A curve per stratum: x the share of its cases, y the value they do not exceed, as percentiles have it."""
    values = [float(v) for stratum in strata for v in stratum.values]
    x, y = scales((0, 100), value_range(values, fraction=metric.is_bounded))
    shares_shown = (5, 10, 25, 50, 75, 100)
    parts = axes(x, y, "share of cases (%)", metric_title(metric), x_ticks=shares_shown, x_kind="grid percentile")
    most_points = _MOST_POINTS if len(strata) <= _MANY_CURVES else _POINTS_OF_MANY
    for stratum in strata:
        ordered = np.sort(stratum.values)
        if not len(ordered):
            continue
        shares = np.linspace(0, 1, min(max(len(ordered), 2), most_points))
        heights = np.quantile(ordered, shares)
        points = ((x(100 * share), y(height)) for share, height in zip(shares, heights, strict=True))
        parts.append(curve(points, *looks_of(stratum.index)))
    return figure(parts, label=f"{metric.title} of {label}: quantile function per stratum")


def looks_of(index: int) -> tuple[str, str]:
    """The colour and the dashes of the curve of the stratum of this index."""
    return f"s{index % N_COLOURS}", _DASHES[index % len(_DASHES)]
