"""One-sided Wilcoxon signed-rank tests of many pairs at once.

They are of the cases themselves, and of resamples of them.
"""

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import rankdata

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Up to this number of differences without ties, the p value is exact.
MOST_EXACT = 50

#: What stands for an infinite difference; its double is finite.
_LARGEST = float(np.finfo(np.float64).max) / 4


def one_sided_p(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P values of the Wilcoxon signed-rank test, of each row, in both directions.

    Zero differences are left out (Wilcoxon 1945); infinite ones have the largest rank. Exact for up
    to `MOST_EXACT` differences without ties, otherwise by the normal approximation with the
    correction for ties. NaN is left out; where no difference is left, p is 1. The first p value is
    against "not greater than zero", the second against "not less than zero".
    """
    sizes = np.where(differences == 0, np.nan, np.abs(differences))
    lowest = rankdata(
        sizes,
        method="min",
        axis=1,
        nan_policy="omit",
    )
    highest = rankdata(
        sizes,
        method="max",
        axis=1,
        nan_policy="omit",
    )
    n = (~np.isnan(sizes)).sum(axis=1)
    ranks = (lowest + highest) / 2
    plus = np.nansum(np.where(differences > 0, ranks, 0.0), axis=1)
    # Of a group of t ties, each member brings t^2 - 1, together t^3 - t.
    ties = np.nansum((highest - lowest + 1.0) ** 2 - 1, axis=1)

    greater, less = _normal_p(plus, n.astype(np.float64), ties)
    is_exact = (ties == 0) & (n > 0) & (n <= MOST_EXACT)

    for row in np.flatnonzero(is_exact):
        upper = _upper_tails(int(n[row]))
        w = round(float(plus[row]))
        greater[row] = upper[w]
        # The sum of the negative ranks is what is left of all ranks.
        less[row] = upper[len(upper) - 1 - w]

    return greater, less


@cache
def _upper_tails(n: int) -> FloatArray:
    """P(W+ >= w) for w from 0 to n (n + 1) / 2.

    Under the null hypothesis every set of ranks is equally likely.
    """
    ways = np.ones(1)
    for rank in range(1, n + 1):
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    at_least = np.cumsum(ways[::-1])[::-1]
    return np.asarray(np.minimum(1.0, at_least / 2.0**n))


def _normal_p(plus: FloatArray, n: FloatArray, ties: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The normal approximation; ``ties`` is the sum of t^3 - t over the groups of t ties."""
    mean = n * (n + 1) / 4
    variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48
    deviation = np.sqrt(np.maximum(variance, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (plus - mean) / deviation

    z = np.where(deviation > 0, z, -np.inf)
    less = np.where(deviation > 0, ndtr(z), 1.0)
    return ndtr(-z), less


def resampled_p(differences: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """The p values of `one_sided_p` on resamples of the columns, by the normal approximation.

    The sum of the positive ranks is the number of pairs of differences (each with itself, too)
    whose sum is positive, those with the sum zero counted half (Tukey 1949). So a resample's sum is
    a quadratic form of how often it has each difference, and one matrix product serves all
    resamples and rows.

    ``counts``, shape (n_resamples, n), is how often each column is in each resample; the p values
    have the shapes (n_resamples, n_rows).
    """
    # Infinite differences are larger than all others, and two of them cancel out.
    nonzero = np.where(differences == 0, np.nan, differences)
    kept = np.clip(nonzero, -_LARGEST, _LARGEST)
    counted = (~np.isnan(kept)).astype(np.float64)
    weights = counts.astype(np.float64)

    # Products of counts are whole: single precision is exact below 2^24.
    exact = np.float32 if counts.sum(axis=1).max(initial=0) < 4096 else np.float64
    drawn = counts.astype(exact)
    plus = (weights * (weights + 1) / 2) @ (kept > 0).T.astype(np.float64)
    by_column = np.ascontiguousarray(kept.T)

    for column in range(len(by_column) - 1):
        sums = by_column[column] + by_column[column + 1 :]
        is_positive = (sums > 0).astype(exact)
        is_positive[sums == 0] = 0.5
        plus += (drawn[:, [column]] * drawn[:, column + 1 :]) @ is_positive

    n = weights @ counted.T
    ties = weights**3 @ counted.T - n

    for row, differences_of_row in enumerate(kept):
        ties[:, row] += _more_ties(np.abs(differences_of_row), weights)

    return _normal_p(plus, n, ties)


def _more_ties(sizes: FloatArray, weights: FloatArray) -> FloatArray | float:
    """What equal sizes add to the sum of t^3, for each resample."""
    is_counted = ~np.isnan(sizes)
    distinct, group, n_members = np.unique(
        sizes[is_counted], return_inverse=True, return_counts=True
    )
    if len(distinct) == len(group):
        return 0.0

    # The columns of equal sizes, side by side.
    is_tied = n_members[group] > 1
    columns = np.flatnonzero(is_counted)[is_tied]
    groups = group[is_tied]
    order = np.argsort(groups, kind="stable")
    members = weights[:, columns[order]]
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    together = np.add.reduceat(members, starts, axis=1)
    return np.asarray((together**3).sum(axis=1) - (members**3).sum(axis=1))
