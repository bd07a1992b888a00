"""Which case to show next: divergences, and the shared table of stale losses. numpy only."""

from nnunet_dro.sampling.divergences import (
    effective_cases,
    kl_percentile_bound,
    kl_probabilities,
    kl_robust_loss,
    with_exploration,
)
from nnunet_dro.sampling.hardness import Draws, HardnessTable

__all__ = [
    "Draws",
    "HardnessTable",
    "effective_cases",
    "kl_percentile_bound",
    "kl_probabilities",
    "kl_robust_loss",
    "with_exploration",
]
