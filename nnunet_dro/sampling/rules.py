"""What decides how likely each case is to be drawn: one class per member of the family, with its parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import (
    FloatArray,
    check_beta,
    kl_percentile_bound,
    kl_probabilities,
    kl_robust_loss,
)
from nnunet_dro.sampling.reweighting import (
    chi2_probabilities,
    chi2_robust_loss,
    cvar_loss,
    doro_probabilities,
    set_aside,
)


class Rule:
    """From the stale losses of all cases to their probabilities; all arrays of shape (n,), losses finite."""

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, summing to 1."""
        raise NotImplementedError

    def robust_loss(self, losses: FloatArray) -> float:
        """What the rule makes small: the worst weighted mean of the losses that it allows."""
        raise NotImplementedError

    def percentile_bound(self, losses: FloatArray, *, share: float) -> float:
        """Bound on the loss that a share of the cases exceeds; infinite where the rule gives none."""
        return float("inf")

    def outliers(self, losses: FloatArray) -> NDArray[Any]:
        """Positions of the cases that are set aside, hardest first."""
        return np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class KL(Rule):
    """Kullback-Leibler divergence: p = softmax(beta * losses).

    Source: Fidon et al. 2022 (MELBA).
    """

    beta: float

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def __str__(self) -> str:
        return f"beta {self.beta:g}"

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """See `kl_probabilities`."""
        return kl_probabilities(losses, beta=self.beta)

    def robust_loss(self, losses: FloatArray) -> float:
        """See `kl_robust_loss`."""
        return kl_robust_loss(losses, beta=self.beta)

    def percentile_bound(self, losses: FloatArray, *, share: float) -> float:
        """See `kl_percentile_bound`."""
        return kl_percentile_bound(losses, beta=self.beta, share=share)


@dataclass(frozen=True)
class Chi2(Rule):
    """Pearson divergence: p = the projection of (1 + beta * losses / 2) / n onto the simplex.

    Source: Fidon et al. 2020, the Pearson case, as an exact projection.
    """

    beta: float

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def __str__(self) -> str:
        return f"Pearson divergence, beta {self.beta:g}"

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """See `chi2_probabilities`."""
        return chi2_probabilities(losses, beta=self.beta)

    def robust_loss(self, losses: FloatArray) -> float:
        """See `chi2_robust_loss`."""
        return chi2_robust_loss(losses, beta=self.beta)


@dataclass(frozen=True)
class CVaR(Rule):
    """Conditional value at risk: the worst ``alpha`` of the cases, less the ``epsilon`` hardest as suspected outliers.

    Source: Rockafellar and Uryasev 2000; Zhai et al. 2021 (DORO) for ``epsilon`` > 0.
    """

    alpha: float
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        # A table of one case says whether the numbers are in range.
        doro_probabilities(np.zeros(1), alpha=self.alpha, epsilon=self.epsilon)

    def __str__(self) -> str:
        aside = f" after the {100 * self.epsilon:g} % hardest, which are set aside" if self.epsilon else ""
        return f"the worst {100 * self.alpha:g} % of the cases{aside}"

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """See `doro_probabilities`."""
        return doro_probabilities(losses, alpha=self.alpha, epsilon=self.epsilon)

    def robust_loss(self, losses: FloatArray) -> float:
        """See `cvar_loss`; of the cases that are left, where some are set aside."""
        if not self.epsilon:
            return cvar_loss(losses, alpha=self.alpha)
        return float(self.probabilities(losses) @ losses)

    def outliers(self, losses: FloatArray) -> NDArray[Any]:
        """See `set_aside`."""
        return set_aside(losses, epsilon=self.epsilon)
