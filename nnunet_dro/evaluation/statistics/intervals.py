"""Two kinds of 95 % intervals.

One to read, and one for verdicts, which assumes no more than the limits of the score.

The interval to read is the one that the field knows. Percentiles have exact bounds
(`percentile_bounds`), the mean has Student's t, corrected for skewness, and the mean of paired
differences has Student's t (`sample_bounds`). Of a mean it holds if failures like those of the
sample are all there are: a failure of one case in fifty is not in most samples of thirty, and no
such interval knows of it.

The bounds for verdicts hold without that: one more case is added, as bad as can be. Values without
limits have none. `benchmarks/coverage.py` shows how often either holds.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.statistics.columns import PERCENTILES, STATISTICS
from nnunet_dro.evaluation.statistics.sample_bounds import (
    bounded_mean,
    mean_by_skewed_t,
    mean_by_students_t,
    percentile_bounds,
)

FloatArray = npt.NDArray[np.float64]

TAIL = 0.025  # Bounds are wrong with a probability of at most this, each.
FEWEST = (
    6  # Fewer values have no interval to read: the values themselves are shorter, and say more.
)
_MOST_NUMBERS = 1 << 22  # The most numbers in an array at a time (32 MB).


def intervals(samples: Sequence[FloatArray], *, bounded: Sequence[bool]) -> FloatArray:
    """95 % intervals to read of each sample's `STATISTICS`, shape (n_samples, n_statistics, 2).

    NaN in a sample is undefined and left out; ``bounded`` says whether its values lie between 0 and
    1. There is none (NaN) with fewer than `FEWEST` values, and of the standard deviation, the
    smallest and the largest value.
    """
    ascending = [_ascending(sample) for sample in samples]
    bounds: FloatArray = np.full((len(ascending), len(STATISTICS), 2), np.nan)
    for block, of_size, is_bounded in _blocks(ascending, bounded, fewest=FEWEST):
        bounds[block] = _in_order(_own(of_size, bounded=is_bounded), len(block))
    return bounds


def difference_intervals(
    pairs: Sequence[tuple[FloatArray, FloatArray]], *, bounded: Sequence[bool]
) -> FloatArray:
    """95 % intervals to read, of the differences (second minus first) of paired samples' `STATISTICS`, as `intervals`.

    The difference is that of the two statistics (of the medians, say), not the statistic of the
    differences. That of percentiles reaches from one's lower bound less the other's upper one to
    the reverse. Cases in which either is NaN are left out.
    """
    complete = [_complete(first, second) for first, second in pairs]
    bounds: FloatArray = np.full((len(complete), len(STATISTICS), 2), np.nan)
    for block, of_size, is_bounded in _blocks(complete, bounded, fewest=FEWEST):
        before, after = (_own(np.sort(of_size[:, m], axis=1), bounded=is_bounded) for m in (0, 1))
        found = {name: after[name] - before[name][:, ::-1] for name in before}
        # Sorted, so that the order of the cases does not matter.
        changes = np.sort(of_size[:, 1] - of_size[:, 0], axis=1)
        found["mean"] = _within(mean_by_students_t(changes, tail=TAIL), is_bounded, -1.0)
        bounds[block] = _in_order(found, len(block))
    return bounds


def guaranteed_means(
    samples: Sequence[FloatArray],
    *,
    bounded: Sequence[bool],
    low: float = 0.0,
    n_resamples: int = 2000,
    seed: int = 0,
) -> FloatArray:
    """95 % bounds of means for verdicts, shape (n_samples, 2), which assume values from ``low`` to 1 alone."""
    if n_resamples < 0:
        raise ValueError(
            f"`n_resamples` must be at least 0, got {n_resamples!r}. Take 2000, or 0 for no intervals."
        )
    if seed < 0:
        raise ValueError(f"`seed` must be at least 0, got {seed!r}. Take another one.")
    ascending = [_ascending(sample) for sample in samples]
    bounds: FloatArray = np.full((len(ascending), 2), np.nan)
    for block, of_size, is_bounded in _blocks(
        ascending, bounded, fewest=1, low=low, n_resamples=n_resamples
    ):
        if is_bounded and n_resamples:
            bounds[block] = bounded_mean(
                of_size, low=low, high=1.0, tail=TAIL, n_resamples=n_resamples, seed=seed
            )
    return bounds


def one_sided_bound(sample: FloatArray, percent: float, *, end: str, confidence: float) -> float:
    """The exact one-sided bound of a percentile, never beyond the sample's own.

    NaN with too few values for one.
    """
    if not len(ascending := _ascending(sample)):
        return float("nan")
    low, high = percentile_bounds(ascending[None], percent, tail=1 - confidence / 100)[0]
    own = np.percentile(ascending, percent)
    # Little confidence has a bound at the sample's percentile, which lies between two values.
    return float(np.minimum(low, own) if end == "low" else np.maximum(high, own))


def _ascending(sample: FloatArray) -> FloatArray:
    values = np.asarray(sample, dtype=np.float64)
    return np.sort(values[~np.isnan(values)])


def _complete(first: FloatArray, second: FloatArray) -> FloatArray:
    """The pairs in which both have a value, shape (2, n)."""
    if first.shape != second.shape:
        raise ValueError(
            f"`pairs` must be of one size each, got {first.shape} and {second.shape}. Align the cases."
        )
    both = np.stack([first, second]).astype(np.float64)
    return both[:, ~np.isnan(both).any(axis=0)]


def _own(ascending: FloatArray, *, bounded: bool) -> dict[str, FloatArray]:
    """Statistic to bounds, shape (n_samples, 2), of samples of one size.

    Without those that have none.
    """
    found = {
        name: percentile_bounds(ascending, percent, tail=TAIL)
        for name, percent in PERCENTILES.items()
    }
    spread = found["p75"] - found["p25"][:, ::-1]
    found["iqr"] = np.where(np.isnan(spread), np.nan, np.maximum(spread, 0))
    mean = _within(mean_by_skewed_t(ascending, tail=TAIL), bounded, 0.0)
    # Distances have no upper limit, but a lower one.
    return found | {"mean": np.where(ascending[:, :1] < 0, mean, np.maximum(mean, 0.0))}


def _within(bounds: FloatArray, bounded: bool, low: float) -> FloatArray:
    """Student's t knows no limits."""
    return np.clip(bounds, low, 1.0) if bounded else bounds


