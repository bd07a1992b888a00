"""The methods of the experiment on convergence."""

from experiments.datasets.division import HELD_OUT, SHUFFLED

#: The method that the others are compared with, and the one that is told the strata.
PLAIN = "plain"
TOLD = "IW"
#: The default of `nnUNetTrainerDRO`.
DEFAULT = "hardest_kinds"
#: Plain training once more, where some were trained on a GPU, or on another processor.
PLAIN_GPU = "plain_GPU"
PLAIN_AGAIN = "plain_again"
#: Method to the trainer's name without its length; ``{by}`` is the column of the case table that
#: has the strata.
METHODS = {
    PLAIN: "nnUNetTrainerHWS_beta0",
    "DRO": "nnUNetTrainerDRO_share0.5",
    TOLD: "nnUNetTrainerIW_{by}",
    DEFAULT: "nnUNetTrainerDRO",
    # The default of version 0.3.
    "DRO_earned": "nnUNetTrainerDRO_earned0.5",
    # Importance weights, which come with the draws of an earned share.
    "DRO_earned_IS": "nnUNetTrainerDRO_IS",
    "DRO_explore0.3": "nnUNetTrainerDRO_share0.5_explore0.3",
    "cvar0.1": "nnUNetTrainerHWS_cvar0.1",
    "GroupDRO": "nnUNetTrainerGroupDRO_{by}",
    "paper": "nnUNetTrainerHWS",
    "beta100": "nnUNetTrainerHWS_noIS",
    "beta10_IS": "nnUNetTrainerHWS_beta10",
    "beta10": "nnUNetTrainerHWS_beta10_noIS",
    "IW_power0.15": "nnUNetTrainerIW_{by}_power0.15",
    "IW_power0.25": "nnUNetTrainerIW_{by}_power0.25",
    "IW_power0.75": "nnUNetTrainerIW_{by}_power0.75",
    "IW_share0.5": "nnUNetTrainerIW_{by}_share0.5",
    "IW_shuffled": f"nnUNetTrainerIW_{SHUFFLED}",
    "kinds": "nnUNetTrainerDRO_hardest0",
    # What a faster optimiser gains: nnU-Net's learning rate, tripled, and twice the batch.
    "plain_lr3": "nnUNetTrainerHWS_beta0_lr0.03",
    "plain_batch2": "nnUNetTrainerHWS_beta0",
    "held_out": f"nnUNetTrainerIW_{HELD_OUT}_asWeights",
    PLAIN_GPU: "nnUNetTrainerHWS_beta0",
    PLAIN_AGAIN: "nnUNetTrainerHWS_beta0",
}
#: Those with twice as many cases in a batch as the others.
DOUBLE_BATCH = ("plain_batch2",)
#: Added when the results of the others were known.
LATE = tuple(method for method in METHODS if method not in (PLAIN, "DRO", TOLD))
