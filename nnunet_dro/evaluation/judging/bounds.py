"""The bounds of requirements: numbers with the unit that they are written in.

A bound knows whether it can be meant for a quantity, and how to write what may have been meant.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from nnunet_dro.bad_input import InputError

_BOUND = re.compile(
    r"(?P<number>(?P<mantissa>[+-]?(?:\d+\.?\d*|\.\d+))(?:[eE](?P<exponent>[+-]?\d{1,4}))?)"
    r"(?P<unit>%|pt|mm|ml)?",
    re.ASCII,
)

#: The unit of the metrics that each unit of a bound fits.
_UNIT_OF_METRICS = {"%": "fraction", "pt": "fraction", "mm": "mm", "ml": "ml"}

#: The units in which a fraction is a hundred times as large.
_HUNDREDTHS = ("%", "pt")


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
        return 100 if self.unit in _HUNDREDTHS else 1

    def check(
        self,
        quantity: tuple[str, str],
        refused: Callable[..., InputError],
        *,
        is_difference: bool,
        end: str,
        is_bounded: bool = True,
    ) -> None:
        """Check that the bound can be meant for a quantity.

        Args:
            quantity: Its name and its unit.
            refused: Makes an error of the rule ``must`` and the ``cure``.
            is_difference: Whether it is a difference.
            end: The end of an interval that has to meet the bound.
            is_bounded: Whether a fraction is between 0 and 1.
        """
        name, unit = quantity
        if _UNIT_OF_METRICS.get(self.unit, unit) != unit:
            must, cure = self._doubt_about_unit(name, unit)
            raise refused(must=must, cure=cure)
        if unit != "fraction" or (self.unit and not is_bounded):
            return

        least = -1 if is_difference or not is_bounded else 0
        if not least <= self.value <= 1:
            what = "a difference of fractions" if is_difference else "a fraction"
            raise refused(
                must=f"compare {name} with {what} from {least} to 1",
                cure=self._spelled(is_difference, is_bounded=is_bounded),
            )

        # 0.7% of a fraction, where 70% may be meant.
        if not is_difference and self.unit and end == "low" and 0 < self.value < 0.01:
            number = float(self.number)
            raise refused(
                must=f"ask for 1{self.unit} or more where it has a unit",
                cure=f"Write {100 * number:g}{self.unit} or {number:g}.",
            )

        # -0.5 may be meant in points, and so may -0.09.
        tolerates_loss = self.value < 0 if end == "low" else self.value > 0
        if is_difference and tolerates_loss and not self.unit:
            raise refused(
                must=f"have a unit if it allows a loss of {abs(self.value):g}",
                cure=self._spelled(is_difference, is_bounded=is_bounded),
            )

    def _doubt_about_unit(self, name: str, unit: str) -> tuple[str, str]:
        if unit == "fraction":
            return f"compare {name} with a fraction", "Write 0.70 or 70%, or points: -0.5pt."
        if unit not in _UNIT_OF_METRICS:
            return f"compare {name} with a number of {unit}", f"Write {self.number}."
        return f"compare {name} with {unit}", f"Write {self.number}{unit}."

    def _spelled(self, is_difference: bool, *, is_bounded: bool) -> str:
        """The ways to write what may have been meant."""
        if self.unit or abs(self.value) > 100 or (self.value < 0 and not is_difference):
            if is_difference:
                return "Write, for example, -0.5pt."
            return "Write, for example, 70% or 0.70."

        hundredfold = f"{100 * self.value:g}"
        if not is_difference and is_bounded:
            return f"Write {self.number}% or {self.value / 100:g}."
        if not is_difference:
            return f"Write {self.number}%, or {hundredfold}% for {self.number}."

        in_points = f"{self.number}pt for {abs(self.value):g} percentage points"
        if abs(self.value) <= 1 or not is_bounded:
            in_points += f", or {hundredfold}pt"
        return f"Write {in_points}."


def parse_bound(text: str) -> Bound | None:
    """Read a bound; None if it is no number, or has another unit."""
    match = _BOUND.fullmatch(text)
    if match is None:
        return None

    unit = match["unit"] or ""
    exponent = int(match["exponent"] or 0)
    # Shifted in decimals: a division would turn 0.1pt into a neighbour of 0.001.
    if unit in _HUNDREDTHS:
        exponent -= 2
    value = float(f"{match['mantissa']}e{exponent}")
    if not math.isfinite(value):
        return None
    return Bound(match["number"], unit, value)
