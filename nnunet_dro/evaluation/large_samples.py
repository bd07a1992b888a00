"""Bounds of means and standard deviations of many cases: series of moments in place of random draws.

What `mean_bounds` finds from draws is a quantile of a sum of many random weights. In large samples its first moments
tell it more exactly than 2000 draws do, and in a small part of the time; nothing depends on a seed.

Source: Cornish and Fisher 1937, Moments and cumulants in the specification of distributions; Hall 1992, The Bootstrap
and Edgeworth Expansion, sections 2.5 and 3.3 (Student's t).
"""

from math import comb
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Samples of more cases than this are large.
MOST_DRAWN = 500

_N_MOMENTS = 8


def bounded_mean_and_std(samples: FloatArray, *, low: float, high: float, tail: float) -> tuple[FloatArray, FloatArray]:
    """Bounds of the mean and the standard deviation of values between two limits: the limit of many draws.

    With 600 cases they differ from those of 50,000 draws by less than 2 % of half the interval's width; the upper bound
    of the standard deviation may reach 5 % farther.

    Args:
        samples: Shape (n_samples, n), n > `MOST_DRAWN`, between ``low`` and ``high``; each row in ascending order.
        low: The least possible value.
        high: The largest possible value.
        tail: The probability that each bound is wrong; see `mean_bounds.bounded_mean_and_std`.

    Returns:
        Bounds of the mean and of the standard deviation, shape (n_samples, 2) each.
    """
    n = samples.shape[1]
    centre = samples.mean(axis=1)
    sums = _power_sums(samples - centre[:, None])
    added = {"low": low - centre, "high": high - centre, "median": samples[:, n // 2] - centre}
    moments = {which: _central_moments(sums, n, value) for which, value in added.items()}
    mean = [_mean_quantile(moments["low"], n, tail), _mean_quantile(moments["high"], n, 1 - tail)]
    most = [_variance_quantile(moments[which], n, 1 - tail) for which in ("low", "high")]
    variance = np.stack([_variance_quantile(moments["median"], n, tail), np.maximum(*most)], axis=1)
    return np.clip(np.stack(mean, axis=1) + centre[:, None], low, high), np.sqrt(np.maximum(variance, 0))


def mean_by_students_t_series(samples: FloatArray, *, tail: float) -> FloatArray:
    """Bounds of the mean by the series of Student's t for skewed values: the limit of its bootstrap.

    Args:
        samples: Shape (n_samples, n), n > `MOST_DRAWN`.
        tail: The probability that each bound is wrong, roughly.

    Returns:
        Bounds, shape (n_samples, 2); the value itself where all values of a sample are equal.
    """
    n = samples.shape[1]
    mean = samples.mean(axis=1)
    sums = _power_sums(samples - mean[:, None]) / n
    variance, third, fourth = sums[1], sums[2], sums[3]
    spread = variance > 0
    skewness = np.divide(third, variance**1.5, out=np.zeros_like(mean), where=spread)
    kurtosis = np.divide(fourth, variance**2, out=np.full_like(mean, 3.0), where=spread) - 3
    error = np.sqrt(variance / (n - 1))
    ends = [mean - _students_t(skewness, kurtosis, n, p) * error for p in (1 - tail, tail)]
    return np.stack(ends, axis=1)


def _students_t(skewness: FloatArray, kurtosis: FloatArray, n: int, p: float) -> FloatArray:
    """The quantile of Student's t of n values with these moments, to the order 1 / n."""
    z = NormalDist().inv_cdf(p)
    first = skewness * (2 * z**2 + 1) / 6
    second = z * (kurtosis * (z**2 - 3) / 12 - skewness**2 * (z**4 + 2 * z**2 - 3) / 18 - (z**2 + 3) / 4)
    return z - first / np.sqrt(n) + (first * skewness * 2 * z / 3 - z * first**2 / 2 - second) / n


def _power_sums(deviations: FloatArray) -> FloatArray:
    """Sums of the powers 1 to `_N_MOMENTS`, shape (n_moments, n_samples)."""
    powers, sums = deviations.copy(), []
    for _ in range(_N_MOMENTS):
        sums.append(powers.sum(axis=1))
        powers *= deviations
    return np.stack(sums)


def _central_moments(sums: FloatArray, n: int, added: FloatArray) -> list[FloatArray]:
    """The mean, and the central moments 2 to `_N_MOMENTS`, of a sample to which a value is added."""
    raw = [np.ones_like(added), *((of_power + added ** (k + 1)) / (n + 1) for k, of_power in enumerate(sums))]
    mean = raw[1]
    central = [sum(comb(k, j) * raw[j] * (-mean) ** (k - j) for j in range(k + 1)) for k in range(2, _N_MOMENTS + 1)]
    return [mean, *map(np.asarray, central)]


def _mean_quantile(moments: list[FloatArray], n: int, p: float) -> FloatArray:
    """The quantile of the mean with weights that are uniform on the simplex."""
    mean, second, third, fourth = moments[:4]
    m = n + 1
    variance = second / (m + 1)
    cumulant_3 = 2 * third / ((m + 1) * (m + 2))
    return mean + _deviation(variance, cumulant_3, _fourth_cumulant(second, fourth, m), p)


def _variance_quantile(moments: list[FloatArray], n: int, p: float) -> FloatArray:
    """The quantile of the variance with weights that are uniform on the simplex."""
    _, second, third, fourth, _, sixth, _, eighth = moments
    m = n + 1
    squares = fourth - second**2
    # The variance is the mean of squares less a squared mean, which is of the order 1 / n.
    variance = squares / (m + 1) - 4 * squares / ((m + 1) * (m + 2)) + 2 * second**2 / (m + 1) ** 2
    cubes = sixth - 3 * fourth * second + 2 * second**3
    cumulant_3 = 2 * cubes / ((m + 1) * (m + 2)) - 6 * third**2 / (m + 1) ** 2
    fourth_powers = eighth - 4 * sixth * second + 6 * fourth * second**2 - 3 * second**4
    cumulant_4 = _fourth_cumulant(squares, fourth_powers, m)
    return second * m / (m + 1) + _deviation(np.maximum(variance, 0), cumulant_3, cumulant_4, p)


def _fourth_cumulant(second: FloatArray, fourth: FloatArray, m: int) -> FloatArray:
    """That of a mean of m values with these central moments, with weights that are uniform on the simplex."""
    return (6 * fourth + 3 * m * second**2) / ((m + 1) * (m + 2) * (m + 3)) - 3 * (second / (m + 1)) ** 2


def _deviation(variance: FloatArray, cumulant_3: FloatArray, cumulant_4: FloatArray, p: float) -> FloatArray:
    """A quantile less the mean, from cumulants."""
    z = NormalDist().inv_cdf(p)
    spread = variance > 0
    skewness = np.divide(cumulant_3, variance**1.5, out=np.zeros_like(variance), where=spread)
    kurtosis = np.divide(cumulant_4, variance**2, out=np.zeros_like(variance), where=spread)
    series = z + (z**2 - 1) * skewness / 6 + (z**3 - 3 * z) * kurtosis / 24 - (2 * z**3 - 5 * z) * skewness**2 / 36
    return series * np.sqrt(variance)
