"""Options of a trainer, and the one name that stands for them.

An example is `nnUNetTrainerDRO_beta10_20epochs`.
"""

from nnunet_dro.trainers.options.by_groups import (
    GroupDROOptions,
    GroupOptions,
    IWOptions,
    trainer_told_by,
)
from nnunet_dro.trainers.options.by_hardness import DROOptions, HWSOptions
from nnunet_dro.trainers.options.by_smoothing import GILSOptions, LSOptions
from nnunet_dro.trainers.options.forms import OPTIONS
from nnunet_dro.trainers.options.option import Option
from nnunet_dro.trainers.options.settings import (
    NNUNET_EPOCHS,
    NNUNET_ITERATIONS,
    NNUNET_VALIDATION_ITERATIONS,
    HardnessOptions,
    History,
    TrainerOptions,
    options_from_name,
)

__all__ = [
    "NNUNET_EPOCHS",
    "NNUNET_ITERATIONS",
    "NNUNET_VALIDATION_ITERATIONS",
    "OPTIONS",
    "DROOptions",
    "GILSOptions",
    "GroupDROOptions",
    "GroupOptions",
    "HWSOptions",
    "HardnessOptions",
    "History",
    "IWOptions",
    "LSOptions",
    "Option",
    "TrainerOptions",
    "options_from_name",
    "trainer_told_by",
]
