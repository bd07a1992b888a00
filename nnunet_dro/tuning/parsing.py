"""The options to tune, as the user writes them."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from nnunet_dro.naming import repeated
from nnunet_dro.trainers.options import Option, TrainerOptions
from nnunet_dro.tuning.space import OFF, Choice, Range, Space

#: Beginning of the name of every trainer, which users may leave out.
_PREFIX = "nnUNetTrainer"

#: Form of an option that is a number, as users see it: the name of the option, then the number.
_NUMBER_FORM = re.compile(r"([A-Za-z]\w*)<\w+>")

_EXAMPLE = "Write, for example, beta:1:100:log, warmup:0:5 or chi2."


def parse_space(trainer: str, options: Sequence[str], *, epochs: int | None, iterations: int | None) -> Space:
    """Read what is to be tuned; every end of a range and every word is accepted in at least one combination.

    An option is ``NAME:LOW:HIGH`` or ``NAME:LOW:HIGH:log`` for a number, or a word as in the trainer's name (``chi2``,
    ``clip0.2to5``) to try with and without it. Of words that exclude each other, a name has at most one.

    Example:
        >>> space = parse_space("HWS_noIS", ["beta:1:100:log", "hardCE"], epochs=20, iterations=None)
        >>> space.trainer_name({"beta": 12.5, "hardCE": "hardCE"})
        'nnUNetTrainerHWS_beta12.5_noIS_hardCE_20epochs'
    """
    from nnunet_dro.trainers.registry import TRAINERS, parse_trainer_name

    name = trainer if trainer.startswith(_PREFIX) else _PREFIX + trainer
    try:
        base, fixed = parse_trainer_name(name)
    except AttributeError as error:
        known = ", ".join(known.removeprefix(_PREFIX) for known in TRAINERS)
        raise ValueError(
            f"`trainer` must be one of {known}, with or without options, got {trainer!r}. Choose one."
        ) from error
    fixed = _with_length(fixed, name, {"epochs": epochs, "iterations": iterations})
    if not options:
        raise ValueError(f"`option` must be given at least once, got none. {_EXAMPLE}")
    ranges = tuple(_range(text, type(fixed)) for text in options if ":" in text)
    words = [(text, *_word(text, type(fixed))) for text in options if ":" not in text]
    by_field: dict[str, list[tuple[str, Any]]] = {}
    for word, field, value in words:
        by_field.setdefault(field, []).append((word, value))
    choices = tuple(Choice(*_columns(found, field)) for field, found in by_field.items())
    space = Space(base, fixed, ranges, choices)
    _check(space, options)
    return space


def _columns(found: list[tuple[str, Any]], field: str) -> tuple[tuple[str, ...], str, tuple[Any, ...]]:
    return tuple(word for word, _ in found), field, tuple(value for _, value in found)


def _with_length(fixed: TrainerOptions, name: str, given: Mapping[str, int | None]) -> TrainerOptions:
    defaults = {field.name: field.default for field in fields(fixed)}
    for field, value in given.items():
        named = getattr(fixed, field)
        if value is not None and named not in (defaults[field], value):
            raise ValueError(f"`{field}` must be as in `{name}`, got {value!r}. Leave it out of one of the two.")
    lengths: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    return replace(fixed, **lengths)


def _numbers(kind: type[TrainerOptions]) -> dict[str, Option]:
    """The options that are a number, by name."""
    found = ((_NUMBER_FORM.fullmatch(option.form), option) for option in kind.known_options())
    return {match[1]: option for match, option in found if match and option.read in (int, float)}


def _range(text: str, kind: type[TrainerOptions]) -> Range:
    name, *ends = (part.strip() for part in text.split(":"))
    numbers = _numbers(kind)
    if name not in numbers:
        cure = f"Choose from: {', '.join(numbers)}."
        raise ValueError(f"`option` must name a numerical option of this trainer, got {name!r} in {text!r}. {cure}")
    log = len(ends) == 3 and ends[2] == "log"
    try:
        low, high = (float(end) for end in (ends[:2] if log else ends))
    except ValueError as error:
        raise ValueError(f"`option` must be NAME:LOW:HIGH or NAME:LOW:HIGH:log, got {text!r}. {_EXAMPLE}") from error
    is_integer = numbers[name].read is int
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"`option` must have LOW < HIGH, both finite, got {text!r}. {_EXAMPLE}")
    if is_integer and not (low.is_integer() and high.is_integer()):
        raise ValueError(f"`option` must have integers for {name}, got {text!r}. {_EXAMPLE}")
    if log and low <= 0:
        raise ValueError(f"`option` must have LOW > 0 with log, got {text!r}. Leave out log, or increase LOW.")
    return Range(text, name, numbers[name].field, low, high, log, is_integer)


def _word(text: str, kind: type[TrainerOptions]) -> tuple[str, Any]:
    for option in kind.known_options():
        if (match := option.pattern.fullmatch(text)) and option.field not in ("epochs", "iterations"):
            return option.field, option.read(*match.groups())
    known = ", ".join(option.form for option in kind.known_options() if option.field not in ("epochs", "iterations"))
    cure = "A number needs a range (beta:1:100). Choose from: " + known
    raise ValueError(f"`option` must be an option of this trainer, written as in its name, got {text!r}. {cure}.")


def _check(space: Space, options: Sequence[str]) -> None:
    """Refuse what is duplicated, and what no combination allows."""
    tuned = [*(one.field for one in space.ranges), *(choice.field for choice in space.choices)]
    if twice := repeated(options) or repeated(tuned):
        raise ValueError(f"`option` must name everything once, got {twice[0]!r} twice. Leave out one of the two.")
    defaults = {field.name: field.default for field in fields(space.fixed)}
    for field in tuned:
        if getattr(space.fixed, field) != defaults[field]:
            cure = "Leave it out of one of the two."
            raise ValueError(f"`option` must not set what `{space.trainer}` fixes, got {field!r}. {cure}")
    for one in space.ranges:
        for end in (one.low, one.high):
            _check_possible(space, {one.name: one.as_written(end)}, one.text)
    for choice in space.choices:
        for word in choice.words:
            _check_possible(space, {choice.name: word}, word)


def _check_possible(space: Space, values: Mapping[str, Any], text: str) -> None:
    first: ValueError | None = None
    for others in _contexts(space):
        try:
            space.trainer_name({**others, **values})
        except ValueError as error:
            first = first or error
        else:
            return
    value = next(iter(values.values()))
    shown = "" if value == text else f" at {value:g}"
    raise ValueError(f"`option` must be accepted by the trainer, got {text!r}{shown}: {first}")


def _contexts(space: Space) -> Iterator[dict[str, Any]]:
    """The values to try an end with: middles, low and high ends of the other ranges, with and without each word."""
    words = [[(choice.name, word) for word in (OFF, *choice.words)] for choice in space.choices]
    for others in (
        {one.name: one.middle for one in space.ranges},
        {one.name: one.as_written(one.low) for one in space.ranges},
        {one.name: one.as_written(one.high) for one in space.ranges},
    ):
        for chosen in itertools.product(*words):
            yield {**others, **dict(chosen)}
