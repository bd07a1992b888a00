"""Percentile bootstrap intervals of a sample's statistics, and of the differences of paired samples.

Reports print other intervals, which hold with few cases too (`intervals`). The experiments use these for differences
over the cases of all their seeds, and `benchmarks/coverage.py` compares the two.

The statistics of a resample depend only on which order statistics were drawn. So the *ranks* are drawn, not the values:
one draw of ranks, sorted, serves every sample of the same size. A percentile is then read from two of its columns, and
mean and standard deviation follow from how often each rank was drawn, for all samples in one matrix product.

The draws depend on the seed and the size alone. The interval of a stratum therefore does not change with what else is
reported, nor with the order of the cases (the mean's and the standard deviation's up to rounding).

Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 13.3.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.statistics import STATISTICS

FloatArray = npt.NDArray[np.float64]
_Ranks = npt.NDArray[np.unsignedinteger[Any]]

#: The percentiles that `STATISTICS` need.
_PERCENTILES = (5, 10, 25, 50, 75)

#: Number of ranks drawn at a time: they and their counts stay in the processor's cache, which halves the time.
_CHUNK = 1 << 18

#: The most numbers in any other array at a time (32 MB).
_MOST_NUMBERS = 1 << 22

#: The matrix product is as wide as a multiple of this: a column then takes the same path whatever stands beside it.
_WIDTH = 8


def intervals(
    samples: Sequence[FloatArray], *, n_resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> FloatArray:
    """Percentile bootstrap intervals of each sample's `STATISTICS`.

    A resample draws as many values as are defined, with replacement; the interval holds the middle ``level`` of the
    resamples' statistics. Resamples never reach beyond the sample: the interval of ``min`` begins, and that of ``max``
    ends, at the value itself, and those of percentiles that few cases lie beyond are too narrow.

    Args:
        samples: One array of shape (n,) each, of any size; NaN (undefined) is left out first, infinite is an error.
        n_resamples: Number of resamples; 0 gives NaN.
        seed: Random seed of the draws, >= 0.
        level: Share of the resamples inside, between 0 and 1.

    Returns:
        Lower and upper bounds, shape (n_samples, n_statistics, 2), in the unit of the values. NaN for a sample of
        fewer than two defined values, because one value says nothing about the spread.

    Raises:
        ValueError: If an option is out of range or a value is infinite.

    Example:
        >>> bounds = intervals([np.linspace(0.5, 1.0, 101)], n_resamples=200)
        >>> bounds.shape
        (1, 10, 2)
        >>> low, high = bounds[0, list(STATISTICS).index("mean")]
        >>> bool(low < 0.75 < high)
        True
    """
    _check_options(n_resamples, seed, level)
    sorted_samples = [np.sort(sample[~np.isnan(sample)]).reshape(1, -1) for sample in map(np.asarray, samples)]
    return _intervals(sorted_samples, n_resamples=n_resamples, seed=seed, level=level)


def difference_intervals(
    pairs: Sequence[tuple[FloatArray, FloatArray]], *, n_resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> FloatArray:
    """Percentile bootstrap intervals of the differences of paired samples' `STATISTICS`.

    A resample draws cases: the same ones for both samples. The difference is that of the two statistics (of the
    medians, say), not the statistic of the differences.

    Args:
        pairs: Two arrays of shape (n,) each, a value per case in the same order of cases. Cases in which either is NaN
            are left out first.
        n_resamples: Number of resamples; 0 gives NaN.
        seed: Random seed of the draws, >= 0.
        level: Share of the resamples inside, between 0 and 1.

    Returns:
        Bounds of second minus first, shape (n_pairs, n_statistics, 2). NaN for fewer than two complete pairs.

    Raises:
        ValueError: If an option is out of range, a value is infinite, or the samples of a pair differ in size.
    """
    _check_options(n_resamples, seed, level)
    sorted_pairs = []
    for first, second in pairs:
        if first.shape != second.shape:
            raise ValueError(
                f"`pairs` must be of one size each, got {first.shape} and {second.shape}. Align the cases."
            )
        both = np.stack([first, second]).astype(np.float64)
        both = both[:, ~np.isnan(both).any(axis=0)]
        # Sorted by their two values, so that the order of the cases does not matter.
        sorted_pairs.append(both[:, np.lexsort(both[::-1])])
    return _intervals(sorted_pairs, n_resamples=n_resamples, seed=seed, level=level)


def _check_options(n_resamples: int, seed: int, level: float) -> None:
    if n_resamples < 0:
        raise ValueError(f"`n_resamples` must be at least 0, got {n_resamples!r}. Take 2000, or 0 for no intervals.")
    if seed < 0:
        raise ValueError(f"`seed` must be at least 0, got {seed!r}. Take another one.")
    if not 0 < level < 1:
        raise ValueError(f"`level` must be between 0 and 1, got {level!r}. Take 0.95 for 95 per cent.")


def _intervals(groups: Sequence[FloatArray], *, n_resamples: int, seed: int, level: float) -> FloatArray:
    """Bounds for groups of one or two aligned samples (shape (n_members, n), the first ascending)."""
    bounds: FloatArray = np.full((len(groups), len(STATISTICS), 2), np.nan)
    of_size: dict[int, list[int]] = {}
    for position, group in enumerate(groups):
        if not np.isfinite(group).all():
            raise ValueError("`values` must be finite or NaN, got an infinite one. Correct the score or make it NaN.")
        of_size.setdefault(group.shape[1], []).append(position)
    tails = [(1 - level) / 2, (1 + level) / 2]
    for n, positions in of_size.items():
        if n < 2 or n_resamples == 0:
            continue
        n_members = len(groups[positions[0]])
        largest = max(2 * n, len(STATISTICS) * n_resamples) * n_members
        step = max(1, _MOST_NUMBERS // largest)
        for start in range(0, len(positions), step):
            block = positions[start : start + step]
            found = _distributions(np.stack([groups[p] for p in block]), n_resamples=n_resamples, seed=seed)
            found = found[:, 1] - found[:, 0] if n_members == 2 else found[:, 0]
            bounds[block] = np.moveaxis(np.quantile(found, tails, axis=-1), 0, -1)
    return bounds


def _distributions(samples: FloatArray, *, n_resamples: int, seed: int) -> FloatArray:
    """The statistics of every resample.

    Args:
        samples: Shape (n_groups, n_members, n), finite, n >= 2; the first member of a group ascending, the others in
            its order of cases.
        n_resamples: Number of resamples.
        seed: Random seed of the draws.

    Returns:
        Shape (n_groups, n_members, n_statistics, n_resamples).
    """
    n_groups, n_members, n = samples.shape
    order = np.argsort(samples, axis=-1, kind="stable")
    ascending = np.take_along_axis(samples, order, axis=-1)
    ranks = np.argsort(order, axis=-1, kind="stable").astype(np.uint32)
    # Deviations from a value of the sample: a constant sample then has exactly no spread, and nothing cancels.
    centre = ascending[:, :, n // 2, None]
    deviations = (samples - centre).reshape(n_groups * n_members, n)
    powers = np.zeros((n, -(-2 * len(deviations) // _WIDTH) * _WIDTH))
    powers[:, : 2 * len(deviations)] = np.concatenate([deviations, deviations**2]).T
    columns = np.array([0, *(c for p in _PERCENTILES for c in _columns(p, n)[:2]), n - 1])
    found: FloatArray = np.empty((n_groups, n_members, len(STATISTICS), n_resamples))
    at_once = max(1, min(_CHUNK // n, _MOST_NUMBERS // (len(columns) * n_groups)))
    for rows, drawn in _draw_ranks(n, n_resamples, seed=seed, at_once=at_once):
        moments = (_counts(drawn) @ powers)[:, : 2 * len(deviations)] / n
        # To shape (n_groups, n_members, n_rows).
        first, second = np.moveaxis(moments.reshape(len(moments), 2, n_groups, n_members), 0, -1)
        for member in range(n_members):
            if member == 0:
                read = ascending[:, 0][:, drawn[:, columns]]
            else:
                read = np.stack(
                    [ascending[g, member][_sorted_rows(ranks[g, member][drawn])[:, columns]] for g in range(n_groups)]
                )
            found[:, member, :, rows] = _statistics(
                np.moveaxis(read, -1, 0), centre[:, member], first[:, member], second[:, member], n
            )
    return found


def _statistics(read: FloatArray, centre: FloatArray, first: FloatArray, second: FloatArray, n: int) -> FloatArray:
    """`STATISTICS` of resamples.

    Args:
        read: Minimum, both neighbours of each percentile, maximum; shape (2 + 2 n_percentiles, n_groups, n_rows).
        centre: What the moments are about, shape (n_groups, 1).
        first: Mean deviation from ``centre``, shape (n_groups, n_rows).
        second: Mean squared deviation from ``centre``, the same shape.
        n: Size of the sample.

    Returns:
        Shape (n_groups, n_statistics, n_rows).
    """
    smallest, largest = read[0], read[-1]
    constant = smallest == largest
    std = np.sqrt(np.maximum(second - first**2, 0) * (n / (n - 1)))
    found = {
        # Rounding must not push the mean of equal values off them.
        "mean": np.clip(centre + first, smallest, largest),
        "std": np.where(constant, 0.0, std),
        "min": smallest,
        "max": largest,
    }
    for position, percentile in enumerate(_PERCENTILES):
        low, high = read[1 + 2 * position], read[2 + 2 * position]
        found["median" if percentile == 50 else f"p{percentile}"] = low + (high - low) * _columns(percentile, n)[2]
    found["iqr"] = found["p75"] - found["p25"]
    return np.stack([found[name] for name in STATISTICS], axis=1)


def _columns(percentile: int, n: int) -> tuple[int, int, float]:
    """The order statistics beside a percentile, and how far from the first to the second it lies (linear)."""
    # In integers, because 0.1 * 3 is more than 3/10.
    low, remainder = divmod(percentile * (n - 1), 100)
    return low, min(low + 1, n - 1), remainder / 100


def _draw_ranks(n: int, n_resamples: int, *, seed: int, at_once: int) -> Iterator[tuple[slice, _Ranks]]:
    """Sorted ranks of resamples, in chunks: the rows of the chunk, and ranks of shape (n_rows, n)."""
    rng = np.random.default_rng([seed, n])
    for start in range(0, n_resamples, at_once):
        stop = min(start + at_once, n_resamples)
        # 32 bits: numpy draws and sorts them fastest, and the stream does not depend on the size of the chunks.
        # Sorting them also takes a tenth of the time of sums of exponential spacings, which come sorted.
        yield slice(start, stop), _sorted_rows(rng.integers(0, n, size=(stop - start, n), dtype=np.uint32))


def _sorted_rows(ranks: _Ranks) -> _Ranks:
    ranks.sort(axis=1)
    return ranks


def _counts(drawn: _Ranks) -> FloatArray:
    """How often each rank was drawn, the same shape."""
    n_rows, n = drawn.shape
    cells = drawn + np.arange(n_rows, dtype=np.int64)[:, None] * n
    return np.bincount(cells.ravel(), minlength=n_rows * n).reshape(n_rows, n).astype(np.float64)
