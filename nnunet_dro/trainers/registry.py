"""Trainer classes by their names."""

import copyreg
import inspect
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import SPLITS_FILE, first_checkpoint
from nnunet_dro.trainers.checkpoint import (
    check_resumed,
    name_of_today,
    read_checkpoint,
    state_in,
    trained_cases,
)
from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.options import OPTIONS, TrainerOptions, options_from_name

#: Every trainer that a user can name, and the room that its module is in.
_ROOMS = {
    "nnUNetTrainerDRO": "",
    "nnUNetTrainerHWS": "",
    "nnUNetTrainerGroupDRO": "",
    "nnUNetTrainerIW": "",
    "nnUNetTrainerL2RW": ".l2rw",
    "nnUNetTrainerLS": "",
    "nnUNetTrainerGILS": ".gils",
}


class _Trainers(Mapping[str, type[NamedTrainer]]):
    """Imports the module of a trainer when it is asked for."""

    def __getitem__(self, name: str) -> type[NamedTrainer]:
        module = import_module(f"{__package__}{_ROOMS[name]}.{name}")
        trainer: type[NamedTrainer] = getattr(module, name)
        return trainer

    def __iter__(self) -> Iterator[str]:
        return iter(_ROOMS)

    def __len__(self) -> int:
        return len(_ROOMS)


#: Every trainer that a user can name, by its name without options.
TRAINERS: Mapping[str, type[NamedTrainer]] = _Trainers()


class _MadeByName(type):
    """Metaclass of the classes made here.

    They pickle as their names, which may contain dots (beta0.5).
    """


@cache
def trainer_class(name: str) -> type[NamedTrainer]:
    """The trainer class with a given name.

    Args:
        name: What follows nnU-Net's ``-tr``, for example ``nnUNetTrainerDRO_beta10_20epochs``.

    Returns:
        The class, always the same object for the same name.

    Raises:
        AttributeError: If the name does not belong to this package.
        ValueError: If an option in the name is wrong; the message lists the options.

    Example:
        >>> trainer = trainer_class("nnUNetTrainerDRO_beta10_20epochs")
        >>> trainer.__name__, trainer.options.beta, trainer.options.epochs
        ('nnUNetTrainerDRO_beta10_20epochs', 10.0, 20)
    """
    base, options = parse_trainer_name(name)
    if name == base:
        return TRAINERS[base]
    namespace: dict[str, Any] = {
        "options": options,
        "__module__": __name__,
        "__doc__": TRAINERS[base].__doc__,
    }
    made: Any = _MadeByName(name, (TRAINERS[base],), namespace)
    return made


def parse_trainer_name(name: str) -> tuple[str, TrainerOptions]:
    """Split a trainer's name into the trainer and its options.

    Args:
        name: What follows nnU-Net's ``-tr``.

    Returns:
        The trainer's name without options, a key of `TRAINERS`, and its options.

    Raises:
        AttributeError: If the name does not belong to this package.
        ValueError: If an option in the name is wrong; the message lists the options.

    Example:
        >>> base, options = parse_trainer_name("nnUNetTrainerIW_centre_20epochs")
        >>> base, options.column, options.epochs
        ('nnUNetTrainerIW', 'centre', 20)
    """
    # The longest first: the name of one trainer may begin with that of another.
    bases = [base for base in sorted(TRAINERS, key=len, reverse=True) if name.startswith(base)]
    if not bases or not _is_ours(name.removeprefix(bases[0])):
        raise AttributeError(f"{name} is not a trainer of nnunet-dro.")

    base = bases[0]
    return base, options_from_name(name, base=base, kind=type(TRAINERS[base].options))


def check_trained(fold: Path, name: str, *, held_out: Collection[str] = ()) -> None:
    """Refuse the training in a folder if it cannot be that of a trainer now.

    A folder without a checkpoint passes, as does a checkpoint that says nothing of options or of
    cases.

    Args:
        fold: The folder of the fold.
        name: The name of the trainer.
        held_out: The cases that the fold validates on, and does not train on.

    Raises:
        ValueError: If the name stood for other options then, see `check_resumed`, or the training
            has been given cases that are to be validated.
    """
    _, options = parse_trainer_name(name)
    checkpoint: Mapping[str, Any] = {}
    path = first_checkpoint(fold)
    if path is not None:
        # What becomes of a damaged file is nnU-Net's business.
        with suppress(ValueError):
            checkpoint = read_checkpoint(path, cure="Train again.")

    recorded = state_in(checkpoint).get("options")
    if recorded is not None:
        check_resumed(options, recorded, trainer=name)

    seen = sorted(trained_cases(state_in(checkpoint)) & set(held_out))
    if seen:
        raise ValueError(
            f"`{SPLITS_FILE}` must have no validation case that the training in {str(fold)!r} was "
            f"given, got {name_some(seen)}: it was begun with other folds. Rename or remove that "
            "folder, or put the earlier file back."
        )


def trained_with(checkpoint: Mapping[str, Any]) -> str:
    """The trainer's name that stands now for what a checkpoint was trained with.

    It is another one than in the checkpoint if the name stood for another rule then.
    """
    name = str(checkpoint["trainer_name"])
    recorded = state_in(checkpoint).get("options")
    # Other packages' trainers have names of their own.
    with suppress(AttributeError):
        _, options = parse_trainer_name(name)
        if recorded is not None:
            return name_of_today(options, recorded, trainer=name) or name
    return name


def find_trainer(name: str) -> type[nnUNetTrainer] | None:
    """The trainer that ``nnUNetv2_train -tr NAME`` would use, of this package or not.

    None if nnU-Net finds none.
    """
    with suppress(AttributeError):
        return trainer_class(name)
    # nnU-Net imports every trainer that it has, and with them what they warn about.
    with suppress(ImportError, RuntimeError, FileNotFoundError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = _trainer_of_nnunet(name)
        if trainer is not None and issubclass(trainer, nnUNetTrainer):
            return trainer  # type: ignore[no-any-return]
    return None


def _trainer_of_nnunet(name: str) -> Any:
    """What nnU-Net finds by a name, or None."""
    try:
        from nnunetv2.utilities.find_objects import recursive_find_trainer_class_by_name
    except ImportError:  # nnU-Net 2.6 has another function
        from nnunetv2.utilities.find_class_by_name import recursive_find_python_class

        package = nnUNetTrainer.__module__.rpartition(".")[0]
        folder = Path(inspect.getfile(nnUNetTrainer)).parent
        return recursive_find_python_class(str(folder), name, package)
    return recursive_find_trainer_class_by_name(name)


def _is_ours(rest: str) -> bool:
    """Whether what follows a trainer's name are options.

    Otherwise the name is another one that begins alike, such as nnUNetTrainerLSTM.
    """
    return rest[:1] in ("", "_") or any(option.pattern.match(rest) for option in OPTIONS)


def _reduce(cls: Any) -> tuple[Any, ...]:
    return trainer_class, (cls.__name__,)


copyreg.pickle(_MadeByName, _reduce)
