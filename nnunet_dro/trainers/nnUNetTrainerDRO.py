"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerDRO`."""

from nnunet_dro.trainers.named import NamedTrainer


class nnUNetTrainerDRO(NamedTrainer):  # noqa: N801
    """nnU-Net trained for its hardest cases, with options in its name.

    An example of a name is `nnUNetTrainerDRO_share0.3_20epochs`.

    It is hardness weighted sampling (Fidon et al. 2022) with another rule than a softmax: a fifth
    of the draws goes to the hardest cases, as far as these are learnt, and rare kinds of images
    are drawn more often. The hardness is that of the last patches of a case together.
    `nnUNetTrainerHWS` is the published configuration.
    """
