"""The figures of the cases of every stratum: dots with marks, and quantile functions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.arrays import FloatArray, Int64Array
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages import svg

#: Measures of `distribution`: the height of a row, the space above and below the rows and beside
#: them, and half the height of the dots of a row.
_ROW = 82.0
_TOP = 4.0
_BOTTOM = 38.0
_SIDE = 14.0
_HALF = 21.0

#: The marks of a row of `distribution`.
_MARKS = ("mean", "p5", "p25", "median", "p75")

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
    values: FloatArray  # finite, in shown units, worst first
    rows: Int64Array  # the row of the case table of each value
    marks: Mapping[str, float]  # statistic to its value in shown units; NaN if undefined

    @classmethod
    def of(
        cls,
        index: int,
        title: str,
        values: FloatArray,
        rows: Int64Array,
        metric: Metric,
        marks: Mapping[str, float] | None = None,
    ) -> "StratumCases":
        """Sort the values of some rows, in shown units.

        Where no marks are given, they are the mean and the percentiles of the values.
        """
        finite = np.flatnonzero(np.isfinite(values))
        goodness = metric.goodness(values[finite])
        worst_first = finite[np.argsort(goodness, kind="stable")]
        if marks is None:
            marks = _marks_of(values[finite])

        return cls(
            index,
            title,
            n=len(values),
            values=values[worst_first],
            rows=rows[worst_first],
            marks=marks,
        )


def _marks_of(values: FloatArray) -> dict[str, float]:
    """The mean and the percentiles of finite values; NaN without any."""
    if not len(values):
        return dict.fromkeys(_MARKS, math.nan)

    mean = float(values.mean())
    percentiles = np.percentile(values, (5, 25, 50, 75)).tolist()
    return dict(zip(_MARKS, [mean, *percentiles], strict=True))


def cases_by_stratum(
    scores: pd.DataFrame,
    stratum_of_case: "pd.Series[str]",
    strata: pd.DataFrame,
    *,
    label: str,
    metric: Metric,
) -> list[StratumCases]:
    """The cases of every stratum of one attribute, for one label and metric.

    Scores are those of the label, numbered as the case table.
    """
    values = np.array(fmt.shown(scores[metric.name], metric))
    row_numbers = scores.index.to_numpy(dtype=np.int64)
    codes, names = pd.factorize(scores["case"].map(stratum_of_case))
    code_of_stratum = {str(name): code for code, name in enumerate(names)}

    places = {str(name): place for place, name in enumerate(strata["stratum"].unique())}
    strata = strata[(strata["label"] == label) & (strata["metric"] == metric.name)]

    cases = []
    for record in fmt.records(strata):
        stratum = str(record["stratum"])
        inside = codes == code_of_stratum.get(stratum)
        marks = {name: fmt.scaled(float(record[name]), metric) for name in _MARKS}
        cases.append(
            StratumCases.of(
                places[stratum],
                fmt.stratum_title(str(record["attribute"]), stratum),
                values[inside],
                row_numbers[inside],
                metric,
                marks,
            )
        )
    return cases


def distribution(
    strata: Sequence[StratumCases],
    metric: Metric,
    *,
    label: str,
    column: int,
    at_most: int | None = None,
) -> Markup:
    """Dots, the middle half, the median and the bad tail, a row per stratum.

    Dots are those of the worst ``at_most`` cases of each stratum (None: of all). The figure knows
    the metric's ``column`` of the case table.
    """
    values = [value for stratum in strata for value in stratum.values.tolist()]
    low, high = svg.value_range(values, fraction=metric.is_bounded)
    x = svg.Scale(low, high, _SIDE, svg.WIDTH - _SIDE)
    height = _TOP + _ROW * len(strata) + _BOTTOM

    parts = [
        *svg.ticks_below(x, _TOP + 18, height - _BOTTOM),
        svg.text(svg.WIDTH / 2, height - 5, fmt.metric_title(metric), anchor="middle", kind="axis"),
    ]
    for n_above, stratum in enumerate(strata):
        parts += _row(
            stratum,
            metric,
            x,
            _TOP + _ROW * n_above,
            at_most,
        )

    return svg.figure(
        parts,
        label=f"{metric.title} of {label}: every case a dot, per stratum",
        columns=[column],
        height=height,
    )


def about_distribution(metric: Metric, at_most: int | None = None) -> str:
    """What a figure of `distribution` shows, in sentences, where a dot is a case."""
    return say("distribution", metric=metric, at_most=at_most, unit="case")


def _row(
    stratum: StratumCases,
    metric: Metric,
    x: svg.Scale,
    top: float,
    at_most: int | None,
) -> list[Markup]:
    """A row of `distribution`: its name and number of cases, the band, the dots and the lines."""
    counted = f"n = {stratum.n:,}"
    n_undefined = stratum.n - len(stratum.values)
    if n_undefined:
        counted += f", {n_undefined:,} without value"

    middle = top + 22 + _HALF
    return [
        svg.text(
            _SIDE,
            top + 13,
            svg.shortened(stratum.title),
            kind="name",
        ),
        svg.text(svg.WIDTH - _SIDE, top + 13, counted, anchor="end"),
        *_middle_half(stratum, x, middle),
        _dots(stratum, x, middle, at_most),
        *_median_and_tail(stratum, metric, x, middle),
    ]


def _middle_half(stratum: StratumCases, x: svg.Scale, middle: float) -> list[Markup]:
    marks = stratum.marks
    if math.isnan(marks["median"]) or not math.isfinite(marks["p75"]):
        return []

    left = x(marks["p25"])
    right = x(marks["p75"])
    box = Markup('<rect class="box s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
    return [
        box.format(
            stratum.index % svg.N_COLOURS,
            left,
            middle - _HALF,
            max(right - left, 1),
            2 * _HALF,
        )
    ]


def _dots(stratum: StratumCases, x: svg.Scale, middle: float, at_most: int | None) -> Markup:
    """The dots of the worst cases, which know their rows of the case table."""
    rows = stratum.rows[:at_most].tolist()
    places = [x(value) for value in stratum.values[:at_most].tolist()]
    heights = (middle + swarm(np.array(places))).tolist()
    looks = [svg.look(stratum.index)] * len(rows)
    return svg.dots(zip(looks, places, heights, rows, strict=True))


def _median_and_tail(
    stratum: StratumCases, metric: Metric, x: svg.Scale, middle: float
) -> list[Markup]:
    """The lines of the median and of the bad tail, as far as they are defined, and its number."""
    parts = []
    for statistic, kind in (("median", "median"), (metric.tail, "tail")):
        value = stratum.marks[statistic]
        if math.isfinite(value):
            place = x(value)
            parts.append(
                svg.line(
                    place,
                    middle - _HALF - 2,
                    place,
                    middle + _HALF + 2,
                    kind,
                )
            )

    tail = stratum.marks[metric.tail]
    if math.isfinite(tail):
        place = x(tail)
        anchor = "middle"
        if place > svg.WIDTH - 60:
            anchor = "end"
        elif place < 60:
            anchor = "start"
        parts.append(
            svg.text(
                place,
                middle + _HALF + 14,
                f"{metric.tail.upper()} {fmt.number(tail / fmt.scaled(1.0, metric), metric)}",
                anchor=anchor,
                kind="value",
            )
        )
    return parts


def swarm(positions: FloatArray, *, size: float = 5.6, half: float = _HALF - 3) -> FloatArray:
    """Offsets across the axis, at most ``half``, that keep dots of a width apart.

    Dots within one width (``size``) of each other are stacked up and down in turn, closer where
    there are many. The same positions have the same offsets.
    """
    columns = np.floor(positions / size).astype(np.int64)
    _, stack, heights = np.unique(columns, return_inverse=True, return_counts=True)
    # How many of the same stack come before.
    order = np.argsort(stack, kind="stable")
    bottoms = np.cumsum(heights) - heights
    place = np.empty_like(positions)
    place[order] = np.arange(len(order)) - bottoms[stack[order]]
    # 0, 1, -1, 2, -2 ... from the axis.
    steps = (place + 1) // 2 * np.where(place % 2, 1, -1)
    most_steps = np.maximum(heights // 2, 1)[stack]
    return steps * np.minimum(size, half / most_steps)


def quantile_curves(
    strata: Sequence[StratumCases], metric: Metric, *, label: str, unit: str = "case"
) -> Markup:
    """A curve per stratum: the value (y) that a share of its cases or patients (x) does not exceed.

    Values between those of cases are interpolated, as those of percentiles are.
    """
    values = [value for stratum in strata for value in stratum.values.tolist()]
    x, y = svg.scales((0, 100), svg.value_range(values, fraction=metric.is_bounded))
    parts = svg.axes(
        x,
        y,
        f"share of {unit}s (%)",
        fmt.metric_title(metric),
        x_ticks=(5, 10, 25, 50, 75, 100),
        x_kind="grid percentile",
    )

    most_points = _MOST_POINTS if len(strata) <= _MANY_CURVES else _POINTS_OF_MANY
    for stratum in strata:
        ordered = np.sort(stratum.values)
        if not len(ordered):
            continue
        n_points = min(max(len(ordered), 2), most_points)
        shares = np.linspace(0, 1, n_points)
        heights = np.quantile(ordered, shares)

        points = zip(map(x, (100 * shares).tolist()), map(y, heights.tolist()), strict=True)
        colour, dashes = looks_of(stratum.index)
        parts.append(svg.curve(points, colour, dashes))

    return svg.figure(parts, label=f"{metric.title} of {label}: quantile function per stratum")


def looks_of(index: int) -> tuple[str, str]:
    """The colour and the dashes of the curve of the stratum of this index."""
    colour = f"s{index % svg.N_COLOURS}"
    return colour, _DASHES[index % len(_DASHES)]
