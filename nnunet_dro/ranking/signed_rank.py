"""One-sided Wilcoxon signed-rank tests of many pairs at once.

They are of the units themselves (cases or patients), and of resamples of them.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import rankdata

from nnunet_dro.arrays import BoolArray, FloatArray, Int64Array
from nnunet_dro.evaluation.statistics.significance import (
    MOST_EQUAL,
    MOST_UNEQUAL,
    signed_rank_shares,
)

CountArray = npt.NDArray[np.unsignedinteger[Any]]

#: Rows whose sums are kept at a time: those of a thousand resamples then stay in the cache.
ROWS_AT_ONCE = 64


def one_sided_p(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P values of the Wilcoxon signed-rank test, of each row, in both directions.

    Zero differences are left out (Wilcoxon 1945), as is NaN. Exact for up to `MOST_UNEQUAL`
    differences without ties and `MOST_EQUAL` with some, otherwise by the normal approximation with
    the correction for ties. Where no difference is left, p is 1. The first p value is against "not
    greater than zero", the second against "not less than zero".
    """
    sizes = np.where(differences == 0, np.nan, np.abs(differences))
    is_counted = ~np.isnan(sizes)
    ranks = rankdata(sizes, axis=1, nan_policy="omit")
    n = is_counted.sum(axis=1)
    plus = np.where(differences > 0, ranks, 0.0).sum(axis=1)

    # Of a group of t ties, each member brings t^2 - 1, together t^3 - t.
    last = rankdata(sizes, method="max", axis=1, nan_policy="omit")
    n_tied = 2 * (last - ranks) + 1
    ties = np.where(is_counted, n_tied**2 - 1, 0.0).sum(axis=1)

    # Where nothing deviates, p is 1.
    z = _normal_z(plus, n.astype(np.float64), ties)
    greater = np.nan_to_num(ndtr(-z), nan=1.0)
    less = np.nan_to_num(ndtr(z), nan=1.0)
    most_exact = np.where(ties > 0, MOST_EQUAL, MOST_UNEQUAL)
    for row in np.flatnonzero((n > 0) & (n <= most_exact)).tolist():
        greater[row], less[row] = _exact_p(plus[row], ranks[row, is_counted[row]])
    return greater, less


def _exact_p(plus: float, ranks: FloatArray) -> tuple[float, float]:
    """The exact p values, in both directions, of a sum of some of these ranks."""
    # Twice the ranks are whole numbers, even where differences share one.
    doubled = np.rint(2 * np.sort(ranks)).astype(np.int64)
    upper = _upper_tails(tuple(doubled.tolist()))
    place = round(2 * plus)
    # The sum of the negative ranks is what is left of all ranks.
    return upper[place], upper[len(upper) - 1 - place]


@lru_cache(maxsize=512)
def _upper_tails(ranks: tuple[int, ...]) -> FloatArray:
    """P(W+ >= w) for w from 0 to the sum of the ranks, where all signs are equally likely."""
    at_least = np.cumsum(signed_rank_shares(ranks)[::-1])[::-1]
    return np.asarray(np.minimum(1.0, at_least))


def _normal_z(plus: FloatArray, n: FloatArray, ties: FloatArray) -> FloatArray:
    """How many deviations W+ lies above its mean; NaN where nothing deviates.

    ``ties`` is the sum of t^3 - t over the groups of t ties.
    """
    mean = n * (n + 1) / 4
    variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48
    deviation = np.sqrt(np.maximum(variance, 0))
    return np.asarray((plus - mean) / np.where(deviation > 0, deviation, np.nan))


