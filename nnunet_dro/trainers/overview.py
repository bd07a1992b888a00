"""The trainers and their options in words: as tables, and what one name means."""

import re
from collections import defaultdict
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from nnunet_dro.trainers.named import longest_name
from nnunet_dro.trainers.options import OPTIONS, GroupOptions, Option, TrainerOptions
from nnunet_dro.trainers.registry import TRAINERS, parse_trainer_name


def trainer_overview() -> Group:
    """The tables that `nnunet-dro trainers` shows.

    They have a row for every trainer, and a row for every option with its source.
    """
    trainers = Table(
        title="Trainers (nnUNetv2_train DATASET CONFIGURATION FOLD -tr NAME)",
        title_justify="left",
    )
    trainers.add_column("name", no_wrap=True)
    trainers.add_column("what it does")
    for name, cls in TRAINERS.items():
        column = "_<column>" if isinstance(cls.options, GroupOptions) else ""
        trainers.add_row(escape(name + column), escape(_summary(name)))

    options = Table(
        title="Options, appended to the name with _ in this order, each at most once",
        title_justify="left",
        show_lines=False,
    )
    options.add_column("option", no_wrap=True)
    options.add_column("meaning")
    # Narrow, so that 80 columns leave room for the sentences.
    options.add_column("default", max_width=10)
    options.add_column("trainers", max_width=9)
    for option in OPTIONS:
        source = f" [dim]· {escape(option.source)}[/]" if option.source else ""
        options.add_row(
            escape(option.form),
            escape(option.help) + source,
            escape(default_of(option)),
            trainers_with(option),
        )
    return Group(trainers, options)


def default_of(option: Option) -> str:
    """The default of an option, as names write it; where trainers differ, with their names."""
    trainers = defaultdict(list)
    for name, cls in TRAINERS.items():
        if option in cls.options.known_options():
            default = option.default_in(type(cls.options))
            trainers[default].append(name.removeprefix("nnUNetTrainer"))

    if len(trainers) == 1:
        return next(iter(trainers))
    return ", ".join(f"{default} ({', '.join(names)})" for default, names in trainers.items())


def trainers_with(option: Option) -> str:
    """The trainers that have an option, without their common prefix; ``all`` if all have it."""
    names = [name for name, cls in TRAINERS.items() if option in cls.options.known_options()]
    if len(names) == len(TRAINERS):
        return "all"
    return ", ".join(name.removeprefix("nnUNetTrainer") for name in names)


def explain(name: str) -> list[str]:
    """Say what a trainer's name means: the trainer, each of its options, and what is left out.

    Raises:
        ValueError: If the name is not that of a trainer, or one of its options is wrong.
    """
    try:
        base, options = parse_trainer_name(name)
    except AttributeError:
        near = get_close_matches(name.split("_")[0], TRAINERS, n=1, cutoff=0.75)
        cure = f"Did you mean {near[0]}?" if near else "`nnunet-dro trainers` lists them."
        raise ValueError(f"`{name}` is not a trainer of nnunet-dro. {cure}") from None

    summary = _summary(base).replace(", with options in its name", "")
    lines = [name, f"{base}: {summary}", ""]

    if isinstance(options, GroupOptions):
        entry = "weight" if options.as_weights else "group"
        column = f"the column of cases.csv that has the {entry} of every case"
        lines.append(f"  {options.column}: {column}.")
    for option in options.given_options():
        written = option.write(getattr(options, option.field))
        lines.append(f"  {written}{_letter(option, written)}: {option.help}")
    if lines[-1]:
        lines.append("")

    defaults = _defaults(options)
    if defaults:
        lines.append(f"What it leaves out is at its default: {', '.join(defaults)}.")
    longest = longest_name("nnUNetPlans", ["2d", "3d_fullres"])
    if len(name) > longest:
        lines.append(
            f"With more than {longest} characters, nnUNetv2_find_best_configuration may fail: "
            f"{len(name)}."
        )
    return [*lines, "", f"nnUNetv2_train DATASET CONFIGURATION FOLD -tr {name}"]


def _letter(option: Option, written: str) -> str:
    """The value of the letter in an option's help, as in `` (a = 0.5)``; empty if it has none."""
    letters = re.findall("<(.*?)>", option.form)
    if len(letters) != 1 or not re.search(rf"\b{letters[0]}\b", option.help):
        return ""
    return f" ({letters[0]} = {written.replace(option.word, '')})"


def _summary(base: str) -> str:
    """The first sentence of a trainer's documentation."""
    return str(TRAINERS[base].__doc__).splitlines()[0]


def _defaults(options: TrainerOptions) -> list[str]:
    """The options that are at a default that has an effect, as a name would write them."""
    named_fields = {option.field for option in options.given_options()}

    words = []
    for option in options.known_options():
        default = options.value_in_effect(option.field)
        if option.field not in named_fields and _has_effect(options, option.field, default):
            words.append(option.write(default))
    return words


def _has_effect(options: TrainerOptions, field: str, value: Any) -> bool:
    """Whether an option at its default does something: it could be set to another value then."""
    if isinstance(value, bool) or not value:
        return False

    other: Any
    if isinstance(value, tuple):
        other = (0.5, 2.0)
    elif isinstance(value, float):
        other = value / 2
    elif isinstance(value, int):
        other = value // 2
    else:
        return False
    try:
        replace(options, **{field: other})
    except (ValueError, TypeError):
        return False
    return True
