"""Curves of the weight or loss of a case over the epochs, together with the median of all cases."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from nnunet_dro.pages.svg import WIDTH, Scale, at, figure, line, text, tick_text
from nnunet_dro.suspects.epoch_log import WEIGHTS, EpochLog

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 150.0, 46.0, 12.0, 12.0, 40.0

#: Most points of a curve; with more epochs, a point stands for several.
_MOST_POINTS = 120

_CASE, _MEDIAN = "curve s1", "curve s6"


class Curves:
    """The curves of one log, with the same axes for every case.

    Args:
        log: The log.
        shown: Positions of the cases to draw, from which the range of the axis follows.
    """

    def __init__(self, log: EpochLog, shown: Sequence[int]) -> None:
        self.log = log
        n_points = min(len(log.epochs), _MOST_POINTS)
        self._bins = [part for part in np.array_split(np.arange(len(log.epochs)), n_points) if len(part)]
        self._middle = np.array([log.epochs[part].mean() for part in self._bins])
        self._median = self._binned(_medians(log.values), np.ones(len(log.epochs)))
        self._curves = {i: self._binned(log.values[:, i], self._visits(i)) for i in shown}
        # The first epochs, in which the network knows nothing yet, may leave the axis: they would flatten the rest.
        counted = self._middle >= log.epochs[log.first_counted]
        drawn = np.concatenate([self._median[counted], *(curve[counted] for curve in self._curves.values())])
        finite = drawn[np.isfinite(drawn)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        low = min(low, 0.0) if log.kind == WEIGHTS or low > 0 else low
        margin = 0.05 * (high - low) or 0.5
        self._y = Scale(low - (margin if low < 0 else 0), high + margin, _HEIGHT - _BOTTOM, _TOP)
        first, last = float(log.epochs[0]), float(log.epochs[-1])
        alone = first == last
        self._x = Scale(first - alone, last + alone, _LEFT, WIDTH - _RIGHT)

    def _visits(self, case: int) -> npt.NDArray[np.float64]:
        """The weight of each epoch in a mean of several: weights are means over visits, stale losses are not."""
        if self.log.kind == WEIGHTS:
            return self.log.times_seen[:, case].astype(np.float64)
        return np.ones(len(self.log.epochs))

    def _binned(self, values: npt.NDArray[np.floating], counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        counts = np.where(np.isnan(values), 0, counts)
        sums = np.nan_to_num(values.astype(np.float64)) * counts
        totals = np.array([counts[part].sum() for part in self._bins])
        means = np.array([sums[part].sum() for part in self._bins]) / np.maximum(totals, 1e-12)
        return np.where(totals > 0, means, np.nan)

    def figure(self, case: int) -> Markup:
        """Draw the figure of one of the cases in ``shown``."""
        x, y, log = self._x, self._y, self.log
        what = "mean weight of the epoch" if log.kind == WEIGHTS else "stale loss"
        parts = []
        if log.first_counted:
            form = Markup('<rect class="uncounted" x="{}" y="{}" width="{}" height="{}"/>')
            width = x(float(log.epochs[log.first_counted])) - _LEFT
            parts.append(form.format(at(_LEFT), at(_TOP), at(width), at(_HEIGHT - _BOTTOM - _TOP)))
        for tick in y.ticks(5):
            parts.append(line(_LEFT, y(tick), WIDTH - _RIGHT, y(tick), "grid"))
            parts.append(text(_LEFT - 7, y(tick) + 4, tick_text(tick), anchor="end"))
        whole = [tick for tick in x.ticks(8) if tick == int(tick) and log.epochs[0] <= tick <= log.epochs[-1]]
        parts += [text(x(tick), _HEIGHT - _BOTTOM + 16, tick_text(tick), anchor="middle") for tick in whole]
        parts.append(text((_LEFT + WIDTH) / 2, _HEIGHT - 6, "epoch", anchor="middle", kind="axis"))
        parts += [self._line(self._median, _MEDIAN, "5 3"), self._line(self._curves[case], _CASE, "")]
        return figure(_HEIGHT, parts, label=f"{what} of {log.cases[case]} over the epochs, and the median of all cases")

    def _line(self, values: npt.NDArray[np.float64], kind: str, dashes: str) -> Markup:
        known = np.flatnonzero(np.isfinite(values))
        low, high = sorted((self._y.low, self._y.high))
        # Epochs without a value are bridged. A single point becomes a short line, or it would be invisible.
        places = [(self._x(self._middle[i]), self._y(float(np.clip(values[i], low, high)))) for i in known]
        if len(places) == 1:
            (px, py) = places[0]
            places = [(px - 3, py), (px + 3, py)]
        points = " ".join(f"{at(px)},{at(py)}" for px, py in places)
        form = Markup('<polyline class="{}" points="{}" stroke-dasharray="{}"/>')
        return form.format(kind, points, dashes)


def curve_icon(*, median: bool) -> Markup:
    """Draw the line of the case, or of the median, as an icon for a legend."""
    form = Markup(
        '<svg class="stroke" viewBox="0 0 30 10" aria-hidden="true">'
        '<line class="{}" x1="1" y1="5" x2="29" y2="5" stroke-dasharray="{}"/></svg>'
    )
    return form.format(_MEDIAN if median else _CASE, "5 3" if median else "")


def _medians(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Median of the cases that have a value, per epoch; NaN where none has."""
    known = ~np.isnan(values).all(axis=1)
    medians = np.full(len(values), np.nan)
    medians[known] = np.nanmedian(values[known], axis=1)
    return medians
