"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerGroupDRO_<column>`."""

from typing import ClassVar

from nnunet_dro.trainers.named import GroupedTrainer
from nnunet_dro.trainers.options import GroupDROOptions


class nnUNetTrainerGroupDRO(GroupedTrainer):  # noqa: N801
    """nnU-Net trained for its worst group; a column of cases.csv names each case's group.

    The name contains the column: `nnUNetTrainerGroupDRO_centre_nu0.1`.

    Source: Sagawa et al., "Distributionally Robust Neural Networks for Group Shifts", ICLR 2020.
    """

    options: ClassVar[GroupDROOptions] = GroupDROOptions(column="group")
