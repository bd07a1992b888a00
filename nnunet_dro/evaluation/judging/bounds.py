"""The bounds of requirements.

Numbers, with the unit that they are written in, that can be meant for a metric.
"""

import math
import re
from dataclasses import dataclass

_BOUND = re.compile(
    r"(?P<number>([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,4}))?)(?P<unit>%|pt|mm|ml)?", re.ASCII
)

_FITS = {
    "%": "fraction",
    "pt": "fraction",
    "mm": "mm",
    "ml": "ml",
}  # Unit to the unit of the metrics that it fits.


@dataclass(frozen=True)
class Bound:
    """A number and its unit."""

    number: str  # as written
    #: ``%`` or ``pt`` (percentage points), ``mm``, ``ml``, or empty for what the metric has, or a
    #: number of cases.
    unit: str
    value: float  # as tables have it: 70% is 0.7

    def __str__(self) -> str:
        return self.number + self.unit

    @property
    def scale(self) -> int:
        """The number per value."""
        return 100 if self.unit in ("%", "pt") else 1

    def doubt(
        self, name: str, unit: str, *, is_difference: bool, end: str, is_bounded: bool = True
    ) -> tuple[str, str] | None:
        """The rule that a bound of a quantity breaks, and what to write instead.

        None if it can be meant.

        ``name`` and ``unit`` are those of the quantity, ``end`` is the end of an interval that has
        to meet the bound.
        """
        if _FITS.get(self.unit, unit) != unit:
            cure = (
                "Write 0.70 or 70%, or points: -0.5pt."
                if unit == "fraction"
                else f"Write {self.number}{unit}."
            )
            return f"compare {name} with {'a fraction' if unit == 'fraction' else unit}", cure
        if unit != "fraction" or (self.unit and not is_bounded):
            return None
        what = "a difference of fractions" if is_difference else "a fraction"
        least = -1 if is_difference or not is_bounded else 0
        if not least <= self.value <= 1:
            return f"compare {name} with {what} from {least} to 1", self._spelled(is_difference)
        if not is_difference and self.unit and end == "low" and 0 < self.value < 0.01:
            meant = f"Write {100 * float(self.number):g}{self.unit} or {float(self.number):g}."
            return f"ask for 1{self.unit} or more where it has a unit", meant
        tolerates = self.value < 0 if end == "low" else self.value > 0
        if is_difference and tolerates and not self.unit:
            # -0.5 may be meant in points, and so may -0.09.
            return f"have a unit if it allows a loss of {abs(self.value):g}", self._spelled(
                is_difference
            )
        return None

    def _spelled(self, is_difference: bool) -> str:
        """The ways to write what may have been meant."""
        if self.unit or abs(self.value) > 100 or (self.value < 0 and not is_difference):
            return f"Write, for example, {'-0.5pt' if is_difference else '70% or 0.70'}."
        if not is_difference:
            return f"Write {self.number}% or {self.value / 100:g}."
        whole = f", or {100 * self.value:g}pt" if abs(self.value) <= 1 else ""
        return f"Write {self.number}pt for {abs(self.value):g} percentage points{whole}."


def parse_bound(text: str) -> Bound | None:
    """Read a bound; None if it is no number, or has another unit."""
    if not (found := _BOUND.fullmatch(text)):
        return None
    unit = found["unit"] or ""
    # In decimals: a division would turn 0.1pt into a neighbour of 0.001.
    exponent = int(found[3] or 0) - (2 if unit in ("%", "pt") else 0)
    value = float(f"{found[2]}e{exponent}")
    return Bound(found["number"], unit, value) if math.isfinite(value) else None
