"""The options to tune: as Optuna samples them, and in the name of the trainer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nnunet_dro.trainers.options import TrainerOptions

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

#: Choice that leaves an option out of the name.
OFF = "off"

#: Significant digits of a sampled number, so that names stay readable; the trainer reads its options from the name.
_DIGITS = 3

#: Part of a range, on its scale, that counts as its edge; and how far beyond it a value is tried.
_EDGE, _BEYOND = 0.01, 0.1


@dataclass(frozen=True)
class Range:
    """A number to tune.

    Attributes:
        text: The range as the user wrote it.
        name: Name of the option, which precedes the number in the trainer's name.
        field: Field of the trainer's options.
        low: Smallest value.
        high: Largest value.
        log: Whether values are sampled on a logarithmic scale.
        is_integer: Whether values are integers.
    """

    text: str
    name: str
    field: str
    low: float
    high: float
    log: bool
    is_integer: bool

    @property
    def middle(self) -> float:
        """The value halfway between the ends, on the scale of the range."""
        middle = math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        return self.as_written(math.floor(middle) if self.is_integer else middle)

    def as_written(self, value: float) -> float:
        """The value as in the trainer's name: an integer, or three significant digits within the range."""
        if self.is_integer:
            return int(value)
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)

    def place_of(self, value: float) -> float:
        """Where a value lies on the scale of the range: 0 at the lower end, 1 at the upper end."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else -math.inf

    def at(self, place: float) -> float:
        """The value at a place, which may lie beyond the ends."""
        if self.log:
            return float(self.low * (self.high / self.low) ** place)
        return self.low + place * (self.high - self.low)


@dataclass(frozen=True)
class Choice:
    """Words of which at most one is in the trainer's name.

    Attributes:
        words: The words, as in the trainer's name.
        field: Field of the trainer's options that all of them set.
        values: The value that each word gives to the field.
    """

    words: tuple[str, ...]
    field: str
    values: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The words, joined by ``|``."""
        return "|".join(self.words)


@dataclass(frozen=True)
class Space:
    """A trainer, and the options of it that are tuned.

    Attributes:
        base: Name of the trainer without options.
        fixed: The options that are the same in every trial.
        ranges: The numbers to tune.
        choices: The words to tune.
    """

    base: str
    fixed: TrainerOptions
    ranges: tuple[Range, ...]
    choices: tuple[Choice, ...]

    @property
    def names(self) -> list[str]:
        """Names of what is tuned, for the columns of a table."""
        return [*(one.name for one in self.ranges), *(choice.name for choice in self.choices)]

    @property
    def trainer(self) -> str:
        """Name of the trainer with the fixed options alone."""
        return self.base + self.fixed.suffix()

    @property
    def defaults(self) -> dict[str, Any]:
        """What the trainer with the fixed options alone has; a number that is off has no entry."""
        numbers = {one.name: getattr(self.fixed, one.field) for one in self.ranges}
        words = {choice.name: OFF for choice in self.choices}
        return {**{name: value for name, value in numbers.items() if value is not None}, **words}

    @property
    def has_defaults(self) -> bool:
        """Whether the defaults lie in the ranges, so that a sampler can learn from them."""
        defaults = self.defaults
        return all(
            one.name in defaults
            and one.low <= defaults[one.name] <= one.high
            and one.as_written(defaults[one.name]) == defaults[one.name]
            for one in self.ranges
        )

    def distributions(self) -> "dict[str, BaseDistribution]":
        """What Optuna draws from, by name."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        found: dict[str, BaseDistribution] = {}
        for one in self.ranges:
            if one.is_integer:
                found[one.name] = IntDistribution(int(one.low), int(one.high), log=one.log)
            else:
                found[one.name] = FloatDistribution(one.low, one.high, log=one.log)
        return found | {choice.name: CategoricalDistribution((OFF, *choice.words)) for choice in self.choices}

    def suggest(self, trial: "optuna.Trial") -> dict[str, Any]:
        """Let Optuna suggest a value of everything that is tuned, in the form of the trainer's name."""
        values: dict[str, Any] = {}
        for one in self.ranges:
            if one.is_integer:
                values[one.name] = trial.suggest_int(one.name, int(one.low), int(one.high), log=one.log)
            else:
                values[one.name] = trial.suggest_float(one.name, one.low, one.high, log=one.log)
        for choice in self.choices:
            values[choice.name] = trial.suggest_categorical(choice.name, (OFF, *choice.words))
        return self.as_written(values)

    def as_written(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as in the trainer's name."""
        ranges = {one.name: one for one in self.ranges}
        return {name: ranges[name].as_written(value) if name in ranges else value for name, value in values.items()}

    def edges(self, values: Mapping[str, Any]) -> list[tuple[Range, str]]:
        """The ranges with a value within a hundredth of their lower or upper end, unless nothing lies beyond."""
        found = []
        for one in self.ranges:
            place = one.place_of(values[one.name]) if one.name in values else 0.5
            edge = "lower" if abs(place) <= _EDGE else "upper" if abs(place - 1) <= _EDGE else ""
            if edge and self._accepts({**values, one.name: _beyond(one, edge)}):
                found.append((one, edge))
        return found

    def _accepts(self, values: Mapping[str, Any]) -> bool:
        try:
            self.trainer_name(values)
        except ValueError:
            return False
        return True

    def trainer_name(self, values: Mapping[str, Any]) -> str:
        """Name the trainer with these values, as `suggest` returns them; what is left out keeps its fixed value."""
        changes = {one.field: values[one.name] for one in self.ranges if one.name in values}
        for choice in self.choices:
            if (word := values.get(choice.name, OFF)) != OFF:
                changes[choice.field] = choice.values[choice.words.index(word)]
        return self.base + replace(self.fixed, **changes).suffix()


def _beyond(one: Range, edge: str) -> float:
    """A value beyond an end of a range."""
    if one.is_integer:
        return int(one.high) + 1 if edge == "upper" else int(one.low) - 1
    return float(f"{one.at(1 + _BEYOND if edge == 'upper' else -_BEYOND):.{_DIGITS}g}")
