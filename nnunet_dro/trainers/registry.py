"""Trainer classes by their names."""

import copyreg
from functools import cache
from typing import Any

from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.nnUNetTrainerDRO import nnUNetTrainerDRO
from nnunet_dro.trainers.nnUNetTrainerGILS import nnUNetTrainerGILS
from nnunet_dro.trainers.nnUNetTrainerGroupDRO import nnUNetTrainerGroupDRO
from nnunet_dro.trainers.nnUNetTrainerHWS import nnUNetTrainerHWS
from nnunet_dro.trainers.nnUNetTrainerIW import nnUNetTrainerIW
from nnunet_dro.trainers.nnUNetTrainerL2RW import nnUNetTrainerL2RW
from nnunet_dro.trainers.nnUNetTrainerLS import nnUNetTrainerLS
from nnunet_dro.trainers.options import OPTIONS, TrainerOptions, options_from_name

#: Every trainer that a user can name, by its name without options.
TRAINERS: dict[str, type[NamedTrainer]] = {
    cls.__name__: cls
    for cls in (
        nnUNetTrainerDRO,
        nnUNetTrainerHWS,
        nnUNetTrainerGroupDRO,
        nnUNetTrainerIW,
        nnUNetTrainerL2RW,
        nnUNetTrainerLS,
        nnUNetTrainerGILS,
    )
}


class _MadeByName(type):
    """Metaclass of the classes made here. They pickle as their names, which may contain dots (beta0.5)."""


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
    namespace: dict[str, Any] = {"options": options, "__module__": __name__, "__doc__": TRAINERS[base].__doc__}
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
    base = next((base for base in sorted(TRAINERS, key=len, reverse=True) if name.startswith(base)), None)
    if base is None or not _is_ours(name[len(base) :]):
        raise AttributeError(f"{name} is not a trainer of nnunet-dro.")
    return base, options_from_name(name, base=base, kind=TRAINERS[base].options_class)


def _is_ours(rest: str) -> bool:
    """Whether the rest of a name after a trainer's are options, and not the rest of another name: nnUNetTrainerLSTM."""
    return rest[:1] in ("", "_") or any(option.pattern.match(rest) for option in OPTIONS)


def _reduce(cls: Any) -> tuple[Any, ...]:
    return trainer_class, (cls.__name__,)


copyreg.pickle(_MadeByName, _reduce)