def resampled_z(differences: FloatArray, counts: Int64Array) -> FloatArray:
    """The normal approximation of `one_sided_p` on resamples of the columns.

    ``counts``, shape (n_resamples, n), is how often each column is in each resample. The result,
    shape (n_resamples, n_rows), is how many deviations the rank sum of the positive differences
    lies above its mean; 0 where nothing deviates.
    """
    kept = np.where(differences == 0, np.nan, differences)
    drawn = _Drawn.of(kept, counts)
    # Sums of cubes are whole: single precision is exact below 2^24.
    most = int(counts.sum(axis=1).max(initial=0))
    exact = np.float32 if most**3 < 2**24 else np.float64
    weights = counts.astype(exact)
    counted = (~np.isnan(kept)).T.astype(exact)
    n = (weights @ counted).astype(np.float64)

    # A difference that is drawn several times is tied with itself.
    cubes = weights * weights * weights
    ties = (cubes @ counted).astype(np.float64) - n
    drawn.add_ties(ties)
    return np.nan_to_num(_normal_z(drawn.positive_rank_sums(), n, ties))


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Rows of differences, by size, and how often each is drawn."""

    sizes: FloatArray  # ascending, shape (n_rows, n); NaN where a difference is left out
    is_positive: BoolArray
    #: The column of each in ``counts``; the last one for differences that are left out.
    columns: Int64Array
    #: How often each column is in each resample, shape (n + 1, n_resamples), with a last row of
    #: zeros. Of a type that holds n (n + 1).
    counts: CountArray

    @classmethod
    def of(cls, differences: FloatArray, counts: Int64Array) -> "_Drawn":
        """Sort the differences of each row, of equal size the negative ones first."""
        sizes = np.abs(differences)
        order = np.lexsort((np.sign(differences), sizes), axis=1)
        ascending = np.take_along_axis(sizes, order, axis=1)
        n = differences.shape[1]

        most = int(counts.sum(axis=1).max(initial=0))
        kind = np.uint16 if most * (most + 1) < 2**16 else np.uint64
        nothing = np.zeros((1, len(counts)), dtype=kind)
        return cls(
            sizes=ascending,
            is_positive=np.take_along_axis(differences, order, axis=1) > 0,
            columns=np.where(np.isnan(ascending), n, order),
            counts=np.concatenate([counts.T.astype(kind, order="C"), nothing]),
        )

    def positive_rank_sums(self) -> FloatArray:
        """The sums of the positive differences' ranks W+, shape (n_resamples, n_rows).

        With C_k the number of drawn differences up to the k-th smallest in size, w_k of them equal
        to it, and T(c) = 1 + ... + c = c (c + 1) / 2, these w_k have the ranks C_(k-1) + 1 to C_k,
        together T(C_k) - T(C_(k-1)). The sum over the positive ones is the sum of
        T(C_k) (s_k - s_(k+1)), where s_k is 1 for a positive difference and otherwise 0.

        Ties have the mean of their ranks: the mean of W+ with the negative ones first and of W+
        with the positive ones first.
        """
        doubled = self._doubled_sums()
        other = doubled.copy()
        is_mixed = self._has_mixed_ties()
        if is_mixed.any():
            other[is_mixed] = self._with_positive_first(is_mixed)._doubled_sums()
        return (doubled + other).T / 4

    def _has_mixed_ties(self) -> BoolArray:
        """Which rows have a negative and a positive difference of the same size."""
        is_tied = self.sizes[:, 1:] == self.sizes[:, :-1]
        differs = self.is_positive[:, 1:] != self.is_positive[:, :-1]
        return np.asarray((is_tied & differs).any(axis=1))

    def _with_positive_first(self, rows: BoolArray) -> "_Drawn":
        """Some rows, where of differences of equal size the positive ones come first."""
        order = np.lexsort((~self.is_positive[rows], self.sizes[rows]), axis=1)
        return replace(
            self,
            sizes=self.sizes[rows],
            is_positive=np.take_along_axis(self.is_positive[rows], order, axis=1),
            columns=np.take_along_axis(self.columns[rows], order, axis=1),
        )

    def _doubled_sums(self) -> Int64Array:
        """2 W+ of each row and resample, shape (n_rows, n_resamples).

        Sums wrap around on the way, but not the last ones, which lie between 0 and n (n + 1).
        """
        kind = self.counts.dtype
        is_next = np.pad(self.is_positive[:, 1:], ((0, 0), (0, 1)))
        # -1 is the largest number of an unsigned type, and adds like -1.
        signs = self.is_positive.astype(kind) - is_next.astype(kind)

        sums = np.zeros((len(signs), self.counts.shape[1]), dtype=kind)
        for start in range(0, len(sums), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            sums_of_part = sums[part]
            n_up_to = np.zeros_like(sums_of_part)
            drawn = np.empty_like(n_up_to)
            triangles = np.empty_like(n_up_to)

            for columns, sign in zip(self.columns[part].T, signs[part].T, strict=True):
                # All columns exist; without the check, numpy writes where it is told to.
                np.take(
                    self.counts,
                    columns,
                    axis=0,
                    out=drawn,
                    mode="clip",
                )
                n_up_to += drawn
                np.add(n_up_to, 1, out=triangles)
                triangles *= n_up_to
                triangles *= sign[:, None]
                sums_of_part += triangles

        return sums.astype(np.int64)

    def add_ties(self, ties: FloatArray) -> None:
        """Replace t^3 of each difference by t^3 of all of its size, where several have one size.

        ``ties``, shape (n_resamples, n_rows), is the sum of t^3 - t, t the times that a difference
        is drawn.
        """
        is_tied = self.sizes[:, 1:] == self.sizes[:, :-1]
        if not is_tied.any():
            return

        # Sums of counts are whole: single precision is exact below 2^24.
        drawn = self.counts[:-1].astype(np.float32)
        cubes = drawn.astype(np.float64) ** 3
        for row in np.flatnonzero(is_tied.any(axis=1)).tolist():
            n_counted = np.count_nonzero(~np.isnan(self.sizes[row]))
            columns = self.columns[row][:n_counted]
            group = np.append(0, np.cumsum(~is_tied[row][: n_counted - 1]))
            is_member = np.zeros((group[-1] + 1, len(drawn)), dtype=np.float32)
            is_member[group, columns] = 1
            together = (is_member @ drawn).astype(np.float64)
            ties[:, row] += (together**3).sum(axis=0) - cubes[columns].sum(axis=0)
