"""Two kinds of 95 % intervals: one to read, and one for verdicts.

The interval for verdicts assumes no more than the limits of the score.

The interval to read is the one that the field knows. Percentiles have exact bounds
(`percentile_bounds`), the mean has Student's t, corrected for skewness, and the mean of paired
differences has Student's t (`sample_bounds`). Of a mean it holds if failures like those of the
sample are all there are: a failure of one case in fifty is not in most samples of thirty, and no
such interval knows of it.

The bounds for verdicts hold without that, by a proof (`betting_bounds`). Values without limits have
none. `benchmarks/coverage.py` shows how often either holds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.statistics.betting_bounds import STAKES, bounded_mean
from nnunet_dro.evaluation.statistics.columns import PERCENTILES, STATISTICS
from nnunet_dro.evaluation.statistics.sample_bounds import (
    mean_by_skewed_t,
    mean_by_students_t,
    percentile_bounds,
)

#: Bounds are wrong with a probability of at most this, each.
TAIL = 0.025

#: Fewer values have no interval to read: the values themselves are shorter, and say more.
FEWEST = 6

#: The most numbers in an array at a time (32 MB).
_MOST_NUMBERS = 1 << 22

#: The same for bets, of which there are several on every value: they stay in the cache.
_MOST_STAKED = (1 << 16) // len(STAKES)


def intervals(samples: Iterable[FloatArray], *, bounded: Sequence[bool]) -> FloatArray:
    """95 % intervals to read of each sample's `STATISTICS`, shape (n_samples, n_statistics, 2).

    NaN in a sample is undefined and left out; ``bounded`` says whether its values lie between 0 and
    1. There is none (NaN) with fewer than `FEWEST` values, and of the standard deviation, the
    smallest and the largest value.
    """
    ascending = [_ascending(sample) for sample in samples]
    bounds: FloatArray = np.full((len(ascending), len(STATISTICS), 2), np.nan)
    for positions, block, is_bounded in _blocks(ascending, bounded, fewest=FEWEST):
        bounds[positions] = _stacked(_statistic_bounds(block, bounded=is_bounded))
    return bounds


def difference_intervals(
    pairs: Sequence[tuple[FloatArray, FloatArray]], *, bounded: Sequence[bool]
) -> FloatArray:
    """95 % intervals to read of the differences of paired samples' `STATISTICS`; see `intervals`.

    Differences are second minus first: that of the two statistics (of the medians, say), not the
    statistic of the differences. The interval of percentiles reaches from one's lower bound less
    the other's upper one to the reverse. Every case has a value in both samples.
    """
    bounds: FloatArray = np.full((len(pairs), len(STATISTICS), 2), np.nan)
    for positions, block, is_bounded in _blocks(pairs, bounded, fewest=FEWEST):
        first = block[:, 0]
        second = block[:, 1]
        before = _percentile_bounds(np.sort(first, axis=1))
        after = _percentile_bounds(np.sort(second, axis=1))
        differences = {
            name: after[name] - bounds_before[:, ::-1] for name, bounds_before in before.items()
        }

        # Sorted, so that the order of the cases does not matter.
        changes = np.sort(second - first, axis=1)
        mean = mean_by_students_t(changes, tail=TAIL)
        differences["mean"] = clipped(mean, bounded=is_bounded, low=-1.0)
        bounds[positions] = _stacked(differences)

    return bounds


def guaranteed_means(
    samples: Iterable[FloatArray], *, bounded: Sequence[bool], low: float = 0.0
) -> FloatArray:
    """95 % bounds of means for verdicts, which assume only that values lie between ``low`` and 1.

    Each is wrong with a probability of at most `TAIL`, see `bounded_mean`. Shape (n_samples, 2);
    NaN for samples that are not ``bounded`` so. ``low`` is -1 for differences.
    """
    ascending = [_ascending(sample) for sample in samples]
    bounds: FloatArray = np.full((len(ascending), 2), np.nan)
    blocks = _blocks(
        ascending,
        bounded,
        fewest=1,
        low=low,
        most_numbers=_MOST_STAKED,
    )

    for positions, block, is_bounded in blocks:
        if is_bounded:
            bounds[positions] = bounded_mean(
                block,
                low=low,
                high=1.0,
                tail=TAIL,
            )

    return bounds


def least_loss_excluded(n: int) -> float:
    """The least loss of a mean that `guaranteed_means` exclude of n pairs without any change."""
    (bounds,) = guaranteed_means([np.zeros(n)], bounded=[True], low=-1.0)
    return -float(bounds[0])


def not_inside(bounds: FloatArray, to_read: FloatArray) -> FloatArray:
    """Bounds for verdicts, shape (n, 2), that are nowhere inside the interval to read.

    A bound that moves outwards holds all the more. NaN stays where there is no bound; an interval
    that is NaN moves nothing.
    """
    lower = np.fmin(bounds[:, 0], to_read[:, 0])
    upper = np.fmax(bounds[:, 1], to_read[:, 1])
    return np.where(np.isnan(bounds), np.nan, np.stack([lower, upper], axis=1))


def one_sided_bound(sample: FloatArray, percent: float, *, end: str, confidence: float) -> float:
    """The exact one-sided bound of a percentile, wrong in at most 100 - ``confidence`` per cent.

    It is never beyond the percentile of the sample itself; NaN where there are too few values for
    one.
    """
    ascending = _ascending(sample)
    if not len(ascending):
        return float("nan")

    tail = 1 - confidence / 100
    low, high = percentile_bounds(ascending[None], percent, tail=tail)[0]
    own = np.percentile(ascending, percent)
    # With little confidence, such as 50 %, the value that is the bound may lie beyond the sample's
    # percentile, which is interpolated between two values.
    if end == "low":
        return float(np.minimum(low, own))
    return float(np.maximum(high, own))


def _ascending(sample: FloatArray) -> FloatArray:
    values = np.asarray(sample, dtype=np.float64)
    return np.sort(values[~np.isnan(values)])


def _statistic_bounds(ascending: FloatArray, *, bounded: bool) -> dict[str, FloatArray]:
    """Statistic to the bounds, shape (n_samples, 2), of samples of one size.

    Statistics that have no interval are left out.
    """
    bounds = _percentile_bounds(ascending)
    mean = clipped(mean_by_skewed_t(ascending, tail=TAIL), bounded=bounded, low=0.0)
    # Distances have no upper limit, but a lower one.
    has_negative = ascending[:, :1] < 0
    bounds["mean"] = np.where(has_negative, mean, np.maximum(mean, 0.0))
    return bounds


def _percentile_bounds(ascending: FloatArray) -> dict[str, FloatArray]:
    """The same of the percentiles, and of what lies between two of them."""
    bounds = {
        name: percentile_bounds(ascending, percent, tail=TAIL)
        for name, percent in PERCENTILES.items()
    }
    spread = bounds["p75"] - bounds["p25"][:, ::-1]
    bounds["iqr"] = np.where(np.isnan(spread), np.nan, np.maximum(spread, 0))
    return bounds


def clipped(bounds: FloatArray, *, bounded: bool, low: float) -> FloatArray:
    """Bounds within the limits of the score, ``low`` and 1, of which Student's t knows nothing."""
    return np.clip(bounds, low, 1.0) if bounded else bounds


