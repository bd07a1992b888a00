"""nnU-Net's own search for a trainer, whose function has another name in nnU-Net 2.6."""

from pathlib import Path

import nnunetv2
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

_FOLDER, _PACKAGE = ("training", "nnUNetTrainer"), "nnunetv2.training.nnUNetTrainer"


def trainer_found_by_nnunet(name: str) -> type[nnUNetTrainer]:
    """The trainer that ``nnUNetv2_train -tr NAME`` would use.

    nnU-Net imports all trainers that it has until it finds the name, and what they import.

    Args:
        name: Name of the trainer.

    Raises:
        RuntimeError: If nnU-Net does not find it.
        ImportError: If a trainer on the way cannot be imported.
    """
    try:
        from nnunetv2.utilities.find_objects import recursive_find_trainer_class_by_name
    except ImportError:
        from nnunetv2.utilities.find_class_by_name import recursive_find_python_class

        folder = Path(nnunetv2.__path__[0]).joinpath(*_FOLDER)
        found = recursive_find_python_class(str(folder), name, _PACKAGE)
    else:
        found = recursive_find_trainer_class_by_name(name)
    if found is None or not issubclass(found, nnUNetTrainer):
        raise RuntimeError(f"nnU-Net finds no trainer {name!r}.")
    return found  # type: ignore[no-any-return]
