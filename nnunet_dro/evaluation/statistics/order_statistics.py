"""Exact bounds of percentiles: order statistics of the sample, whatever the distribution is.

The k-th smallest of n values lies at or below the percentile p if at least k values do, and the number of those is at
least binomial with n and p. So the probabilities of the bounds follow from the binomial distribution alone; ties make
them conservative.

Source: Conover 1999, Practical Nonparametric Statistics, section 3.2.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def percentile_bounds(ascending: FloatArray, percent: float, *, tail: float) -> FloatArray:
    """Bounds of a percentile, each of which is wrong with a probability of at most ``tail``.

    Args:
        ascending: Samples of one size, each in ascending order, shape (n_samples, n), n >= 1.
        percent: The percentile, between 0 and 100.
        tail: The probability that the lower bound lies above the percentile, and that the upper one lies below it.

    Returns:
        Lower and upper bounds, shape (n_samples, 2). NaN where the sample is too small for a bound.

    Example:
        >>> percentile_bounds(np.arange(59.0)[None], 5, tail=0.05).tolist()
        [[0.0, 6.0]]
        >>> percentile_bounds(np.arange(58.0)[None], 5, tail=0.05).tolist()
        [[nan, 6.0]]
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

    With B ~ Binomial(n, p), the lower rank is the largest l with P(B < l) <= tail, and the upper one the smallest u
    with P(B >= u) <= tail.

    Args:
        n: Size of the sample.
        percent: The percentile, between 0 and 100.
        tail: The probability that each bound is wrong.

    Returns:
        Lower and upper rank; 0 and n + 1 stand for no bound.
    """
    cdf = _binomial_cdf(n, percent / 100)
    # P(B >= u) = 1 - cdf[u - 1]; the sum from above keeps its digits where it is small.
    survival = _binomial_cdf(n, 1 - percent / 100)[::-1]
    # Sums that are the tail but for rounding are not more than it.
    most = tail * (1 + 1e-9)
    low = int(np.count_nonzero(cdf <= most))
    small = np.flatnonzero(survival <= most)
    return low, int(small[0]) if len(small) else n + 1


def _binomial_cdf(n: int, p: float) -> FloatArray:
    """P(B <= k) for k = 0 ... n."""
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange(n + 1)
    log_pmf = log_factorial[n] - log_factorial - log_factorial[::-1] + k * np.log(p) + (n - k) * np.log1p(-p)
    return np.cumsum(np.exp(log_pmf))
