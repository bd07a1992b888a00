"""The options to tune: as the user writes them, as Optuna samples them, and in the name of the trainer."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from nnunet_dro.naming import repeated
from nnunet_dro.trainers.options import TrainerOptions
from nnunet_dro.trainers.registry import TRAINERS, parse_trainer_name

OFF = "off"  # Choice that leaves an option out of the name.

#: Significant digits of a sampled number, so that names stay readable; the trainer reads its
#: options from the name.
_DIGITS = 3

#: Part of a range, on its scale, that counts as its edge; and how far beyond it a value is tried.
_EDGE = 0.01
_BEYOND = 0.1

_PREFIX = "nnUNetTrainer"  # Beginning of the name of every trainer, which users may leave out.

#: Form of an option that is a number, as users see it: the name of the option, then the number.
_NUMBER_FORM = re.compile(r"([A-Za-z]\w*)<\w+>")

_EXAMPLE = "Write, for example, beta:1:100:log, warmup:0:5 or chi2."


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
        return self.as_written(
            math.sqrt(self.low * self.high) if self.log else (self.low + self.high) / 2
        )

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
        return (
            math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else -math.inf
        )

    def beyond(self, edge: str) -> float:
        """A value beyond the lower or the upper end."""
        is_upper = edge == "upper"
        if self.is_integer:
            return self.high + 1 if is_upper else self.low - 1
        place = 1 + _BEYOND if is_upper else -_BEYOND
        scaled = (
            self.low * (self.high / self.low) ** place
            if self.log
            else self.low + place * (self.high - self.low)
        )
        return float(f"{scaled:.{_DIGITS}g}")


@dataclass(frozen=True)
class Choice:
    """Words of which at most one is in the trainer's name, and the values that they give to a field of its options."""

    field: str
    values: Mapping[str, Any]  # word to value

    @property
    def name(self) -> str:
        """The words, joined by ``|``."""
        return "|".join(self.values)


@dataclass(frozen=True)
class Space:
    """A trainer, and the options of it that are tuned."""

    base: str  # name of the trainer without options
    fixed: TrainerOptions  # the same in every trial
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
        numbers = {
            one.name: value
            for one in self.ranges
            if (value := getattr(self.fixed, one.field)) is not None
        }
        return numbers | {choice.name: OFF for choice in self.choices}

    @property
    def has_defaults(self) -> bool:
        """Whether the defaults lie in the ranges, so that a sampler can learn from them."""
        defaults = self.defaults
        return all(
            one.name in defaults and one.as_written(defaults[one.name]) == defaults[one.name]
            for one in self.ranges
        )

    def distributions(self) -> dict[str, BaseDistribution]:
        """What Optuna draws from, by name."""
        found: dict[str, Any] = {}
        for one in self.ranges:
            kind: Any = IntDistribution if one.is_integer else FloatDistribution
            found[one.name] = kind(one.low, one.high, log=one.log)
        return found | {
            choice.name: CategoricalDistribution((OFF, *choice.values)) for choice in self.choices
        }

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Let Optuna suggest a value of everything that is tuned, in the form of the trainer's name."""
        values: dict[str, Any] = {}
        for one in self.ranges:
            suggest: Any = trial.suggest_int if one.is_integer else trial.suggest_float
            values[one.name] = suggest(one.name, one.low, one.high, log=one.log)
        for choice in self.choices:
            values[choice.name] = trial.suggest_categorical(choice.name, (OFF, *choice.values))
        return self.as_written(values)

    def as_written(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as in the trainer's name."""
        ranges = {one.name: one for one in self.ranges}
        return {
            name: ranges[name].as_written(value) if name in ranges else value
            for name, value in values.items()
        }

    def edges(self, values: Mapping[str, Any]) -> list[tuple[Range, str]]:
        """The ranges with a value within a hundredth of their lower or upper end, unless nothing lies beyond."""
        found = []
        for one in self.ranges:
            place = one.place_of(values[one.name]) if one.name in values else 0.5
            edge = "lower" if abs(place) <= _EDGE else "upper" if abs(place - 1) <= _EDGE else ""
            if edge:
                with suppress(ValueError):
                    self.trainer_name({**values, one.name: one.beyond(edge)})
                    found.append((one, edge))
        return found

    def trainer_name(self, values: Mapping[str, Any]) -> str:
        """Name the trainer with these values, as `suggest` returns them.

        What is left out keeps its fixed value.
        """
        changes = {one.field: values[one.name] for one in self.ranges if one.name in values}
        for choice in self.choices:
            if (word := values.get(choice.name, OFF)) != OFF:
                changes[choice.field] = choice.values[word]
        return self.base + replace(self.fixed, **changes).suffix()


def parse_space(
    trainer: str, options: Sequence[str], *, epochs: int | None, iterations: int | None
) -> Space:
    """Read what is to be tuned.

    Every end of a range and every word is accepted in at least one combination.

    An option is ``NAME:LOW:HIGH`` or ``NAME:LOW:HIGH:log`` for a number, or a word as in the
    trainer's name (``chi2``, ``clip0.2to5``) to try with and without it. Of words that exclude each
    other, a name has at most one.

    Example:
        >>> space = parse_space("HWS_noIS", ["beta:1:100:log", "hardCE"], epochs=20, iterations=None)
        >>> space.trainer_name({"beta": 12.5, "hardCE": "hardCE"})
        'nnUNetTrainerHWS_beta12.5_noIS_hardCE_20epochs'
    """
    name = trainer if trainer.startswith(_PREFIX) else _PREFIX + trainer
    try:
        base, fixed = parse_trainer_name(name)
    except AttributeError as error:
        known = ", ".join(known.removeprefix(_PREFIX) for known in TRAINERS)
        raise ValueError(
            f"`trainer` must be one of {known}, with or without options, got {trainer!r}. Choose one."
        ) from error
    fixed = _with_length(fixed, name, epochs=epochs, iterations=iterations)
    if not options:
        raise ValueError(f"`option` must be given at least once, got none. {_EXAMPLE}")
    ranges = tuple(_range(text, type(fixed)) for text in options if ":" in text)
    by_field: dict[str, dict[str, Any]] = {}
    for text in options:
        if ":" not in text:
            field, value = _word(text, type(fixed))
            by_field.setdefault(field, {})[text] = value
    space = Space(base, fixed, ranges, tuple(Choice(*item) for item in by_field.items()))
    _check(space, options)
    return space


def _with_length(fixed: TrainerOptions, name: str, **given: int | None) -> TrainerOptions:
    lengths: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    named = {option.field: getattr(fixed, option.field) for option in fixed.given_options()}
    for field, value in lengths.items():
        if named.get(field, value) != value:
            raise ValueError(
                f"`{field}` must be as in `{name}`, got {value!r}. Leave it out of one of the two."
            )
    return replace(fixed, **lengths)


def _range(text: str, kind: type[TrainerOptions]) -> Range:
    name, *ends = (part.strip() for part in text.split(":"))
    forms = ((_NUMBER_FORM.fullmatch(option.form), option) for option in kind.known_options())
    numbers = {match[1]: option for match, option in forms if match and option.read in (int, float)}
    if name not in numbers:
        cure = f"Choose from: {', '.join(numbers)}."
        raise ValueError(
            f"`option` must name a numerical option of this trainer, got {name!r} in {text!r}. {cure}"
        )
    log = len(ends) == 3 and ends[2] == "log"
    try:
        low, high = (float(end) for end in (ends[:2] if log else ends))
    except ValueError as error:
        raise ValueError(
            f"`option` must be NAME:LOW:HIGH or NAME:LOW:HIGH:log, got {text!r}. {_EXAMPLE}"
        ) from error
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"`option` must have LOW < HIGH, both finite, got {text!r}. {_EXAMPLE}")
    is_integer = numbers[name].read is int
    if is_integer:
        if not (low.is_integer() and high.is_integer()):
            raise ValueError(f"`option` must have integers for {name}, got {text!r}. {_EXAMPLE}")
        low = int(low)
        high = int(high)
    if log and low <= 0:
        raise ValueError(
            f"`option` must have LOW > 0 with log, got {text!r}. Leave out log, or increase LOW."
        )
    return Range(text, name, numbers[name].field, low, high, log, is_integer)


