"""Uncertainty sets of a certain size.

They are CVaR, CVaR-DORO, which sets outliers aside, and a ball of the KL divergence. All functions
are pure. `divergences` has the worst cases that a divergence regularises instead.
"""

import math

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import check_number
from nnunet_dro.sampling.balls import beta_of_divergence
from nnunet_dro.sampling.divergences import checked_losses, kl_probabilities
from nnunet_dro.sampling.learning import earned

#: Largest beta times the range of the losses: from there on softmax is the hardest cases alone, as
#: far as floats go.
_LARGEST_EXPONENT = 1e6


def cvar_probabilities(losses: FloatArray, *, alpha: float, epsilon: float = 0.0) -> FloatArray:
    """Sampling probabilities of the conditional value at risk (CVaR), without outliers (CVaR-DORO).

    argmax_q  <q, losses>  over the simplex with  q_i <= 1 / (alpha (n - k)),  q_i = 0 on the k =
    floor(epsilon n) hardest

    As in the paper, ``alpha`` is a share of the n - k cases that are left, in (0, 1]: 1 gives their
    uniform distribution, one case and below the hardest of them. So the draws come from the ranks k
    to k + alpha (n - k), hardest first, and a case that these ranks contain in part gets that part.
    At both boundaries, cases with equal losses share equally what their ranks get: the mean over
    all their possible orders.

    With an ``epsilon``, this rule is not monotone: a case that becomes harder gains probability
    until it is set aside, and then has none. An ``epsilon`` below 1/n sets no case aside; one case
    at least is left.

    Example:
        >>> cvar_probabilities(np.array([3.0, 5.0, 1.0, 4.0, 2.0]), alpha=0.5).tolist()
        [0.2, 0.4, 0.0, 0.4, 0.0]
        >>> cvar_probabilities(np.arange(10.0), alpha=0.25, epsilon=0.2).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0]

    Source: Rockafellar and Uryasev 2000; Levy et al. 2020, the CVaR uncertainty set; Zhai et al.
    2021, "DORO: Distributional and Outlier Robust Optimization", CVaR-DORO. Theirs acts on a batch
    and drops a fractional case at the end of the ranks; this one acts on all cases and keeps the
    fraction.
    """
    losses = checked_losses(losses)
    cure = "1 is plain nnU-Net, 0.1 draws the hardest tenth."
    check_number("alpha", alpha, "(0, 1]", cure)

    n_aside = _n_set_aside(len(losses), epsilon)
    # A share of less than one case counts as one case: no probability exceeds 1.
    n_drawn = max(_count(alpha, len(losses) - n_aside), 1.0)

    # Cases with equal losses occupy the ranks from `first` up to `end`, hardest first; the drawn
    # ranks are an interval.
    _, group, sizes = np.unique(-losses, return_inverse=True, return_counts=True)
    end = np.cumsum(sizes)
    first = end - sizes
    overlap = np.minimum(end, n_aside + n_drawn) - np.maximum(first, n_aside)
    drawn = np.maximum(overlap, 0.0)
    return np.asarray((drawn / sizes / n_drawn)[group])


def set_aside(losses: FloatArray, *, epsilon: float) -> NDArray[np.intp]:
    """Positions of the suspected outliers of `cvar_probabilities`: the floor(epsilon n) hardest.

    Cases with equal losses at the boundary are left out, because none of them is certain to be set
    aside. So there may be fewer than floor(epsilon n) positions, hardest first, and none when all
    losses are equal.

    Example:
        >>> set_aside(np.array([0.1, 0.9, 0.4, 1.7, 0.2]), epsilon=0.4).tolist()
        [3, 1]

    Source: Zhai et al. 2021, as for `cvar_probabilities`.
    """
    losses = checked_losses(losses)
    n_aside = _n_set_aside(len(losses), epsilon)

    hardest_first = np.argsort(-losses, kind="stable")
    hardest_left = losses[hardest_first[n_aside]]
    n_harder = int(np.count_nonzero(losses > hardest_left))
    return np.asarray(hardest_first[:n_harder])


def _n_set_aside(n: int, epsilon: float) -> int:
    cure = "0 sets no case aside, 0.01 one in a hundred."
    check_number("epsilon", epsilon, "[0, 1)", cure)
    return min(int(_count(epsilon, n)), n - 1)


def _count(share: float, n: int) -> float:
    """The share of n cases as a number of cases, which need not be whole.

    0.29 * 100 is 28.999999999999996, where 29 is meant.
    """
    count = share * n
    whole = float(round(count))
    if abs(count - whole) < 1e-9:
        return whole
    return count


