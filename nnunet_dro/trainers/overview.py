"""The trainers and their options, for people."""

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from nnunet_dro.trainers.options import OPTIONS, GroupOptions, Option
from nnunet_dro.trainers.registry import TRAINERS


def trainer_overview() -> Group:
    """What `nnunet-dro trainers` shows: a line per trainer and per option, with its source."""
    trainers = Table(title="Trainers (nnUNetv2_train DATASET CONFIGURATION FOLD -tr NAME)", title_justify="left")
    trainers.add_column("name", no_wrap=True)
    trainers.add_column("what it does")
    for name, cls in TRAINERS.items():
        column = "_<column>" if issubclass(cls.options_class, GroupOptions) else ""
        trainers.add_row(escape(name + column), escape((cls.__doc__ or "").strip().splitlines()[0]))
    title = "Options, joined to the name with _ in this order, each at most once"
    options = Table(title=title, title_justify="left", show_lines=False)
    options.add_column("option", no_wrap=True)
    options.add_column("meaning")
    options.add_column("trainers")
    for option in OPTIONS:
        source = f" [dim]· {escape(option.source)}[/]" if option.source else ""
        options.add_row(escape(option.form), escape(option.help) + source, _trainers_with(option))
    return Group(trainers, options)


def _trainers_with(option: Option) -> str:
    names = [name for name, cls in TRAINERS.items() if option in cls.options_class.known_options()]
    return "all" if len(names) == len(TRAINERS) else ", ".join(name.removeprefix("nnUNetTrainer") for name in names)
