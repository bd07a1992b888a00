"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerHWS`."""

from typing import ClassVar

from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.options import HWSOptions


class nnUNetTrainerHWS(NamedTrainer):  # noqa: N801
    """nnU-Net with hardness weighted sampling as published.

    Beta is 100, there are importance weights, and the hardness is the loss of the last patch.

    Source: Fidon et al., "Distributionally Robust Deep Learning using Hardness Weighted Sampling",
    MELBA 2022.
    """

    options: ClassVar[HWSOptions] = HWSOptions()
