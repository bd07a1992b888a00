"""95 % intervals of a sample's statistics and of the differences of paired samples: for each the method that holds.

Which method that is was chosen by simulation (`benchmarks/coverage.py`): the narrowest of those that cover the true
value in at least 93 % of the samples, for every shape and size that was tried. Where none does, there is no interval.

- Percentiles have exact bounds (`order_statistics`). Those of the interquartile range, and of the differences of
  percentiles, are the sums and differences of these bounds that reach farthest.
- The mean and the standard deviation of a fraction have bounds for values between 0 and 1 (`mean_bounds`).
- The mean of a distance, and differences of means, have intervals from `N_FOR_T` cases on that follow Student's t.
- With more than `MOST_DRAWN` cases the two before are computed from series of moments (`large_samples`), not drawn.
- The smallest and the largest value have none: a sample does not tell how far the extremes lie out.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation import large_samples
from nnunet_dro.evaluation.large_samples import MOST_DRAWN
from nnunet_dro.evaluation.mean_bounds import bounded_mean_and_std, mean_by_bootstrap_t, mean_by_students_t
from nnunet_dro.evaluation.order_statistics import percentile_bounds
from nnunet_dro.evaluation.patients import (
    BoolArray,
    CodeArray,
    clustered_mean_and_std,
    clustered_percentile_bounds,
    clustered_students_t,
)
from nnunet_dro.evaluation.statistics import PERCENTILES, STATISTICS

FloatArray = npt.NDArray[np.float64]

#: Bounds are wrong with a probability of at most this, each.
TAIL = 0.025

#: The least number of cases for intervals that follow Student's t distribution.
N_FOR_T = 50

#: Stands for a sample without values.
_NOTHING: FloatArray = np.empty((1, 0))

#: The most numbers in an array at a time (32 MB).
_MOST_NUMBERS = 1 << 22


def intervals(
    samples: Sequence[FloatArray],
    *,
    bounded: Sequence[bool],
    patients: Sequence[CodeArray] | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
) -> FloatArray:
    """95 % intervals of each sample's `STATISTICS`.

    Args:
        samples: One array of shape (n,) each, of any size; NaN (undefined) is left out first, infinite is an error.
        bounded: For each sample, whether its values lie between 0 and 1.
        patients: For each sample, the number of each value's patient, shape (n,). None takes all for independent.
        n_resamples: Number of random draws for the bounds of means and standard deviations; 0 gives no intervals.
        seed: Random seed of the draws, >= 0.

    Returns:
        Lower and upper bounds, shape (n_samples, n_statistics, 2), in the unit of the values; NaN where there is none.

    Raises:
        ValueError: If an option is out of range, a value is infinite, or one that is bounded is not.

    Example:
        >>> bounds = intervals([np.linspace(0.5, 1.0, 101)], bounded=[True], n_resamples=200)
        >>> low, high = bounds[0, list(STATISTICS).index("mean")]
        >>> bool(low < 0.75 < high)
        True
    """
    samples = [np.asarray(sample, dtype=np.float64) for sample in samples]
    clusters = _clusters([np.isnan(sample) for sample in samples], patients)
    ascending = [
        np.sort(sample[~np.isnan(sample)]).reshape(1, -1) if position not in clusters else _NOTHING
        for position, sample in enumerate(samples)
    ]
    bounds: FloatArray = np.full((len(ascending), len(STATISTICS), 2), np.nan)
    for block, is_bounded in _blocks(ascending, bounded, n_resamples=n_resamples, seed=seed):
        of_size = np.concatenate([ascending[position] for position in block])
        found = _own(of_size, bounded=is_bounded, n_resamples=n_resamples, seed=seed)
        bounds[block] = _in_order(found, len(block))
    for position, of_patients in clusters.items() if n_resamples else ():
        values = samples[position][~np.isnan(samples[position])]
        found = _own_of_clusters(values, of_patients, bounded=bounded[position], n_resamples=n_resamples, seed=seed)
        bounds[position] = _in_order(found, 1)[0]
    return bounds


def difference_intervals(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    *,
    bounded: Sequence[bool],
    patients: Sequence[CodeArray] | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
) -> FloatArray:
    """95 % intervals of the differences of paired samples' `STATISTICS`.

    The difference is that of the two statistics (of the medians, say), not the statistic of the differences.

    Args:
        pairs: Two arrays of shape (n,) each, a value per case in the same order of cases. Cases in which either is NaN
            are left out first.
        bounded: For each pair, whether its values lie between 0 and 1.
        patients: For each pair, the number of each case's patient, shape (n,). None takes all for independent.
        n_resamples: Number of random draws; 0 gives no intervals.
        seed: Random seed of the draws, >= 0.

    Returns:
        Bounds of second minus first, shape (n_pairs, n_statistics, 2); NaN where there is none.

    Raises:
        ValueError: If an option is out of range, a value is infinite or one that is bounded is not, or the samples of a
            pair differ in size.
    """
    complete = []
    for first, second in pairs:
        if first.shape != second.shape:
            raise ValueError(
                f"`pairs` must be of one size each, got {first.shape} and {second.shape}. Align the cases."
            )
        both = np.stack([first, second]).astype(np.float64)
        complete.append(both[:, ~np.isnan(both).any(axis=0)])
    clusters = _clusters([np.isnan(first) | np.isnan(second) for first, second in pairs], patients)
    alone = [_NOTHING if position in clusters else pair for position, pair in enumerate(complete)]
    bounds: FloatArray = np.full((len(complete), len(STATISTICS), 2), np.nan)
    options = {"n_resamples": n_resamples, "seed": seed}
    for block, is_bounded in _blocks(alone, bounded, **options):
        of_size = np.stack([complete[position] for position in block])
        # Sorted, so that the order of the cases does not matter.
        changes = np.sort(of_size[:, 1] - of_size[:, 0], axis=1)
        before, after = (_own(np.sort(of_size[:, m], axis=1), bounded=is_bounded, **options) for m in (0, 1))
        found = {name: after[name] - before[name][:, ::-1] for name in before}
        found["mean"] = _mean_change(changes, bounded=is_bounded, **options)
        bounds[block] = _in_order(found, len(block))
    for position, of_patients in clusters.items() if n_resamples else ():
        first, second = complete[position]
        is_bounded = bounded[position]
        before, after = (
            _own_of_clusters(values, of_patients, bounded=is_bounded, **options) for values in (first, second)
        )
        found = {name: after[name] - before[name][:, ::-1] for name in before}
        found["mean"] = _mean_change_of_clusters(second - first, of_patients, bounded=is_bounded, **options)
        bounds[position] = _in_order(found, 1)[0]
    return bounds


def _own(ascending: FloatArray, *, bounded: bool, n_resamples: int, seed: int) -> dict[str, FloatArray]:
    """Statistic to bounds, shape (n_samples, 2), of samples of one size; without those that have none."""
    found = {name: percentile_bounds(ascending, percent, tail=TAIL) for name, percent in PERCENTILES.items()}
    spread = found["p75"] - found["p25"][:, ::-1]
    found["iqr"] = np.where(np.isnan(spread), np.nan, np.maximum(spread, 0))
    is_large = ascending.shape[1] > MOST_DRAWN
    if bounded and is_large:
        found["mean"], found["std"] = large_samples.bounded_mean_and_std(ascending, low=0.0, high=1.0, tail=TAIL)
    elif is_large:
        found["mean"] = large_samples.mean_by_students_t_series(ascending, tail=TAIL)
    elif bounded:
        found["mean"], found["std"] = bounded_mean_and_std(
            ascending, low=0.0, high=1.0, tail=TAIL, n_resamples=n_resamples, seed=seed
        )
    elif ascending.shape[1] >= N_FOR_T:
        found["mean"] = mean_by_bootstrap_t(ascending, tail=TAIL, n_resamples=n_resamples, seed=seed)
    return found


def _mean_change(changes: FloatArray, *, bounded: bool, n_resamples: int, seed: int) -> FloatArray:
    """Bounds of the mean of differences, shape (n_pairs, 2)."""
    if changes.shape[1] >= N_FOR_T:
        return mean_by_students_t(changes, tail=TAIL)
    if not bounded:
        return np.full((len(changes), 2), np.nan)
    limits = {"low": -1.0, "high": 1.0}
    return bounded_mean_and_std(changes, **limits, tail=TAIL, n_resamples=n_resamples, seed=seed)[0]


def one_sided_bound(
    sample: FloatArray, percent: float, *, end: str, confidence: float, patients: CodeArray | None = None
) -> float:
    """The exact one-sided bound of a percentile.

    Args:
        sample: Shape (n,); NaN is left out.
        percent: The percentile, between 0 and 100.
        end: ``low`` or ``high``.
        confidence: In per cent: the bound is wrong in at most 100 - ``confidence`` per cent of the samples.
        patients: The number of each value's patient, shape (n,). None takes all for independent.

    Returns:
        The bound; NaN where there are too few cases, or patients, for one.
    """
    defined = ~np.isnan(sample)
    if not defined.any():
        return float("nan")
    of_value = np.arange(len(sample)) if patients is None else patients
    codes = np.unique(of_value[defined], return_inverse=True)[1]
    ends = clustered_percentile_bounds(sample[defined], codes, percent, tail=1 - confidence / 100)
    return ends[0] if end == "low" else ends[1]


def _clusters(undefined: Sequence[BoolArray], patients: Sequence[CodeArray] | None) -> dict[int, CodeArray]:
    """The patients' numbers of the defined values, for the samples in which a patient has several."""
    found: dict[int, CodeArray] = {}
    for position, (absent, of_sample) in enumerate(zip(undefined, patients or (), strict=patients is not None)):
        names, codes = np.unique(of_sample[~absent], return_inverse=True)
        if len(names) < len(codes):
            found[position] = codes
    return found


