"""Sampling probabilities by the rank of the losses: CVaR, and CVaR-DORO, which sets outliers aside. Pure functions."""

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray, checked_losses


def cvar_probabilities(losses: FloatArray, *, alpha: float) -> FloatArray:
    """Sampling probabilities of the conditional value at risk: uniform on the hardest ``alpha`` of the cases.

    argmax_q  <q, losses>  over the simplex with  q_i <= 1 / (alpha n)

    The floor(alpha n) hardest cases get 1 / (alpha n) each, and the next one gets the rest. Cases with equal losses at
    this boundary share equally, which is the one maximiser that does not depend on the order of the cases. ``alpha`` is
    in (0, 1]: 1 gives the uniform distribution, 1/n and below the hardest case.

    Example:
        >>> cvar_probabilities(np.array([3.0, 5.0, 1.0, 4.0, 2.0]), alpha=0.5).tolist()
        [0.2, 0.4, 0.0, 0.4, 0.0]

    Source: Rockafellar and Uryasev 2000; Levy et al. 2020, the CVaR uncertainty set.
    """
    return doro_probabilities(losses, alpha=alpha, epsilon=0.0)


def cvar_loss(losses: FloatArray, *, alpha: float) -> float:
    """The conditional value at risk: the mean loss over the hardest ``alpha`` of the cases.

    max_q  <q, losses>  over the simplex with  q_i <= 1 / (alpha n)
        =  min_eta  eta + mean(max(0, losses - eta)) / alpha

    ``alpha`` 1 gives the mean, 1/n and below the largest loss.

    Example:
        >>> cvar_loss(np.array([3.0, 5.0, 1.0, 4.0, 2.0]), alpha=0.4)
        4.5

    Source: Rockafellar and Uryasev 2000.
    """
    losses = checked_losses(losses)
    largest = float(losses.max())
    return largest + float(cvar_probabilities(losses, alpha=alpha) @ (losses - largest))


def doro_probabilities(losses: FloatArray, *, alpha: float, epsilon: float) -> FloatArray:
    """Sampling probabilities of CVaR-DORO: uniform on the hardest ``alpha`` of the cases without outliers.

    argmax_q  <q, losses>  over the simplex with  q_i <= 1 / (alpha (n - k)),  q_i = 0 on the k = floor(epsilon n)
    hardest

    As in the paper, ``alpha`` is a share of the n - k cases that are left, so the draws come from the ranks k to
    k + alpha (n - k), hardest first. At both boundaries, cases with equal losses share equally what their ranks get:
    the mean over all their possible orders.

    Unlike CVaR and the divergences, this rule is not monotone: a case that becomes harder gains probability until it
    is set aside, and then has none. An ``epsilon`` below 1/n gives `cvar_probabilities`; one case at least is left.

    Example:
        >>> doro_probabilities(np.arange(10.0), alpha=0.25, epsilon=0.2).tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0]

    Source: Zhai et al. 2021, "DORO: Distributional and Outlier Robust Optimization", CVaR-DORO. Theirs acts on a
    batch and drops a fractional case at the end of the ranks; this one acts on all cases and keeps the fraction.
    """
    losses = checked_losses(losses)
    if not 0 < alpha <= 1:
        raise ValueError(
            f"`alpha` must be in (0, 1], got {alpha!r}. 1 is plain nnU-Net, 0.1 draws from the hardest tenth."
        )
    n_aside = _n_set_aside(len(losses), epsilon)
    # A share of less than one case counts as one case: no probability exceeds 1.
    n_drawn = max(_count(alpha, len(losses) - n_aside), 1.0)

    # Cases with equal losses occupy the ranks from `first` up to `end`, hardest first; the drawn ranks are an interval.
    _, group, sizes = np.unique(-losses, return_inverse=True, return_counts=True)
    end = np.cumsum(sizes)
    first = end - sizes
    drawn = np.maximum(np.minimum(end, n_aside + n_drawn) - np.maximum(first, n_aside), 0.0)
    return np.asarray((drawn / sizes / n_drawn)[group])


def set_aside(losses: FloatArray, *, epsilon: float) -> NDArray[np.intp]:
    """Positions of the suspected outliers of `doro_probabilities`: the floor(epsilon n) hardest cases.

    Cases with equal losses at the boundary are left out, because none of them is certain to be set aside. So there may
    be fewer than floor(epsilon n) positions, hardest first, and none when all losses are equal.

    Example:
        >>> set_aside(np.array([0.1, 0.9, 0.4, 1.7, 0.2]), epsilon=0.4).tolist()
        [3, 1]

    Source: Zhai et al. 2021, as for `doro_probabilities`.
    """
    losses = checked_losses(losses)
    n_aside = _n_set_aside(len(losses), epsilon)
    hardest_first = np.argsort(-losses, kind="stable")
    hardest_left = losses[hardest_first[n_aside]]
    return np.asarray(hardest_first[: int(np.count_nonzero(losses > hardest_left))])


def _n_set_aside(n: int, epsilon: float) -> int:
    if not 0 <= epsilon < 1:
        raise ValueError(
            f"`epsilon` must be in [0, 1), got {epsilon!r}. 0 sets no case aside, 0.01 sets one in a hundred aside."
        )
    return min(int(_count(epsilon, n)), n - 1)


def _count(share: float, n: int) -> float:
    # 0.29 * 100 is 28.999999999999996, where 29 is meant.
    count, whole = share * n, float(round(share * n))
    return whole if abs(count - whole) < 1e-9 else count
