"""Differences of a statistic with their intervals, a line per label and stratum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nnunet_dro.evaluation.report.formatting import difference_unit
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.svg import WIDTH, Scale, at, figure, line, round_step, shortened, text, tick_text

_LINE, _TOP, _BOTTOM, _LEFT, _RIGHT = 24.0, 20.0, 52.0, 178.0, 14.0


@dataclass(frozen=True)
class Difference:
    """A line of the figure, in shown units (percentage points or mm).

    Attributes:
        label: Name of the label, the heading of consecutive lines.
        stratum: Name of the stratum.
        value: Method minus baseline; NaN if undefined.
        low: Lower end of its interval; NaN if there is none.
        high: Upper end of its interval.
    """

    label: str
    stratum: str
    value: float
    low: float
    high: float


def forest(differences: Sequence[Difference], metric: Metric, *, statistic: str) -> Markup:
    """Squares with whiskers, and the line of no difference.

    Args:
        differences: In the order to show them.
        metric: The metric of the differences.
        statistic: The statistic of the differences, as a heading.

    Returns:
        The SVG element; empty where no difference is defined.
    """
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
    return figure(height, parts, label=f"Difference of the {statistic} of {metric.title} per label and stratum")


def _entry(entry: Difference, x: Scale, y: float, metric: Metric) -> list[Markup]:
    parts = [text(14, y + 4, shortened(entry.stratum, 24), kind="tick")]
    if not math.isfinite(entry.value):
        return [*parts, text(x(0) + 6, y + 4, "not defined", kind="tick")]
    gain = entry.value if metric.more_is_better else -entry.value
    kind = "better" if gain > 0 else "worse" if gain < 0 else "same"
    if math.isfinite(entry.low) and math.isfinite(entry.high):
        parts.append(line(x(entry.low), y, x(entry.high), y, f"whisker {kind}"))
    # Shape as well as colour tells the direction: a triangle points to the side that it lies on.
    shapes = {"better": "M{x} {t}l4.6 8h-9.2z", "worse": "M{x} {b}l4.6 -8h-9.2z", "same": "M{l} {t}h8v8h-8z"}
    places = {"x": at(x(entry.value)), "l": at(x(entry.value) - 4), "t": at(y - 4), "b": at(y + 4)}
    return [*parts, Markup('<path class="{}" d="{}"/>').format(f"estimate {kind}", shapes[kind].format(**places))]
