"""What figures in SVG are made of: scales, axes, marks and curves."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from markupsafe import Markup

WIDTH = 480.0  # Width of a figure in its own units, about one CSS pixel each on a wide screen.
HEIGHT = 326.0  # Height of a figure with axes.
N_COLOURS = 60  # Colours of strata or teams before they repeat, with another shape.

_LOOKS = re.compile(r'data-look="s(\d+)-(\d)"')

#: Shapes of strata before they repeat, around their middle.
_SHAPES = (
    "M-3.1 0a3.1 3.1 0 1 1 0 .01z",  # a circle, but for a hundredth of a unit, in one arc
    "M0 -3.1l3.6 6.2h-7.2z",
    "M-3.1 -3.1h6.2v6.2h-6.2z",
    "M0 -3.9l3.9 3.9l-3.9 3.9l-3.9 -3.9z",
    "M0 3.1l3.6 -6.2h-7.2z",
)


@dataclass(frozen=True)
class Scale:
    """Values to positions, linear or logarithmic."""

    low: float  # the value at ``start``; for a logarithmic scale > 0
    high: float  # the value at ``end``, > ``low``
    start: float  # in figure units
    end: float  # in figure units; smaller than ``start`` for an axis that points up
    logarithmic: bool = False  # whether equal ratios are equally far apart

    def __call__(self, value: float) -> float:
        """The position of a value."""
        low = self.low
        high = self.high
        if self.logarithmic:
            value = math.log10(value)
            low = math.log10(low)
            high = math.log10(high)

        share = (value - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self, at_most: int = 6) -> list[float]:
        """Round values inside the scale.

        Powers of ten (with 2 and 5 between if few) or multiples of a round step.
        """
        if self.logarithmic:
            return self._logarithmic_ticks(at_most)

        length = self.high - self.low
        step = round_step(length / at_most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(n * step, 10) for n in range(first, last + 1)]

    def _logarithmic_ticks(self, at_most: int) -> list[float]:
        lowest_power = math.floor(math.log10(self.low))
        highest_power = math.ceil(math.log10(self.high))
        least = self.low * 0.999
        most = self.high * 1.001

        for factors in ((1, 2, 5), (1,)):
            ticks = []
            for power in range(lowest_power, highest_power + 1):
                for factor in factors:
                    tick = factor * 10.0**power
                    if least <= tick <= most:
                        ticks.append(tick)
            if len(ticks) <= at_most + 1:
                return ticks

        every = math.ceil(len(ticks) / at_most)
        return ticks[::every]


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``least`` (> 0)."""
    power = 10.0 ** math.floor(math.log10(least))
    # A step that is smaller by rounding alone is enough.
    enough = least * (1 - 1e-9)
    steps = [factor * power for factor in (1, 2, 5, 10)]
    return next(step for step in steps if step >= enough)


def value_range(values: Sequence[float], *, fraction: bool) -> tuple[float, float]:
    """Limits of an axis that hold every value, with rounded ends.

    Args:
        values: Values in shown units (per cent or mm); there may be none.
        fraction: Whether they are fractions, whose upper end is 100 %, so that figures compare.
    """
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    if fraction:
        # A little air, or the worst case would lie on the edge.
        low = max(0.0, math.floor((low - 2) / 10) * 10)
        return min(low, 80.0), 100.0

    step = round_step(max(high, -low, 1e-3) / 5)
    low = math.floor(low / step - 1e-9) * step
    high = math.ceil(high / step + 1e-9) * step
    return min(0.0, low), max(0.0, high)


def tick_text(value: float) -> str:
    """A tick's number without superfluous zeros."""
    return f"{value:,.6g}".replace("-", "−")


