"""Statistics, intervals and bounds of strata with known values."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import pandas as pd

from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.statistics.sample_bounds import bound_ranks
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.stratify import stratify_all
from nnunet_dro.selfcheck.made_scores import made_case_names, made_scores, made_strata
from nnunet_dro.selfcheck.number import Number, numbers_of

#: 0, 0.01, ..., 1: the k-th smallest of these 101 values is (k - 1) / 100.
HUNDREDTHS = [n / 100 for n in range(101)]
ALL_HUNDREDTHS = "0, 0.01, ..., 1"


def statistics() -> Iterator[Number]:
    """All numbers of strata."""
    for sample in _SAMPLES:
        yield from sample.numbers()
    yield from _ranks()
    yield from _bound_inside()
    yield from _strata()
    yield from _gap()


def _half_width() -> float:
    """Half the width of the interval of the mean of 0, 0.01, ..., 1.

    Without skewness Student's t with a kurtosis k is z + (z (z^2 + 3) / 4 - z k (z^2 - 3) / 12) / n
    (Hall 1992, section 3.3). Of n equidistant values k is -6 (n^2 + 1) / (5 (n^2 - 1)), and the
    variance (n^2 - 1) / 12.
    """
    n = 101
    z = NormalDist().inv_cdf(0.975)
    kurtosis = -6 * (n**2 + 1) / (5 * (n**2 - 1))
    t = z + (z * (z**2 + 3) / 4 - z * kurtosis * (z**2 - 3) / 12) / n
    return t * math.sqrt((n + 1) / 12) / 100


@dataclass(frozen=True)
class _Sample:
    """Made-up scores of one stratum, and the columns of its statistics that are known."""

    part: str
    name: str
    columns: Mapping[str, list[float]]  # of `made_scores`
    expected: Mapping[str, float]
    options: Mapping[str, Any] = field(default_factory=dict)  # of `summarise`

    def numbers(self) -> Iterator[Number]:
        row = summarise(made_scores(**self.columns), **self.options).iloc[0]
        return numbers_of(self.part, self.name, row, self.expected)


_HALF = _half_width()

#: Ranks l and u with P(B < l) <= 0.025 (one-sided 0.05) and P(B >= u) likewise, the nearest to the
#: percentile, B ~ Binomial(101, p), in exact fractions (Conover 1999, section 3.2).
_RANKS = {
    "median_low": 41,
    "median_high": 61,
    "p75_low": 67,
    "p75_high": 85,
    "p25_low": 17,
    "p25_high": 35,
    "p10_low": 5,
    "p10_high": 17,
    "p5_low": 1,
    "p5_high": 11,
    "p5_low_95": 2,
    "p75_high_95": 84,
}


def _of_bets(name: str, values: list[float], low: float, high: float) -> _Sample:
    """The bounds for verdicts of some values.

    Of the money K(m) 1/18 is bet with each stake of 0.1 to 0.9 and 1/2 with the stake 1, and the
    bound is the m with K(m) = 40 = 1 / 0.025 (Waudby-Smith and Ramdas 2024; see `betting_bounds`).
    With u = 1 / m - 1 a value of 1 multiplies the money of the stake s by 1 + s u, and a value of 0
    by 1 - s. The stakes below 1 add up to 4.5, and their squares to 2.85.
    """
    expected = {"mean_low_guaranteed": low, "mean_high_guaranteed": high}
    return _Sample("bounds", name, {"dice": values}, expected)


#: u of two values of 1: 1 + 1.5 u + (2.85 / 18 + 1 / 2) u^2 = 40.
_SQUARE = 2.85 / 18 + 1 / 2
_U_OF_ONES = (math.sqrt(1.5**2 + 4 * _SQUARE * 39) - 1.5) / (2 * _SQUARE)

#: u of a 0 and a 1: (4.5 + (4.5 - 2.85) u) / 18 = 40, because the stake 1 is lost.
_U_OF_BOTH = (18 * 40 - 4.5) / (4.5 - 2.85)

_OF_TWO_PATIENTS = "patients with 0 and 1, and 0.2"
_PATIENTS = pd.Series(["a", "a", "b"], index=made_case_names(3))

_SAMPLES = (
    _Sample(
        "statistics",
        ALL_HUNDREDTHS,
        {"dice": HUNDREDTHS},
        {
            "n": 101,
            "n_undefined": 0,
            "mean": 0.5,
            "median": 0.5,
            "p75": 0.75,
            "p25": 0.25,
            "p10": 0.1,
            "p5": 0.05,
            "iqr": 0.5,
            # The sample variance of 0, 1, ..., n - 1 is n (n + 1) / 12 (its denominator is n - 1).
            "std": math.sqrt(101 * 102 / 12) / 100,
            "min": 0,
            "max": 1,
        },
    ),
    # Between the 1st and the 2nd of four values, at 0.05 x 3 = 0.15.
    _Sample(
        "statistics",
        "0.2, 0.4, 0.6 and 1",
        {"dice": [0.6, 0.2, 1.0, 0.4]},
        {"p5": 0.2 + 0.15 * 0.2},
    ),
    _Sample(
        "statistics",
        "0.2, 0.6, 1 and an undefined value",
        {"dice": [0.6, math.nan, 1.0, 0.2]},
        {"mean": 0.6, "n_undefined": 1},
    ),
    _Sample(
        "intervals",
        ALL_HUNDREDTHS,
        {"dice": HUNDREDTHS},
        {
            **{column: (rank - 1) / 100 for column, rank in _RANKS.items()},
            "iqr_low": (67 - 35) / 100,
            "iqr_high": (85 - 17) / 100,
            "mean_low": 0.5 - _HALF,
            "mean_high": 0.5 + _HALF,
        },
        {"one_sided": [("p5", "low", 95), ("p75", "high", 95)]},
    ),
    # The same formula with the skewness -8/3 and the kurtosis 46/9, in 40 digits. Above is 1.
    _Sample(
        "intervals",
        "nine values of 1 and a 0",
        {"dice": [1.0] * 9 + [0.0]},
        {"mean_low": 0.4164263700689039, "mean_high": 1},
    ),
    _Sample("intervals", "five values, too few", {"dice": [0.5] * 5}, {"mean_low": math.nan}),
    # Counts of failures, and the exact bound of their share (Clopper and Pearson 1934). Below 0.5
    # are 5 of 44; one more was missed, one invented, one is rightly absent: 7 of 43.
    _Sample(
        "failures",
        "44 cases, 7 failed",
        {
            "dice": [0.2] * 5 + [0.5] * 36 + [math.nan] * 3,
            "n_reference": [1.0] * 42 + [0.0, 0.0],
            "n_prediction": [1.0] * 41 + [0.0, 1.0, 0.0],
        },
        {
            "n_failed": 7,
            "n_missed": 1,
            "n_invented": 1,
            "n_left_out": 2,
            "n_undefined": 3,
            # P(B <= 7) = 0.05 with B ~ Binomial(43, p), by bisection in 40 digits.
            "failure_high": 0.2841260059989797,
        },
    ),
    _Sample(
        "failures",
        "59 cases, none failed",
        {"dice": [0.9] * 59},
        {"failure_high": 1 - 0.05 ** (1 / 59)},
    ),
    _Sample(
        "failures",
        "20 and 21 mm, by hd95>20",
        {"hd95": [20.0, 21.0]},
        {"n_failed": 1},
        {"metrics": ("hd95",), "failure": "hd95>20"},
    ),
    # Two cases of one patient count once, with their mean or the worst of them.
    _Sample(
        "patients",
        _OF_TWO_PATIENTS,
        {"dice": [0.0, 1.0, 0.2]},
        {"mean": 0.35, "n_patients": 2, "n_failed": 2},
        {"patient_of_case": _PATIENTS},
    ),
    _Sample(
        "patients",
        f"the worst of {_OF_TWO_PATIENTS}",
        {"dice": [0.0, 1.0, 0.2]},
        {"mean": 0.1},
        {"patient_of_case": _PATIENTS, "patient_score": PatientScore.WORST},
    ),
    # One value of 1: (9 + 4.5 u) / 18 + (1 + u) / 2 = 0.25 + 0.75 / m = 40.
    _of_bets("one value of 1", [1.0], 0.75 / 39.75, 1),
    _of_bets("one value of 0", [0.0], 0, 1 - 0.75 / 39.75),
    _of_bets("two values of 1", [1.0, 1.0], 1 / (1 + _U_OF_ONES), 1),
    _of_bets("0 and 1", [0.0, 1.0], 1 / (1 + _U_OF_BOTH), 1 - 1 / (1 + _U_OF_BOTH)),
    # By bisection in 40 digits.
    _of_bets("nine values of 1 and a 0", [1.0] * 9 + [0.0], 0.4137406790464964, 1),
    _of_bets(ALL_HUNDREDTHS, HUNDREDTHS, 0.4054093386887379, 1 - 0.4054093386887379),
    _Sample(
        "bounds",
        "distances, which have no limit",
        {"hd95": [1.0] * 9},
        {"mean_high_guaranteed": math.nan},
        {"metrics": ("hd95",)},
    ),
)


def _ranks() -> Iterator[Number]:
    # 0.95^58 = 0.051 and 0.95^59 = 0.048: only then the smallest of the values is a lower bound.
    for n, expected in ((58, 0), (59, 1), (93, 2), (124, 3), (153, 4)):
        name = f"rank of the lower 95 % bound of the 5th percentile, {n} values"
        lower, _ = bound_ranks(n, 5, tail=0.05)
        yield Number("intervals", name, expected, lower)

    # P(B <= 5) = 21700 / 2^20 = 0.0207 and P(B <= 6) = 0.0577, with B ~ Binomial(20, 1/2).
    lower, upper = bound_ranks(20, 50, tail=0.025)
    for end, expected, rank in (("lower", 6, lower), ("upper", 15, upper)):
        name = f"rank of the {end} 97.5 % bound of the median, 20 values"
        yield Number("intervals", name, expected, rank)


def _bound_inside() -> Iterator[Number]:
    # The bets would say from 0.22, inside the interval to read.
    row = summarise(made_scores(dice=[1.0] * 5 + [0.0])).iloc[0]
    name = "mean_low_guaranteed of five values of 1 and a 0, less the interval to read"
    yield Number("bounds", name, 0, row["mean_low_guaranteed"] - row["mean_low"])


#: The mean of some of 1/2, 1/4, 1/8, 1/16 and 1/32 tells which they are.
_POWERS = [2.0**-n for n in range(1, 6)]

#: Attribute and stratum to the positions of its cases, aged 0, 17, 18, 64 and 65, in centre 2, 10,
#: 2, 10 and 2. The last of the cut strata holds both its edges.
_POSITIONS = {
    ("age", "0 to 18"): [0, 1],
    ("age", "18 to 65"): [2, 3, 4],
    ("centre", "2"): [0, 2, 4],
    ("centre", "10"): [1, 3],
    ("centre,age", "2,18 to 65"): [2, 4],
    ("centre,age", "10,0 to 18"): [1],
    ("all", "all"): [0, 1, 2, 3, 4],
}


def _strata() -> Iterator[Number]:
    """The cases of strata, by the means of their values, and the worst stratum."""
    summary = _divided()
    rows = summary.set_index(["attribute", "stratum", "metric"])
    for (attribute, stratum), positions in _POSITIONS.items():
        mean = sum(_POWERS[position] for position in positions) / len(positions)
        computed = float(rows.loc[(attribute, stratum, "dice"), "mean"])
        yield Number("strata", f"mean of {attribute}={stratum}", mean, computed)

    centres = summary.loc[summary["attribute"] == "centre", "stratum"].unique().tolist()
    yield Number("strata", "position of centre 10 after centre 2", 1, centres.index("10"))

    worst = worst_strata(summary).set_index(["attribute", "metric", "statistic"])
    # The young have the mean 3/8, the old 7/96; more Dice is better, and less of a distance.
    for metric, expected in (("dice", 7 / 96), ("hd95", 3 / 8)):
        row = worst.loc["age", metric, "mean"]
        yield Number("strata", f"mean {metric} of the worst age", expected, row["worst"])
        name = f"gap of {metric} between the best and the worst age"
        yield Number("strata", name, 3 / 8 - 7 / 96, row["gap"])


def _gap() -> Iterator[Number]:
    """The gap of two strata, whose bounds reach from bound to bound."""
    scores = made_scores(dice=[*HUNDREDTHS, *(value / 2 for value in HUNDREDTHS)])
    summary = summarise(scores, made_strata("part", ["whole"] * 101 + ["half"] * 101))
    row = worst_strata(summary).set_index("statistic").loc["mean"]

    expected = {"gap": 0.25, "gap_low": 0.25 - 1.5 * _HALF, "gap_high": 0.25 + 1.5 * _HALF}
    yield from numbers_of(
        "strata", f"the means of {ALL_HUNDREDTHS} and half of them", row, expected
    )


def _divided() -> pd.DataFrame:
    """The statistics of the strata of the five cases."""
    cases = made_case_names(5)
    ages = ["0", "17", "18", "64", "65"]
    table = pd.DataFrame({"case": cases, "age": ages, "centre": ["2", "10", "2", "10", "2"]})
    by = ["age:0,18,65", "centre", "centre,age:0,18,65"]
    strata = stratify_all(table, by, cases, overall=True)

    scores = made_scores(dice=_POWERS, hd95=_POWERS)
    # In another order than the case table.
    return summarise(scores.iloc[::-1], strata, metrics=("dice", "hd95"))
