"""The methods that are compared on the nuclei."""

from experiments.curves.results import Roles
from experiments.datasets.division import HELD_OUT, SHUFFLED

#: The method that the others are compared with, and the one that is told the modalities.
PLAIN = "plain"
TOLD = "told"
#: Method to the trainer whose way of drawing it takes.
METHODS = {
    PLAIN: "nnUNetTrainerDRO_beta0",
    "share0.5": "nnUNetTrainerDRO_share0.5",
    TOLD: "nnUNetTrainerIW_modality",
    "share0.5_IS": "nnUNetTrainerDRO_share0.5_IS",
    "share0.7": "nnUNetTrainerDRO_share0.7",
    "share0.5_explore0.3": "nnUNetTrainerDRO_share0.5_explore0.3",
    "paper": "nnUNetTrainerHWS",
    "cvar0.1": "nnUNetTrainerHWS_cvar0.1",
    "GroupDRO": "nnUNetTrainerGroupDRO_modality",
    "told_share0.5": "nnUNetTrainerIW_modality_share0.5",
    "shuffled": f"nnUNetTrainerIW_{SHUFFLED}",
    "held_out": f"nnUNetTrainerIW_{HELD_OUT}_asWeights",
}
#: The common modality, and those that are rare in training.
ROLES = Roles(PLAIN, TOLD, common=("fluorescence",), rare=("purple", "purple_white", "gray_smear"))
