"""The figures of reports.

A dot per case in one dimension or two, quantile functions, and differences.

In two dimensions points are a frame with the columns ``x``, ``y`` (in shown units), ``row`` (of the
case table) and ``stratum`` (index).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.strata_tables import in_order
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.pages import svg

MOST_DOTS = (
    40_000  # The most dots on a page; with more cases, figures draw only the worst of each stratum.
)

#: Measures of `distribution`, and of `forest`.
_ROW = 82.0
_TOP = 4.0
_BOTTOM = 38.0
_SIDE = 14.0
_HALF = 21.0
_LINE = 24.0
_ABOVE = 20.0
_BELOW = 52.0
_LEFT = 178.0
_RIGHT = 14.0

#: Points of a curve: enough for every per cent of the cases, and what can be told apart where there
#: are many curves.
_MOST_POINTS = 201
_POINTS_OF_MANY = 101
_MANY_CURVES = 12

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
        """Sort the values of some rows, in shown units.

        Where no marks are given, they are the percentiles.
        """
        finite = np.flatnonzero(np.isfinite(values))
        order = finite[np.argsort(metric.goodness(values[finite]), kind="stable")]
        if marks is None:
            numbers = (
                np.percentile(values[finite], (5, 25, 50, 75))
                if len(finite)
                else np.full(4, np.nan)
            )
            mean = float(values[finite].mean()) if len(finite) else np.nan
            marks = {
                "mean": mean,
                **dict(zip(("p5", "p25", "median", "p75"), numbers.tolist(), strict=True)),
            }
        return cls(index, title, len(values), values[order], rows[order], marks)


def cases_by_stratum(
    scores: pd.DataFrame,
    stratum_of_case: "pd.Series[str]",
    strata: pd.DataFrame,
    *,
    label: str,
    metric: Metric,
) -> list[StratumCases]:
    """The cases of every stratum of one attribute, for one label and metric.

    Scores are numbered as the case table.
    """
    of_label = scores[scores["label"] == label]
    stratum_of_row = of_label["case"].map(stratum_of_case.astype(object)).to_numpy(dtype=object)
    values = np.array(fmt.shown(of_label[metric.name], metric))
    rows = of_label.index.to_numpy(dtype=np.int64)
    places = {str(name): index for index, name in enumerate(strata["stratum"].unique())}
    found = []
    for record in strata[(strata["label"] == label) & (strata["metric"] == metric.name)].to_dict(
        "records"
    ):
        stratum = str(record["stratum"])
        inside = stratum_of_row == stratum
        marks = {
            name: fmt.scaled(float(record[name]), metric)
            for name in ("mean", "p5", "p25", "median", "p75")
        }
        title = fmt.stratum_title(str(record["attribute"]), stratum)
        found.append(
            StratumCases.of(places[stratum], title, values[inside], rows[inside], metric, marks)
        )
    return found


def distribution(
    strata: Sequence[StratumCases],
    metric: Metric,
    *,
    label: str,
    column: int,
    at_most: int | None = None,
) -> Markup:
    """A row per stratum: its worst ``at_most`` cases as dots, the middle half, the median and the bad tail."""
    values = [float(v) for stratum in strata for v in stratum.values]
    low, high = svg.value_range(values, fraction=metric.is_bounded)
    x = svg.Scale(low, high, _SIDE, svg.WIDTH - _SIDE)
    height = _TOP + _ROW * len(strata) + _BOTTOM
    parts = []
    for tick in x.ticks():
        parts.append(svg.line(x(tick), _TOP + 18, x(tick), height - _BOTTOM, "grid"))
        parts.append(svg.text(x(tick), height - _BOTTOM + 15, svg.tick_text(tick), anchor="middle"))
    parts.append(
        svg.text(svg.WIDTH / 2, height - 5, fmt.metric_title(metric), anchor="middle", kind="axis")
    )
    for place, stratum in enumerate(strata):
        parts += _row(stratum, metric, x, _TOP + _ROW * place, at_most)
    described = f"{metric.title} of {label}: every case a dot, per stratum"
    return svg.figure(parts, label=described, columns=[column], height=height)


def about_distribution(metric: Metric, at_most: int | None = None) -> str:
    """What a figure of `distribution` shows, in sentences."""
    statistic = STATISTICS[metric.tail]
    tail = f"the {statistic.phrase}"
    if not metric.is_signed:
        tail = f"{statistic.title}, which {statistic.share} {'lies below' if metric.more_is_better else 'exceeds'}"
    band = (
        "the band holds the middle half of the cases, the heavy line is the median, the dashed line"
    )
    limited = (
        ""
        if at_most is None
        else f" Of each row only the worst {at_most} are drawn; band and lines are of all."
    )
    return f"Every dot is a case; {band} {tail}.{limited}"


def _row(
    stratum: StratumCases, metric: Metric, x: svg.Scale, top: float, at_most: int | None
) -> list[Markup]:
    middle = top + 22 + _HALF
    undefined = stratum.n - len(stratum.values)
    counted = f"n = {stratum.n:,}" + (f", {undefined:,} without value" if undefined else "")
    parts = [svg.text(_SIDE, top + 13, svg.shortened(stratum.title), kind="name")]
    parts.append(svg.text(svg.WIDTH - _SIDE, top + 13, counted, anchor="end"))
    marks = stratum.marks
    if not math.isnan(marks["median"]) and math.isfinite(marks["p75"]):
        box = Markup('<rect class="box s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
        left = x(marks["p25"])
        right = x(marks["p75"])
        parts.append(
            box.format(
                stratum.index % svg.N_COLOURS, left, middle - _HALF, max(right - left, 1), 2 * _HALF
            )
        )
    offsets = swarm(np.array([x(v) for v in stratum.values[:at_most]]))
    for value, row, offset in zip(
        stratum.values[:at_most], stratum.rows[:at_most], offsets, strict=True
    ):
        parts.append(
            svg.dot(x(float(value)), middle + float(offset), int(row), colour=stratum.index)
        )
    for statistic, kind in (("median", "median"), (metric.tail, "tail")):
        if math.isfinite(marks[statistic]):
            place = x(marks[statistic])
            parts.append(svg.line(place, middle - _HALF - 2, place, middle + _HALF + 2, kind))
    tail = marks[metric.tail]
    if math.isfinite(tail):
        anchor = "end" if x(tail) > svg.WIDTH - 60 else "start" if x(tail) < 60 else "middle"
        written = f"{metric.tail.upper()} {tail:.1f}"
        parts.append(svg.text(x(tail), middle + _HALF + 14, written, anchor=anchor, kind="value"))
    return parts


def swarm(
    positions: npt.NDArray[np.float64], *, size: float = 5.6, half: float = _HALF - 3
) -> npt.NDArray[np.float64]:
    """Offsets across the axis, up to ``half``, that keep dots of a width apart.

    Up and down in turn.
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
    x, y = svg.scales((0, 100), svg.value_range(values, fraction=metric.is_bounded))
    ticks = (5, 10, 25, 50, 75, 100)
    parts = svg.axes(
        x,
        y,
        "share of cases (%)",
        fmt.metric_title(metric),
        x_ticks=ticks,
        x_kind="grid percentile",
    )
    most_points = _MOST_POINTS if len(strata) <= _MANY_CURVES else _POINTS_OF_MANY
    for stratum in strata:
        ordered = np.sort(stratum.values)
        if not len(ordered):
            continue
        shares = np.linspace(0, 1, min(max(len(ordered), 2), most_points))
        heights = np.quantile(ordered, shares)
        points = (
            (x(100 * share), y(height)) for share, height in zip(shares, heights, strict=True)
        )
        parts.append(svg.curve(points, *looks_of(stratum.index)))
    return svg.figure(parts, label=f"{metric.title} of {label}: quantile function per stratum")