def _own_of_clusters(
    values: FloatArray, patients: CodeArray, *, bounded: bool, n_resamples: int, seed: int
) -> dict[str, FloatArray]:
    """Statistic to bounds, shape (1, 2), where patients have several cases; without those that have none."""
    if patients.max() == 0:
        return {}
    found = {
        name: np.array([clustered_percentile_bounds(values, patients, percent, tail=TAIL)])
        for name, percent in PERCENTILES.items()
    }
    found["iqr"] = np.maximum(found["p75"] - found["p25"][:, ::-1], [[0, -np.inf]])
    if bounded:
        limits = {"low": 0.0, "high": 1.0, "tail": TAIL}
        both = clustered_mean_and_std(values, patients, **limits, n_resamples=n_resamples, seed=seed)
        found["mean"], found["std"] = (np.array([ends]) for ends in both)
    return found


def _mean_change_of_clusters(
    changes: FloatArray, patients: CodeArray, *, bounded: bool, n_resamples: int, seed: int
) -> FloatArray:
    """Bounds of the mean of differences, shape (1, 2)."""
    if patients.max() + 1 >= N_FOR_T:
        return np.array([clustered_students_t(changes, patients, tail=TAIL)])
    if not bounded or patients.max() == 0:
        return np.full((1, 2), np.nan)
    limits = {"low": -1.0, "high": 1.0, "tail": TAIL}
    return np.array([clustered_mean_and_std(changes, patients, **limits, n_resamples=n_resamples, seed=seed)[0]])


