"""Decides which case is drawn next.

Rules turn losses into probabilities, and a table that the processes of a training share keeps the
stale losses. Imports numpy only.
"""

from nnunet_dro.sampling.cap import draws_of_kinds
from nnunet_dro.sampling.changed_cases import positions_in_common
from nnunet_dro.sampling.divergences import (
    effective_cases,
    kl_percentile_bound,
    kl_probabilities,
    kl_robust_loss,
    with_exploration,
)
from nnunet_dro.sampling.draws import Draws
from nnunet_dro.sampling.group_dro import GroupDRO
from nnunet_dro.sampling.group_rules import Balanced, BalancedBall, GroupRule
from nnunet_dro.sampling.hardest import Hardest
from nnunet_dro.sampling.hardness import EXPLORATION, HardnessTable
from nnunet_dro.sampling.rules import (
    KL,
    UNIFORM,
    ByWeight,
    Chi2,
    CVaR,
    EarnedBall,
    KLBall,
    Rule,
    RuleWithBeta,
)
from nnunet_dro.sampling.systematic import expected_draws
from nnunet_dro.sampling.uncertainty_sets import earned_share, kl_ball_beta

__all__ = [
    "EXPLORATION",
    "KL",
    "UNIFORM",
    "Balanced",
    "BalancedBall",
    "ByWeight",
    "CVaR",
    "Chi2",
    "Draws",
    "EarnedBall",
    "GroupDRO",
    "GroupRule",
    "Hardest",
    "HardnessTable",
    "KLBall",
    "Rule",
    "RuleWithBeta",
    "draws_of_kinds",
    "earned_share",
    "effective_cases",
    "expected_draws",
    "kl_ball_beta",
    "kl_percentile_bound",
    "kl_probabilities",
    "kl_robust_loss",
    "positions_in_common",
    "with_exploration",
]