def _word(text: str, kind: type[TrainerOptions]) -> tuple[str, Any]:
    known = [
        option for option in kind.known_options() if option.field not in ("epochs", "iterations")
    ]
    for option in known:
        if match := option.pattern.fullmatch(text):
            return option.field, option.read(*match.groups())
    cure = "A number needs a range (beta:1:100). Choose from: " + ", ".join(
        option.form for option in known
    )
    raise ValueError(
        f"`option` must be an option of this trainer, written as in its name, got {text!r}. {cure}."
    )


def _check(space: Space, options: Sequence[str]) -> None:
    """Refuse what is duplicated, and what no combination allows."""
    tuned = [*(one.field for one in space.ranges), *(choice.field for choice in space.choices)]
    if twice := repeated(options) or repeated(tuned):
        raise ValueError(
            f"`option` must name everything once, got {twice[0]!r} twice. Leave out one of the two."
        )
    defaults = {field.name: field.default for field in fields(space.fixed)}
    for field in tuned:
        if getattr(space.fixed, field) != defaults[field]:
            cure = "Leave it out of one of the two."
            raise ValueError(
                f"`option` must not set what `{space.trainer}` fixes, got {field!r}. {cure}"
            )
    for one in space.ranges:
        for end in (one.as_written(one.low), one.as_written(one.high)):
            _check_possible(space, one.name, end, f"{one.text!r} at {end:g}")
    for choice in space.choices:
        for word in choice.values:
            _check_possible(space, choice.name, word, repr(word))


def _check_possible(space: Space, name: str, value: Any, shown: str) -> None:
    errors = []
    for others in _contexts(space):
        try:
            space.trainer_name({**others, name: value})
        except ValueError as error:
            errors.append(error)
        else:
            return
    raise ValueError(f"`option` must be accepted by the trainer, got {shown}: {errors[0]}")


def _contexts(space: Space) -> Iterator[dict[str, Any]]:
    """The values to try an end with.

    Middles, low and high ends of the other ranges, with and without each word.
    """
    words = [[(choice.name, word) for word in (OFF, *choice.values)] for choice in space.choices]
    for others in (
        {one.name: one.middle for one in space.ranges},
        {one.name: one.as_written(one.low) for one in space.ranges},
        {one.name: one.as_written(one.high) for one in space.ranges},
    ):
        for chosen in itertools.product(*words):
            yield {**others, **dict(chosen)}