def looks_of(index: int) -> tuple[str, str]:
    """The colour and the dashes of the curve of the stratum of this index."""
    return f"s{index % svg.N_COLOURS}", _DASHES[index % len(_DASHES)]


def against_volume(
    points: pd.DataFrame, metric: Metric, *, label: str, columns: Sequence[int]
) -> Markup:
    """A metric against the reference's volume in ml, logarithmic where it spans more than a decade.

    ``columns`` of the case table are those of the metric and the volume. Cases without a value or a
    positive volume are left out; without any other, the text is empty.
    """
    points = _finite(points[points["x"] > 0])
    if not len(points):
        return Markup("")
    smallest = points["x"].min()
    largest = points["x"].max()
    logarithmic = bool(largest / smallest > 10)
    limits = (
        (smallest / 1.15, largest * 1.15)
        if logarithmic
        else svg.value_range([largest], fraction=False)
    )
    y_limits = svg.value_range(points["y"].tolist(), fraction=metric.is_bounded)
    x, y = svg.scales(limits, y_limits, logarithmic=logarithmic)
    parts = svg.axes(x, y, "volume of the reference (ml)", fmt.metric_title(metric)) + _dots(
        points, x, y
    )
    described = f"{metric.title} of {label} against the reference's volume: every case a dot"
    return svg.figure(parts, label=described, columns=columns)


