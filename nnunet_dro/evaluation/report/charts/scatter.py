"""Scatter plots with a dot per case: against the reference's volume, and of one method against another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from nnunet_dro.evaluation.report.formatting import unit_sign
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.svg import WIDTH, Scale, dot, figure, line, shortened, text, tick_text, value_range

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 326.0, 46.0, 12.0, 26.0, 46.0


@dataclass(frozen=True)
class Points:
    """Cases with two numbers.

    Attributes:
        x: Shape (n,).
        y: Shape (n,), in shown units.
        rows: Rows of the case table, shape (n,).
        strata: Index of each case's stratum, shape (n,).
    """

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]
    strata: npt.NDArray[np.int64]

    def finite(self, *, positive_x: bool = False) -> "Points":
        """The points whose numbers are both finite and, if asked, whose x is positive."""
        keep = np.isfinite(self.x) & np.isfinite(self.y)
        if positive_x:
            keep &= self.x > 0
        return self.first(np.flatnonzero(keep))

    def first(self, places: npt.NDArray[np.int64]) -> "Points":
        """The points at some positions."""
        return Points(self.x[places], self.y[places], self.rows[places], self.strata[places])


def against_volume(points: Points, metric: Metric, *, label: str, column: int, volume_column: int) -> Markup:
    """A metric against the reference's volume in ml, logarithmic where it spans more than a decade.

    Args:
        points: x the volumes in ml, y the metric in shown units; cases without either are left out.
        metric: The metric.
        label: Name, for the description.
        column: The metric's column of the case table.
        volume_column: The volume's column of the case table.

    Returns:
        The SVG element; empty where no case has a positive volume and a value.
    """
    points = points.finite(positive_x=True)
    if not len(points.x):
        return Markup("")
    smallest, largest = float(points.x.min()), float(points.x.max())
    if logarithmic := largest / smallest > 10:
        limits = smallest / 1.15, largest * 1.15
    else:
        limits = value_range([largest], fraction=False)
    x = Scale(*limits, _LEFT, WIDTH - _RIGHT, logarithmic=logarithmic)
    y = Scale(*value_range(points.y.tolist(), fraction=metric.unit == "fraction"), _HEIGHT - _BOTTOM, _TOP)
    parts = _frame(x, y, "volume of the reference (ml)", f"{metric.title} ({unit_sign(metric)})")
    parts += _dots(points, x, y)
    described = f"{metric.title} of {label} against the reference's volume: every case a dot"
    return figure(_HEIGHT, parts, label=described, columns=[column, volume_column])


def paired(points: Points, metric: Metric, *, methods: Sequence[str], label: str, columns: Sequence[int]) -> Markup:
    """One method against another, with the diagonal where both are equal.

    Args:
        points: x the baseline and y the method, both in shown units; cases without either are left out.
        metric: The metric.
        methods: Names of the baseline and the method.
        label: Name, for the description.
        columns: Columns of the case table for the tooltip.

    Returns:
        The SVG element; empty where no case has both values.
    """
    points = points.finite()
    if not len(points.x):
        return Markup("")
    limits = value_range([*points.x.tolist(), *points.y.tolist()], fraction=metric.unit == "fraction")
    x = Scale(*limits, _LEFT, WIDTH - _RIGHT)
    y = Scale(*limits, _HEIGHT - _BOTTOM, _TOP)
    unit = f"{metric.title} ({unit_sign(metric)})"
    baseline, method = (shortened(name, 30) for name in methods)
    parts = _frame(x, y, f"{baseline}, {unit}", f"{method}, {unit}")
    parts.append(line(x(limits[0]), y(limits[0]), x(limits[1]), y(limits[1]), "diagonal"))
    hint = ("above the line: ", "below the line: ")[0 if metric.more_is_better else 1] + f"{method} is better"
    parts.append(text(WIDTH - _RIGHT, 11, hint, anchor="end", kind="tick"))
    parts += _dots(points, x, y)
    described = f"{metric.title} of {label}: {methods[1]} against {methods[0]}, every case a dot"
    return figure(_HEIGHT, parts, label=described, columns=columns)


def _frame(x: Scale, y: Scale, x_title: str, y_title: str) -> list[Markup]:
    parts = [line(_LEFT, y(tick), WIDTH - _RIGHT, y(tick), "grid") for tick in y.ticks()]
    parts += [text(_LEFT - 7, y(tick) + 4, tick_text(tick), anchor="end") for tick in y.ticks()]
    parts += [line(x(tick), _TOP, x(tick), _HEIGHT - _BOTTOM, "grid") for tick in x.ticks()]
    parts += [text(x(tick), _HEIGHT - _BOTTOM + 16, tick_text(tick), anchor="middle") for tick in x.ticks()]
    parts.append(text((_LEFT + WIDTH) / 2, _HEIGHT - 8, x_title, anchor="middle", kind="axis"))
    parts.append(text(4, 11, y_title, kind="axis"))
    return parts


def _dots(points: Points, x: Scale, y: Scale) -> list[Markup]:
    # From left to right, so that the arrow keys walk along the axis.
    order = np.argsort(points.x, kind="stable")
    return [
        dot(x(float(points.x[i])), y(float(points.y[i])), int(points.rows[i]), colour=int(s), shape=int(s))
        for i, s in zip(order, points.strata[order], strict=True)
    ]
