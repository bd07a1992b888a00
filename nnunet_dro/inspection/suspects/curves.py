"""The curve of a case over the epochs, against the median of all cases."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.arrays import FloatArray, IndexArray
from nnunet_dro.files.case_log import WEIGHTS, EpochLog
from nnunet_dro.pages.svg import Scale, at, axes, curve, figure, scales

#: Height of the curves of a case.
_HEIGHT = 176.0

#: Most points of a curve; with more epochs, a point stands for several.
_MOST_POINTS = 120

#: Colour and dashes of the curve of a case, and of the median.
CASE = ("s1", "")
MEDIAN = ("s6", "5 3")


def curves_of(log: EpochLog, cases: Sequence[str]) -> dict[str, Markup]:
    """A figure for each of some cases.

    All have the same axes, whose range follows from these cases.
    """
    # The number of the point that stands for each epoch.
    n_epochs = len(log.epochs)
    bins = np.arange(n_epochs) * min(n_epochs, _MOST_POINTS) // n_epochs
    epochs = pd.Series(log.epochs).groupby(bins).mean().to_numpy()
    values = log.values[list(cases)]
    curves = values.groupby(bins).mean()
    # Weights are means over visits, stale losses are not.
    if log.kind == WEIGHTS:
        curves = _binned(values, log.times_seen[values.columns], bins)
    median = log.values.median(axis=1).groupby(bins).mean().to_numpy()

    # The first epochs, in which the network knows nothing yet, may leave the axis: they would
    # flatten the rest.
    is_counted = epochs >= log.epochs[log.first_counted]
    counted = np.append(curves[is_counted].to_numpy(), median[is_counted])
    x, y = scales(_x_limits(log), _y_limits(counted), height=_HEIGHT)

    measure = "mean weight of the epoch" if log.kind == WEIGHTS else "stale loss"
    shared = [
        *_frame(log, measure, x, y),
        _drawn(epochs, median, x, y, MEDIAN),
    ]
    return {
        str(case): figure(
            [*shared, _drawn(epochs, curve_of_case.to_numpy(), x, y, CASE)],
            label=f"{measure} of {case} over the epochs, and the median of all cases",
            height=_HEIGHT,
        )
        for case, curve_of_case in curves.items()
    }


def _binned(values: pd.DataFrame, counts: pd.DataFrame, bins: IndexArray) -> pd.DataFrame:
    """The mean of each column in each bin, where a value counts as often as ``counts`` says.

    NaN without any.
    """
    counted = counts.where(values.notna(), 0)
    n = counted.groupby(bins).sum()
    return (values * counted).groupby(bins).sum() / n.where(n > 0)


def _x_limits(log: EpochLog) -> tuple[float, float]:
    """The first and the last epoch; a single one stands in the middle."""
    first = float(log.epochs[0])
    last = float(log.epochs[-1])
    if first == last:
        return first - 1, last + 1
    return first, last


def _y_limits(values: FloatArray) -> tuple[float, float]:
    """The range of the values and zero, with a margin."""
    finite = values[np.isfinite(values)]
    low = 0.0
    high = 1.0
    if len(finite):
        low = min(0.0, float(finite.min()))
        high = float(finite.max())

    margin = 0.05 * (high - low) or 0.5
    if low < 0:
        low -= margin
    return low, high + margin


def _frame(log: EpochLog, measure: str, x: Scale, y: Scale) -> list[Markup]:
    """The axes, and a shade over the epochs that do not count."""
    parts = []
    if log.first_counted:
        form = Markup('<rect class="uncounted" x="{}" y="{}" width="{}" height="{}"/>')
        width = x(float(log.epochs[log.first_counted])) - x.start
        parts.append(
            form.format(
                at(x.start),
                at(y.end),
                at(width),
                at(y.start - y.end),
            )
        )

    first = log.epochs[0]
    last = log.epochs[-1]
    ticks = [tick for tick in x.ticks(8) if tick == int(tick) and first <= tick <= last]
    return [*parts, *axes(x, y, "epoch", measure, x_ticks=ticks)]


def _drawn(
    epochs: FloatArray, values: FloatArray, x: Scale, y: Scale, looks: tuple[str, str]
) -> Markup:
    """A curve over the epochs that have a value; others are bridged."""
    places = []
    for epoch, value in zip(epochs, values, strict=True):
        if np.isfinite(value):
            inside = float(np.clip(value, y.low, y.high))
            places.append((x(epoch), y(inside)))

    # A single point becomes a short line, or it would be invisible.
    if len(places) == 1:
        ((x_place, y_place),) = places
        places = [(x_place - 3, y_place), (x_place + 3, y_place)]
    return curve(places, *looks)
