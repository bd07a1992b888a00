"""Statistics, intervals and bounds of strata with known values."""

import math
from collections.abc import Iterator
from statistics import NormalDist

import pandas as pd

from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.statistics.sample_bounds import bound_ranks
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.stratify import stratify_all
from nnunet_dro.selfcheck.made_scores import case_names, made_scores, made_strata
from nnunet_dro.selfcheck.number import Number

#: 0, 0.01, ..., 1: the k-th smallest of these 101 values is (k - 1) / 100.
HUNDREDTHS = [n / 100 for n in range(101)]


def statistics() -> Iterator[Number]:
    """All numbers of strata."""
    yield from _described()
    yield from _ranks()
    yield from _intervals()
    yield from _guaranteed()
    yield from _failures()
    yield from _strata()
    yield from _gap()
    yield from _patients()


def _described() -> Iterator[Number]:
    # The sample variance of 0, 1, ..., n - 1 is n (n + 1) / 12 (its denominator is n - 1).
    expected = {
        "n": 101,
        "n_undefined": 0,
        "mean": 0.5,
        "median": 0.5,
        "p75": 0.75,
        "p25": 0.25,
        "p10": 0.1,
        "p5": 0.05,
        "iqr": 0.5,
        "std": math.sqrt(101 * 102 / 12) / 100,
        "min": 0,
        "max": 1,
    }
    row = summarise(made_scores(dice=HUNDREDTHS)).iloc[0]
    for name, value in expected.items():
        yield Number("statistics", f"{name} of 0, 0.01, ..., 1", value, row[name])

    # Between the 1st and the 2nd of four values, at 0.05 x 3 = 0.15, and of the three with a value.
    row = summarise(made_scores(dice=[0.6, 0.2, 1.0, 0.4])).iloc[0]
    yield Number("statistics", "p5 of 0.2, 0.4, 0.6 and 1", 0.2 + 0.15 * 0.2, row["p5"])
    row = summarise(made_scores(dice=[0.6, math.nan, 1.0, 0.2])).iloc[0]
    yield Number("statistics", "mean of 0.2, 0.6, 1 and an undefined value", 0.6, row["mean"])
    yield Number("statistics", "number of the undefined values of these", 1, row["n_undefined"])


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


