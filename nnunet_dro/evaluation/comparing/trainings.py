"""Several trainings of each method.

How far they lie apart, and intervals that hold for other trainings, too.

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.columns import GUARANTEED_DIFFERENCE, STATISTICS
from nnunet_dro.evaluation.statistics.intervals import (
    TAIL,
    difference_intervals,
    guaranteed_means,
    intervals,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

FloatArray = npt.NDArray[np.float64]

N_FOR_SPREAD = (
    3  # The least number of trainings of each method for intervals that hold for other trainings.
)

_MEAN = list(STATISTICS).index("mean")


@dataclass(frozen=True)
class Trainings:
    """The trainings of several methods."""

    #: Name of a training to its evaluation. The only training of a method has the method's name.
    evaluations: Mapping[str, Evaluation]
    of_method: Mapping[
        str, tuple[str, ...]
    ]  # method, the baseline first, to the names of its trainings

    @classmethod
    def of(cls, evaluations: Mapping[str, Evaluation | Sequence[Evaluation]]) -> "Trainings":
        """Name the trainings."""
        flat: dict[str, Evaluation] = {}
        of_method: dict[str, tuple[str, ...]] = {}
        for method, given in evaluations.items():
            own = [given] if isinstance(given, Evaluation) else list(given)
            if not own:
                raise ValueError(
                    f"`evaluations` must have one or more of each method, got none of {method!r}. Add it."
                )
            names = (
                [method]
                if len(own) == 1
                else [f"{method}, training {n + 1}" for n in range(len(own))]
            )
            if taken := [name for name in names if name in flat]:
                raise ValueError(
                    f"`evaluations` must name every method once, got {taken[0]!r} twice. Rename one."
                )
            flat |= zip(names, own, strict=True)
            of_method[method] = tuple(names)
        return cls(flat, of_method)

    @property
    def are_repeated(self) -> bool:
        """Whether any method has several trainings."""
        return len(self.evaluations) > len(self.of_method)

    def notes(self) -> Iterator[str]:
        """What the numbers of repeated trainings mean, in sentences.

        None where every method has one training.
        """
        if not self.are_repeated:
            return
        sizes = {method: len(names) for method, names in self.of_method.items()}
        listed = ", ".join(f"{method} {n}" for method, n in sizes.items())
        yield (
            f"Trainings: {listed}. Numbers are means over the trainings of a method; failed, missed and invented cases "
            "are counted in all of them. There are no p values: a test of the cases would take these trainings for the "
            "only possible ones."
        )
        few = [method for method, n in sizes.items() if n < N_FOR_SPREAD]
        baseline, *others = self.of_method
        if baseline in few or set(few) >= set(others):
            names = " and ".join(few)
            verb = "have" if len(few) > 1 else "has"
            yield (
                f"Intervals hold for other cases with these very trainings, not for other trainings: {names} {verb} "
                f"fewer than {N_FOR_SPREAD}, and one or two trainings do not tell how far trainings lie apart."
            )
            return
        yield (
            "Intervals hold for other cases and other trainings; trainings are "
            + _pairing(sizes)
            + "."
        )
        if few:
            yield (
                f"Those of {' and '.join(few)} hold for other cases only: with fewer than {N_FOR_SPREAD} trainings of "
                "a method nothing is known of others."
            )


def _pairing(sizes: Mapping[str, int]) -> str:
    baseline, *others = sizes
    paired = [method for method in others if sizes[method] == sizes[baseline]]
    if paired == others:
        return "paired by their position"
    if not paired:
        return "taken for independent, because the methods do not have equally many"
    return (
        f"paired by their position where there are as many as of {baseline} ({', '.join(paired)})"
    )


def training_pairs(n_baseline: int, n_method: int) -> list[tuple[int, int]]:
    """The pairs of trainings whose differences show the spread.

    By position, or all where the numbers differ.
    """
    if n_baseline == n_method:
        return [(n, n) for n in range(n_method)]
    return [(k, n) for n in range(n_method) for k in range(n_baseline)]


#: What there is of each statistic: means over the trainings, their difference with its 95 %
#: interval to read, and the lowest and the highest difference of two trainings.
OF_STATISTIC = (
    *("baseline", "method", "difference", "difference_low", "difference_high"),
    *("difference_lowest", "difference_highest"),
)


def differences_over_trainings(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    *,
    bounded: Sequence[bool],
    n_resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Differences of the `STATISTICS` of repeated trainings, over the same cases.

    Without draws they have no bounds.

    A row per pair of samples, a column for all that there is `OF_STATISTIC`, such as
    ``mean_difference_low``, and `GUARANTEED_DIFFERENCE`; NaN where there is none.

    With the interval [l, u] of the estimate d for other cases (see `intervals`; the mean's is that
    of the cases' means over the trainings, those of other statistics are the means of the
    trainings' bounds), and the half width h of Student's t interval of the trainings' differences
    (or Welch's where they are not paired), the interval is d - sqrt((d - l)^2 + h^2) to d + sqrt((u
    - d)^2 + h^2). With fewer than `N_FOR_SPREAD` trainings of either method h is left out, and the
    interval holds for these trainings only.

    Resampling cases and trainings and taking percentiles has too narrow intervals: of three
    trainings the same one is drawn three times in one resample of nine
    (`benchmarks/coverage_trainings.py`).

    Source: Zou and Donner 2008, Construction of confidence limits about effect measures: a general
    approach (the intervals of two sources of error put together); Owen 2007, The pigeonhole
    bootstrap (crossed resampling).
    """
    complete = []
    for baseline, method in pairs:
        defined = ~(np.isnan(baseline).any(axis=0) | np.isnan(method).any(axis=0))
        complete.append((baseline[:, defined], method[:, defined]))
    changes = [after.mean(axis=0) - before.mean(axis=0) for before, after in complete]
    surely = guaranteed_means(
        changes, bounded=bounded, low=-1.0, n_resamples=n_resamples, seed=seed
    )
    found: list[FloatArray] = []
    for position, of_cases in enumerate(_over_cases(complete, bounded)):
        before, after = (_statistics(of_method) for of_method in complete[position])
        of_pairs = np.array(
            [after[n] - before[k] for k, n in training_pairs(len(before), len(after))]
        )
        means = (before.mean(axis=0), after.mean(axis=0))
        half = _half_width(before, after)
        estimate = means[1] - means[0]
        bounds = _wider(
            estimate[:, None],
            of_cases if n_resamples else np.full_like(of_cases, np.nan),
            half[:, None],
        )
        found.append(
            np.column_stack(
                [*means, estimate, bounds, of_pairs.min(axis=0), of_pairs.max(axis=0)]
            ).ravel()
        )
        surely[position] = _wider(estimate[_MEAN], surely[position], half[_MEAN])
    columns = [f"{statistic}_{what}" for statistic in STATISTICS for what in OF_STATISTIC]
    return pd.DataFrame(
        np.column_stack([found, surely]), columns=[*columns, *GUARANTEED_DIFFERENCE]
    )


