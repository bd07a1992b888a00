"""nnU-Net trainers that train for the hardest patients: one file per trainer, file = class = name after -tr."""

from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.nnUNetTrainerDRO import nnUNetTrainerDRO
from nnunet_dro.trainers.options import DROOptions
from nnunet_dro.trainers.registry import trainer_class

__all__ = ["DROOptions", "HardnessWeighted", "nnUNetTrainerDRO", "trainer_class"]
