"""A ball of the KL divergence with two guards.

Cases that are not learnt are left at their usual share of the draws, and no case is drawn more than
so many times as often as uniformly. Neither guard depends on how many cases there are.

`GuardedBall` draws by the pure functions before it.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nnunet_dro.sampling.balls import beta_of_divergence
from nnunet_dro.sampling.cap import check_cap
from nnunet_dro.sampling.divergences import FloatArray, checked_losses
from nnunet_dro.sampling.learning import hopeless, learnt
from nnunet_dro.sampling.rules import Positions, SeparableRule
from nnunet_dro.sampling.uncertainty_sets import check_share, earned_share, kl_ball_beta

#: Largest beta. Fidon et al. 2022 use 100 and found 1,000 unstable. It keeps differences that are
#: small beside a loss, those between equal cases say, from deciding who is drawn.
LARGEST_BETA = 100.0
#: Exponents beyond this would leave what floats can hold.
_LARGEST_EXPONENT = 600.0


@dataclass(frozen=True)
class Tilt:
    """What turns the loss of a case into its weight: a softmax with a bound.

    A case with the loss l, the base weight b, relative to uniform, and g of `learnt` has the weight

        w = b (1 - g + g min(c / b, kappa exp(beta (l - largest)))),

    relative to uniform: 1 where it is drawn as often as by chance. It is b for g = 0.
    """

    beta: float
    kappa: float
    largest: float
    median: float
    cap: float

    def weights(
        self, losses: FloatArray, base: FloatArray | float, answered: FloatArray | None = None
    ) -> FloatArray:
        """Weights of some cases relative to uniform draws, shape (b,).

        Args:
            losses: Their losses, shape (b,), finite.
            base: Their base weights, of which the mean over all cases is 1, shape (b,), or 1.
            answered: What stands for g, see `guarded_tilt`.
        """
        if self.beta == 0:
            return np.asarray(base * np.ones(len(losses)))
        g = _participation(losses, self.median, answered)
        ratio = self.kappa * _growth(losses - self.largest, self.beta)
        bounded = np.minimum(self.cap / base, ratio)
        return np.asarray(base * (1 + g * (bounded - 1)))


#: Draws every case by its base weight.
NO_TILT = Tilt(beta=0.0, kappa=1.0, largest=0.0, median=-1.0, cap=math.inf)


def _participation(losses: FloatArray, median: float, answered: FloatArray | None) -> FloatArray:
    """g: what a trial has found of a case, or else how far it is learnt, shape (b,)."""
    g = learnt(losses, median=median)
    return g if answered is None else np.where(np.isnan(answered), g, answered)


def guarded_tilt(
    losses: FloatArray,
    base: FloatArray,
    *,
    share: float,
    cap: float,
    answered: FloatArray | None = None,
    start: float = 0.0,
) -> Tilt:
    """The tilt towards hard cases of a guarded ball.

    With b the base weights, g of `learnt`, G = sum(b g) and the distribution b g / G of those cases
    that are learnt, it is the r of

        argmax_r  sum_i (b_i g_i / G) r_i l_i
        over  r_i >= 0,  sum_i (b_i g_i / G) r_i = 1,
              sum_i (b_i g_i / G) r_i log(r_i) <= log(1 / share),  b_i r_i <= c,

    a KL ball with a bound on the likelihood ratio: r_i = min(c / b_i, kappa exp(beta l_i)). A case
    that is not learnt takes no part: it is drawn by its base weight, and does not change the draws
    of the others. A share of 1 gives the base weights themselves.

    Args:
        losses: Stale losses, shape (n,), finite.
        base: Base weights, shape (n,), > 0, at most ``cap``, with a mean of 1: all 1 for uniform.
        share: Effective number of the learnt cases over their number, in (0, 1].
        cap: c, how many times as often as uniformly a case is drawn at most, > 1.
        answered: What stands for g, in [0, 1], shape (n,); NaN, or None for all, for g of `learnt`.
        start: Where the search of beta begins, such as that of slightly other losses; 0 if nothing
            is known.

    Returns:
        The tilt.

    Raises:
        ValueError: If ``share`` or ``cap`` is out of range, or a loss is not finite.

    Example:
        >>> losses = np.where(np.arange(10) == 0, -0.5, -0.9)
        >>> tilt = guarded_tilt(losses, np.ones(10), share=0.5, cap=8.0)
        >>> tilt.weights(losses, np.ones(10)).round(1).tolist()
        [5.8, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]

    Source: the ball is that of `kl_ball_beta`; bounding the likelihood ratio beside it is CVaR's
    uncertainty set (Rockafellar and Uryasev 2000). The guard of the learnt cases is ours.
    """
    check_share(share)
    check_cap(cap)
    losses = checked_losses(losses)
    median = _median(losses)
    g = _participation(losses, median, answered)
    part = base * g
    if share == 1 or not part.any():
        return NO_TILT

    part = part / part.sum()
    largest = float(losses[g > 0].max())
    excess = np.where(g > 0, losses - largest, 0.0)
    bounds = cap / base
    deviation = math.sqrt(float(part @ (excess - part @ excess) ** 2))
    if deviation == 0:
        return NO_TILT

    def divergence(beta: float) -> tuple[float, float]:
        ratio, _ = _ratio(excess, part, bounds, beta)
        value = float(part @ (ratio * np.log(ratio)))

        # Cases at their bounds stay there: only the others change with beta.
        free = part * ratio * (ratio < bounds)
        exponents = beta * excess
        mean = float(free @ exponents) / max(float(free.sum()), 1e-300)
        return value, float(free @ (exponents - mean) ** 2)

    wanted = math.log(1 / share)
    beta = beta_of_divergence(
        divergence,
        wanted,
        # For small beta, the divergence is beta^2 variance / 2.
        start=start or math.sqrt(2 * wanted) / deviation,
        largest=LARGEST_BETA,
    )
    _, kappa = _ratio(excess, part, bounds, beta)
    return Tilt(beta, kappa, largest, median, cap)


def _median(losses: FloatArray) -> float:
    """The median, as numpy computes it, in a tenth of the time for a hundred losses."""
    middle = len(losses) // 2
    ascending = np.sort(losses)
    if len(losses) % 2:
        return float(ascending[middle])
    return float(ascending[middle - 1] + ascending[middle]) / 2


def earned_without_hopeless(losses: FloatArray, *, share: float, start: float = 0.0) -> float:
    """The share that the hardest cases have earned, whatever a few hopeless cases do.

    A case that is not learnt is drawn by its base weight in any case. A few such cases are set
    aside, see `hopeless`.

    Args:
        losses: Negative Dice plus cross-entropy of the cases, shape (n,), finite.
        share: The least share, in (0, 1].
        start: Where the search of beta begins, as in `kl_ball_beta`.

    Returns:
        A share from ``share`` to 1, see `earned_share`.

    Example:
        >>> losses = np.full(100, -0.8)
        >>> losses[:10] = -0.4  # rare, and learnt a little
        >>> losses[10:12] = 0.1  # hopeless
        >>> earned_without_hopeless(losses, share=0.5)
        0.5
        >>> losses[10:20] = 0.1  # too many to be set aside
        >>> earned_without_hopeless(losses, share=0.5) > 0.9
        True
    """
    aside = hopeless(losses, median=_median(losses))
    if len(aside):
        losses = np.delete(losses, aside)
    beta = kl_ball_beta(losses, share=share, start=start)
    return earned_share(losses, share=share, beta=beta)


def _ratio(
    excess: FloatArray, part: FloatArray, bounds: FloatArray, beta: float
) -> tuple[FloatArray, float]:
    """r_i = min(bound_i, kappa exp(beta excess_i)) with sum(part r) = 1, and its kappa.

    Cases that reach their bound keep it, since kappa grows when the others have to share what is
    left: the set of them grows until it fits.
    """
    growth = _growth(excess, beta)
    kappa = 1 / float(part @ growth)
    ratio = kappa * growth
    is_bound = np.zeros(len(excess), dtype=bool)
    while (is_new := (ratio > bounds) & ~is_bound).any():
        is_bound |= is_new
        left = 1 - float(part[is_bound] @ bounds[is_bound])
        kappa = left / float(part[~is_bound] @ growth[~is_bound])
        ratio = kappa * growth
    ratio[is_bound] = bounds[is_bound]
    return ratio, kappa


def _growth(excess: FloatArray, beta: float) -> FloatArray:
    """exp(beta excess), never 0 or infinite: a new loss may be far from those of the last look."""
    exponents = np.minimum(beta * excess, _LARGEST_EXPONENT)
    return np.asarray(np.exp(np.maximum(exponents, -_LARGEST_EXPONENT)))


@dataclass(frozen=True, eq=False)
class GuardedBall(SeparableRule):
    """Draws the hard more often as far as each is learnt, and none more often than a bound allows.

    Args:
        share: Effective number of the learnt cases over their number, in (0, 1].
        cap: How many times as often as by chance a case is drawn at most, > 1.
        base: How often each case is drawn where its loss does not decide, relative to uniform
            draws: shape (n,), > 0, at most ``cap``, with a mean of 1. Uniformly if None.
        answered: What a trial has found of each case, in [0, 1], shape (n,): 1 lets its loss
            decide, 0 draws it by its base weight. NaN where nothing is known, and how far the case
            is learnt decides; None if that holds for all.
        is_earned: Whether the share is reached only as far as the hardest cases are learnt, see
            `earned_without_hopeless`. If not, it is fixed.
        tilt: What the losses decide, see `following`.

    Raises:
        ValueError: If a number is out of range.

    Source: see `guarded_tilt`.
    """

    share: float = 0.5
    cap: float = 8.0
    base: FloatArray | None = None
    answered: FloatArray | None = None
    is_earned: bool = False
    tilt: Tilt = NO_TILT
    follows_losses: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_share(self.share)
        check_cap(self.cap)

    def __str__(self) -> str:
        words = (
            f"as if from {100 * self.share:g} % of the cases that are learnt, none more than "
            f"{self.cap:g} times as often as by chance"
        )
        if self.is_earned:
            words = f"{words}, as far as the hardest are learnt"
        if self.base is None:
            return words
        return f"{words}, and what looks rare more often"

    def following(self, losses: FloatArray) -> "GuardedBall":
        """The rule with the tilt of these losses; itself before any case has one."""
        has_loss = ~np.isnan(losses)
        if not has_loss.any():
            return self

        stored = losses[has_loss]
        base = np.ones(len(stored)) if self.base is None else self.base[has_loss]
        answered = None if self.answered is None else self.answered[has_loss]
        start = self.tilt.beta
        share = self.share
        if self.is_earned:
            share = earned_without_hopeless(stored, share=share, start=start)
        tilt = guarded_tilt(
            stored,
            base,
            share=share,
            cap=self.cap,
            answered=answered,
            start=start,
        )
        return replace(self, tilt=tilt)

    def weigh(self, losses: FloatArray, here: Positions) -> FloatArray:
        """Weights of the cases at some positions, from their own losses; 0 for one without."""
        base = 1.0 if self.base is None else self.base[here]
        answered = None if self.answered is None else self.answered[here]
        weights = self.tilt.weights(losses, base, answered)
        return np.asarray(np.fmax(weights, 0.0))  # fmax ignores NaN