def _wider(estimate: FloatArray, ends: FloatArray, half: FloatArray) -> FloatArray:
    """An interval for other cases, with half the width of that for other trainings added to its sides."""
    wider = estimate + np.array([-1.0, 1.0]) * np.hypot(ends - estimate, half)
    # Nothing is rounded where nothing is added.
    return np.where(half > 0, wider, ends)


def _statistics(values: FloatArray) -> FloatArray:
    """The statistics of each training, shape (n_trainings, n_statistics)."""
    return np.array(
        [[describe(of_training)[name] for name in STATISTICS] for of_training in values]
    )


def _half_width(before: FloatArray, after: FloatArray) -> FloatArray:
    """Half the width of the interval of the trainings' mean difference, shape (n_statistics,).

    0 with too few.
    """
    from scipy.special import stdtrit

    sizes = len(before), len(after)
    if min(sizes) < N_FOR_SPREAD:
        return np.zeros(before.shape[1])
    if sizes[0] == sizes[1]:
        error = (after - before).var(axis=0, ddof=1) / sizes[0]
        return stdtrit(sizes[0] - 1, 1 - TAIL) * np.sqrt(error)
    errors = [of_method.var(axis=0, ddof=1) / len(of_method) for of_method in (before, after)]
    squares = sum(error**2 / (n - 1) for error, n in zip(errors, sizes, strict=True))
    error = errors[0] + errors[1]
    # Welch's degrees of freedom; without any spread they do not matter.
    freedom = np.divide(error**2, squares, out=np.ones_like(error), where=squares > 0)
    return stdtrit(freedom, 1 - TAIL) * np.sqrt(error)


def _over_cases(
    complete: Sequence[tuple[FloatArray, FloatArray]], bounded: Sequence[bool]
) -> FloatArray:
    """Intervals of the differences for other cases with the same trainings, shape (n_pairs, n_statistics, 2)."""
    means = [(baseline.mean(axis=0), method.mean(axis=0)) for baseline, method in complete]
    bounds = difference_intervals(means, bounded=bounded)
    if all(len(of_method) == 1 for pair in complete for of_method in pair):
        return bounds
    of_means = bounds[:, _MEAN].copy()
    for position, pair in enumerate(complete):
        before, after = (
            intervals(list(of), bounded=[bounded[position]] * len(of)).mean(axis=0) for of in pair
        )
        bounds[position] = after - before[:, ::-1]
    bounds[:, _MEAN] = of_means
    return bounds
