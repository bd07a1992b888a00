"""Bounds of means and percentiles of a sample.

Those of means hold whatever a bounded score may be, or are Student's t. Those of percentiles are
exact: order statistics of the sample, whatever the distribution is. The k-th smallest of n values
lies at or below the percentile p if at least k values do, and the number of those is at least
binomial with n and p. So the probabilities of the bounds follow from the binomial distribution
alone; ties make them conservative.

Source: Conover 1999, Practical Nonparametric Statistics, section 3.2.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import comb
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Samples of more values than this have the limit of many draws, a series of moments, in place of
#: draws.
MOST_DRAWN = 500

_CHUNK = 1 << 18  # Number of weights drawn at a time: they stay in the processor's cache.

#: The matrix product is as wide as a multiple of this: a column then takes the same path whatever
#: stands beside it.
_WIDTH = 8


def bounded_mean(
    samples: FloatArray,
    *,
    low: float,
    high: float,
    tail: float,
    n_resamples: int,
    seed: int,
) -> FloatArray:
    r"""Bounds of the mean of values between two limits, which assume nothing else.

    With weights (D_0, ..., D_n) that are uniform on the simplex, the lower bound of the mean is the
    ``tail`` quantile of D_0 low + sum_i D_i x_i, and the upper one the 1 - ``tail`` quantile of D_0
    high + sum_i D_i x_i: one more case is added, as bad or as good as can be. Its share shrinks as
    1 / (n + 1), so that large samples lose little. That each bound is wrong with a probability of
    at most ``tail`` is a conjecture that no known distribution violates.

    With more than `MOST_DRAWN` values the quantiles follow from their moments; with 600 they differ
    from those of 50,000 draws by less than 2 % of half the interval's width. Fewer than 1 /
    ``tail`` - 1 draws give the limits.

    The samples are ascending rows, shape (n_samples, n), n >= 1; the bounds have the shape
    (n_samples, 2).

    Source: Gaffke 2005, Three test statistics for a nonparametric one-sided hypothesis on the mean
    of a nonnegative variable; Learned-Miller and Thomas 2019, A new confidence interval for the
    mean of a bounded random variable (arXiv:1905.06208).
    """
    n = samples.shape[1]
    # Deviations from a value of the sample: nothing cancels.
    centre = samples[:, n // 2, None]
    deviations = samples - centre
    worst = low - centre[:, 0]
    best = high - centre[:, 0]

    if n > MOST_DRAWN:
        sums = _power_sums(deviations)
        lower = _limit_of_draws(
            sums,
            n,
            worst,
            tail,
        )
        upper = _limit_of_draws(
            sums,
            n,
            best,
            1 - tail,
        )
    elif n_resamples + 1 < 1 / tail:
        # So few draws have no quantile: even the most extreme one is too often no bound.
        lower = worst
        upper = best
    else:
        drawn, added = _draws(deviations, n_resamples, seed=seed)
        lower = np.quantile(drawn + added * worst[:, None], tail, axis=1)
        upper = np.quantile(drawn + added * best[:, None], 1 - tail, axis=1)

    # Rounding must not push a bound over a limit.
    return np.clip(np.stack([lower, upper], axis=1) + centre, low, high)


def _draws(deviations: FloatArray, n_resamples: int, *, seed: int) -> tuple[FloatArray, FloatArray]:
    """Draws of sum_i D_i x_i, shape (n_samples, n_resamples), and of the weight D_0."""
    n_samples, n = deviations.shape
    width = -(-n_samples // _WIDTH) * _WIDTH
    padded = np.zeros((n, width))
    padded[:, :n_samples] = deviations.T

    drawn = np.empty((n_resamples, n_samples))
    added = np.empty(n_resamples)
    for rows, weights in uniform_weights(n, n_resamples, seed=seed):
        added[rows] = weights[:, 0]
        drawn[rows] = (weights[:, 1:] @ padded)[:, :n_samples]

    return drawn.T, added


def uniform_weights(n: int, n_resamples: int, *, seed: int) -> Iterator[tuple[slice, FloatArray]]:
    """Weights of n + 1 cases that are uniform on the simplex, in chunks of rows."""
    rng = np.random.default_rng([seed, n])
    at_once = max(1, _CHUNK // n)
    for start in range(0, n_resamples, at_once):
        rows = slice(start, min(start + at_once, n_resamples))
        weights = rng.standard_exponential((rows.stop - rows.start, n + 1))
        weights /= weights.sum(axis=1, keepdims=True)
        yield rows, weights


def _power_sums(deviations: FloatArray) -> FloatArray:
    """Sums of the powers 1 to 4, shape (4, n_samples)."""
    squares = deviations * deviations
    first = deviations.sum(axis=1)
    second = np.einsum("ij,ij->i", deviations, deviations)
    third = np.einsum("ij,ij->i", squares, deviations)
    fourth = np.einsum("ij,ij->i", squares, squares)
    return np.stack([first, second, third, fourth])


def _limit_of_draws(sums: FloatArray, n: int, added: FloatArray, p: float) -> FloatArray:
    """The quantile of `bounded_mean`, from the sums of the powers 1 to 4 of n values.

    ``sums`` are of shape (4, n_samples). The weighted sum has the mean of the n + 1 values; its
    variance and cumulants follow from their central moments, and the quantile from these.
    """
    m = n + 1
    powers = enumerate(sums, start=1)
    raw = [np.ones_like(added), *((total + added**k) / m for k, total in powers)]
    mean = raw[1]
    second = _central_moment(raw, 2)
    third = _central_moment(raw, 3)
    fourth = _central_moment(raw, 4)

    variance = second / (m + 1)
    cumulant_3 = 2 * third / ((m + 1) * (m + 2))
    sums_4 = 6 * fourth + 3 * m * second**2
    cumulant_4 = sums_4 / ((m + 1) * (m + 2) * (m + 3)) - 3 * variance**2

    spread = variance > 0
    skewness = np.divide(
        cumulant_3,
        variance**1.5,
        out=np.zeros_like(mean),
        where=spread,
    )
    kurtosis = np.divide(
        cumulant_4,
        variance**2,
        out=np.zeros_like(mean),
        where=spread,
    )
    standardised = _cornish_fisher(skewness, kurtosis, p)
    return np.asarray(mean + standardised * np.sqrt(np.maximum(variance, 0)))


def _cornish_fisher(skewness: FloatArray, kurtosis: FloatArray, p: float) -> FloatArray:
    """The quantile of a standardised distribution, as a series about that of the normal one.

    Source: Cornish and Fisher 1937, Moments and cumulants in the specification of distributions.
    """
    z = NormalDist().inv_cdf(p)
    return (
        z
        + (z**2 - 1) * skewness / 6
        + (z**3 - 3 * z) * kurtosis / 24
        - (2 * z**3 - 5 * z) * skewness**2 / 36
    )


def _central_moment(raw: Sequence[FloatArray], k: int) -> FloatArray:
    """The k-th central moment, sum over j of C(k, j) m_j (-m_1)^(k - j), from the raw ones m_j."""
    terms = [comb(k, j) * raw[j] * (-raw[1]) ** (k - j) for j in range(k + 1)]
    return np.asarray(sum(terms))


def mean_by_skewed_t(samples: FloatArray, *, tail: float) -> FloatArray:
    """Bounds of the mean by Student's t, corrected for skewness, which is the limit of bootstrap-t.

    Of samples of shape (n_samples, n), n >= 6; the value itself where all values of a sample are
    equal.

    Source: Hall 1992, The Bootstrap and Edgeworth Expansion, sections 2.5 and 3.3.
    """
    n = samples.shape[1]
    mean = samples.mean(axis=1)
    _, variance, third, fourth = _power_sums(samples - mean[:, None]) / n
    # Equal values differ by rounding.
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
    """The quantile of Student's t of n values with these moments, to the order 1 / n."""
    z = NormalDist().inv_cdf(p)
    first = skewness * (2 * z**2 + 1) / 6
    by_kurtosis = kurtosis * (z**2 - 3) / 12
    by_skewness = skewness**2 * (z**4 + 2 * z**2 - 3) / 18
    second = z * (by_kurtosis - by_skewness - (z**2 + 3) / 4)

    correction = first * skewness * 2 * z / 3 - z * first**2 / 2 - second
    return z - first / np.sqrt(n) + correction / n


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

    k = np.arange(n + 1)
    # Probabilities that are the tail but for rounding are not more than it.
    most = tail * (1 + 1e-9)
    at_most_k = bdtr(k, n, percent / 100)
    low = int(np.count_nonzero(at_most_k <= most))
    # P(B > k) falls with k.
    more_than_k = bdtrc(k, n, percent / 100)
    high = int(np.count_nonzero(more_than_k > most)) + 1
    return low, high