def kl_ball_beta(losses: FloatArray, *, share: float, start: float = 0.0) -> float:
    """The beta at which softmax(beta * losses) has a certain share of effective cases.

    argmax_q  <q, losses>  over the distributions with  KL(q || uniform) <= log(1 / share)

    is a softmax, and 1 / beta is the multiplier of the constraint. KL(q || uniform) = log(n) -
    entropy(q), so the constraint says that the effective number of cases, exp(entropy), is at least
    share * n. A share of 1 is the mean; towards 1 / n it is the largest loss. Whatever the unit and
    the spread of the losses, the sampling is as concentrated as that.

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        share: Effective number of cases over n, in (0, 1].
        start: Where the search begins, such as the beta of slightly other losses; 0 if nothing is
            known.

    Returns:
        beta, 1/loss units, >= 0. 0 if all losses are equal; a large number where the hardest cases
        alone, equal among themselves, are more than the share.

    Raises:
        ValueError: If ``share`` is out of range, or ``losses`` is empty or not finite.

    Example:
        >>> from nnunet_dro.sampling import effective_cases
        >>> losses = np.array([0.1, 0.2, 0.3, 0.9])
        >>> beta = kl_ball_beta(losses, share=0.5)
        >>> round(effective_cases(kl_probabilities(losses, beta=beta)), 6)
        2.0

    Source: Hu and Hong 2013, KL-constrained robust optimisation; Duchi and Namkoong 2021 for balls
    of other divergences.
    """
    check_share(share)
    losses = checked_losses(losses)
    smallest = float(losses.min())
    largest = float(losses.max())
    spread = largest - smallest
    # Equal losses differ by rounding errors, which must not decide beta.
    if share == 1 or spread <= 1e-9 * max(1.0, abs(smallest), abs(largest)):
        return 0.0

    excess = losses - largest
    wanted = math.log(1 / share)
    return beta_of_divergence(
        lambda beta: _divergence(excess, beta),
        wanted,
        # For small beta, the divergence is beta^2 variance / 2.
        start=start or math.sqrt(2 * wanted) / float(excess.std()),
        largest=_LARGEST_EXPONENT / spread,
    )


def _divergence(excess: FloatArray, beta: float) -> tuple[float, float]:
    """KL(q || uniform) of q = softmax(beta * losses), and its derivative by log(beta).

    With the losses seen from the largest, x, and e = beta x, it is q.e - log(mean(exp(e))), and the
    derivative is the variance of e under q.
    """
    exponents = beta * excess
    growth = np.exp(exponents)
    total = float(growth.sum())
    mean = float(growth @ exponents) / total

    variance = float(growth @ (exponents - mean) ** 2) / total
    return mean - math.log(total / len(excess)), variance


def earned_share(losses: FloatArray, *, share: float, beta: float | None = None) -> float:
    """The share of effective cases that the hardest cases have earned by being learnt.

    A loss of Dice and cross-entropy is about 0 where nothing of a case is found, and -1 where all
    is. With the probabilities q that ``share`` gives, the cases with q_i > 1 / n are those that
    would be drawn more often than others. Let h be the mean of their losses, weighted by q_i - 1 /
    n, and o that of the others, weighted likewise by 1 / n - q_i. Then

        1 - (1 - share) min(1, max(0, (h / o - 0.1) / (0.3 - 0.1)))

    is 1, uniform sampling, where next to nothing is found of what is hard (its label is wrong, it
    is too small or faint, or it is too early), and ``share`` where the hardest are at least three
    tenths as low as the others, see `learnt`. Drawing a wrong label more often makes its loss fall,
    too, at the expense of the others, but not far below 0.

    Args:
        losses: Negative Dice plus cross-entropy of the cases, shape (n,), finite.
        share: The least share, in (0, 1].
        beta: That of `kl_ball_beta` for this share, where it is known already.

    Returns:
        A share from ``share`` to 1.

    Example:
        >>> rare = np.arange(10) == 0
        >>> earned_share(np.where(rare, -0.4, -0.8), share=0.5)
        0.5
        >>> earned_share(np.where(rare, 0.1, -0.8), share=0.5)
        1.0
    """
    if beta is None:
        beta = kl_ball_beta(losses, share=share)
    tilt = kl_probabilities(losses, beta=beta) - 1 / len(losses)

    more = np.maximum(tilt, 0)
    return 1 - (1 - share) * earned(losses, more=more, rest=more - tilt)


def check_share(share: float) -> None:
    """Raise ValueError unless ``share`` is in (0, 1]."""
    check_number("share", share, "(0, 1]", "0.5 draws as if from half of the cases.")
