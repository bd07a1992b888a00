"""The trainers and their options in words: as tables, and what one name means."""

from dataclasses import fields, replace
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

    A row per trainer and a row per option, with its source.
    """
    trainers = Table(
        title="Trainers (nnUNetv2_train DATASET CONFIGURATION FOLD -tr NAME)", title_justify="left"
    )
    trainers.add_column("name", no_wrap=True)
    trainers.add_column("what it does")
    for name, cls in TRAINERS.items():
        column = "_<column>" if isinstance(cls.options, GroupOptions) else ""
        trainers.add_row(escape(name + column), escape((cls.__doc__ or "").strip().splitlines()[0]))
    title = "Options, appended to the name with _ in this order, each at most once"
    options = Table(title=title, title_justify="left", show_lines=False)
    options.add_column("option", no_wrap=True)
    options.add_column("meaning")
    options.add_column("default", no_wrap=True)
    options.add_column("trainers")
    for option in OPTIONS:
        source = f" [dim]· {escape(option.source)}[/]" if option.source else ""
        meaning = escape(option.help) + source
        options.add_row(
            escape(option.form), meaning, escape(default_of(option)), trainers_with(option)
        )
    return Group(trainers, options)


def default_of(option: Option) -> str:
    """The default of an option, as names write it; where trainers differ, with their names."""
    names: dict[str, list[str]] = {}
    for name, cls in TRAINERS.items():
        if option in cls.options.known_options():
            names.setdefault(option.default_in(type(cls.options)), []).append(
                name.removeprefix("nnUNetTrainer")
            )
    if len(names) == 1:
        return next(iter(names))
    return ", ".join(f"{default} ({', '.join(of)})" for default, of in names.items())


def trainers_with(option: Option) -> str:
    """The trainers that have an option, without their common prefix.

    ``all`` if every trainer has it.
    """
    names = [name for name, cls in TRAINERS.items() if option in cls.options.known_options()]
    return (
        "all"
        if len(names) == len(TRAINERS)
        else ", ".join(name.removeprefix("nnUNetTrainer") for name in names)
    )


def explain(name: str) -> list[str]:
    """Say what a trainer's name means.

    What the trainer and each option does, and what is left out.
    """
    try:
        base, options = parse_trainer_name(name)
    except AttributeError:
        near = get_close_matches(name.split("_")[0], TRAINERS, n=1, cutoff=0.75)
        cure = f"Did you mean {near[0]}?" if near else "`nnunet-dro trainers` lists them."
        raise ValueError(f"`{name}` is not a trainer of nnunet-dro. {cure}") from None
    lines = [name, f"{base}: {_summary(base)}", ""]
    if isinstance(options, GroupOptions):
        entry = "weight" if options.as_weights else "group"
        lines.append(
            f"  {options.column}: the column of cases.csv that has the {entry} of every case."
        )
    given = options.given_options()
    lines += [
        f"  {option.write(getattr(options, option.field))}: {option.help}" for option in given
    ]
    if lines[-1]:
        lines.append("")
    if defaults := _defaults(options):
        lines.append(f"What it leaves out is at its default: {', '.join(defaults)}.")
    if len(name) > (longest := longest_name("nnUNetPlans", ["2d", "3d_fullres"])):
        lines.append(
            f"With more than {longest} characters, nnUNetv2_find_best_configuration may fail: {len(name)}."
        )
    return [*lines, "", f"nnUNetv2_train DATASET CONFIGURATION FOLD -tr {name}"]


def _summary(base: str) -> str:
    """The first sentence of a trainer's documentation, without the example of a name that it ends with."""
    return (
        str(TRAINERS[base].__doc__)
        .splitlines()[0]
        .split(": `")[0]
        .split(", with options in its name")[0]
        .rstrip(".")
        + "."
    )


def _defaults(options: TrainerOptions) -> list[str]:
    """The options that are at a default that has an effect, as a name would write them."""
    given = {option.field for option in options.given_options()}
    defaults = {field.name: field.default for field in fields(options)}
    return [
        option.write(defaults[option.field])
        for option in options.known_options()
        if option.field not in given and _has_effect(options, option.field, defaults[option.field])
    ]


def _has_effect(options: TrainerOptions, field: str, value: Any) -> bool:
    """Whether an option at its default does something: it could be set to another value then."""
    if isinstance(value, bool) or not isinstance(value, (int, float, tuple)) or not value:
        return False
    other: Any = (
        (0.5, 2.0)
        if isinstance(value, tuple)
        else value / 2
        if isinstance(value, float)
        else value // 2
    )
    try:
        replace(options, **{field: other})
    except (ValueError, TypeError):
        return False
    return True
