"""An option to tune, as the user writes it: a range of numbers, or words to choose from."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnunet_dro.trainers.options import Option, TrainerOptions

#: Significant digits of a sampled number, so that names stay readable; the trainer reads its
#: options from the name.
_DIGITS = 3

#: Part of a range, on its scale, that counts as its edge; and how far beyond it a value is tried.
_EDGE = 0.01
_BEYOND = 0.1

#: Form of an option that is a number, as users see it: the name of the option, then the number.
_NUMBER_FORM = re.compile(r"([A-Za-z]\w*)<\w+>")

EXAMPLE = "Write, for example, beta:1:100:log, warmup:0:5 or chi2."


@dataclass(frozen=True)
class Range:
    """A number to tune, on a linear or a logarithmic scale."""

    text: str  # as the user wrote it
    name: str  # of the option, which precedes the number in the trainer's name
    field: str  # of the trainer's options
    low: float  # an integer, as the other end, if the option is one
    high: float
    log: bool
    is_integer: bool

    @property
    def middle(self) -> float:
        """The value halfway between the ends, on the scale of the range."""
        if self.log:
            return self.as_written(math.sqrt(self.low * self.high))
        return self.as_written((self.low + self.high) / 2)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value, as in the trainer's name."""
        return self.as_written(self.low), self.as_written(self.high)

    def as_written(self, value: float) -> float:
        """The value as in the trainer's name.

        An integer, or three significant digits within the range.
        """
        written = int(value) if self.is_integer else float(f"{value:.{_DIGITS}g}")
        return min(max(written, self.low), self.high)

    def place_of(self, value: float) -> float:
        """Where a value lies on the scale of the range: 0 at the lower end, 1 at the upper end."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        if value <= 0:
            return -math.inf
        return math.log(value / self.low) / math.log(self.high / self.low)

    def edge_at(self, value: float) -> str:
        """The end that a value lies within a hundredth of, ``lower`` or ``upper``, or nothing."""
        place = self.place_of(value)
        if abs(place) <= _EDGE:
            return "lower"
        if abs(place - 1) <= _EDGE:
            return "upper"
        return ""

    def beyond(self, edge: str) -> float:
        """A value beyond the lower or the upper end."""
        is_upper = edge == "upper"
        if self.is_integer:
            return self.high + 1 if is_upper else self.low - 1

        place = 1 + _BEYOND if is_upper else -_BEYOND
        if self.log:
            value = self.low * (self.high / self.low) ** place
        else:
            value = self.low + place * (self.high - self.low)
        return float(f"{value:.{_DIGITS}g}")


@dataclass(frozen=True)
class WordChoice:
    """Words of which at most one is in the trainer's name.

    All of them set the same field of its options, each to a value of its own.
    """

    field: str
    values: Mapping[str, Any]  # word to value

    @property
    def name(self) -> str:
        """The words, joined by ``|``."""
        return "|".join(self.values)


def parse_range(text: str, kind: type[TrainerOptions]) -> Range:
    """Read a number to tune, ``NAME:LOW:HIGH`` or ``NAME:LOW:HIGH:log``."""
    name, *ends = (part.strip() for part in text.split(":"))
    numbers = _numerical_options(kind)
    if name not in numbers:
        raise ValueError(
            f"`option` must name a numerical option of this trainer, got {name!r} in {text!r}. "
            f"Choose from: {', '.join(numbers)}."
        )

    log = ends[2:] == ["log"]
    if log:
        ends = ends[:2]
    try:
        low, high = map(float, ends)
    except ValueError as error:
        raise ValueError(
            f"`option` must be NAME:LOW:HIGH or NAME:LOW:HIGH:log, got {text!r}. {EXAMPLE}"
        ) from error
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"`option` must have LOW < HIGH, both finite, got {text!r}. {EXAMPLE}")

    is_integer = numbers[name].read is int
    if is_integer:
        if not (low.is_integer() and high.is_integer()):
            raise ValueError(f"`option` must have integers for {name}, got {text!r}. {EXAMPLE}")
        low = int(low)
        high = int(high)
    if log and low <= 0:
        raise ValueError(
            f"`option` must have LOW > 0 with log, got {text!r}. Leave out log, or increase LOW."
        )
    return Range(text, name, numbers[name].field, low, high, log, is_integer)


def _numerical_options(kind: type[TrainerOptions]) -> dict[str, Option]:
    """The options of a trainer that are a number, by their name."""
    numbers = {}
    for option in kind.known_options():
        form = _NUMBER_FORM.fullmatch(option.form)
        if form is not None and option.read in (int, float):
            numbers[form[1]] = option
    return numbers


def parse_word(text: str, kind: type[TrainerOptions]) -> tuple[str, Any]:
    """Read a word as in the trainer's name: the field that it sets, and the value."""
    forms = []
    for option in kind.known_options():
        if option.field in ("epochs", "iterations"):
            continue
        match = option.pattern.fullmatch(text)
        if match is not None:
            return option.field, option.read(*match.groups())
        forms.append(option.form)

    raise ValueError(
        f"`option` must be an option of this trainer, written as in its name, got {text!r}. A "
        f"number needs a range (beta:1:100). Choose from: {', '.join(forms)}."
    )
