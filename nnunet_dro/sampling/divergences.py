"""Sampling probabilities from stale losses, by the KL and the Pearson chi2 divergence.

All functions are pure.
"""

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import check_number


def kl_probabilities(losses: FloatArray, *, beta: float) -> FloatArray:
    """Sampling probabilities of the KL-regularised worst case.

    argmax_q  <q, losses> - KL(q || uniform) / beta  over the simplex, that is softmax(beta *
    losses).

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0. 0 gives the uniform distribution, large values the
            hardest case.

    Returns:
        Probabilities, shape (n,), summing to 1.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``beta`` is negative or not finite.

    Example:
        >>> kl_probabilities(np.array([0.0, np.log(3.0)]), beta=1.0).round(2).tolist()
        [0.25, 0.75]

    Source: Fidon et al. 2022 (MELBA), eq. (12).
    """
    losses = checked_losses(losses)
    check_beta(beta)
    weights = np.exp(beta * (losses - losses.max()))
    return np.asarray(weights / weights.sum())


def kl_robust_loss(losses: FloatArray, *, beta: float) -> float:
    """Value of the KL-regularised worst case, which hardness weighted sampling minimises.

    R = max_q  <q, losses> - KL(q || uniform) / beta  over the simplex  =  log(mean(exp(beta *
    losses))) / beta

    The mean for beta -> 0, the largest loss for beta -> infinity.

    Args:
        losses: Per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0.

    Returns:
        R, between the mean and the largest loss.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``beta`` is negative or not finite.

    Example:
        >>> losses = np.array([0.1, 0.5, 0.3])
        >>> [round(kl_robust_loss(losses, beta=beta), 3) for beta in (0.0, 10.0, 1000.0)]
        [0.3, 0.404, 0.499]

    Source: Fidon et al. 2022 (MELBA), eq. (3) for the KL divergence; its closed form is in appendix
    H.
    """
    losses = checked_losses(losses)
    check_beta(beta)
    mean = float(losses.mean())
    largest = float(losses.max())
    if beta == 0:
        return mean

    # Seen from the largest loss nothing overflows. For small beta the logarithm is that of almost
    # 1.
    excess = beta * (losses - largest)
    robust = largest + float(np.log1p(np.expm1(excess).mean())) / beta
    return min(max(robust, mean), largest)


def kl_percentile_bound(losses: FloatArray, *, beta: float, share: float) -> float:
    """Upper bound on a percentile of the losses: at most the given share of the cases exceeds it.

    By Markov's inequality for exp(beta * loss), at most this share of the cases has a loss above
    R - log(share) / beta, where R is the robust loss; so the bound falls when the robust loss does.

    Args:
        losses: Per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0.
        share: Share of the cases that may exceed the bound, in (0, 1].

    Returns:
        The bound; infinite for ``beta`` 0, which says nothing about single cases.

    Raises:
        ValueError: If ``share`` is out of range, or for the reasons of `kl_robust_loss`.

    Example:
        >>> round(kl_percentile_bound(np.array([0.1, 0.5, 0.3]), beta=10.0, share=0.05), 3)
        0.704

    Source: Fidon et al. 2022 (MELBA), eq. (15).
    """
    check_number("share", share, "(0, 1]", "0.05 bounds the 95th percentile of the losses.")
    robust = kl_robust_loss(losses, beta=beta)
    if beta == 0:
        return float("inf")
    return robust - float(np.log(share)) / beta


def chi2_probabilities(losses: FloatArray, *, beta: float) -> FloatArray:
    """Sampling probabilities of the worst case regularised by Pearson's chi2 divergence.

    argmax_q  <q, losses> - D(q || uniform) / beta  over the simplex, with D = mean((n q - 1)^2),
    which is the divergence of phi(z) = (z - 1)^2, that is

        q_i = max(0, 1 + beta (losses_i - nu) / 2) / n,    nu such that they sum to 1:

    the Euclidean projection of (1 + beta losses / 2) / n onto the simplex. Easy cases get exactly
    0; use `with_exploration` where every case must keep a chance to be drawn. From beta 2 n / gap
    on, where gap is the difference between the two largest losses, only the hardest case is left;
    cases with equal losses share.

    Example:
        >>> chi2_probabilities(np.array([0.0, 1.0]), beta=1.0).tolist()
        [0.375, 0.625]
        >>> chi2_probabilities(np.array([0.0, 1.0]), beta=4.0).tolist()
        [0.0, 1.0]

    Source: Fidon et al. 2020, Example 4.1. Their closed form, eq. (21), takes the mean of the
    losses for nu, so it is a distribution only while no case is clipped; the projection always is.
    Threshold: Duchi et al. 2008, fig. 1.
    """
    weights = 1 + _chi2_tilt(checked_losses(losses), beta)
    return np.asarray(weights / weights.sum())


