"""What requirements can be about: the columns of strata.csv, and those of comparison.csv."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nnunet_dro.evaluation.judging.requirement_parts import refusal
from nnunet_dro.evaluation.statistics.columns import (
    COMPARED,
    COMPARED_TRAININGS,
    COUNTS,
    FAILURE_BOUNDS,
    INTERVALS,
    STATISTICS,
    TYPICAL,
)

#: The numbers of cases and of patients in a row of the strata frame.
STRATA_COUNTS = (COUNTS[0], "n_patients", *COUNTS[1:])

#: The numbers of cases and of trainings in a row of a comparison.
COMPARISON_COUNTS = (
    "n",
    "n_patients",
    "n_undefined",
    "n_left_out",
    "n_worst_baseline",
    "n_worst_method",
    "wins",
    "ties",
    "losses",
    "n_counted",
    "n_failed_baseline",
    "n_failed_method",
    "n_failed_difference",
    "new_failures",
    "recoveries",
    "n_trainings_baseline",
    "n_trainings_method",
)

#: What has no bound, however many cases there are; see `intervals`.
_NEVER_BOUNDED = re.compile("(std|min|max)_(difference_)?(low|high)")

#: The bounds of a mean, which a requirement names by what they rest on.
_BOUND_OF_MEAN = re.compile("mean_(difference_)?(low|high)")

#: What ends the name of a bound that assumes only the limits of the score, as in the files.
GUARANTEED = "_guaranteed"

#: What ends the name of a bound of a mean by Student's t: that of the interval to read.
BY_T = "_t"

#: The p values of a comparison.
P_VALUES = ("wilcoxon_p", "holm_p", "mcnemar_p")


@dataclass(frozen=True)
class Subject:
    """What requirements can be about."""

    file: str  # the file of the table
    counts: tuple[str, ...]  # the columns of that table that are numbers of things
    statistics: tuple[str, ...]  # all columns that can be compared, the counts among them
    names: tuple[str, ...]  # what a requirement can name beside an attribute
    choices: str  # the statistics in words

    def check(self, statistic: str, text: str) -> None:
        """Check that a requirement, which is written as ``text``, can be about a statistic."""
        if statistic in self.statistics:
            return
        if _BOUND_OF_MEAN.fullmatch(statistic):
            raise refusal(
                f"say what the bound of the mean assumes, not only {statistic!r}",
                text,
                f"Write {statistic}{GUARANTEED}, which is proven and what {statistic} was up to "
                f"version 0.3, or {statistic}{BY_T}, by Student's t: it holds if failures like "
                "those of the sample are all there are.",
            )
        if _NEVER_BOUNDED.fullmatch(statistic):
            raise refusal(
                f"be about a bound that exists, not {statistic!r}",
                text,
                "Means and percentiles have bounds: ask for p5 or p75, or for the number itself.",
            )
        raise refusal(
            f"be about a statistic of {self.file}, not {statistic!r}",
            text,
            f"Choose from: {self.choices}.",
        )


def _named(columns: Iterable[str]) -> Iterator[str]:
    """The names of statistics in requirements: those of the columns, but for bounds of means."""
    for column in columns:
        if _BOUND_OF_MEAN.fullmatch(column):
            yield from (column + GUARANTEED, column + BY_T)
        elif not _NEVER_BOUNDED.fullmatch(column):
            yield column


def column_of(statistic: str) -> str:
    """The column of the table that a statistic of a requirement is in."""
    if _BOUND_OF_MEAN.fullmatch(statistic.removesuffix(BY_T)):
        return statistic.removesuffix(BY_T)
    return statistic


def bound_of_difference(statistic: str, end: str) -> str:
    """The column of the bound of a difference that is asked for with confidence."""
    bound = f"{statistic}_{end}"
    return bound + GUARANTEED if _BOUND_OF_MEAN.fullmatch(bound) else bound


#: Requirements of `nnunet-dro evaluate`.
STRATA = Subject(
    file="strata.csv",
    counts=STRATA_COUNTS,
    statistics=(*STRATA_COUNTS, "failure_high", *STATISTICS, *_named(INTERVALS)),
    names=("label", "metric"),
    choices=(
        f"{', '.join((*STRATA_COUNTS, 'failure_high', *STATISTICS))}, "
        f"mean_low{GUARANTEED}, mean_low{BY_T}, or a percentile with _low or _high"
    ),
)

#: Requirements of `nnunet-dro compare`.
COMPARISON = Subject(
    file="comparison.csv",
    counts=COMPARISON_COUNTS,
    statistics=(
        *COMPARISON_COUNTS,
        *_named(f"{name}_{what}" for name in STATISTICS for what in COMPARED),
        *(f"{name}_{what}" for name in STATISTICS for what in COMPARED_TRAININGS),
        *TYPICAL,
        *FAILURE_BOUNDS,
        *P_VALUES,
    ),
    names=("label", "metric", "method"),
    choices=(
        f"{', '.join((*COMPARISON_COUNTS, *FAILURE_BOUNDS, *TYPICAL, *P_VALUES))}, "
        f"mean_difference_low{GUARANTEED}, mean_difference_low{BY_T}, or one of "
        f"{', '.join(STATISTICS)} with one of {', '.join(f'_{what}' for what in COMPARED)}"
    ),
)
