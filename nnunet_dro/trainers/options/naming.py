"""Reads the options from a trainer's name."""

import re
from difflib import get_close_matches
from typing import Any, TypeVar

from nnunet_dro.trainers.options.by_group import GroupOptions
from nnunet_dro.trainers.options.forms import OPTIONS, Option
from nnunet_dro.trainers.options.settings import TrainerOptions

Options = TypeVar("Options", bound=TrainerOptions)


def options_from_name(name: str, *, base: str, kind: type[Options]) -> Options:
    """Read the options from a trainer's name.

    Args:
        name: What follows nnU-Net's ``-tr``.
        base: The trainer's name without options, which ``name`` starts with.
        kind: The class of that trainer's options.

    Returns:
        The options.

    Raises:
        ValueError: If an option is unknown, duplicated, out of range, without effect or not written in the one way that
            finds the model again (another order, a default, 10.0 instead of 10), or if the name of a group trainer
            lacks its column; the message says what to write.

    Example:
        >>> from nnunet_dro.trainers.options import DROOptions
        >>> options = options_from_name("nnUNetTrainerDRO_beta10", base="nnUNetTrainerDRO", kind=DROOptions)
        >>> options.beta, options.importance_sampling
        (10.0, False)
    """
    words = name[len(base) :].split("_")[1:] if name != base else []
    if not name[len(base) :].startswith("_") and name != base:
        raise ValueError(f"`{name}` must have an underscore after {base}. {_valid_options(kind)}")
    given: dict[str, Any] = {}
    given_by: dict[str, str] = {}
    if issubclass(kind, GroupOptions):
        column = _leading_column(words)
        given["column"] = column
        words = words[len(column.split("_")) if column else 0 :]
    for word in words:
        option, groups = _option_for(word, name, kind)
        if option.form == (before := given_by.setdefault(option.field, option.form)) and option.field in given:
            raise ValueError(f"`{name}` gives the option {option.form} twice. {_valid_options(kind)}")
        if option.form != before:
            raise ValueError(f"`{name}` gives both {before} and {option.form}. Choose one. {_valid_options(kind)}")
        try:
            given[option.field] = option.read(*groups)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"`{word}` in `{name}` is not a number that nnunet-dro can read: {error}.") from error
    try:
        options = kind(**given)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error} {_valid_options(kind)}") from error
    right = base + options.suffix()
    if right != name:
        raise ValueError(
            f"`{name}` must be written `{right}`: one configuration has one name (fixed order, defaults left out), "
            "because nnU-Net finds the model again by its name."
        )
    return options


def _leading_column(words: list[str]) -> str:
    """The words before the first option of any trainer; the name of a column may contain underscores."""
    is_option = (any(option.pattern.fullmatch(word) for option in OPTIONS) for word in words)
    n = next((n for n, found in enumerate(is_option) if found), len(words))
    return "_".join(words[:n])


def _option_for(word: str, name: str, kind: type[TrainerOptions]) -> tuple[Option, tuple[str, ...]]:
    for option in kind.known_options():
        if match := option.pattern.fullmatch(word):
            return option, match.groups()
    by_word = {option.word: option.form for option in kind.known_options()}
    near = get_close_matches(re.sub(r"[\d.]+", "", word), by_word, n=1)
    cure = f"Did you mean {by_word[near[0]]}? " if near else ""
    raise ValueError(f"`{word}` in `{name}` is not an option of this trainer. {cure}{_valid_options(kind)}")


def _valid_options(kind: type[TrainerOptions]) -> str:
    column = "the column first, then " if issubclass(kind, GroupOptions) else ""
    return f"Options, {column}in this order: {', '.join(option.form for option in kind.known_options())}."
