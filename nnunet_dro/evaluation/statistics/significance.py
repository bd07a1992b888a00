"""Tests of paired differences, their typical value, and the correction for the number of tests."""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.statistics.pair_means import ordered_pair_means

#: Up to this number of differences the interval of their typical value is exact.
_MOST_EXACT = 200

#: From more differences on, or with equal ones, the p value of the signed-rank test is approximate.
_MOST_BY_SCIPY = 50


def wilcoxon_p(differences: FloatArray) -> float:
    """Two-sided p value of the Wilcoxon signed-rank test; zero differences are left out.

    Exact for small samples without ties; 1 if all differences are zero, NaN without any difference.

    Source: Wilcoxon 1945, Individual comparisons by ranking methods.
    """
    return float(wilcoxon_p_values([differences])[0])


def wilcoxon_p_values(samples: Sequence[FloatArray]) -> FloatArray:
    """The p value of each sample, shape (n_samples,); see `wilcoxon_p`."""
    p_values = np.full(len(samples), np.nan)
    small: defaultdict[object, list[int]] = defaultdict(list)
    nonzero: dict[int, FloatArray] = {}
    for place, differences in enumerate(samples):
        # Zeros are left out here, because scipy would use the normal approximation for a small
        # sample with a zero.
        changes = differences[differences != 0]
        if len(changes) > _MOST_BY_SCIPY:
            p_values[place] = _approximate_wilcoxon_p(changes)
        elif len(changes):
            nonzero[place] = changes
            has_ties = len(np.unique(np.abs(changes))) < len(changes)
            # Scipy decides on one method for all samples that it is given.
            alike = ("ties", place) if has_ties else len(changes)
            small[alike].append(place)
        elif len(differences):
            p_values[place] = 1.0

    for places in small.values():
        p_values[places] = _wilcoxon_by_scipy(np.stack([nonzero[place] for place in places]))
    return p_values


def _wilcoxon_by_scipy(samples: FloatArray) -> FloatArray:
    """The p values of samples without zeros, shape (n_samples, n)."""
    from scipy.stats import wilcoxon

    with warnings.catch_warnings():
        # Older versions of scipy warn that the normal approximation is rough for few cases.
        warnings.simplefilter("ignore")
        return np.asarray(wilcoxon(samples, alternative="two-sided", axis=1).pvalue)


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
    from scipy.stats import binomtest

    n_discordant = n_new + n_recovered
    if not n_discordant:
        return 1.0
    return float(binomtest(n_new, n_discordant, 0.5).pvalue)


def typical_value(
    differences: FloatArray, *, with_interval: bool = True
) -> tuple[float, float, float]:
    """The Hodges-Lehmann estimate of paired differences, and its exact 95 % interval.

    The estimate is the median of the means of any two of them (each with itself, too): the value
    that the signed-rank test would leave as it is. The interval has the values that the test would
    not reject, from the k-th smallest mean to the k-th largest one, where P(W+ < k) is at most
    2.5 % with independent differences whose distribution is symmetric. NaN without any difference;
    there are bounds from six on.

    Source: Hollander, Wolfe and Chicken 2014, Nonparametric Statistical Methods, sections 3.2 and
    3.3.
    """
    nothing = float("nan")
    n = len(differences)
    if not n:
        return nothing, nothing, nothing

    n_pairs = n * (n + 1) // 2
    places = [(n_pairs + 1) // 2, n_pairs // 2 + 1]
    place = _signed_rank_place(n) if with_interval else 0
    if place:
        places += [place, n_pairs + 1 - place]

    lower, upper, *ends = ordered_pair_means(np.sort(differences), places)
    low, high = ends or (nothing, nothing)
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

    # The share of the signs of the ranks 1 to n that give each sum W+.
    shares = np.ones(1)
    for rank in range(1, n + 1):
        # Halved at every step: the number of ways has no double from a thousand on.
        shares = (np.pad(shares, (0, rank)) + np.pad(shares, (rank, 0))) / 2

    return int(np.count_nonzero(np.cumsum(shares) <= 0.025))


def holm(p_values: FloatArray) -> FloatArray:
    """P values adjusted for their number, by Holm's step-down method; NaN stands for no test.

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
