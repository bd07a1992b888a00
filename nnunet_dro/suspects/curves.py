"""Curves of the weight or loss of a case over the epochs, together with the median of all cases."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from nnunet_dro.files.case_log import WEIGHTS, EpochLog
from nnunet_dro.pages.svg import at, axes, curve, figure, scales

_HEIGHT = 176.0

#: Most points of a curve; with more epochs, a point stands for several.
_MOST_POINTS = 120

#: Colour and dashes of the curve of a case, and of the median.
CASE, MEDIAN = ("s1", ""), ("s6", "5 3")


class Curves:
    """The curves of one log, with the same axes for every case; their range follows from the cases to draw."""

    def __init__(self, log: EpochLog, shown: Sequence[str]) -> None:
        self.log = log
        n_epochs = len(log.epochs)
        self._bins = np.arange(n_epochs) * min(n_epochs, _MOST_POINTS) // n_epochs
        self._middle = pd.Series(log.epochs).groupby(self._bins).mean().to_numpy()
        self._median = self._binned(log.values.median(axis=1), 1 + 0 * log.times_seen.iloc[:, 0])
        # Weights are means over visits, stale losses are not.
        visits = log.times_seen if log.kind == WEIGHTS else 1 + 0 * log.times_seen
        self._curves = {case: self._binned(log.values[case], visits[case]) for case in shown}
        # The first epochs, in which the network knows nothing yet, may leave the axis: they would flatten the rest.
        counted = self._middle >= log.epochs[log.first_counted]
        drawn = np.concatenate([self._median[counted], *(curve[counted] for curve in self._curves.values())])
        finite = drawn[np.isfinite(drawn)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        low = min(low, 0.0) if log.kind == WEIGHTS or low > 0 else low
        margin = 0.05 * (high - low) or 0.5
        first, last = float(log.epochs[0]), float(log.epochs[-1])
        alone = first == last
        y_limits = (low - (margin if low < 0 else 0), high + margin)
        self._x, self._y = scales((first - alone, last + alone), y_limits, height=_HEIGHT)

    def _binned(self, values: "pd.Series[float]", counts: "pd.Series[int]") -> npt.NDArray[np.float64]:
        """The mean of each bin, in which a value counts as often as ``counts`` says; NaN without any."""
        counted = counts.where(values.notna(), 0)
        n = counted.groupby(self._bins).sum()
        return np.asarray((values * counted).groupby(self._bins).sum() / n.where(n > 0), dtype=np.float64)

    def figure(self, case: str) -> Markup:
        """Draw the figure of one of the cases in ``shown``."""
        x, y, log = self._x, self._y, self.log
        what = "mean weight of the epoch" if log.kind == WEIGHTS else "stale loss"
        parts = []
        if log.first_counted:
            form = Markup('<rect class="uncounted" x="{}" y="{}" width="{}" height="{}"/>')
            width = x(float(log.epochs[log.first_counted])) - x.start
            parts.append(form.format(at(x.start), at(y.end), at(width), at(y.start - y.end)))
        whole = [tick for tick in x.ticks(8) if tick == int(tick) and log.epochs[0] <= tick <= log.epochs[-1]]
        parts += axes(x, y, "epoch", what, x_ticks=whole)
        parts += [self._curve(self._median, MEDIAN), self._curve(self._curves[case], CASE)]
        described = f"{what} of {case} over the epochs, and the median of all cases"
        return figure(parts, label=described, height=_HEIGHT)

    def _curve(self, values: npt.NDArray[np.float64], looks: tuple[str, str]) -> Markup:
        known = np.flatnonzero(np.isfinite(values))
        low, high = sorted((self._y.low, self._y.high))
        # Epochs without a value are bridged. A single point becomes a short line, or it would be invisible.
        places = [(self._x(self._middle[i]), self._y(float(np.clip(values[i], low, high)))) for i in known]
        if len(places) == 1:
            (px, py) = places[0]
            places = [(px - 3, py), (px + 3, py)]
        return curve(places, *looks)
