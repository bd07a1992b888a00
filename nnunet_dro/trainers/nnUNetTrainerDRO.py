"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerDRO`."""

from nnunet_dro.trainers.named import NamedTrainer


class nnUNetTrainerDRO(NamedTrainer):  # noqa: N801
    """nnU-Net trained for its hardest cases, with options in its name.

    An example of a name is `nnUNetTrainerDRO_share0.3_20epochs`.

    It is hardness weighted sampling (Fidon et al. 2022), with a share of effective cases in place
    of a fixed beta, and with the losses of the last patches of a case taken together.
    `nnUNetTrainerHWS` is the published configuration.
    """
