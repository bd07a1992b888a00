"""Stale losses to sampling probabilities: pure functions, one per divergence."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def kl_probabilities(losses: FloatArray, *, beta: float) -> FloatArray:
    """Sampling probabilities of the KL-regularised worst case.

    argmax_q  <q, losses> - KL(q || uniform) / beta  over the simplex, that is softmax(beta * losses).

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0. 0 gives the uniform distribution, large values the hardest case.

    Returns:
        Probabilities, shape (n,), summing to 1.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``beta`` is negative or not finite.

    Source: Fidon et al. 2022 (MELBA), the KL case of hardness weighted sampling.
    """
    losses = checked_losses(losses)
    check_beta(beta)
    weights = np.exp(beta * (losses - losses.max()))
    return np.asarray(weights / weights.sum())


def kl_robust_loss(losses: FloatArray, *, beta: float) -> float:
    """The KL-regularised worst case itself, which hardness weighted sampling minimises.

    R = max_q  <q, losses> - KL(q || uniform) / beta  over the simplex  =  log(mean(exp(beta * losses))) / beta

    The mean for beta -> 0, the largest loss for beta -> infinity.

    Args:
        losses: Per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0.

    Returns:
        R, between the mean and the largest loss.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``beta`` is negative or not finite.

    Source: Fidon et al. 2022 (MELBA), the distributionally robust loss for the KL divergence.
    """
    losses = checked_losses(losses)
    check_beta(beta)
    mean, largest = float(losses.mean()), float(losses.max())
    if beta == 0:
        return mean
    # Seen from the largest loss nothing overflows. For small beta the logarithm is that of almost 1.
    excess = beta * (losses - largest)
    return min(max(largest + float(np.log1p(np.expm1(excess).mean())) / beta, mean), largest)


def kl_percentile_bound(losses: FloatArray, *, beta: float, share: float) -> float:
    """A bound on the loss that a share of the cases exceeds: it is small where the robust loss is.

    By Markov's inequality for exp(beta * loss), at most this share of the cases has a loss above
    R - log(share) / beta, with R the robust loss.

    Args:
        losses: Per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0.
        share: Of the cases, in (0, 1].

    Returns:
        The bound; infinite for ``beta`` 0, which says nothing about single cases.

    Raises:
        ValueError: As `kl_robust_loss`, or if ``share`` is out of range.

    Source: Fidon et al. 2022 (MELBA), eq. (15).
    """
    if not 0 < share <= 1:
        raise ValueError(f"`share` must be in (0, 1], got {share!r}.")
    robust = kl_robust_loss(losses, beta=beta)
    return robust - float(np.log(share)) / beta if beta else float("inf")


def chi2_probabilities(losses: FloatArray, *, beta: float) -> FloatArray:
    """Sampling probabilities of the worst case regularised by Pearson's chi2 divergence, phi(z) = (z - 1)^2.

    argmax_q  <q, losses> - D(q || uniform) / beta  over the simplex, with D = mean((n q - 1)^2), that is

        q_i = max(0, 1 + beta (losses_i - nu) / 2) / n,    nu such that they sum to 1:

    the Euclidean projection of (1 + beta losses / 2) / n onto the simplex. Easy cases get exactly 0, so mix with
    `with_exploration` where every case must stay in reach.

    Args:
        losses: Stale per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0. 0 gives the uniform distribution; from 2 n / gap on, gap being the
            distance from the largest loss to the next one, only the hardest case is left. Equal ones share.

    Returns:
        Probabilities, shape (n,), summing to 1.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``beta`` is negative or not finite.

    Source: Fidon et al. 2020, Example 4.1. Their closed form, eq. (21), takes the mean of the losses for nu, so it is a
    distribution only while no case is clipped; the projection always is. Threshold: Duchi et al. 2008, fig. 1.
    """
    weights = 1 + _chi2_tilt(checked_losses(losses), beta)
    return np.asarray(weights / weights.sum())


def chi2_robust_loss(losses: FloatArray, *, beta: float) -> float:
    """The chi2-regularised worst case itself.

    R = max_q  <q, losses> - mean((n q - 1)^2) / beta  over the simplex

    The mean for beta -> 0, and mean + beta variance / 4 while no case is clipped to probability 0; the largest loss
    for beta -> infinity.

    Args:
        losses: Per-case losses, shape (n,), finite.
        beta: Robustness, 1/loss units, >= 0.

    Returns:
        R, between the mean and the largest loss.

    Raises:
        ValueError: If ``losses`` is empty or not finite, or ``beta`` is negative or not finite.

    Source: Fidon et al. 2020, eq. (9) with the Pearson divergence of eq. (8).
    """
    losses = checked_losses(losses)
    tilt = _chi2_tilt(losses, beta)
    mean, largest = float(losses.mean()), float(losses.max())
    if beta == 0:
        return mean
    reached = largest + float(np.mean((1 + tilt) * (losses - largest)))
    return min(max(reached - float(np.mean(tilt**2)) / beta, mean), largest)


def with_exploration(probabilities: FloatArray, *, epsilon: float) -> FloatArray:
    """Mix probabilities with the uniform distribution, so that no case is ever out of reach.

    (1 - epsilon) p + epsilon / n

    Args:
        probabilities: Shape (n,), summing to 1.
        epsilon: Share of the uniform distribution, in [0, 1].

    Returns:
        Probabilities, shape (n,), summing to 1, none below ``epsilon / n``.
    """
    return np.asarray((1 - epsilon) * probabilities + epsilon / len(probabilities))


def effective_cases(probabilities: FloatArray) -> float:
    """How many cases the sampling effectively uses: exp(entropy).

    n for the uniform distribution, 1 when a single case takes all.

    Args:
        probabilities: Shape (n,), summing to 1; zeros are allowed.

    Returns:
        A number in [1, n].
    """
    positive = probabilities[probabilities > 0]
    return float(np.exp(-np.sum(positive * np.log(positive))))


def check_beta(beta: float) -> None:
    """Raise ValueError unless ``beta`` is a finite number >= 0."""
    if not (np.isfinite(beta) and beta >= 0):
        raise ValueError(
            f"`beta` must be a finite number >= 0, got {beta!r}. 0 is plain nnU-Net, 100 the paper's value."
        )


def checked_losses(losses: FloatArray) -> FloatArray:
    """Losses as a vector of float64; raise ValueError unless there is at least one and all are finite."""
    losses = np.asarray(losses, dtype=np.float64)
    if losses.ndim != 1 or len(losses) == 0:
        raise ValueError(f"`losses` must be a vector with at least one case, got shape {losses.shape}.")
    if not np.isfinite(losses).all():
        bad = np.flatnonzero(~np.isfinite(losses))
        raise ValueError(f"`losses` must be finite, got {losses[bad[0]]!r} at position {bad[0]}.")
    return losses


def _chi2_tilt(losses: FloatArray, beta: float) -> FloatArray:
    """The n q - 1 of `chi2_probabilities`: exact relative to beta, where n q itself would round to 1."""
    check_beta(beta)
    n = len(losses)
    # No n q exceeds n, so a case this far below the hardest has probability 0 however far it is.
    with np.errstate(over="ignore"):
        slopes = np.maximum(beta / 2 * (losses - losses.max()), -float(n))
    falling = -np.sort(-slopes)
    # Case k stays positive while lifting it to 0, and those above it as much, takes less than the whole mass.
    lifted = np.cumsum(falling) - np.arange(1, n + 1) * falling
    n_positive = int(np.count_nonzero(lifted < n))
    shift = (n - n_positive - falling[:n_positive].sum()) / n_positive
    return np.asarray(np.maximum(slopes + shift, -1.0))
