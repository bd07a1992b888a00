"""The trainers and their options as tables for the terminal."""

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from nnunet_dro.trainers.options import OPTIONS, GroupOptions, Option
from nnunet_dro.trainers.registry import TRAINERS


def trainer_overview() -> Group:
    """The tables that `nnunet-dro trainers` shows: a row per trainer and a row per option, with its source."""
    trainers = Table(title="Trainers (nnUNetv2_train DATASET CONFIGURATION FOLD -tr NAME)", title_justify="left")
    trainers.add_column("name", no_wrap=True)
    trainers.add_column("what it does")
    for name, cls in TRAINERS.items():
        column = "_<column>" if issubclass(cls.options_class, GroupOptions) else ""
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
        options.add_row(escape(option.form), meaning, escape(default_of(option)), trainers_with(option))
    return Group(trainers, options)


def default_of(option: Option) -> str:
    """The default of an option, as names write it; where trainers differ, with their names."""
    names: dict[str, list[str]] = {}
    for name, cls in TRAINERS.items():
        if option in cls.options_class.known_options():
            names.setdefault(option.default_in(cls.options_class), []).append(name.removeprefix("nnUNetTrainer"))
    if len(names) == 1:
        return next(iter(names))
    return ", ".join(f"{default} ({', '.join(of)})" for default, of in names.items())


def trainers_with(option: Option) -> str:
    """The trainers that have an option, without their common prefix; ``all`` if every trainer has it."""
    names = [name for name, cls in TRAINERS.items() if option in cls.options_class.known_options()]
    return "all" if len(names) == len(TRAINERS) else ", ".join(name.removeprefix("nnUNetTrainer") for name in names)
