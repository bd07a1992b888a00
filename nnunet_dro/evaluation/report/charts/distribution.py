"""The distribution of a metric per stratum, with a dot for every case."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from nnunet_dro.evaluation.report.charts.stratum_cases import StratumCases
from nnunet_dro.evaluation.report.formatting import unit_sign
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.svg import WIDTH, Scale, dot, figure, line, shortened, text, tick_text, value_range

_ROW, _TOP, _BOTTOM, _SIDE, _HALF = 82.0, 4.0, 38.0, 14.0, 21.0


def distribution(
    strata: Sequence[StratumCases], metric: Metric, *, label: str, column: int, at_most: int | None = None
) -> Markup:
    """Dots, the middle half, the median and the bad tail, a row per stratum.

    Args:
        strata: The strata.
        metric: The metric.
        label: Name, for the description.
        column: The metric's column of the case table.
        at_most: Number of dots per stratum, those of the worst cases; None draws every case.

    Returns:
        The SVG element.
    """
    values = [float(v) for stratum in strata for v in stratum.values]
    low, high = value_range(values, fraction=metric.unit == "fraction")
    x = Scale(low, high, _SIDE, WIDTH - _SIDE)
    height = _TOP + _ROW * len(strata) + _BOTTOM
    parts = []
    for tick in x.ticks():
        parts.append(line(x(tick), _TOP + 18, x(tick), height - _BOTTOM, "grid"))
        parts.append(text(x(tick), height - _BOTTOM + 15, tick_text(tick), anchor="middle"))
    parts.append(text(WIDTH / 2, height - 5, f"{metric.title} ({unit_sign(metric)})", anchor="middle", kind="axis"))
    for place, stratum in enumerate(strata):
        parts += _row(stratum, metric, x, _TOP + _ROW * place, at_most)
    return figure(height, parts, label=f"{metric.title} of {label}: every case a dot, per stratum", columns=[column])


def _row(stratum: StratumCases, metric: Metric, x: Scale, top: float, at_most: int | None) -> list[Markup]:
    middle = top + 22 + _HALF
    name = f"{shortened(stratum.title)}"
    parts = [text(_SIDE, top + 13, name, kind="name"), _count(stratum, top + 13)]
    marks = stratum.marks
    if not math.isnan(marks["median"]) and math.isfinite(marks["p75"]):
        box = Markup('<rect class="box s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>')
        left, right = x(marks["p25"]), x(marks["p75"])
        parts.append(box.format(stratum.index % 7, left, middle - _HALF, max(right - left, 1), 2 * _HALF))
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


def _count(stratum: StratumCases, y: float) -> Markup:
    undefined = stratum.n - len(stratum.values)
    written = f"n = {stratum.n:,}" + (f", {undefined:,} without value" if undefined else "")
    return text(WIDTH - _SIDE, y, written, anchor="end", kind="tick")


def swarm(positions: npt.NDArray[np.float64], *, size: float = 5.6, half: float = _HALF - 3) -> npt.NDArray[np.float64]:
    """Offsets across the axis that keep dots apart.

    Dots within one width of each other are stacked up and down in turn, closer where there are many: the same input
    gives the same picture.

    Args:
        positions: Along the axis, shape (n,).
        size: Width of a dot.
        half: Largest offset.

    Returns:
        Offsets, shape (n,), between -``half`` and ``half``.
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