def _in_order(found: Mapping[str, FloatArray], n_samples: int) -> FloatArray:
    nothing = np.full((n_samples, 2), np.nan)
    return np.stack([found.get(name, nothing) for name in STATISTICS], axis=1)


def _blocks(
    groups: Sequence[FloatArray], bounded: Sequence[bool], *, n_resamples: int, seed: int
) -> Iterator[tuple[list[int], bool]]:
    """The positions of groups (shape (n_members, n)) of one size and kind, not too many at a time."""
    if n_resamples < 0:
        raise ValueError(f"`n_resamples` must be at least 0, got {n_resamples!r}. Take 2000, or 0 for no intervals.")
    if seed < 0:
        raise ValueError(f"`seed` must be at least 0, got {seed!r}. Take another one.")
    alike: dict[tuple[int, bool], list[int]] = {}
    for position, (group, is_bounded) in enumerate(zip(groups, bounded, strict=True)):
        if not np.isfinite(group).all():
            raise ValueError("`values` must be finite or NaN, got an infinite one. Correct the score or make it NaN.")
        if is_bounded and group.size and not (group.min() >= 0 and group.max() <= 1):
            raise ValueError("`values` must be between 0 and 1, got others. Write fractions, not per cent.")
        alike.setdefault((group.shape[1], is_bounded), []).append(position)
    for (n, is_bounded), positions in alike.items():
        # One value says nothing about the spread.
        if n < 2 or n_resamples == 0:
            continue
        step = max(1, _MOST_NUMBERS // max(n, n_resamples))
        for start in range(0, len(positions), step):
            yield positions[start : start + step], is_bounded
