"""One loss value per case, and the loss of a batch with a weight per case.

Imports torch only.
"""

from nnunet_dro.losses.case_by_case import CaseByCaseLoss
from nnunet_dro.losses.dice_ce import DiceCELoss, Hardness
from nnunet_dro.losses.importance import ImportanceWeights
from nnunet_dro.losses.learned_weights import LearnedWeights, WeightedGradient
from nnunet_dro.losses.pooled_hardness import PooledHardness
from nnunet_dro.losses.surrogate import cross_entropies, mean_squared_distance
from nnunet_dro.losses.voxel_loss import VoxelLoss

__all__ = [
    "CaseByCaseLoss",
    "DiceCELoss",
    "Hardness",
    "ImportanceWeights",
    "LearnedWeights",
    "PooledHardness",
    "VoxelLoss",
    "WeightedGradient",
    "cross_entropies",
    "mean_squared_distance",
]