def chi2_robust_loss(losses: FloatArray, *, beta: float) -> float:
    """Value of the chi2-regularised worst case.

    R = max_q  <q, losses> - mean((n q - 1)^2) / beta  over the simplex

    The mean for beta -> 0, and mean + beta variance / 4 while no case is clipped to probability 0;
    the largest loss for beta -> infinity.

    Example:
        >>> losses = np.array([0.1, 0.5, 0.3])
        >>> [round(chi2_robust_loss(losses, beta=beta), 3) for beta in (0.0, 2.0, 1000.0)]
        [0.3, 0.313, 0.498]

    Source: Fidon et al. 2020, eq. (9) with the Pearson divergence of eq. (8).
    """
    losses = checked_losses(losses)
    tilt = _chi2_tilt(losses, beta)

    mean = float(losses.mean())
    largest = float(losses.max())
    if beta == 0:
        return mean

    excess = losses - largest
    reached = largest + float(np.mean((1 + tilt) * excess))
    divergence = float(np.mean(tilt**2))
    return min(max(reached - divergence / beta, mean), largest)


def with_exploration(probabilities: FloatArray, *, epsilon: float) -> FloatArray:
    """Mix probabilities with the uniform distribution, so that every case can be drawn.

    (1 - epsilon) p + epsilon / n

    Args:
        probabilities: Shape (n,), summing to 1.
        epsilon: Share of the uniform distribution, in [0, 1].

    Returns:
        Probabilities, shape (n,), summing to 1, none below ``epsilon / n``.

    Example:
        >>> with_exploration(np.array([0.0, 1.0]), epsilon=0.1).round(2).tolist()
        [0.05, 0.95]
    """
    n = len(probabilities)
    return np.asarray((1 - epsilon) * probabilities + epsilon / n)


def effective_cases(probabilities: FloatArray) -> float:
    """Effective number of cases of a distribution: exp(entropy).

    It is n for the uniform distribution, and 1 where a single case has all the probability.

    Args:
        probabilities: Shape (n,), summing to 1; zeros are allowed.

    Returns:
        A number in [1, n].

    Example:
        >>> round(effective_cases(np.array([0.5, 0.5, 0.0])), 6)
        2.0
    """
    positive = probabilities[probabilities > 0]
    entropy = -np.sum(positive * np.log(positive))
    return float(np.exp(entropy))


def check_beta(beta: float) -> None:
    """Raise ValueError unless ``beta`` is a finite number >= 0."""
    check_number("beta", beta, "[0, inf)", "0 is plain nnU-Net, 100 the paper's.")


def checked_losses(losses: FloatArray) -> FloatArray:
    """Losses as a vector of float64; raise ValueError if there is none, or one is not finite."""
    losses = np.asarray(losses, dtype=np.float64)
    if losses.ndim != 1 or len(losses) == 0:
        raise ValueError(
            f"`losses` must be a vector of at least one case, got shape {losses.shape}. Give one a "
            "case."
        )

    is_finite = np.isfinite(losses)
    if not is_finite.all():
        i = np.flatnonzero(~is_finite)[0]
        raise ValueError(
            f"`losses` must be finite, got {losses[i]!r} at position {i}. Leave such cases out."
        )
    return losses


def _chi2_tilt(losses: FloatArray, beta: float) -> FloatArray:
    """The n q - 1 of `chi2_probabilities`.

    It is exact for small beta, too, where n q itself would round to 1.
    """
    check_beta(beta)
    n = len(losses)
    # No n q exceeds n, so a case this far below the hardest has probability 0 however far it is.
    with np.errstate(over="ignore"):
        slopes = beta / 2 * (losses - losses.max())
        slopes = np.maximum(slopes, -float(n))

    falling = -np.sort(-slopes)

    # Case k keeps a positive probability as long as lifting it and all harder cases up to it takes
    # less than all mass.
    lifted = np.cumsum(falling) - np.arange(1, n + 1) * falling
    n_positive = int(np.count_nonzero(lifted < n))

    left = n - n_positive - falling[:n_positive].sum()
    shift = left / n_positive
    return np.asarray(np.maximum(slopes + shift, -1.0))
