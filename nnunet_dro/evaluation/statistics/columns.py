"""The statistics of a stratum: their names, their definitions, and how many cases each needs."""

import math
from dataclasses import dataclass
from typing import Any

from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.naming import count

_RANGE = "interquartile range, P75 - P25"
_NUMBER_WORDS = {2: "two", 4: "four", 10: "ten", 20: "twenty"}


@dataclass(frozen=True)
class Statistic:
    """A number that describes the values of a stratum's cases."""

    name: str  # its column in strata.csv and its name at the command line
    title: str  # its name in headings
    phrase: str  # its name in running text
    definition: str  # its definition in one line
    #: The share of the cases that lie beyond it, on its shorter side, in per cent; 100 if it is no
    #: percentile.
    beyond_percent: int = 100
    #: Whether it measures how far the cases lie apart, so that less is better whatever the metric.
    is_spread: bool = False

    @property
    def n_needed(self) -> int:
        """The least number of cases that leaves one beyond a percentile, and two for a spread."""
        least = 2 if self.is_spread else 1
        return max(least, math.ceil(100 / self.beyond_percent))

    @property
    def one_in(self) -> str:
        """Of how many cases one lies beyond a percentile, in words, such as ``twenty``."""
        return _NUMBER_WORDS[100 // self.beyond_percent]

    def more_is_better(self, metric: Metric) -> bool:
        """Whether larger values of this statistic of a metric are better."""
        return metric.more_is_better and not self.is_spread


#: Name to statistic, in the order of columns.
STATISTICS: dict[str, Statistic] = {
    statistic.name: statistic
    for statistic in (
        Statistic(
            "mean",
            "Mean",
            "mean",
            "arithmetic mean over the cases with a value",
        ),
        Statistic(
            "std", "SD", "standard deviation", "sample standard deviation (n - 1)", is_spread=True
        ),
        Statistic(
            "median",
            "Median",
            "median",
            "half of the cases lie below it",
            50,
        ),
        Statistic(
            "iqr",
            "IQR",
            "interquartile range",
            f"{_RANGE}; smaller is more consistent",
            25,
            is_spread=True,
        ),
        Statistic(
            "p75", "P75", "75th percentile", "75th percentile: one case in four lies above it", 25
        ),
        Statistic(
            "p25", "P25", "25th percentile", "25th percentile: one case in four lies below it", 25
        ),
        Statistic(
            "p10", "P10", "10th percentile", "10th percentile: one case in ten lies below it", 10
        ),
        Statistic(
            "p5", "P5", "5th percentile", "5th percentile: one case in twenty lies below it", 5
        ),
        Statistic(
            "min",
            "Min",
            "minimum",
            "smallest value of any case",
        ),
        Statistic(
            "max",
            "Max",
            "maximum",
            "largest value of any case",
        ),
    )
}

#: With fewer values a mean and a median have no interval to read, and are said to rest on few.
FEWEST_TO_READ = 6

#: The least number of trainings of each method for intervals that hold for other trainings.
N_FOR_SPREAD = 3

#: The numbers of cases in a row of the strata frame, in the order of columns.
COUNTS = ("n", "n_undefined", "n_missed", "n_invented", "n_left_out", "n_failed")

#: The bounds of their 95 % intervals, to read, in the order of columns.
INTERVALS = tuple(f"{name}_{bound}" for name in STATISTICS for bound in ("low", "high"))

#: The bounds for verdicts: of the mean, which assume only the limits of the score, and of the share
#: of failures.
GUARANTEED = ("mean_low_guaranteed", "mean_high_guaranteed", "failure_high")

#: The same of a mean difference, in a comparison.
GUARANTEED_DIFFERENCE = ("mean_difference_low_guaranteed", "mean_difference_high_guaranteed")

#: The typical value of paired differences and its exact interval, see `typical_value`.
TYPICAL = ("typical_difference", "typical_difference_low", "typical_difference_high")

#: The exact bounds of failures in a comparison: of the share of cases that fail only with the
#: method, and of the difference of the shares of failures.
FAILURE_BOUNDS = ("new_failures_high", "failure_difference_high")

#: The bounds that a margin can be judged by, name to columns: proven, exact if differences spread
#: alike to both sides of the typical one, or by Student's t.
MARGIN_BOUNDS = {
    "guaranteed": GUARANTEED_DIFFERENCE,
    "typical": TYPICAL[1:],
    "t": ("mean_difference_low", "mean_difference_high"),
}

#: What a comparison has of each statistic: that of the baseline, that of the method, and their
#: difference with its 95 % interval to read.
COMPARED = ("baseline", "method", "difference", "difference_low", "difference_high")

#: What it also has of repeated trainings: the lowest and the highest difference of two trainings.
COMPARED_TRAININGS = ("difference_lowest", "difference_highest")

#: The statistics that are percentiles, and which.
PERCENTILES = {"median": 50, "p75": 75, "p25": 25, "p10": 10, "p5": 5}


def confidence_column(statistic: str, end: str, confidence: float) -> str:
    """The column of a one-sided bound in the strata frame, such as ``p5_low_95``."""
    return f"{statistic}_{end}_{confidence:.15g}"


def n_defined(row: Any) -> int:
    """How many cases have a value in a row of strata or of a comparison."""
    return int(row["n"]) - int(row["n_undefined"])


def n_units(row: Any) -> int:
    """How many values the statistics of a row rest on: cases, or patients where they count once."""
    return whole(row, "n_patients") or n_defined(row)


def unit_of(row: Any) -> str:
    """What the statistics of a row count: ``case``, or ``patient`` where patients count once."""
    return "patient" if "n_patients" in row else "case"


def counted_units(row: Any) -> str:
    """The same with their number: ``40 cases``, ``8 patients``."""
    return count(n_units(row), unit_of(row))


def whole(row: Any, column: str) -> int:
    """A number of cases in a row; 0 where it is not known, as in earlier versions' evaluations."""
    value = row.get(column)
    if value is None or math.isnan(value):
        return 0
    return int(value)


def enough_cases(statistic: str, n: int) -> bool:
    """Whether a statistic rests on enough cases: a percentile has at least one case beyond it."""
    return n >= STATISTICS[statistic].n_needed
