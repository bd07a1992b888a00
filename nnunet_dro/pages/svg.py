"""Scales, ticks and the escaping of SVG text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

#: Width of a figure in its own units, about one CSS pixel each on a wide screen.
WIDTH = 480.0

#: Colours of strata before they repeat, with another shape.
N_COLOURS = 7

#: Shapes of strata before they repeat; with `N_COLOURS` colours 35 strata look different.
_SHAPES = (
    "M{x0} {y}a3.1 3.1 0 1 0 6.2 0a3.1 3.1 0 1 0 -6.2 0z",
    "M{x} {y0}l3.6 6.2h-7.2z",
    "M{x0} {y0}h6.2v6.2h-6.2z",
    "M{x} {y1}l3.9 3.9l-3.9 3.9l-3.9 -3.9z",
    "M{x} {y2}l3.6 -6.2h-7.2z",
)


@dataclass(frozen=True)
class Scale:
    """Values to positions, linear or logarithmic.

    Attributes:
        low: Value at ``start``; for a logarithmic scale > 0.
        high: Value at ``end``, > ``low``.
        start: Position, in figure units.
        end: Position, in figure units; smaller than ``start`` for an axis that points up.
        logarithmic: Whether equal ratios are equally far apart.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value."""
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, at_most: int = 6) -> list[float]:
        """Round values inside the scale: powers of ten (with 2 and 5 between if few) or multiples of a round step."""
        if self.logarithmic:
            return _log_ticks(self.low, self.high, at_most)
        step = round_step((self.high - self.low) / at_most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(n * step, 10) for n in range(first, last + 1)]


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``least`` (> 0)."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def value_range(values: Sequence[float], *, fraction: bool) -> tuple[float, float]:
    """Limits of an axis in shown units that hold every value, ends rounded.

    Args:
        values: In shown units (per cent or mm), finite; may be empty.
        fraction: Whether 0 and 100 % bound the axis; its upper end is 100 then, so that figures compare.

    Returns:
        Lower and upper end, lower < upper.
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if fraction:
        high = 100.0
        # A little air, or the worst case would lie on the edge.
        low = max(0.0, math.floor((low - 2) / 10) * 10)
        return min(low, 80.0), high
    step = round_step(max(high, 1e-3) / 5)
    return 0.0, math.ceil(high / step + 1e-9) * step


def tick_text(value: float) -> str:
    """A tick's number without superfluous zeros."""
    return f"{value:,.6g}".replace("-", "−")


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "tick") -> Markup:
    """An SVG text, escaped."""
    form = Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>')
    return form.format(at(x), at(y), anchor, kind, content)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """An SVG line."""
    form = Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>')
    return form.format(at(x1), at(y1), at(x2), at(y2), kind)


def figure(
    height: float, parts: Sequence[Markup], *, label: str, columns: Sequence[int] = (), width: float = WIDTH
) -> Markup:
    """The SVG element.

    Args:
        height: In figure units.
        parts: Its contents.
        label: What it shows, for those who do not see it.
        columns: Columns of the case table that the tooltip of a dot names.
        width: In figure units.

    Returns:
        The element; with dots in it, a script makes them reachable by keyboard.
    """
    form = Markup('<svg class="chart" viewBox="0 0 {} {}" role="{}" aria-label="{}" data-columns="{}">{}</svg>')
    return form.format(
        at(width), at(height), "group" if columns else "img", label, ",".join(map(str, columns)), Markup("").join(parts)
    )


def dot(x: float, y: float, row: int, *, colour: int, shape: int = 0) -> Markup:
    """A case: a mark that knows its row of the case table."""
    places = {"x": at(x), "y": at(y), "x0": at(x - 3.1), "y0": at(y - 3.1), "y1": at(y - 3.9), "y2": at(y + 3.1)}
    path = _SHAPES[shape % len(_SHAPES)].format(**places)
    # Not Markup.format: all of it is made here, and there are tens of thousands of dots.
    return Markup(f'<path class="dot s{colour % N_COLOURS}" d="{path}" data-row="{row}"/>')


def legend_mark(index: int) -> Markup:
    """The mark of the stratum of this index as an icon for a legend."""
    mark = dot(7, 7, 0, colour=index, shape=index)
    mark = Markup(str(mark).replace('class="dot ', 'class="').replace(' data-row="0"', ""))
    return Markup('<svg class="mark" viewBox="0 0 14 14" aria-hidden="true">{}</svg>').format(mark)


def shortened(name: str, at_most: int = 44) -> str:
    """A name cut to a length, with an ellipsis."""
    return name if len(name) <= at_most else name[: at_most - 1] + "…"


def at(position: float) -> str:
    """A position with one decimal, as short as possible."""
    return f"{position:.1f}".removesuffix(".0")


def _log_ticks(low: float, high: float, at_most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1,)):
        ticks = [f * 10.0**p for p in powers for f in factors if low * 0.999 <= f * 10.0**p <= high * 1.001]
        if len(ticks) <= at_most + 1:
            return ticks
    every = math.ceil(len(ticks) / at_most)
    return ticks[::every]
