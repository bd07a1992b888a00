"""Bounds of means and standard deviations, for bounded scores and for distances."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Number of weights drawn at a time: they stay in the processor's cache.
_CHUNK = 1 << 18

#: The matrix product is as wide as a multiple of this: a column then takes the same path whatever stands beside it.
_WIDTH = 8


def bounded_mean_and_std(
    samples: FloatArray, *, low: float, high: float, tail: float, n_resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    r"""Bounds of the mean and the standard deviation of values between two limits.

    With weights (D_0, ..., D_n) that are uniform on the simplex, the lower bound of the mean is the ``tail`` quantile
    of D_0 low + sum_i D_i x_i, and the upper one the 1 - ``tail`` quantile of D_0 high + sum_i D_i x_i: one more case
    is added, as bad or as good as can be. Its share shrinks as 1 / (n + 1), so that large samples lose little. The
    standard deviation is treated in the same way: the added case is the median for the lower bound, and the farther of
    the limits for the upper one.

    Args:
        samples: Shape (n_samples, n), between ``low`` and ``high``; each row in ascending order.
        low: The least possible value.
        high: The largest possible value.
        tail: The probability that each bound is wrong. For the mean that it is never exceeded is a conjecture which no
            known distribution violates; for the standard deviation it is what simulations found.
        n_resamples: Number of draws of the weights.
        seed: Random seed of the draws, which depend on it and on n alone.

    Returns:
        Bounds of the mean and of the standard deviation, shape (n_samples, 2) each.

    Source: Gaffke 2005, Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
    variable; Learned-Miller and Thomas 2019, A new confidence interval for the mean of a bounded random variable
    (arXiv:1905.06208).
    """
    n_samples, n = samples.shape
    # Deviations from a value of the sample: nothing cancels.
    centre = samples[:, n // 2, None]
    powers = _powers(samples - centre)
    extra, first, second = np.empty(n_resamples), np.empty((n_resamples, n_samples)), np.empty((n_resamples, n_samples))
    for rows, weights in uniform_weights(n, n_resamples, seed=seed):
        extra[rows] = weights[:, 0]
        moments = weights[:, 1:] @ powers
        first[rows], second[rows] = moments[:, :n_samples], moments[:, n_samples : 2 * n_samples]
    first, second = first.T, second.T
    limits = [limit - centre for limit in (low, high)]
    ends = [first + extra * limit for limit in limits]
    mean = [np.quantile(ends[0], tail, axis=1), np.quantile(ends[1], 1 - tail, axis=1)]
    least = np.quantile(np.maximum(second - first**2, 0), tail, axis=1)
    most = [
        np.quantile(second + extra * limit**2 - end**2, 1 - tail, axis=1)
        for limit, end in zip(limits, ends, strict=True)
    ]
    std = np.sqrt(np.stack([least, np.maximum(np.maximum(*most), 0)], axis=1))
    # Rounding must not push a bound over a limit.
    return np.clip(np.stack(mean, axis=1) + centre, low, high), std


def mean_by_bootstrap_t(samples: FloatArray, *, tail: float, n_resamples: int, seed: int) -> FloatArray:
    """Bounds of the mean by the bootstrap of Student's t, for values without limits.

    Args:
        samples: Shape (n_samples, n), n >= 2; each row in ascending order.
        tail: The probability that each bound is wrong, roughly.
        n_resamples: Number of resamples.
        seed: Random seed of the draws, which depend on it and on n alone.

    Returns:
        Bounds, shape (n_samples, 2); the value itself where all values of a sample are equal.

    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 12.5.
    """
    n_samples, n = samples.shape
    mean, error = samples.mean(axis=1), samples.std(axis=1, ddof=1) / np.sqrt(n)
    powers = _powers(samples - mean[:, None])
    ratios = np.zeros((n_resamples, n_samples))
    for rows, weights in _resampled_weights(n, n_resamples, seed=seed):
        moments = weights @ powers
        first, second = moments[:, :n_samples], moments[:, n_samples : 2 * n_samples]
        spread = np.sqrt(np.maximum(second - first**2, 0) / (n - 1))
        # A resample of equal values has no spread: it says nothing.
        ratios[rows] = np.divide(first, spread, out=np.zeros_like(first), where=spread > 0)
    low, high = np.quantile(ratios, [tail, 1 - tail], axis=0)
    return np.stack([mean - high * error, mean - low * error], axis=1)


def mean_by_students_t(samples: FloatArray, *, tail: float) -> FloatArray:
    """Bounds of the mean by Student's t distribution: mean +- t std / sqrt(n).

    Args:
        samples: Shape (n_samples, n), n >= 2.
        tail: The probability that each bound is wrong, roughly.

    Returns:
        Bounds, shape (n_samples, 2).
    """
    from scipy.special import stdtrit

    n = samples.shape[1]
    margin = stdtrit(n - 1, 1 - tail) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return samples.mean(axis=1)[:, None] + np.array([-1.0, 1.0]) * margin[:, None]


def _powers(deviations: FloatArray) -> FloatArray:
    """Deviations and their squares side by side, shape (n, at least 2 n_samples)."""
    n_samples, n = deviations.shape
    powers = np.zeros((n, -(-2 * n_samples // _WIDTH) * _WIDTH))
    powers[:, : 2 * n_samples] = np.concatenate([deviations, deviations**2]).T
    return powers


def uniform_weights(n: int, n_resamples: int, *, seed: int) -> Iterator[tuple[slice, FloatArray]]:
    """Weights of n + 1 cases that are uniform on the simplex, in chunks of rows."""
    rng = np.random.default_rng([seed, n])
    for rows in _chunks(n, n_resamples):
        weights = rng.standard_exponential((rows.stop - rows.start, n + 1))
        weights /= weights.sum(axis=1, keepdims=True)
        yield rows, weights


def _resampled_weights(n: int, n_resamples: int, *, seed: int) -> Iterator[tuple[slice, FloatArray]]:
    """How often each of n cases is drawn, over n, in chunks of rows."""
    rng = np.random.default_rng([seed, n])
    for rows in _chunks(n, n_resamples):
        n_rows = rows.stop - rows.start
        drawn = rng.integers(0, n, size=(n_rows, n), dtype=np.uint32)
        cells = drawn + np.arange(n_rows, dtype=np.int64)[:, None] * n
        yield rows, np.bincount(cells.ravel(), minlength=n_rows * n).reshape(n_rows, n) / n


def _chunks(n: int, n_resamples: int) -> Iterator[slice]:
    at_once = max(1, _CHUNK // n)
    for start in range(0, n_resamples, at_once):
        yield slice(start, min(start + at_once, n_resamples))
