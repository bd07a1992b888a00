"""The robustness at which the worst case of the KL divergence lies on a ball of given size."""

import math

import numpy as np

from nnunet_dro.sampling.divergences import FloatArray, checked_losses, effective_cases, kl_probabilities

#: Largest beta times the range of the losses: from there on softmax is the hardest cases alone, as far as floats go.
_LARGEST_EXPONENT = 1e6
#: Bisections in log(beta), which leave a relative error of about 1e-9.
_N_BISECTIONS = 50
#: Falls of the hardest cases, relative to the others, at which they earn nothing and all of the concentration.
_EARNS_NOTHING, _EARNS_ALL = 0.1, 0.5
#: Before the loss of the others has fallen by this much, nothing can be told.
_LEAST_FALL = 0.05


def kl_ball_beta(losses: FloatArray, *, share: float) -> float:
    """The beta at which softmax(beta * losses) has the given share of effective cases.

    argmax_q  <q, losses>  over the distributions with  KL(q || uniform) <= log(1 / share)

    is a softmax, and 1 / beta is the multiplier of the constraint. KL(q || uniform) = log(n) - entropy(q), so the
    constraint says that the effective number of cases, exp(entropy), is at least share * n. A share of 1 is the mean;
    towards 1 / n it is the largest loss. Whatever the unit and the spread of the losses, the sampling is as
    concentrated as that.

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        share: Effective number of cases over n, in (0, 1].

    Returns:
        beta, 1/loss units, >= 0. 0 if all losses are equal; a large number where the hardest cases alone, equal among
        themselves, are more than the share.

    Raises:
        ValueError: If ``share`` is out of range, or ``losses`` is empty or not finite.

    Example:
        >>> losses = np.array([0.1, 0.2, 0.3, 0.9])
        >>> beta = kl_ball_beta(losses, share=0.5)
        >>> round(effective_cases(kl_probabilities(losses, beta=beta)), 6)
        2.0

    Source: Hu and Hong 2013, KL-constrained robust optimisation; Duchi and Namkoong 2021 for balls of other
    divergences.
    """
    check_share(share)
    losses = checked_losses(losses)
    spread = float(np.ptp(losses))
    # Equal losses differ by rounding errors, which must not decide beta.
    if share == 1 or spread <= 1e-9 * max(1.0, float(np.abs(losses).max())):
        return 0.0
    wanted = share * len(losses)
    low, high = math.log(1e-6 / spread), math.log(_LARGEST_EXPONENT / spread)
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        if effective_cases(kl_probabilities(losses, beta=math.exp(middle))) > wanted:
            low = middle
        else:
            high = middle
    return math.exp(low)


def earned_share(first: FloatArray, losses: FloatArray, *, share: float) -> float:
    """The share of effective cases that the hardest cases have earned by getting better.

    With the probabilities q that ``share`` gives, the cases with q_i > 1 / n are those that would be drawn more often
    than others. Let d be the mean fall of their losses, weighted by q_i - 1 / n, and o that of the others, weighted
    likewise by 1 / n - q_i. Then

        1 - (1 - share) min(1, max(0, (d / o - low) / (high - low)))

    is 1, uniform sampling, where what is hard does not get better while the rest does (it is too small or faint, or its
    label is wrong), or where nothing is learnt yet; and ``share`` where the hardest cases follow the others.

    Args:
        first: Losses of the cases early in the training, shape (n,), finite.
        losses: Their losses now, shape (n,), finite.
        share: The least share, in (0, 1].

    Returns:
        A share from ``share`` to 1.

    Example:
        >>> first, rare = np.zeros(10), np.arange(10) == 0
        >>> earned_share(first, np.where(rare, -0.4, -0.8), share=0.5)
        0.5
        >>> earned_share(first, np.where(rare, 0.1, -0.8), share=0.5)
        1.0
    """
    tilt = kl_probabilities(losses, beta=kl_ball_beta(losses, share=share)) - 1 / len(losses)
    more, less = np.maximum(tilt, 0), np.maximum(-tilt, 0)
    if not more.any() or not less.any():
        return 1.0
    fall = first - losses
    hardest, others = float(more @ fall / more.sum()), float(less @ fall / less.sum())
    if others < _LEAST_FALL:
        return 1.0
    strength = (hardest / others - _EARNS_NOTHING) / (_EARNS_ALL - _EARNS_NOTHING)
    return 1 - (1 - share) * min(1.0, max(0.0, strength))


def check_share(share: float) -> None:
    """Raise ValueError unless ``share`` is in (0, 1]."""
    if not 0 < share <= 1:
        raise ValueError(f"`share` must be in (0, 1], got {share!r}. 0.5 draws as if from half of the cases.")
