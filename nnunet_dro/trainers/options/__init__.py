"""Options of a trainer, and the one trainer name that stands for them: `nnUNetTrainerDRO_beta10_20epochs`."""

from nnunet_dro.trainers.options.by_group import GroupDROOptions, GroupOptions, IWOptions
from nnunet_dro.trainers.options.dro import DROOptions, HWSOptions
from nnunet_dro.trainers.options.forms import OPTIONS, Option
from nnunet_dro.trainers.options.naming import options_from_name
from nnunet_dro.trainers.options.settings import (
    NNUNET_EPOCHS,
    NNUNET_ITERATIONS,
    NNUNET_VALIDATION_ITERATIONS,
    HardnessOptions,
    History,
    TrainerOptions,
)
from nnunet_dro.trainers.options.smoothing import GILSOptions, LSOptions

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
]
