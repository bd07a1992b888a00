"""Several trainings of each method, and intervals that hold for other trainings, too.

All trainings are evaluated on the same cases, so that cases and trainings are crossed: a training
is better or worse on all cases, and a case is easy or hard for all trainings. A number of a method
is the mean of its trainings' numbers, and a difference is off for two reasons, other cases and
other trainings.

Trainings are paired by their position where two methods have equally many, and are independent
otherwise. Pairing is right whether or not the trainings of a pair have anything in common (such as
the seed, and with it the first weights and the order of the patches): if they do, what they share
cancels; if not, the interval is a little wide, because it knows only half as many spreads. Taking
trainings for independent that are not would have no such excuse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.statistics.columns import (
    COMPARED,
    COMPARED_TRAININGS,
    GUARANTEED_DIFFERENCE,
    N_FOR_SPREAD,
    STATISTICS,
)
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.intervals import (
    TAIL,
    clipped,
    difference_intervals,
    guaranteed_means,
    intervals,
    not_inside,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: The place of the mean among the statistics.
_MEAN = list(STATISTICS).index("mean")


@dataclass(frozen=True)
class Trainings:
    """The trainings of several methods."""

    #: Name of a training to its evaluation. The only training of a method has the method's name.
    evaluations: Mapping[str, Evaluation]
    #: Method, the baseline first, to the names of its trainings.
    names: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, evaluations: Mapping[str, Evaluation | Sequence[Evaluation]]) -> "Trainings":
        """Name the trainings."""
        by_name: dict[str, Evaluation] = {}
        names: dict[str, tuple[str, ...]] = {}
        for method, trained in evaluations.items():
            own = [trained] if isinstance(trained, Evaluation) else list(trained)
            if not own:
                raise ValueError(
                    "`evaluations` must have one or more of each method, "
                    f"got none of {method!r}. Add it."
                )

            names[method] = (method,)
            if len(own) > 1:
                names[method] = tuple(f"{method}, training {n + 1}" for n in range(len(own)))
            for name, evaluation in zip(names[method], own, strict=True):
                if name in by_name:
                    raise ValueError(
                        f"`evaluations` must name every method once, got {name!r} twice. "
                        "Rename one."
                    )
                by_name[name] = evaluation

        return cls(by_name, names)

    @property
    def are_repeated(self) -> bool:
        """Whether any method has several trainings."""
        return len(self.evaluations) > len(self.names)

    @property
    def baseline(self) -> str:
        """The first method."""
        return next(iter(self.names))

    @property
    def first(self) -> Evaluation:
        """The first training of the baseline."""
        return next(iter(self.evaluations.values()))

    @property
    def with_few(self) -> list[str]:
        """The methods with too few trainings to tell how far these lie apart."""
        return [method for method, names in self.names.items() if len(names) < N_FOR_SPREAD]

    @property
    def paired(self) -> list[str]:
        """The methods whose trainings are paired with those of the baseline."""
        baseline, *others = self.names
        n_baseline = len(self.names[baseline])
        return [method for method in others if len(self.names[method]) == n_baseline]


def training_pairs(n_baseline: int, n_method: int) -> list[tuple[int, int]]:
    """The places of the baseline's and the method's training whose differences show the spread.

    Pairs are made by position, or of all with all where the numbers differ.
    """
    if n_baseline == n_method:
        return [(place, place) for place in range(n_method)]
    return [(before, after) for after in range(n_method) for before in range(n_baseline)]


def differences_over_trainings(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    *,
    bounded: Sequence[bool],
    with_intervals: bool = True,
) -> pd.DataFrame:
    r"""Differences of the `STATISTICS` of repeated trainings, over the same cases.

    A row per pair of samples of shape (n_trainings, n_cases) without NaN, with all that is
    `COMPARED` of each statistic, such as ``mean_difference_low``, `COMPARED_TRAININGS` and
    `GUARANTEED_DIFFERENCE`; NaN where there is none.

    With the interval [l, u] of the estimate d for other cases (see `intervals`; the mean's is that
    of the cases' means over the trainings, those of other statistics are the means of the
    trainings' bounds), and the half width h of Student's t interval of the trainings' differences
    (or Welch's where they are not paired), the interval is d - sqrt((d - l)^2 + h^2) to d + sqrt((u
    - d)^2 + h^2). With fewer than `N_FOR_SPREAD` trainings of either method h is left out, and the
    interval holds for these trainings only. None of a ``bounded`` pair reaches beyond -1 or 1.

    Resampling cases and trainings and taking percentiles has too narrow intervals: of three
    trainings the same one is drawn three times in one resample of nine
    (`benchmarks/coverage_trainings.py`).

    Source: Zou and Donner 2008, Construction of confidence limits about effect measures: a general
    approach (the intervals of two sources of error put together); Owen 2007, The pigeonhole
    bootstrap (crossed resampling).
    """
    case_bounds = _over_cases(pairs, bounded)
    guaranteed = guaranteed_means(
        (_mean(method) - _mean(baseline) for baseline, method in pairs),
        bounded=bounded,
        low=-1.0,
    )
    guaranteed = not_inside(guaranteed, case_bounds[:, _MEAN])
    if not with_intervals:
        case_bounds[:] = np.nan
        guaranteed[:] = np.nan

    rows: list[FloatArray] = []
    for position, (baseline, method) in enumerate(pairs):
        before = _statistics(baseline)
        after = _statistics(method)
        difference = after.mean(axis=0) - before.mean(axis=0)
        half = _half_width(before, after)
        bounds = clipped(
            _wider(difference[:, None], case_bounds[position], half[:, None]),
            bounded=bounded[position],
            low=-1.0,
        )
        rows.append(_numbers(before, after, bounds))
        # Only bounded values have these.
        guaranteed[position] = np.clip(
            _wider(difference[_MEAN], guaranteed[position], half[_MEAN]), -1.0, 1.0
        )

    kinds = (*COMPARED, *COMPARED_TRAININGS)
    columns = [f"{statistic}_{kind}" for statistic in STATISTICS for kind in kinds]
    return pd.DataFrame(
        np.column_stack([rows, guaranteed]), columns=[*columns, *GUARANTEED_DIFFERENCE]
    )


def _numbers(before: FloatArray, after: FloatArray, bounds: FloatArray) -> FloatArray:
    """All that is compared of each statistic, one after the other."""
    places_before, places_after = np.transpose(training_pairs(len(before), len(after)))
    differences = after[places_after] - before[places_before]
    numbers = [
        before.mean(axis=0),
        after.mean(axis=0),
        after.mean(axis=0) - before.mean(axis=0),
        bounds,
        differences.min(axis=0),
        differences.max(axis=0),
    ]
    return np.column_stack(numbers).ravel()


def _mean(values: FloatArray) -> FloatArray:
    """The mean over the trainings; of one training its values, which are not copied."""
    return values[0] if len(values) == 1 else np.asarray(values.mean(axis=0))


def _wider(estimate: FloatArray, ends: FloatArray, half: FloatArray) -> FloatArray:
    """An interval for other cases, widened by half the width of that for other trainings."""
    wider = estimate + np.array([-1.0, 1.0]) * np.hypot(ends - estimate, half)
    # Where nothing is added, the ends stay as they are, to the last digit.
    return np.where(half > 0, wider, ends)


def _statistics(values: FloatArray) -> FloatArray:
    """The statistics of each training, shape (n_trainings, n_statistics)."""
    described = [describe(values_of_training) for values_of_training in values]
    return np.array([[statistics[name] for name in STATISTICS] for statistics in described])


def _half_width(before: FloatArray, after: FloatArray) -> FloatArray:
    """Half the width of the interval of the trainings' mean difference, shape (n_statistics,).

    Student's t, or Welch's where the numbers of trainings differ; 0 with too few.
    """
    from scipy.special import stdtrit

    n_before = len(before)
    n_after = len(after)
    if min(n_before, n_after) < N_FOR_SPREAD:
        return np.zeros(before.shape[1])
    if n_before == n_after:
        error = (after - before).var(axis=0, ddof=1) / n_after
        return stdtrit(n_after - 1, 1 - TAIL) * np.sqrt(error)

    error_before = before.var(axis=0, ddof=1) / n_before
    error_after = after.var(axis=0, ddof=1) / n_after
    error = error_before + error_after

    # Welch's degrees of freedom; without any spread they do not matter.
    squares = error_before**2 / (n_before - 1) + error_after**2 / (n_after - 1)
    freedom = np.divide(
        error**2,
        squares,
        out=np.ones_like(error),
        where=squares > 0,
    )
    return stdtrit(freedom, 1 - TAIL) * np.sqrt(error)


def _over_cases(
    pairs: Sequence[tuple[FloatArray, FloatArray]], bounded: Sequence[bool]
) -> FloatArray:
    """Intervals of the differences for other cases with the same trainings.

    Shape (n_pairs, n_statistics, 2).
    """
    means = [(_mean(baseline), _mean(method)) for baseline, method in pairs]
    bounds = difference_intervals(means, bounded=bounded)
    if all(len(baseline) == len(method) == 1 for baseline, method in pairs):
        return bounds

    mean_bounds = bounds[:, _MEAN].copy()
    for position, (baseline, method) in enumerate(pairs):
        before = _mean_intervals(baseline, is_bounded=bounded[position])
        after = _mean_intervals(method, is_bounded=bounded[position])
        bounds[position] = after - before[:, ::-1]

    bounds[:, _MEAN] = mean_bounds
    return bounds


def _mean_intervals(values: FloatArray, *, is_bounded: bool) -> FloatArray:
    """The intervals of each statistic, the mean of those of the trainings."""
    return intervals(list(values), bounded=[is_bounded] * len(values)).mean(axis=0)
