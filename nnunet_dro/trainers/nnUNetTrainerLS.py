"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerLS_alpha0.1`."""

from typing import ClassVar

from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.options import LSOptions


class nnUNetTrainerLS(NamedTrainer):  # noqa: N801
    """nnU-Net with label smoothing in the cross-entropy, cases drawn uniformly.

    An example of a name is `nnUNetTrainerLS_alpha0.2`.

    Source: Wang et al., "Generalizing Few Data to Unseen Domains Flexibly Based on Label Smoothing
    Integrated with Distributionally Robust Optimization", 2024.
    """

    options: ClassVar[LSOptions] = LSOptions()