def _in_order(found: dict[str, FloatArray], n_samples: int) -> FloatArray:
    nothing = np.full((n_samples, 2), np.nan)
    return np.stack([found.get(name, nothing) for name in STATISTICS], axis=1)


def _blocks(
    groups: Sequence[FloatArray],
    bounded: Sequence[bool],
    *,
    fewest: int,
    low: float = 0.0,
    n_resamples: int = 0,
) -> Iterator[tuple[list[int], FloatArray, bool]]:
    """The positions of groups (shape (..., n)) of one size and kind, and these groups, not too many at a time."""
    alike: dict[tuple[int, bool], list[int]] = {}
    for position, (group, is_bounded) in enumerate(zip(groups, bounded, strict=True)):
        if not np.isfinite(group).all():
            raise ValueError(
                "`values` must be finite or NaN, got an infinite one. Correct the score or make it NaN."
            )
        if is_bounded and group.size and not (group.min() >= low and group.max() <= 1):
            raise ValueError(
                f"`values` must be between {low:g} and 1, got others. Write fractions, not per cent."
            )
        alike.setdefault((group.shape[-1], is_bounded), []).append(position)
    for (n, is_bounded), positions in alike.items():
        step = max(1, _MOST_NUMBERS // max(n, n_resamples, 1))
        for start in range(0, len(positions) if n >= fewest else 0, step):
            block = positions[start : start + step]
            yield block, np.stack([groups[position] for position in block]), is_bounded
