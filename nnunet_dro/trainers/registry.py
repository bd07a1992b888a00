"""Trainer names to trainer classes."""

import copyreg
from functools import cache
from typing import Any

from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.nnUNetTrainerDRO import nnUNetTrainerDRO
from nnunet_dro.trainers.nnUNetTrainerGILS import nnUNetTrainerGILS
from nnunet_dro.trainers.nnUNetTrainerGroupDRO import nnUNetTrainerGroupDRO
from nnunet_dro.trainers.nnUNetTrainerIW import nnUNetTrainerIW
from nnunet_dro.trainers.nnUNetTrainerL2RW import nnUNetTrainerL2RW
from nnunet_dro.trainers.nnUNetTrainerLS import nnUNetTrainerLS
from nnunet_dro.trainers.options import OPTIONS, TrainerOptions, options_from_name

#: Every trainer a user can name, without options.
TRAINERS: dict[str, type[NamedTrainer]] = {
    cls.__name__: cls
    for cls in (
        nnUNetTrainerDRO,
        nnUNetTrainerGroupDRO,
        nnUNetTrainerIW,
        nnUNetTrainerL2RW,
        nnUNetTrainerLS,
        nnUNetTrainerGILS,
    )
}


class _MadeByName(type):
    """Metaclass of the classes made here: they pickle as their name, which may have dots in it (beta0.5)."""


@cache
def trainer_class(name: str) -> type[NamedTrainer]:
    """The trainer that a name says.

    Args:
        name: What follows nnU-Net's ``-tr``, for example ``nnUNetTrainerDRO_beta10_noIS_20epochs``.

    Returns:
        The class; the same one each time.

    Raises:
        AttributeError: If the name is not of this package.
        ValueError: If it is one of ours with options that are not; the message lists them.
    """
    base, options = parse_trainer_name(name)
    if name == base:
        return TRAINERS[base]
    namespace: dict[str, Any] = {"options": options, "__module__": __name__, "__doc__": TRAINERS[base].__doc__}
    made: Any = _MadeByName(name, (TRAINERS[base],), namespace)
    return made


def parse_trainer_name(name: str) -> tuple[str, TrainerOptions]:
    """The trainer and the options that a name says.

    Args:
        name: What follows nnU-Net's ``-tr``.

    Returns:
        The trainer's name without options, a key of `TRAINERS`, and its options.

    Raises:
        AttributeError: If the name is not of this package.
        ValueError: If it is one of ours with options that are not; the message lists them.
    """
    base = next((base for base in sorted(TRAINERS, key=len, reverse=True) if name.startswith(base)), None)
    if base is None or not _is_ours(name[len(base) :]):
        raise AttributeError(f"{name} is not a trainer of nnunet-dro.")
    return base, options_from_name(name, base=base, kind=TRAINERS[base].options_class)


def _is_ours(rest: str) -> bool:
    """Whether what follows a trainer's name is its options, and not the rest of another word: nnUNetTrainerLSTM."""
    return rest[:1] in ("", "_") or any(option.pattern.match(rest) for option in OPTIONS)


def _reduce(cls: Any) -> tuple[Any, ...]:
    return trainer_class, (cls.__name__,)


copyreg.pickle(_MadeByName, _reduce)
