"""Tests of paired differences, their typical value, and the correction for the number of tests."""

import warnings
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_MOST_EXACT = 200  # Up to this number of differences the interval of their typical value is exact.
_MOST_LISTED = 500  # Up to this number of differences all their pairs are listed.


def wilcoxon_p(differences: FloatArray) -> float:
    """Two-sided signed-rank p without zeros (Wilcoxon 1945), exact for small samples without ties.

    NaN if empty.
    """
    from scipy.stats import wilcoxon

    if not len(differences):
        return float("nan")
    # Zeros are left out here, because scipy would use the normal approximation for a small sample
    # with a zero.
    if not (nonzero := differences[differences != 0]).size:
        return 1.0
    with warnings.catch_warnings():
        # Older versions of scipy warn that the normal approximation is rough for few cases.
        warnings.simplefilter("ignore")
        return float(wilcoxon(nonzero, alternative="two-sided").pvalue)


def typical_value(
    differences: FloatArray, *, with_interval: bool = True
) -> tuple[float, float, float]:
    """The Hodges-Lehmann estimate of paired differences, and its exact 95 % interval from the signed-rank test.

    That is the median of the means of any two of them (each with itself, too): the value that the
    test would leave as it is. The interval has the values that the test would not reject, from the
    k-th smallest mean to the k-th largest one, where P(W+ < k) is at most 2.5 % with independent
    differences whose distribution is symmetric. NaN without any difference; there are bounds from
    six on.

    Source: Hollander, Wolfe and Chicken 2014, Nonparametric Statistical Methods, sections 3.2 and
    3.3.
    """
    nothing = float("nan")
    if not (n := len(differences)):
        return nothing, nothing, nothing
    n_pairs = n * (n + 1) // 2
    place = _signed_rank_place(n) if with_interval else 0
    places = [
        (n_pairs + 1) // 2,
        n_pairs // 2 + 1,
        *((place, n_pairs + 1 - place) if place else ()),
    ]
    lower, upper, *ends = _pair_means(np.sort(differences), places)
    return (lower + upper) / 2, *(ends or (nothing, nothing))


def _pair_means(ascending: FloatArray, places: Sequence[int]) -> list[float]:
    """The k-th smallest (k = 1 ...) of the means of any two values, each with itself too, for each of the places."""
    n = len(ascending)
    if n <= _MOST_LISTED:
        first, second = np.triu_indices(n)
        means = (ascending[first] + ascending[second]) / 2
        return [
            float(value)
            for value in np.partition(means, [k - 1 for k in places])[[k - 1 for k in places]]
        ]
    own = np.arange(n)
    found = []
    for k in places:
        low = float(ascending[0]) - 1
        high = float(ascending[-1])
        for _ in range(40):
            middle = (low + high) / 2
            n_up_to = np.maximum(
                np.searchsorted(ascending, 2 * middle - ascending, side="right") - own, 0
            ).sum()
            low, high = (low, middle) if n_up_to >= k else (middle, high)
        # The pair that is nearest, not a number near it, so that 0 stays 0.
        after = np.searchsorted(ascending, 2 * high - ascending)
        near = (
            np.concatenate(
                [ascending + ascending[np.clip(after + step, own, n - 1)] for step in (-1, 0)]
            )
            / 2
        )
        found.append(float(near[np.abs(near - high).argmin()]))
    return found


@lru_cache(maxsize=4096)
def _signed_rank_place(n: int) -> int:
    """The largest k with P(W+ < k) <= 2.5 %; 0 if there is none.

    Normal with more than `_MOST_EXACT` differences.
    """
    if n > _MOST_EXACT:
        return int(
            n * (n + 1) / 4 - NormalDist().inv_cdf(0.975) * (n * (n + 1) * (2 * n + 1) / 24) ** 0.5
        )
    ways = np.ones(1)
    for rank in range(1, n + 1):
        # Halved at every step: the number of ways has no double from a thousand on.
        ways = (np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))) / 2
    return int(np.count_nonzero(np.cumsum(ways) <= 0.025))


def holm(p_values: FloatArray) -> FloatArray:
    """P values adjusted for their number, by Holm's step-down method; NaN stands for no test.

    The i-th smallest of m becomes max over j <= i of min(1, (m - j + 1) p_j).

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted = np.full(len(p_values), np.nan)
    tests = np.flatnonzero(~np.isnan(p_values))
    order = tests[np.argsort(p_values[tests], kind="stable")]
    steps = np.minimum(1, p_values[order] * np.arange(len(order), 0, -1))
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
