"""One-sided Wilcoxon signed-rank tests of many pairs at once, on the cases themselves and on resamples of them."""

from functools import cache

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

#: Up to this number of differences without ties, the p value is exact.
MOST_EXACT = 50

#: What stands for an infinite difference; its double is finite.
_LARGEST = float(np.finfo(np.float64).max) / 4


def one_sided_p(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P values of the Wilcoxon signed-rank test, of each row, in both directions.

    Zero differences are left out (Wilcoxon 1945); infinite ones have the largest rank. Exact for up to `MOST_EXACT`
    differences without ties, otherwise by the normal approximation with the correction for ties. NaN is left out; where
    no difference is left, p is 1. The first p value is against "not greater than zero", the second against "not less
    than zero".
    """
    sizes = np.abs(differences)
    sizes[sizes == 0] = np.nan
    order = np.argsort(sizes, axis=1, kind="stable")  # NaN last
    ordered = np.take_along_axis(sizes, order, axis=1)
    counted = ~np.isnan(ordered)
    n = counted.sum(axis=1)
    ranks, tie_sizes = _mid_ranks(ordered)
    positive = np.take_along_axis(differences, order, axis=1) > 0
    plus = np.where(positive & counted, ranks, 0.0).sum(axis=1)
    # Of a group of t ties, each member brings t^2 - 1, together t^3 - t.
    ties = np.where(counted, tie_sizes**2 - 1.0, 0.0).sum(axis=1)
    greater, less = _normal_p(plus, n.astype(np.float64), ties)
    for row in np.flatnonzero((ties == 0) & (n > 0) & (n <= MOST_EXACT)):
        upper = _upper_tails(int(n[row]))
        total = int(n[row]) * (int(n[row]) + 1) // 2
        w = round(float(plus[row]))
        greater[row], less[row] = upper[w], upper[total - w]
    return greater, less


def _mid_ranks(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ranks of sorted rows, those of ties averaged, and the number of ties at each place."""
    n_rows, n = ordered.shape
    place = np.broadcast_to(np.arange(n), (n_rows, n))
    is_new = np.ones((n_rows, n), dtype=bool)
    is_new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(is_new, place, 0), axis=1)
    is_last = np.ones((n_rows, n), dtype=bool)
    is_last[:, :-1] = is_new[:, 1:]
    last = np.minimum.accumulate(np.where(is_last, place, n - 1)[:, ::-1], axis=1)[:, ::-1]
    return (first + last) / 2 + 1.0, last - first + 1.0


@cache
def _upper_tails(n: int) -> FloatArray:
    """P(W+ >= w) for w = 0 ... n (n + 1) / 2 under the null hypothesis: every set of ranks is equally likely."""
    ways = np.ones(1)
    for rank in range(1, n + 1):
        ways = np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))
    return np.asarray(np.minimum(1.0, np.cumsum(ways[::-1])[::-1] / 2.0**n))


def _normal_p(plus: FloatArray, n: FloatArray, ties: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The normal approximation; ``ties`` is the sum of t^3 - t over the groups of t ties."""
    from scipy.special import ndtr

    deviation = np.sqrt(np.maximum(n * (n + 1) * (2 * n + 1) / 24 - ties / 48, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (plus - n * (n + 1) / 4) / deviation
    z = np.where(deviation > 0, z, -np.inf)
    less = np.where(deviation > 0, ndtr(z), 1.0)
    return ndtr(-z), less


def resampled_p(differences: FloatArray, counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """The p values of `one_sided_p`, always by the normal approximation, on resamples of the columns.

    The sum of the positive ranks is the number of pairs of differences (each with itself, too) whose sum is positive,
    those with the sum zero counted half (Tukey 1949). So a resample's sum is a quadratic form of how often it has each
    difference, and one matrix product serves all resamples and rows. ``counts``, shape (n_resamples, n), is how often
    each column is in each resample; the p values have the shapes (n_resamples, n_rows).
    """
    # Infinite differences are larger than all others, and two of them cancel out.
    kept = np.clip(np.where(differences == 0, np.nan, differences), -_LARGEST, _LARGEST)
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
    for row, of_row in enumerate(kept):
        ties[:, row] += _more_ties(np.abs(of_row), weights)
    return _normal_p(plus, n, ties)


def _more_ties(sizes: FloatArray, weights: FloatArray) -> FloatArray | float:
    """What equal sizes add to the sum of t^3, for each resample."""
    found, group, n_members = np.unique(sizes[~np.isnan(sizes)], return_inverse=True, return_counts=True)
    if len(found) == len(group):
        return 0.0
    tied = n_members[group] > 1
    columns = np.flatnonzero(~np.isnan(sizes))[tied]
    in_order = np.argsort(group[tied], kind="stable")
    members = weights[:, columns[in_order]]
    starts = np.flatnonzero(np.diff(group[tied][in_order], prepend=-1))
    together = np.add.reduceat(members, starts, axis=1)
    return np.asarray((together**3).sum(axis=1) - (members**3).sum(axis=1))


def holm_rejected(p_values: FloatArray, *, level: float) -> BoolArray:
    """Which hypotheses Holm's step-down method rejects, in each row.

    The i-th smallest of m p values is rejected if, for all j <= i, the j-th is at most level / (m - j + 1):
    those that `holm` adjusts to at most ``level``, for many rows at once.
    """
    m = p_values.shape[1]
    order = np.argsort(p_values, axis=1, kind="stable")
    holds = np.take_along_axis(p_values, order, axis=1) * np.arange(m, 0, -1) <= level
    rejected = np.zeros(p_values.shape, dtype=bool)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(holds, axis=1), axis=1)
    return rejected
