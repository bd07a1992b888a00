"""Tests of paired differences, their typical value, and the correction for the number of tests."""

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.statistics.pair_means import ordered_pair_means

#: Up to this number of differences the interval of their typical value is exact.
_MOST_EXACT = 200

#: From more differences on, the p value of the signed-rank test is approximate: without equal
#: differences, and with some.
MOST_UNEQUAL = 50
MOST_EQUAL = 13


#: Differences are told apart to so many binary digits of the largest value: what is beyond comes
#: from rounding.
_DIGITS = 40


def paired_differences(before: FloatArray, after: FloatArray) -> FloatArray:
    """``after`` less ``before``, shape (..., n), where what differs by rounding alone is the same.

    1 - 2/3 and 2/3 - 1/3 are the same third, though not to the last bit of their doubles: without
    this, signs and ranks of differences would be those of rounding errors. NaN stays.
    """
    sizes = np.fmax(np.abs(before), np.abs(after))
    return without_rounding_errors(after - before, sizes)


def without_rounding_errors(values: FloatArray, sizes: FloatArray) -> FloatArray:
    """Values, shape (..., n), as multiples of 2^-`_DIGITS` of a power of two.

    It is the power above the largest of the ``sizes``, shape (..., n), of what the values were
    computed from. NaN stays.
    """
    largest = np.fmax.reduce(sizes, axis=-1, keepdims=True, initial=0.0)
    _, exponent = np.frexp(largest)
    unit = np.ldexp(1.0, exponent - _DIGITS)
    return np.asarray(np.rint(values / unit) * unit)


def wilcoxon_p(differences: FloatArray) -> float:
    """Two-sided p value of the Wilcoxon signed-rank test; zero differences are left out.

    Of differences of shape (n,) without NaN; infinite ones have the largest ranks. Exact for small
    samples; 1 if all differences are zero, NaN without any difference.

    Source: Wilcoxon 1945, Individual comparisons by ranking methods.
    """
    nonzero = differences[differences != 0]
    n = len(nonzero)
    if not n:
        return 1.0 if len(differences) else float("nan")

    if n > MOST_UNEQUAL:
        return _approximate_wilcoxon_p(nonzero)
    sizes, places, counts = np.unique(np.abs(nonzero), return_inverse=True, return_counts=True)
    if n > MOST_EQUAL and len(sizes) < n:
        return _approximate_wilcoxon_p(nonzero)

    # Twice the ranks are whole numbers, even where differences share one.
    ranks = (2 * np.cumsum(counts) - counts + 1)[places]
    return _exact_wilcoxon_p(ranks, nonzero > 0)


def _exact_wilcoxon_p(ranks: NDArray[np.int64], is_positive: NDArray[np.bool_]) -> float:
    """The p value by all signs that the ranks could have, the same as that of scipy."""
    shares = signed_rank_shares(tuple(sorted(ranks.tolist())))
    rank_sum = ranks[is_positive].sum()
    return float(min(1, 2 * min(shares[: rank_sum + 1].sum(), shares[rank_sum:].sum())))


@lru_cache(maxsize=512)
def signed_rank_shares(ranks: tuple[int, ...]) -> FloatArray:
    """The share of the signs of some ranks that give each sum W+ of the positive ones."""
    shares = np.zeros(sum(ranks) + 1)
    shares[0] = 1
    end = 1
    for rank in ranks:
        end += rank
        shares[rank:end] += shares[: end - rank]
        # Halved at every step: the number of ways has no double from a thousand on.
        shares[:end] /= 2
    return shares


def _approximate_wilcoxon_p(nonzero: FloatArray) -> float:
    """The p value by the normal approximation, as scipy has it, in a fraction of its time."""
    from scipy.special import ndtr

    _, places, n_equal = np.unique(np.abs(nonzero), return_inverse=True, return_counts=True)
    # Equal sizes share the mean of their ranks.
    ranks = np.cumsum(n_equal) - (n_equal - 1) / 2
    rank_sum = ranks[places][nonzero > 0].sum()

    n = float(len(nonzero))
    for_ties = (n_equal.astype(np.float64) ** 3 - n_equal).sum()
    error = np.sqrt((n * (n + 1) * (2 * n + 1) - for_ties / 2) / 24)
    return float(2 * ndtr(-np.abs((rank_sum - n * (n + 1) * 0.25) / error)))


@lru_cache(maxsize=4096)
def mcnemar_p(n_new: int, n_recovered: int) -> float:
    """Two-sided exact p value of McNemar's test of paired failures.

    If failing were equally likely with both methods, each of the n cases in which only one method
    fails would be the one's or the other's with probability 1/2: the p value is that of so many, or
    fewer, of the rarer kind among n, twice. 1 without any such case.

    Args:
        n_new: Cases in which only the method fails.
        n_recovered: Cases in which only the baseline fails.

    Source: McNemar 1947, Note on the sampling error of the difference between correlated
    proportions or percentages (the exact form, with the binomial distribution).
    """
    # scipy.stats, whose binomtest gives the same, takes longer to import than all p values.
    from scipy.special import bdtr

    n_discordant = n_new + n_recovered
    return float(min(1, 2 * bdtr(min(n_new, n_recovered), n_discordant, 0.5)))


def typical_value(
    differences: FloatArray, *, with_interval: bool = True
) -> tuple[float, float, float]:
    """The Hodges-Lehmann estimate of paired differences (n,), and its exact 95 % interval.

    The estimate is the median of the means of any two of them (each with itself, too): the value
    that the signed-rank test would leave as it is. The interval has the values that the test would
    not reject, from the k-th smallest mean to the k-th largest one, where P(W+ < k) is at most
    2.5 % with independent differences whose distribution is symmetric. NaN without any difference;
    there are bounds from six on.

    Source: Hollander, Wolfe and Chicken 2014, Nonparametric Statistical Methods, sections 3.2 and
    3.3.
    """
    n = len(differences)
    if not n:
        return np.nan, np.nan, np.nan

    n_pairs = n * (n + 1) // 2
    places = [(n_pairs + 1) // 2, n_pairs // 2 + 1]
    place = _signed_rank_place(n) if with_interval else 0
    if place:
        places += [place, n_pairs + 1 - place]

    lower, upper, *ends = ordered_pair_means(np.sort(differences), places)
    low, high = ends or (np.nan, np.nan)
    return (lower + upper) / 2, low, high


@lru_cache(maxsize=4096)
def _signed_rank_place(n: int) -> int:
    """The largest k with P(W+ < k) <= 2.5 %; 0 if there is none.

    With more than `_MOST_EXACT` differences W+ is taken for normal, which has longer tails: k is
    one or two less than it may be, so that the interval is a little wider.
    """
    if n > _MOST_EXACT:
        mean = n * (n + 1) / 4
        variance = n * (n + 1) * (2 * n + 1) / 24
        return int(mean - NormalDist().inv_cdf(0.975) * variance**0.5)

    shares = signed_rank_shares(tuple(range(1, n + 1)))
    return int(np.count_nonzero(np.cumsum(shares) <= 0.025))


def holm(p_values: FloatArray) -> FloatArray:
    """P values (n,) adjusted for their number, by Holm's step-down method.

    NaN stands for no test, stays NaN, and does not count among the m tests.
    The i-th smallest of m becomes max over j <= i of min(1, (m - j + 1) p_j).

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted = np.full(len(p_values), np.nan)
    tests = np.flatnonzero(~np.isnan(p_values))
    order = tests[np.argsort(p_values[tests], kind="stable")]
    n_left = np.arange(len(order), 0, -1)
    steps = np.minimum(1, p_values[order] * n_left)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
