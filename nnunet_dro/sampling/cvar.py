"""Stale losses to sampling probabilities by rank: CVaR, and CVaR-DORO, which sets outliers aside. Pure functions."""

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray, checked_losses


def cvar_probabilities(losses: FloatArray, *, alpha: float) -> FloatArray:
    """Sampling probabilities of the conditional value at risk: uniform on the hardest ``alpha`` of the cases.

    argmax_q  <q, losses>  over the simplex with  q_i <= 1 / (alpha n)

    The floor(alpha n) hardest cases get 1 / (alpha n) each and the next one what is left. Where cases with equal
    losses straddle this boundary they share equally, the one maximiser that does not depend on the order of the cases.

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        alpha: Share of the cases, in (0, 1]. 1 gives the uniform distribution, 1/n and below the hardest case.

    Returns:
        Probabilities, shape (n,), summing to 1.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``alpha`` is out of range.

    Source: Rockafellar and Uryasev 2000; Levy et al. 2020, the CVaR uncertainty set.
    """
    return doro_probabilities(losses, alpha=alpha, epsilon=0.0)


def cvar_loss(losses: FloatArray, *, alpha: float) -> float:
    """The conditional value at risk: the mean loss over the hardest ``alpha`` of the cases.

    max_q  <q, losses>  over the simplex with  q_i <= 1 / (alpha n)
        =  min_eta  eta + mean(max(0, losses - eta)) / alpha

    Args:
        losses: Per-case losses, shape (n,), finite.
        alpha: Share of the cases, in (0, 1]. 1 gives the mean, 1/n and below the largest loss.

    Returns:
        The value, between the mean and the largest loss.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``alpha`` is out of range.

    Source: Rockafellar and Uryasev 2000.
    """
    losses = checked_losses(losses)
    largest = float(losses.max())
    return largest + float(cvar_probabilities(losses, alpha=alpha) @ (losses - largest))


def doro_probabilities(losses: FloatArray, *, alpha: float, epsilon: float) -> FloatArray:
    """Sampling probabilities of CVaR-DORO: the hardest ``alpha`` of what is left without the suspected outliers.

    argmax_q  <q, losses>  over the simplex with  q_i <= 1 / (alpha (n - k)),  q_i = 0 on the k = floor(epsilon n)
    hardest

    ``alpha`` counts in shares of the n - k cases that are left, as in the paper, so the draws come from ranks k to
    k + alpha (n - k), hardest first. Cases with equal losses share equally what their ranks get, at both boundaries:
    the mean over all orders they could have.

    A case that grows harder gains probability until it is set aside, and then has none: unlike CVaR and the
    divergences, this rule is not monotone.

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        alpha: Share of the cases that are left, in (0, 1]. 1 gives the uniform distribution over them, small values
            the hardest of them.
        epsilon: Share of all cases to set aside, in [0, 1). 0, and all below 1/n, gives `cvar_probabilities`. At
            least one case is left.

    Returns:
        Probabilities, shape (n,), summing to 1.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``alpha`` or ``epsilon`` is out of range.

    Source: Zhai et al. 2021, "DORO: Distributional and Outlier Robust Optimization", CVaR-DORO. Theirs acts on a
    batch and drops a fractional case at the end of the ranks; here it acts on all cases and keeps the fraction.
    """
    losses = checked_losses(losses)
    if not 0 < alpha <= 1:
        raise ValueError(f"`alpha` must be in (0, 1], got {alpha!r}. 1 is plain nnU-Net, 0.1 the hardest tenth.")
    n_aside = _n_set_aside(len(losses), epsilon)
    # alpha below one case is one case: no probability exceeds 1.
    n_drawn = max(_count(alpha, len(losses) - n_aside), 1.0)

    # Cases with equal losses hold the ranks from `first` up to `end`, hardest first; the drawn ranks are one interval.
    _, group, sizes = np.unique(-losses, return_inverse=True, return_counts=True)
    end = np.cumsum(sizes)
    first = end - sizes
    drawn = np.maximum(np.minimum(end, n_aside + n_drawn) - np.maximum(first, n_aside), 0.0)
    return np.asarray((drawn / sizes / n_drawn)[group])


def set_aside(losses: FloatArray, *, epsilon: float) -> NDArray[np.intp]:
    """The suspected outliers of `doro_probabilities`: the floor(epsilon n) hardest cases.

    Where cases with equal losses straddle the boundary none of them is named, for none is set aside for certain; so
    there may be fewer than floor(epsilon n), and none when all losses are equal.

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        epsilon: Share of all cases to set aside, in [0, 1). 0 names none.

    Returns:
        Their positions in ``losses``, hardest first, equal ones in their order.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``epsilon`` is out of range.

    Source: Zhai et al. 2021, as `doro_probabilities`.
    """
    losses = checked_losses(losses)
    n_aside = _n_set_aside(len(losses), epsilon)
    hardest_first = np.argsort(-losses, kind="stable")
    hardest_left = losses[hardest_first[n_aside]]
    return np.asarray(hardest_first[: int(np.count_nonzero(losses > hardest_left))])


def _n_set_aside(n: int, epsilon: float) -> int:
    if not 0 <= epsilon < 1:
        raise ValueError(f"`epsilon` must be in [0, 1), got {epsilon!r}. 0 sets no case aside, 0.01 one in a hundred.")
    return min(int(_count(epsilon, n)), n - 1)


def _count(share: float, n: int) -> float:
    # 0.29 * 100 is 28.999999999999996 and means 29.
    count, whole = share * n, float(round(share * n))
    return whole if abs(count - whole) < 1e-9 else count
