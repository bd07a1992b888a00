"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerIW_<column>`."""

from typing import ClassVar

from nnunet_dro.trainers.named import GroupedTrainer
from nnunet_dro.trainers.options import IWOptions


class nnUNetTrainerIW(GroupedTrainer):  # noqa: N801
    """nnU-Net that sees every group of a column of cases.csv equally often: `nnUNetTrainerIW_centre`.

    Source: static importance weighting (balanced risk), as in Sagawa et al. 2020 and Zhai et al. 2023, section 3.
    """

    options: ClassVar[IWOptions] = IWOptions(column="group")
    options_class = IWOptions
