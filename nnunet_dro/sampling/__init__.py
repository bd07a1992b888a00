"""Which case to show next: divergences, and the shared table of stale losses. numpy only."""

from nnunet_dro.sampling.divergences import (
    effective_cases,
    kl_percentile_bound,
    kl_probabilities,
    kl_robust_loss,
    with_exploration,
)
from nnunet_dro.sampling.draws import Draws
from nnunet_dro.sampling.hardness import HardnessTable
from nnunet_dro.sampling.rules import KL, Chi2, CVaR, Rule

__all__ = [
    "KL",
    "CVaR",
    "Chi2",
    "Draws",
    "HardnessTable",
    "Rule",
    "effective_cases",
    "kl_percentile_bound",
    "kl_probabilities",
    "kl_robust_loss",
    "with_exploration",
]