def _stacked(bounds: dict[str, FloatArray]) -> FloatArray:
    """Bounds in the order of `STATISTICS`, NaN where there are none.

    Shape (n_samples, n_statistics, 2).
    """
    nothing = np.full_like(bounds["mean"], np.nan)
    return np.stack([bounds.get(name, nothing) for name in STATISTICS], axis=1)


def _blocks(
    groups: Sequence[FloatArray | tuple[FloatArray, FloatArray]],
    bounded: Sequence[bool],
    *,
    fewest: int,
    low: float = 0.0,
    most_numbers: int = _MOST_NUMBERS,
) -> Iterator[tuple[list[int], FloatArray, bool]]:
    """Groups of one size and kind together, as their positions, the groups, and the kind.

    Groups are of shape (..., n), and stacked not too many at a time.
    """
    alike: defaultdict[tuple[int, bool], list[int]] = defaultdict(list)
    for position, (group, is_bounded) in enumerate(zip(groups, bounded, strict=True)):
        values = np.asarray(group)
        _check_values(values, is_bounded=is_bounded, low=low)
        alike[values.shape[-1], is_bounded].append(position)

    for (n, is_bounded), positions in alike.items():
        if n < fewest:
            continue
        step = max(1, most_numbers // max(n, 1))
        for start in range(0, len(positions), step):
            block = positions[start : start + step]
            yield block, np.stack([groups[position] for position in block]), is_bounded


def _check_values(group: FloatArray, *, is_bounded: bool, low: float) -> None:
    if not np.isfinite(group).all():
        raise InputError(
            "values",
            must="be finite or NaN",
            got="an infinite one",
            cure="Correct the score or make it NaN.",
        )
    if not is_bounded or not group.size:
        return
    if group.min() < low or group.max() > 1:
        raise InputError(
            "values",
            must=f"be between {low:g} and 1",
            got="others",
            cure="Write fractions, not per cent.",
        )
