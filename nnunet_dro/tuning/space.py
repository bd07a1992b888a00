"""The space that a study searches: a trainer, and the options of it that are tuned.

Optuna draws a value of each, and these are written into the name of the trainer, where nnU-Net
finds them.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import optuna

from nnunet_dro.naming import repeated
from nnunet_dro.trainers.options import TrainerOptions
from nnunet_dro.trainers.registry import TRAINERS, parse_trainer_name
from nnunet_dro.tuning.options import EXAMPLE, Range, WordChoice, parse_range, parse_word

OFF = "off"  # WordChoice that leaves an option out of the name.

_PREFIX = "nnUNetTrainer"  # Beginning of the name of every trainer, which users may leave out.


@dataclass(frozen=True)
class Space:
    """A trainer, and the options of it that are tuned."""

    base: str  # name of the trainer without options
    fixed: TrainerOptions  # the same in every trial
    ranges: tuple[Range, ...]
    choices: tuple[WordChoice, ...]

    @property
    def names(self) -> list[str]:
        """Names of what is tuned, for the columns of a table."""
        numbers = [interval.name for interval in self.ranges]
        words = [choice.name for choice in self.choices]
        return numbers + words

    @property
    def trainer(self) -> str:
        """Name of the trainer with the fixed options alone."""
        return self.base + self.fixed.suffix()

    @property
    def defaults(self) -> dict[str, Any]:
        """What the trainer with the fixed options alone has; a number that is off has no entry."""
        values = {}
        for interval in self.ranges:
            value = getattr(self.fixed, interval.field)
            if value is not None:
                values[interval.name] = value
        return values | {choice.name: OFF for choice in self.choices}

    @property
    def has_defaults(self) -> bool:
        """Whether the defaults lie in the ranges, so that a sampler can learn from them."""
        defaults = self.defaults
        for interval in self.ranges:
            default = defaults.get(interval.name)
            if default is None or interval.as_written(default) != default:
                return False
        return True

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """Let Optuna suggest a value of everything that is tuned, as in the trainer's name."""
        values: dict[str, Any] = {}
        for interval in self.ranges:
            suggest: Any = trial.suggest_int if interval.is_integer else trial.suggest_float
            value = suggest(interval.name, interval.low, interval.high, log=interval.log)
            values[interval.name] = interval.as_written(value)
        for choice in self.choices:
            values[choice.name] = trial.suggest_categorical(choice.name, (OFF, *choice.values))
        return values

    def edges(self, values: Mapping[str, Any]) -> list[tuple[Range, str]]:
        """The ranges with a value at their lower or upper end, and which end it is.

        Where the trainer allows nothing beyond the end, the range is left out.
        """
        edges = []
        for interval in self.ranges:
            if interval.name not in values:
                continue
            edge = interval.edge_at(values[interval.name])
            if not edge:
                continue
            with suppress(ValueError):
                self.trainer_name({**values, interval.name: interval.beyond(edge)})
                edges.append((interval, edge))
        return edges

    def trainer_name(self, values: Mapping[str, Any]) -> str:
        """Name the trainer with these values, as `suggest` returns them.

        What is left out keeps its fixed value.

        Raises:
            ValueError: If the trainer refuses the combination.
        """
        tuned = [interval for interval in self.ranges if interval.name in values]
        changes = {interval.field: values[interval.name] for interval in tuned}
        for choice in self.choices:
            word = values.get(choice.name, OFF)
            if word != OFF:
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
        >>> options = ["beta:1:100:log", "hardCE"]
        >>> space = parse_space("HWS_noIS", options, epochs=20, iterations=None)
        >>> space.trainer_name({"beta": 12.5, "hardCE": "hardCE"})
        'nnUNetTrainerHWS_beta12.5_noIS_hardCE_20epochs'
    """
    name = trainer if trainer.startswith(_PREFIX) else _PREFIX + trainer
    try:
        base, fixed = parse_trainer_name(name)
    except AttributeError as error:
        trainers = ", ".join(trainer_name.removeprefix(_PREFIX) for trainer_name in TRAINERS)
        raise ValueError(
            f"`trainer` must be one of {trainers}, with or without options, got {trainer!r}. "
            "Choose one."
        ) from error
    fixed = _with_length(fixed, name, epochs=epochs, iterations=iterations)
    if not options:
        raise ValueError(f"`option` must be given at least once, got none. {EXAMPLE}")

    numbers = [text for text in options if ":" in text]
    words = [text for text in options if ":" not in text]
    ranges = [parse_range(text, type(fixed)) for text in numbers]
    values_by_field: dict[str, dict[str, Any]] = defaultdict(dict)
    for word in words:
        field, value = parse_word(word, type(fixed))
        values_by_field[field][word] = value
    choices = [WordChoice(field, values) for field, values in values_by_field.items()]

    space = Space(base, fixed, tuple(ranges), tuple(choices))
    _check(space, options)
    return space


def _with_length(
    fixed: TrainerOptions, name: str, *, epochs: int | None, iterations: int | None
) -> TrainerOptions:
    """The options with the length of training, which must not differ from that in the name."""
    lengths: dict[str, Any] = {}
    if epochs is not None:
        lengths["epochs"] = epochs
    if iterations is not None:
        lengths["iterations"] = iterations

    named_fields = [option.field for option in fixed.given_options()]
    for field, value in lengths.items():
        if field in named_fields and getattr(fixed, field) != value:
            raise ValueError(
                f"`{field}` must be as in `{name}`, got {value!r}. Leave it out of one of the two."
            )
    return replace(fixed, **lengths)


def _check(space: Space, options: Sequence[str]) -> None:
    """Refuse what is duplicated, and what no combination allows."""
    tuned_fields = [interval.field for interval in space.ranges]
    tuned_fields += [choice.field for choice in space.choices]
    twice = repeated(options) or repeated(tuned_fields)
    if twice:
        raise ValueError(
            f"`option` must name everything once, got {twice[0]!r} twice. Leave out one of the two."
        )

    defaults = {field.name: field.default for field in fields(space.fixed)}
    for name in tuned_fields:
        if getattr(space.fixed, name) != defaults[name]:
            raise ValueError(
                f"`option` must not set what `{space.trainer}` fixes, got {name!r}. Leave it out "
                "of one of the two."
            )

    for interval in space.ranges:
        for end in interval.ends:
            _check_possible(space, interval.name, end, f"{interval.text!r} at {end:g}")
    for choice in space.choices:
        for word in choice.values:
            _check_possible(space, choice.name, word, repr(word))


def _check_possible(space: Space, name: str, value: Any, shown: str) -> None:
    """Refuse a value that the trainer accepts in no combination with the other options."""
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
    """The values of the other options to try an end of a range, or a word, with.

    All ranges are at their middle, at their lower end or at their upper end, with every combination
    of the words and without them.
    """
    middles = {interval.name: interval.middle for interval in space.ranges}
    lows = {interval.name: interval.ends[0] for interval in space.ranges}
    highs = {interval.name: interval.ends[1] for interval in space.ranges}

    choice_names = [choice.name for choice in space.choices]
    words = [(OFF, *choice.values) for choice in space.choices]
    for numbers in (middles, lows, highs):
        for chosen in itertools.product(*words):
            yield numbers | dict(zip(choice_names, chosen, strict=True))