def paired(
    points: pd.DataFrame,
    metric: Metric,
    *,
    methods: Sequence[str],
    label: str,
    columns: Sequence[int],
) -> Markup:
    """A method (y) against the baseline (x), with the diagonal where both are equal.

    Empty without a pair of values.
    """
    points = _finite(points)
    if not len(points):
        return Markup("")
    limits = svg.value_range([*points["x"], *points["y"]], fraction=metric.is_bounded)
    x, y = svg.scales(limits, limits)
    baseline, method = (svg.shortened(name, 30) for name in methods)
    parts = svg.axes(
        x, y, f"{baseline}, {fmt.metric_title(metric)}", f"{method}, {fmt.metric_title(metric)}"
    )
    parts.append(svg.line(x.start, y.start, x.end, y.end, "diagonal"))
    hint = f"{'above' if metric.more_is_better else 'below'} the line: {method} is better"
    parts += [svg.text(x.end, 11, hint, anchor="end"), *_dots(points, x, y)]
    described = f"{metric.title} of {label}: {methods[1]} against {methods[0]}, every case a dot"
    return svg.figure(parts, label=described, columns=columns)


def _finite(points: pd.DataFrame) -> pd.DataFrame:
    return points[np.isfinite(points[["x", "y"]]).all(axis=1)]


def _dots(points: pd.DataFrame, x: svg.Scale, y: svg.Scale) -> list[Markup]:
    # From left to right, so that the arrow keys walk along the axis.
    ordered = points.sort_values("x", kind="stable")
    rows = zip(*(ordered[name].tolist() for name in ("x", "y", "row", "stratum")), strict=True)
    return [
        svg.dot(x(one), y(other), row, colour=stratum, shape=stratum)
        for one, other, row, stratum in rows
    ]


def forest(rows: pd.DataFrame, metric: Metric, statistic: str) -> Markup:
    """The differences of a comparison's rows, of one metric and method, with whiskers.

    Empty without any.
    """
    records = in_order(rows, ["label"])
    estimates = [
        [fmt.scaled(v, metric) for v in fmt.estimate(record, f"{statistic}_difference")]
        for record in records
    ]
    finite = [v for of_row in estimates for v in of_row if math.isfinite(v)]
    if not finite:
        return Markup("")
    low = min(0.0, *finite)
    high = max(0.0, *finite)
    step = svg.round_step(max(high - low, 1.0) / 5)
    x = svg.Scale(
        math.floor(low / step) * step,
        math.ceil(high / step) * step or step,
        _LEFT,
        svg.WIDTH - _RIGHT,
    )
    height = _ABOVE + _LINE * (len(records) + rows["label"].nunique()) + _BELOW
    parts = []
    for tick in x.ticks(5):
        parts.append(
            svg.line(x(tick), _ABOVE, x(tick), height - _BELOW, "grid" if tick else "zero")
        )
        parts.append(svg.text(x(tick), height - _BELOW + 15, svg.tick_text(tick), anchor="middle"))
    y = _ABOVE
    heading = None
    for record, of_row in zip(records, estimates, strict=True):
        if record["label"] != heading:
            heading = record["label"]
            y += _LINE
            parts.append(svg.text(4, y - 6, svg.shortened(str(heading), 28), kind="name"))
        y += _LINE
        stratum = fmt.stratum_title(str(record["attribute"]), str(record["stratum"]))
        parts += [
            svg.text(14, y - 6, svg.shortened(stratum, 24)),
            *_estimate(of_row, x, y - 10, metric.sign),
        ]
    name = "mean" if statistic == "mean" else STATISTICS[statistic].title
    better, worse = ("right", "left") if metric.more_is_better else ("left", "right")
    parts.append(
        svg.text(
            _LEFT,
            height - 20,
            f"difference of the {name} ({fmt.difference_unit(metric)})",
            kind="axis",
        )
    )
    parts.append(svg.text(_LEFT, height - 5, f"better to the {better}, worse to the {worse}"))
    described = f"Difference of the {name} of {metric.title} per label and stratum"
    return svg.figure(parts, label=described, height=height)


def _estimate(numbers: Sequence[float], x: svg.Scale, y: float, sign: float) -> list[Markup]:
    value, low, high = numbers
    if not math.isfinite(value):
        return [svg.text(x(0) + 6, y + 4, "not defined")]
    kind = "better" if sign * value > 0 else "worse" if sign * value < 0 else "same"
    whisker = (
        [svg.line(x(low), y, x(high), y, f"whisker {kind}")]
        if math.isfinite(low) and math.isfinite(high)
        else []
    )
    # Shape as well as colour tells the direction: a triangle points to the side that it lies on.
    shapes = {
        "better": "M{x} {t}l4.6 8h-9.2z",
        "worse": "M{x} {b}l4.6 -8h-9.2z",
        "same": "M{l} {t}h8v8h-8z",
    }
    places = {
        "x": svg.at(x(value)),
        "l": svg.at(x(value) - 4),
        "t": svg.at(y - 4),
        "b": svg.at(y + 4),
    }
    return [
        *whisker,
        Markup('<path class="{}" d="{}"/>').format(
            f"estimate {kind}", shapes[kind].format(**places)
        ),
    ]
