"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerLS_alpha0.1`."""

from collections.abc import Sequence
from typing import ClassVar

from nnunet_dro.sampling import KL, Rule
from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.options import LSOptions


class nnUNetTrainerLS(NamedTrainer):  # noqa: N801
    """nnU-Net with label smoothing in the cross-entropy, cases drawn uniformly: `nnUNetTrainerLS_alpha0.2`.

    Source: Wang et al., "Generalizing Few Data to Unseen Domains Flexibly Based on Label Smoothing Integrated with
    Distributionally Robust Optimization", 2024.
    """

    options: ClassVar[LSOptions] = LSOptions()
    options_class = LSOptions

    def _make_rule(self, cases: Sequence[str]) -> Rule:
        return KL(0.0)
