"""Bounds of means and percentiles of a sample.

Those of means are Student's t; `betting_bounds` has those that assume nothing. Those of
percentiles are exact: order statistics of the sample, whatever the distribution is. The k-th
smallest of n values lies at or below the percentile p if at least k values do, and the number of
those is at least binomial with n and p. So the probabilities of the bounds follow from the binomial
distribution alone; ties make them conservative.

Source: Conover 1999, Practical Nonparametric Statistics, section 3.2.
"""

from bisect import bisect_left, bisect_right
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from nnunet_dro.arrays import FloatArray


def _power_sums(deviations: FloatArray) -> FloatArray:
    """Sums of the powers 2 to 4 of deviations (n_samples, n), shape (3, n_samples)."""
    squares = deviations * deviations
    second = np.einsum("ij,ij->i", deviations, deviations)
    third = np.einsum("ij,ij->i", squares, deviations)
    fourth = np.einsum("ij,ij->i", squares, squares)
    return np.stack([second, third, fourth])


def mean_by_skewed_t(samples: FloatArray, *, tail: float) -> FloatArray:
    """Bounds of the mean by Student's t, corrected for skewness, which is the limit of bootstrap-t.

    Of samples of shape (n_samples, n), n >= 6; the value itself where all values of a sample are
    equal.

    Source: Hall 1992, The Bootstrap and Edgeworth Expansion, sections 2.5 and 3.3.
    """
    n = samples.shape[1]
    mean = samples.mean(axis=1)
    variance, third, fourth = _power_sums(samples - mean[:, None]) / n
    # Rounding may leave a variance above 0 of values that are all equal.
    spread = np.ptp(samples, axis=1) > 0
    skewness = np.divide(
        third,
        variance**1.5,
        out=np.zeros_like(mean),
        where=spread,
    )
    kurtosis = (
        np.divide(
            fourth,
            variance**2,
            out=np.full_like(mean, 3.0),
            where=spread,
        )
        - 3
    )

    error = np.where(spread, np.sqrt(variance / (n - 1)), 0)
    lower = (
        mean
        - _skewed_t(
            skewness,
            kurtosis,
            n,
            1 - tail,
        )
        * error
    )
    upper = (
        mean
        - _skewed_t(
            skewness,
            kurtosis,
            n,
            tail,
        )
        * error
    )
    return np.stack([lower, upper], axis=1)


def _skewed_t(skewness: FloatArray, kurtosis: FloatArray, n: int, p: float) -> FloatArray:
    """The quantile of Student's t of n values with these moments, to the order 1 / n.

    With the skewness g, the kurtosis k above that of the normal distribution, and its quantile z,

        q1 = g (2 z^2 + 1) / 6
        q2 = z (k (z^2 - 3) / 12 - g^2 (z^4 + 2 z^2 - 3) / 18 - (z^2 + 3) / 4)
        t  = z - q1 / sqrt(n) + (q1 (2 g z / 3) - z q1^2 / 2 - q2) / n.

    The moments and the quantiles are of shape (n_samples,).
    """
    z = NormalDist().inv_cdf(p)
    q1 = skewness * (2 * z**2 + 1) / 6
    by_kurtosis = kurtosis * (z**2 - 3) / 12
    by_skewness = skewness**2 * (z**4 + 2 * z**2 - 3) / 18
    q2 = z * (by_kurtosis - by_skewness - (z**2 + 3) / 4)

    correction = q1 * skewness * 2 * z / 3 - z * q1**2 / 2 - q2
    return z - q1 / np.sqrt(n) + correction / n


def mean_by_students_t(samples: FloatArray, *, tail: float) -> FloatArray:
    """Bounds of the mean by Student's t distribution, mean +- t std / sqrt(n).

    Of samples of shape (n_samples, n).
    """
    from scipy.special import stdtrit

    n = samples.shape[1]
    mean = samples.mean(axis=1)
    std = samples.std(axis=1, ddof=1)
    margin = stdtrit(n - 1, 1 - tail) * std / np.sqrt(n)
    return np.stack([mean - margin, mean + margin], axis=1)


def percentile_bounds(ascending: FloatArray, percent: float, *, tail: float) -> FloatArray:
    """Bounds of a percentile, each wrong with a probability of at most ``tail``.

    Of ascending samples of shape (n_samples, n); NaN where the sample is too small for a bound.
    """
    bounds: FloatArray = np.full((len(ascending), 2), np.nan)
    n = ascending.shape[1]
    low, high = bound_ranks(n, percent, tail=tail)
    if low >= 1:
        bounds[:, 0] = ascending[:, low - 1]
    if high <= n:
        bounds[:, 1] = ascending[:, high - 1]
    return bounds


@lru_cache(maxsize=4096)
def bound_ranks(n: int, percent: float, *, tail: float) -> tuple[int, int]:
    """The ranks (1 to n) of the order statistics that bound a percentile.

    With B ~ Binomial(n, p), the lower rank is the largest l with P(B < l) <= tail, and the upper
    one the smallest u with P(B >= u) <= tail. 0 and n + 1 stand for no bound.
    """
    from scipy.special import bdtr, bdtrc

    share = percent / 100
    # Probabilities that are the tail but for rounding are not more than it.
    most = tail * (1 + 1e-9)
    # P(B <= k) rises with k, and P(B > k) falls: both are searched instead of computed for every k.
    low = bisect_right(range(n + 1), most, key=lambda k: bdtr(k, n, share))
    high = bisect_left(range(n + 1), -most, key=lambda k: -bdtrc(k, n, share)) + 1
    return low, high