def _intervals() -> Iterator[Number]:
    """The intervals to read, and exact one-sided bounds."""
    one_sided = [("p5", "low", 95), ("p75", "high", 95)]
    row = summarise(made_scores(dice=HUNDREDTHS), one_sided=one_sided).iloc[0]

    # Ranks l and u with P(B < l) <= 0.025 (one-sided 0.05) and P(B >= u) likewise, the nearest to
    # the percentile, B ~ Binomial(101, p), in exact fractions (Conover 1999, section 3.2).
    ranks = {
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
    for name, rank in ranks.items():
        yield Number("intervals", f"{name} of 0, 0.01, ..., 1", (rank - 1) / 100, row[name])
    yield Number("intervals", "iqr_low of 0, 0.01, ..., 1", (67 - 35) / 100, row["iqr_low"])
    yield Number("intervals", "iqr_high of 0, 0.01, ..., 1", (85 - 17) / 100, row["iqr_high"])

    half = _half_width()
    yield Number("intervals", "mean_low of 0, 0.01, ..., 1", 0.5 - half, row["mean_low"])
    yield Number("intervals", "mean_high of 0, 0.01, ..., 1", 0.5 + half, row["mean_high"])

    # The same formula with the skewness -8/3 and the kurtosis 46/9, in 40 digits. Above is 1.
    row = summarise(made_scores(dice=[1.0] * 9 + [0.0])).iloc[0]
    name = "mean_low of nine values of 1 and a 0"
    yield Number("intervals", name, 0.4164263700689039, row["mean_low"])
    yield Number("intervals", "mean_high of nine values of 1 and a 0", 1, row["mean_high"])
    row = summarise(made_scores(dice=[0.5] * 5)).iloc[0]
    yield Number("intervals", "mean_low of five values, too few", math.nan, row["mean_low"])


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


def _guaranteed() -> Iterator[Number]:
    """The bounds for verdicts.

    Of the money K(m) 1/18 is bet with each stake of 0.1 to 0.9 and 1/2 with the stake 1, and the
    bound is the m with K(m) = 40 = 1 / 0.025 (Waudby-Smith and Ramdas 2024; see `betting_bounds`).
    With u = 1 / m - 1 a value of 1 multiplies the money of the stake s by 1 + s u, and a value of 0
    by 1 - s. The stakes below 1 add up to 4.5, and their squares to 2.85.
    """
    # One value of 1: (9 + 4.5 u) / 18 + (1 + u) / 2 = 0.25 + 0.75 / m = 40.
    yield from _guaranteed_numbers("one value of 1", [1.0], 0.75 / 39.75, 1)
    yield from _guaranteed_numbers("one value of 0", [0.0], 0, 1 - 0.75 / 39.75)

    # Two values of 1: 1 + 1.5 u + (2.85 / 18 + 1 / 2) u^2 = 40.
    square = 2.85 / 18 + 1 / 2
    u = (math.sqrt(1.5**2 + 4 * square * 39) - 1.5) / (2 * square)
    yield from _guaranteed_numbers("two values of 1", [1.0, 1.0], 1 / (1 + u), 1)

    # A 0 and a 1: (4.5 + (4.5 - 2.85) u) / 18 = 40, because the stake 1 is lost.
    u = (18 * 40 - 4.5) / (4.5 - 2.85)
    yield from _guaranteed_numbers("0 and 1", [0.0, 1.0], 1 / (1 + u), 1 - 1 / (1 + u))

    # By bisection in 40 digits.
    nine = [1.0] * 9 + [0.0]
    yield from _guaranteed_numbers("nine values of 1 and a 0", nine, 0.4137406790464964, 1)
    low = 0.4054093386887379
    yield from _guaranteed_numbers("0, 0.01, ..., 1", HUNDREDTHS, low, 1 - low)

    # The bets would say from 0.22, inside the interval to read.
    five = [1.0] * 5 + [0.0]
    row = summarise(made_scores(dice=five)).iloc[0]
    name = "mean_low_guaranteed of five values of 1 and a 0, less the interval to read"
    yield Number("bounds", name, 0, row["mean_low_guaranteed"] - row["mean_low"])
    row = summarise(made_scores(hd95=[1.0] * 9), metrics=("hd95",)).iloc[0]
    name = "mean_high_guaranteed of distances, which have no limit"
    yield Number("bounds", name, math.nan, row["mean_high_guaranteed"])


def _guaranteed_numbers(
    name: str, values: list[float], low: float, high: float
) -> Iterator[Number]:
    row = summarise(made_scores(dice=values)).iloc[0]
    for end, expected in (("low", low), ("high", high)):
        column = f"mean_{end}_guaranteed"
        yield Number("bounds", f"{column} of {name}", expected, row[column])


def _failures() -> Iterator[Number]:
    """Counts of failures, and the exact bound of their share (Clopper and Pearson 1934)."""
    # Below 0.5 are 5 of 44; one more was missed, one invented, one is rightly absent: 7 of 43.
    scores = made_scores(dice=[0.2] * 5 + [0.5] * 36 + [math.nan] * 3)
    scores.loc[41, "n_prediction"] = 0
    scores.loc[42, "n_reference"] = 0
    scores.loc[43, ["n_reference", "n_prediction"]] = 0
    row = summarise(scores).iloc[0]
    expected = {
        "n_failed": 7,
        "n_missed": 1,
        "n_invented": 1,
        "n_left_out": 2,
        "n_undefined": 3,
        # P(B <= 7) = 0.05 with B ~ Binomial(43, p), by bisection in 40 digits.
        "failure_high": 0.2841260059989797,
    }
    for name, value in expected.items():
        yield Number("failures", f"{name} of 44 cases, 7 failed", value, row[name])

    row = summarise(made_scores(dice=[0.9] * 59)).iloc[0]
    name = "failure_high of 59 cases, none failed"
    yield Number("failures", name, 1 - 0.05 ** (1 / 59), row["failure_high"])
    row = summarise(made_scores(hd95=[20.0, 21.0]), metrics=("hd95",), failure="hd95>20").iloc[0]
    yield Number("failures", "n_failed by hd95>20 of 20 and 21 mm", 1, row["n_failed"])


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

    half = _half_width()
    expected = {"gap": 0.25, "gap_low": 0.25 - 1.5 * half, "gap_high": 0.25 + 1.5 * half}
    for name, value in expected.items():
        label = f"{name} of the means of 0, 0.01, ..., 1 and half of them"
        yield Number("strata", label, value, row[name])


def _divided() -> pd.DataFrame:
    """The statistics of the strata of the five cases."""
    cases = case_names(5)
    ages = ["0", "17", "18", "64", "65"]
    table = pd.DataFrame({"case": cases, "age": ages, "centre": ["2", "10", "2", "10", "2"]})
    by = ["age:0,18,65", "centre", "centre,age:0,18,65"]
    strata = stratify_all(table, by, cases, overall=True)

    scores = made_scores(dice=_POWERS, hd95=_POWERS)
    # In another order than the case table.
    return summarise(scores.iloc[::-1], strata, metrics=("dice", "hd95"))


def _patients() -> Iterator[Number]:
    """Two cases of one patient count once, with their mean."""
    patients = pd.Series(["a", "a", "b"], index=case_names(3))
    row = summarise(made_scores(dice=[0.0, 1.0, 0.2]), patient_of_case=patients).iloc[0]
    yield Number("patients", "mean of patients with 0 and 1, and 0.2", 0.35, row["mean"])
    yield Number("patients", "number of patients of these", 2, row["n_patients"])
    yield Number("patients", "failed patients of these", 2, row["n_failed"])

    row = summarise(
        made_scores(dice=[0.0, 1.0, 0.2]),
        patient_of_case=patients,
        patient_score=PatientScore.WORST,
    ).iloc[0]
    yield Number(
        "patients", "mean of the worst of patients with 0 and 1, and 0.2", 0.1, row["mean"]
    )
