"""Rules that decide how likely each case is to be drawn: a class for each, with its parameters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.sampling import divergences, uncertainty_sets

#: Positions of some cases among all.
Positions = slice | NDArray[np.int64]
#: A weight with a larger exponent would leave what floats can hold when it is divided.
_LARGEST_EXPONENT = 300.0


class Rule:
    """Turns the stale losses of all cases into their probabilities.

    Losses are arrays of shape (n,), finite, or NaN for a case without one. The public methods deal
    with such cases; a derived rule implements the methods with an underscore, which get the known
    losses only: its probabilities, and the robust loss where that is not the sum of the losses
    times these.
    """

    #: Whether the probabilities depend on the losses. If not, cases are drawn by the rule before
    #: all have been seen.
    needs_losses: ClassVar[bool] = True
    #: Whether `following` returns other rules for other losses.
    follows_losses: ClassVar[bool] = False
    #: Whether the weight of a case depends on its own loss alone until `following` is called again.
    is_separable: ClassVar[bool] = False

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,), summing to 1.

        A case without a loss has the probability 0; all have it if none has a loss.
        """
        has_loss = ~np.isnan(losses)
        if has_loss.all():
            return self._probabilities(losses)

        probabilities = np.zeros(len(losses))
        if has_loss.any():
            probabilities[has_loss] = self._probabilities(losses[has_loss])
        return probabilities

    def weigh(self, losses: FloatArray, here: Positions) -> FloatArray:
        """Weights of some cases, which need not sum to 1; all cases unless the rule is separable.

        Args:
            losses: Their losses, shape (b,), NaN for a case without one.
            here: Their positions.

        Returns:
            Weights, shape (b,); 0 for a case without a loss, if the rule needs losses.
        """
        return self.probabilities(losses)

    def robust_loss(self, losses: FloatArray) -> float:
        """The value that the rule minimises: the worst weighted mean of the losses it allows.

        NaN without losses.
        """
        has_loss = ~np.isnan(losses)
        if not has_loss.any():
            return float("nan")
        return self._robust_loss(losses[has_loss], self.probabilities(losses)[has_loss])

    def percentile_bound(self, losses: FloatArray, *, share: float) -> float:
        """Bound on the losses that at most this share of the cases exceeds.

        It is infinite if the rule gives no such bound.
        """
        return float("inf")

    def outliers(self, losses: FloatArray) -> NDArray[np.intp]:
        """Positions of the cases that the rule sets aside, hardest first."""
        return np.zeros(0, dtype=np.intp)

    def loss_weights(
        self, indices: NDArray[np.int64], probabilities: FloatArray
    ) -> FloatArray | None:
        """Weights of the losses of drawn cases as they are now; valid in the training process.

        Args:
            indices: Positions of the cases, shape (b,).
            probabilities: Their probabilities at the draw, as `Draws` has them, shape (b,).

        Returns:
            Weights, shape (b,), 1 in the mean over the draws; None if every drawn case counts the
            same.
        """
        return None

    def learn(self, indices: NDArray[np.int64], losses: FloatArray) -> None:
        """Adapt to the losses of a batch.

        The training process calls this after each batch outside a warm-up.

        Args:
            indices: Positions of the cases whose losses are finite, shape (b,).
            losses: Their losses, shape (b,).
        """

    def following(self, losses: FloatArray) -> "Rule":
        """The rule with those of its numbers that follow from the losses of all cases.

        A rule without such numbers returns itself.
        """
        return self

    def state_dict(self) -> dict[str, Any]:
        """State that the rule has learnt, for a checkpoint."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of `state_dict`."""

    def _probabilities(self, losses: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _robust_loss(self, losses: FloatArray, probabilities: FloatArray) -> float:
        return float(probabilities @ losses)


class ByWeight(Rule):
    """Draws every case in proportion to a weight of its own, whatever its loss is.

        p_i = w_i / sum(w)

    Args:
        weights: Weight of every case, shape (n,), finite and > 0. Leave cases that must never be
            drawn out of the table: a batch that has more places than cases takes whatever is there.

    Example:
        >>> ByWeight([1, 1, 2]).probabilities(np.zeros(3)).tolist()
        [0.25, 0.25, 0.5]
    """

    needs_losses = False

    def __init__(self, weights: ArrayLike) -> None:
        numbers = np.asarray(weights, dtype=np.float64)
        is_vector = numbers.ndim == 1 and len(numbers) > 0
        is_valid = np.isfinite(numbers) & (numbers > 0)
        if not is_vector or not is_valid.all():
            raise ValueError(
                f"`weights` must have a finite number > 0 per case, got {weights!r}. Leave others "
                "out."
            )

        relative = numbers / numbers.max()  # the sum of large numbers may overflow
        self.weights = relative / relative.sum()

    def __str__(self) -> str:
        return "each in proportion to its own weight"

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """The weights divided by their sum, shape (n,), with or without a loss."""
        return np.asarray(self.weights)

    def _robust_loss(self, losses: FloatArray, probabilities: FloatArray) -> float:
        """Mean of the losses; those of cases without one are left out of the weights."""
        return float(np.average(losses, weights=probabilities))


@dataclass(frozen=True)
class RuleWithBeta(Rule):
    """A rule with a robustness, 1/loss units, >= 0."""

    beta: float

    def __post_init__(self) -> None:
        divergences.check_beta(self.beta)


@dataclass(frozen=True)
class KL(RuleWithBeta):
    """Kullback-Leibler divergence: p = softmax(beta * losses).

    Args:
        beta: Robustness, 1/loss units, >= 0.
        largest: The loss that weights are relative to, so that no power of e overflows:
            probabilities do not depend on it.

    Source: Fidon et al. 2022 (MELBA).
    """

    largest: float = field(default=0.0, kw_only=True, compare=False, repr=False)
    is_separable: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"beta {self.beta:g}"

    def weigh(self, losses: FloatArray, here: Positions) -> FloatArray:
        """exp(beta (losses - largest)), 0 for a case without a loss; 1 for all if `UNIFORM`."""
        if self == UNIFORM:
            return np.ones(len(losses))
        exponents = np.minimum(self.beta * (losses - self.largest), _LARGEST_EXPONENT)
        return np.asarray(np.exp(np.fmax(exponents, -np.inf)))  # fmax ignores NaN

    def following(self, losses: FloatArray) -> "KL":
        """The rule with weights relative to the largest of these losses."""
        largest = float(np.fmax.reduce(losses))
        return self if math.isnan(largest) else replace(self, largest=largest)

    def _probabilities(self, losses: FloatArray) -> FloatArray:
        return divergences.kl_probabilities(losses, beta=self.beta)

    def _robust_loss(self, losses: FloatArray, probabilities: FloatArray) -> float:
        return divergences.kl_robust_loss(losses, beta=self.beta)

    def percentile_bound(self, losses: FloatArray, *, share: float) -> float:
        """See `kl_percentile_bound`."""
        stored = losses[~np.isnan(losses)]
        if not len(stored):
            return float("inf")
        return divergences.kl_percentile_bound(stored, beta=self.beta, share=share)


UNIFORM = KL(0.0)  # Draws every case with the same probability.


@dataclass(frozen=True)
class KLBall(KL):
    """Kullback-Leibler divergence, with the beta that makes a share of the cases effective.

    Source: see `kl_ball_beta`.
    """

    share: float = 0.5
    follows_losses: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        uncertainty_sets.check_share(self.share)

    def __str__(self) -> str:
        return f"beta such that {100 * self.share:g} % of the cases are effective"

    def following(self, losses: FloatArray) -> "KLBall":
        """The rule with the beta of these losses, see `kl_ball_beta`.

        Before any case has a loss, the rule returns itself.
        """
        stored = losses[~np.isnan(losses)]
        if not len(stored):
            return self

        return replace(self, beta=self._beta(stored), largest=float(stored.max()))

    def _beta(self, losses: FloatArray) -> float:
        """The beta of these losses, which is looked for near the last one."""
        return uncertainty_sets.kl_ball_beta(losses, share=self.share, start=self.beta)

    def _robust_loss(self, losses: FloatArray, probabilities: FloatArray) -> float:
        """The worst weighted mean on the ball, which has the probabilities as weights."""
        return float(probabilities @ losses)


@dataclass(frozen=True)
class EarnedBall(KLBall):
    """`KLBall` that draws the hardest cases more often only as far as they are learnt.

    Its losses are negative Dice plus cross-entropy, about 0 where nothing of a case is found; see
    `earned_share`.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}, as far as the hardest are learnt"

    def _beta(self, losses: FloatArray) -> float:
        beta = super()._beta(losses)
        share = uncertainty_sets.earned_share(losses, share=self.share, beta=beta)
        return uncertainty_sets.kl_ball_beta(losses, share=share, start=beta)


@dataclass(frozen=True)
class Chi2(RuleWithBeta):
    """Pearson divergence: p = the projection of (1 + beta * losses / 2) / n onto the simplex.

    Source: Fidon et al. 2020, eq. (21), as an exact projection.
    """

    def __str__(self) -> str:
        return f"Pearson divergence, beta {self.beta:g}"

    def _probabilities(self, losses: FloatArray) -> FloatArray:
        return divergences.chi2_probabilities(losses, beta=self.beta)

    def _robust_loss(self, losses: FloatArray, probabilities: FloatArray) -> float:
        return divergences.chi2_robust_loss(losses, beta=self.beta)


@dataclass(frozen=True)
class CVaR(Rule):
    """Conditional value at risk: draws the hardest share ``alpha`` of the cases.

    The share ``epsilon`` of the cases that is hardest of all is set aside as outliers.

    Source: Rockafellar and Uryasev 2000; Zhai et al. 2021 (DORO) for ``epsilon`` > 0.
    """

    alpha: float
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        # The probabilities check the numbers.
        uncertainty_sets.cvar_probabilities(
            np.zeros(1),
            alpha=self.alpha,
            epsilon=self.epsilon,
        )

    def __str__(self) -> str:
        drawn = f"the hardest {100 * self.alpha:g} % of the cases"
        if not self.epsilon:
            return drawn
        return f"{drawn}, after setting the hardest {100 * self.epsilon:g} % aside"

    def outliers(self, losses: FloatArray) -> NDArray[np.intp]:
        """See `set_aside`."""
        with_loss = np.flatnonzero(~np.isnan(losses))
        if not len(with_loss):
            return with_loss
        aside = uncertainty_sets.set_aside(losses[with_loss], epsilon=self.epsilon)
        return with_loss[aside]

    def _probabilities(self, losses: FloatArray) -> FloatArray:
        return uncertainty_sets.cvar_probabilities(
            losses,
            alpha=self.alpha,
            epsilon=self.epsilon,
        )
