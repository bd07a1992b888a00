"""One loss value per case, and the batch's loss with a weight per case. torch only."""

from nnunet_dro.losses.case_by_case import CaseByCaseLoss
from nnunet_dro.losses.dice_ce import CaseLosses, DiceCELoss
from nnunet_dro.losses.importance import ImportanceWeights

__all__ = ["CaseByCaseLoss", "CaseLosses", "DiceCELoss", "ImportanceWeights"]
