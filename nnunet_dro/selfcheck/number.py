"""A number with a known value, and how it is shown."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

TOLERANCE = 1e-9  # Largest difference that rounding explains, relative to numbers above 1.


@dataclass(frozen=True)
class Number:
    """A number with a known value."""

    part: str  # the part of the package that computes it
    name: str
    expected: float  # its value by hand; NaN if it is undefined
    computed: float  # its value in this installation

    @property
    def agrees(self) -> bool:
        """Whether both are the same, but for rounding."""
        if math.isnan(self.expected):
            return math.isnan(self.computed)
        difference = abs(self.expected - self.computed)
        return difference <= TOLERANCE * max(1.0, abs(self.expected))

    def line(self) -> str:
        """The number as a line of a table."""
        verdict = "ok" if self.agrees else "WRONG"
        expected = _shown(self.expected)
        computed = _shown(self.computed)
        return f"  {verdict:<6}{self.part:<12} {expected:>14} {computed:>14}  {self.name}"

    def entry(self) -> dict[str, str | float | None]:
        """The number as an entry of the record's JSON, which has no NaN."""
        return {
            "part": self.part,
            "name": self.name,
            "expected": _without_nan(self.expected),
            "found": _without_nan(self.computed),
        }


def numbers_of(part: str, name: str, row: Any, expected: Mapping[str, float]) -> Iterator[Number]:
    """The columns of a row, each beside its known value; the row is that of ``name``."""
    for column, value in expected.items():
        yield Number(part, f"{column} of {name}", value, float(row[column]))


def _shown(number: float) -> str:
    return "undefined" if math.isnan(number) else f"{number:.9g}"


def _without_nan(number: float) -> float | None:
    # Tables have numbers of numpy, which JSON does not know.
    return None if math.isnan(number) else float(number)
