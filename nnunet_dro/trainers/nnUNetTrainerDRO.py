"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerDRO`."""

from nnunet_dro.trainers.named import NamedTrainer


class nnUNetTrainerDRO(NamedTrainer):  # noqa: N801
    """nnU-Net with hardness weighted sampling, and options in its name: `nnUNetTrainerDRO_beta10_noIS_20epochs`.

    Source: Fidon et al., "Distributionally Robust Deep Learning using Hardness Weighted Sampling", MELBA 2022.
    """
