"""The trainers and their options, for people."""

from rich.console import Group
from rich.table import Table

from nnunet_dro.trainers.options import OPTIONS
from nnunet_dro.trainers.registry import TRAINERS


def trainer_overview() -> Group:
    """What `nnunet-dro trainers` shows: a line per trainer and per option."""
    trainers = Table(title="Trainers (nnUNetv2_train DATASET CONFIGURATION FOLD -tr NAME)", title_justify="left")
    trainers.add_column("name", no_wrap=True)
    trainers.add_column("what it does")
    for name, cls in TRAINERS.items():
        trainers.add_row(name, (cls.__doc__ or "").strip().splitlines()[0])
    options = Table(title="Options, joined to the name with _ in this order, each at most once", title_justify="left")
    options.add_column("option", no_wrap=True)
    options.add_column("meaning")
    for option in OPTIONS:
        options.add_row(option.form, option.help)
    return Group(trainers, options)