def text(x: float, y: float, content: str, *, anchor: str = "start", kind: str = "tick") -> Markup:
    """An SVG text, escaped."""
    form = Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>')
    return form.format(
        at(x),
        at(y),
        anchor,
        kind,
        content,
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """An SVG line."""
    form = Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" class="{}"/>')
    return form.format(
        at(x1),
        at(y1),
        at(x2),
        at(y2),
        kind,
    )


def scales(
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
    *,
    height: float = HEIGHT,
    logarithmic: bool = False,
) -> tuple[Scale, Scale]:
    """The scales of a figure with `axes`; ``logarithmic`` is the horizontal one."""
    x = Scale(*x_limits, 46, WIDTH - 12, logarithmic=logarithmic)
    return x, Scale(*y_limits, height - 46, 26)


def axes(
    x: Scale,
    y: Scale,
    x_title: str,
    y_title: str,
    *,
    x_ticks: Sequence[float] | None = None,
    x_kind: str = "grid",
) -> list[Markup]:
    """The grid of two scales, its numbers, and the titles of the axes."""
    y_ticks = y.ticks()
    if x_ticks is None:
        x_ticks = x.ticks()

    grid = [line(x.start, y(tick), x.end, y(tick), "grid") for tick in y_ticks]
    grid_numbers = [
        text(
            x.start - 7,
            y(tick) + 4,
            tick_text(tick),
            anchor="end",
        )
        for tick in y_ticks
    ]

    rules = [line(x(tick), y.end, x(tick), y.start, x_kind) for tick in x_ticks]
    rule_numbers = [
        text(
            x(tick),
            y.start + 16,
            tick_text(tick),
            anchor="middle",
        )
        for tick in x_ticks
    ]

    middle = (x.start + WIDTH) / 2
    titles = [
        text(middle, y.start + 38, x_title, anchor="middle", kind="axis"),
        text(4, 11, y_title, kind="axis"),
    ]
    return [*grid, *grid_numbers, *rules, *rule_numbers, *titles]


def ticks_below(
    x: Scale, top: float, bottom: float, *, at_most: int = 6, at_zero: str = "grid"
) -> Iterator[Markup]:
    """The rules of a horizontal scale without `axes`, and its numbers below them.

    ``at_zero`` is the kind of the rule at 0.
    """
    for tick in x.ticks(at_most):
        place = x(tick)
        yield line(place, top, place, bottom, "grid" if tick else at_zero)
        yield text(place, bottom + 15, tick_text(tick), anchor="middle")


def figure(
    parts: Sequence[Markup],
    *,
    label: str,
    columns: Sequence[int] = (),
    height: float = HEIGHT,
    width: float = WIDTH,
) -> Markup:
    """The SVG element.

    Args:
        parts: What it shows.
        label: What it says to those who do not see it.
        columns: Columns of the table of cases that the tooltip of a dot names. With any, a script
            makes the dots reachable by keyboard.
        height: Height in figure units.
        width: Width in figure units.
    """
    form = Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="{}" aria-label="{}" '
        'data-columns="{}">{}</svg>'
    )
    role = "group" if columns else "img"
    column_numbers = ",".join(map(str, columns))
    # All parts are escaped: joined as text they need not be looked at again.
    content = Markup("".join(parts))
    return form.format(
        at(width),
        at(height),
        role,
        label,
        column_numbers,
        content,
    )


def look(colour: int, shape: int = 0) -> str:
    """The name of a colour and a shape, which repeat after the last one."""
    return f"s{colour % N_COLOURS}-{shape % len(_SHAPES)}"


def dots(cases: Iterable[tuple[str, float, float, int]]) -> Markup:
    """Cases as marks, in the order of drawing: look, place, and row of the case table.

    There may be tens of thousands. So those of one look are one element: a line that is not drawn,
    with a marker at every point but the last. A script parts it into dots where a reader points.
    """
    by_look = sorted(
        (name, n_below, f"{at(x)},{at(y)}", row) for n_below, (name, x, y, row) in enumerate(cases)
    )
    form = Markup(
        '<polyline style="marker:url(#{0});marker-end:none" points="{1} {2}" data-look="{0}" '
        'data-rows="{3}" data-order="{4}"/>'
    )
    parts = []
    for name, same in groupby(by_look, key=itemgetter(0)):
        _, order, points, rows = zip(*same, strict=True)
        order_words = ""
        # Without others between them, they are in order.
        if len(order) < len(by_look):
            order_words = " ".join(map(str, order))
        row_words = " ".join(map(str, rows))
        parts.append(form.format(name, " ".join(points), points[-1], row_words, order_words))
    return Markup('<g class="dots">{}</g>').format(Markup("").join(parts))


def markers(content: Iterable[str]) -> Markup:
    """The markers that the `dots` in the content of a page refer to."""
    looks = {names for part in content for names in _LOOKS.findall(part)}
    form = Markup(
        '<marker id="s{0}-{1}" markerUnits="userSpaceOnUse" overflow="visible">'
        '<path class="dot s{0}" d="{2}"/></marker>'
    )
    parts = [form.format(colour, shape, _SHAPES[int(shape)]) for colour, shape in sorted(looks)]
    frame = Markup('<svg class="markers" width="0" height="0" aria-hidden="true">{}</svg>')
    return frame.format(Markup("").join(parts))


def legend_mark(index: int) -> Markup:
    """The mark of the stratum of this index as an icon for a legend."""
    form = Markup(
        '<svg class="mark" viewBox="-7 -7 14 14" aria-hidden="true">'
        '<path class="s{}" d="{}"/></svg>'
    )
    return form.format(index % N_COLOURS, _SHAPES[index % len(_SHAPES)])


def legend_line(kind: str, dashes: str = "") -> Markup:
    """A curve as an icon for a legend."""
    form = Markup(
        '<svg class="stroke" viewBox="0 0 30 10" aria-hidden="true">'
        '<line class="curve {}" x1="1" y1="5" x2="29" y2="5" stroke-dasharray="{}"/></svg>'
    )
    return form.format(kind, dashes)


def curve(points: Iterable[tuple[float, float]], kind: str, dashes: str = "") -> Markup:
    """A curve through some places."""
    places = " ".join(f"{at(x)},{at(y)}" for x, y in points)
    form = Markup('<polyline class="curve {}" points="{}" stroke-dasharray="{}"/>')
    return form.format(kind, places, dashes)


def shortened(name: str, at_most: int = 44) -> str:
    """A name cut to a length, with an ellipsis."""
    if len(name) <= at_most:
        return name
    return name[: at_most - 1] + "…"


def at(position: float) -> str:
    """A position with one decimal, as short as possible."""
    return f"{position:.1f}".removesuffix(".0")
