"""Intervals of means, standard deviations and interquartile ranges that were considered; `coverage.py` compares them.

Each function takes samples of shape (n_samples, n), and returns lower and upper bounds of shape (n_samples, 2). All
samples share the resamples, as in the package.
"""

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

TAIL = 0.025


def resample_weights(n: int, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each of n cases is drawn, over n, shape (n_resamples, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples) / n


def quantiles(values: np.ndarray) -> np.ndarray:
    return np.quantile(values, [TAIL, 1 - TAIL], axis=1).T


def means_by_percentile(samples: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return quantiles(samples @ weights.T)


def means_by_bca(samples: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Bias corrected and accelerated. Source: Efron and Tibshirani 1993, section 14.3."""
    mean = samples.mean(axis=1, keepdims=True)
    resampled = np.sort(samples @ weights.T, axis=1)
    n_resamples = resampled.shape[1]
    below = (resampled < mean).mean(axis=1) + 0.5 * (resampled == mean).mean(axis=1)
    bias = ndtri(np.clip(below, 1 / n_resamples, 1 - 1 / n_resamples))
    # Leaving out a case moves the mean against that case.
    change = samples - mean
    spread = np.maximum((change**2).sum(axis=1), 1e-300)
    acceleration = (change**3).sum(axis=1) / (6 * spread**1.5)
    ends = []
    for z in ndtri([TAIL, 1 - TAIL]):
        level = np.nan_to_num(ndtr(bias + (bias + z) / (1 - acceleration * (bias + z))), nan=0.5)
        place = np.clip(np.rint(level * (n_resamples - 1)).astype(int), 0, n_resamples - 1)
        ends.append(resampled[np.arange(len(samples)), place])
    return np.stack(ends, axis=1)


def means_by_students_t(samples: np.ndarray) -> np.ndarray:
    n = samples.shape[1]
    margin = stdtrit(n - 1, 1 - TAIL) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return samples.mean(axis=1)[:, None] + np.array([-1, 1]) * margin[:, None]


def means_by_empirical_bernstein(samples: np.ndarray, low: float, high: float) -> np.ndarray:
    """Source: Maurer and Pontil 2009, Empirical Bernstein bounds and sample variance penalization, theorem 4."""
    n = samples.shape[1]
    log = np.log(2 / TAIL)
    margin = np.sqrt(2 * samples.var(axis=1, ddof=1) * log / n) + 7 * (high - low) * log / (3 * (n - 1))
    return np.clip(samples.mean(axis=1)[:, None] + np.array([-1, 1]) * margin[:, None], low, high)


def means_by_betting(samples: np.ndarray, low: float, high: float, *, n_grid: int = 200) -> np.ndarray:
    """The hedged capital process with predictable plug-in bets, on a grid of means.

    Source: Waudby-Smith and Ramdas 2023, Estimating means of bounded random variables by betting, theorem 3.
    """
    x = (samples - low) / (high - low)
    n_samples, n = x.shape
    grid, alpha = (np.arange(n_grid) + 0.5) / n_grid, 2 * TAIL
    counts = np.arange(2, n + 2)
    running = (0.5 + np.cumsum(x, axis=1)) / counts
    variance = (0.25 + np.cumsum((x - running) ** 2, axis=1)) / counts
    before = np.concatenate([np.full((n_samples, 1), 0.25), variance[:, :-1]], axis=1)
    bets = np.sqrt(2 * np.log(2 / alpha) / (before * n))
    up, down = np.zeros((n_samples, n_grid)), np.zeros((n_samples, n_grid))
    for i in range(n):
        bet, gain = bets[:, i : i + 1], x[:, i : i + 1] - grid
        up += np.log1p(np.minimum(bet, 0.5 / grid) * gain)
        down += np.log1p(-np.minimum(bet, 0.5 / (1 - grid)) * gain)
    inside = np.maximum(up, down) + np.log(0.5) < np.log(1 / alpha)
    first = grid[inside.argmax(axis=1)] - 0.5 / n_grid
    last = grid[n_grid - 1 - inside[:, ::-1].argmax(axis=1)] + 0.5 / n_grid
    return low + (high - low) * np.stack([first, last], axis=1)


def stds_by_percentile(samples: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return quantiles(np.sqrt(_variances(samples, weights)[0]))


def stds_by_bootstrap_t(samples: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Bootstrap of Student's t of the logarithm of the variance, whose error follows from the kurtosis."""
    n = samples.shape[1]
    variance, fourth = _variances(samples, weights)
    own, own_fourth = _variances(samples, np.full((1, n), 1 / n))
    error, own_error = _log_error(variance, fourth, n), _log_error(own, own_fourth, n)[:, 0]
    tiny = 1e-300
    ratio = np.log(np.maximum(variance, tiny)) - np.log(np.maximum(own, tiny))
    low, high = quantiles(np.where(variance > 1e-14, ratio / error, -1e9)).T
    with np.errstate(over="ignore"):
        ends = np.sqrt(own[:, 0])[:, None] * np.exp(-np.stack([high, low], axis=1) * own_error[:, None] / 2)
    return np.clip(ends, 0, 1e6)


def _variances(samples: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unbiased variance and fourth central moment of resamples, shape (n_samples, n_resamples)."""
    n = samples.shape[1]
    deviations = samples - np.median(samples, axis=1, keepdims=True)
    m1, m2, m3, m4 = (deviations**k @ weights.T for k in (1, 2, 3, 4))
    fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
    return np.maximum(m2 - m1**2, 0) * n / (n - 1), np.maximum(fourth, 0)


def _log_error(variance: np.ndarray, fourth: np.ndarray, n: int) -> np.ndarray:
    kurtosis = np.divide(fourth, variance**2, out=np.ones_like(fourth), where=variance > 1e-14)
    return np.sqrt(np.maximum(kurtosis - (n - 3) / (n - 1), 1e-3) / n)
