"""Differences of two methods, their bounds and their tests, with known values."""

import math
from collections.abc import Iterator

import numpy as np

from nnunet_dro.evaluation.comparing.comparison import Comparison, compare
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.significance import holm, typical_value, wilcoxon_p
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.selfcheck.made_scores import made_evaluation, made_scores, made_strata
from nnunet_dro.selfcheck.number import Number, numbers_of

#: Stratum to the number of its cases.
_SIZES = {"six": 6, "one": 1, "many": 44}

# Six cases gain 0.01 to 0.06, and 1 to 6 mm.
_SIX = [0.50, 0.51, 0.52, 0.53, 0.54, 0.55]
_SIX_AFTER = [0.51, 0.53, 0.55, 0.57, 0.59, 0.61]

#: Stratum and metric to column to value.
_EXPECTED: dict[tuple[str, str], dict[str, float]] = {
    ("six", "dice"): {
        "mean_difference": 0.035,
        "median_difference": 0.035,
        # The median lies between the smallest and the largest of six values in 62 of 64 samples.
        "median_difference_low": 0.51 - 0.55,
        "median_difference_high": 0.61 - 0.50,
        # t = 2.570581835636315 (5 degrees of freedom), sd = sqrt(3.5) / 100.
        "mean_difference_low": 0.035 - 2.570581835636315 * math.sqrt(3.5 / 6) / 100,
        "mean_difference_high": 0.035 + 2.570581835636315 * math.sqrt(3.5 / 6) / 100,
        # Differences between -1 and 1 are twice values between 0 and 1, less 1; by bisection in 40
        # digits.
        "mean_difference_low_guaranteed": -0.4817648049238542,
        "mean_difference_high_guaranteed": 0.5168241544277101,
        # All six differences have one sign in 2 of 64 samples of a test that finds nothing.
        "typical_difference": 0.035,
        "typical_difference_low": 0.01,
        "typical_difference_high": 0.06,
        "wilcoxon_p": 2 / 2**6,
        "wins": 6,
        "losses": 0,
    },
    ("one", "dice"): {
        "mean_difference_low_guaranteed": -1 + 2 * 0.75 / 39.75,
        "mean_difference_high_guaranteed": 1,
        "new_failures": 0,
        "recoveries": 1,
    },
    ("many", "dice"): {
        "mean_difference": (0.6 - 7 * 0.7) / 44,
        "wins": 1,
        "ties": 36,
        "losses": 7,
        "n_failed_baseline": 1,
        "n_failed_method": 7,
        "n_failed_difference": 6,
        "new_failures": 7,
        "recoveries": 1,
        # One or none of eight on one side, twice: 2 (1 + 8) / 2^8.
        "mcnemar_p": 2 * 9 / 2**8,
        # P(B <= 7) = 0.05 with B ~ Binomial(44, p); and with 0.025 less p with P(B >= 1) = 0.025.
        "new_failures_high": 0.2781454207974771,
        "failure_difference_high": 0.3000779745583247,
    },
    ("six", "hd95"): {
        "mean_difference": -3.5,
        "mean_difference_low_guaranteed": math.nan,
        "typical_difference_high": -1,
        "wins": 6,
        # Of three tests the others have a p value of 1.
        "holm_p": 3 * 2 / 2**6,
    },
    # The baseline missed the label, which counts as the largest distance of any method, 10 mm.
    ("one", "hd95"): {"mean_difference": 2 - 10, "n_worst_baseline": 1},
    ("many", "hd95"): {"mean_difference": 0, "wilcoxon_p": 1},
}


def differences() -> Iterator[Number]:
    """Differences of two methods, and the tests of single samples."""
    p = wilcoxon_p(np.arange(1.0, 7))
    yield Number("tests", "Wilcoxon's p of six differences above 0", 2 / 2**6, p)
    # The signs of the ranks 1, 2, 3, 4 and 5 give a sum of 2 or less below 0 in 3 of 32 samples.
    p = wilcoxon_p(np.array([1.0, -2, 3, 4, 5]))
    yield Number("tests", "Wilcoxon's p of 1, -2, 3, 4 and 5", 2 * 3 / 2**5, p)

    # The means of any two of 1, 2 and 4, each with itself, too, are 1, 1.5, 2, 2.5, 3 and 4.
    typical, _, _ = typical_value(np.array([1.0, 2.0, 4.0]))
    yield Number("tests", "typical value of 1, 2 and 4", (2 + 2.5) / 2, typical)

    p_values = (0.01, 0.04, 0.03)
    corrected = holm(np.array(p_values))
    for p, expected, corrected_p in zip(p_values, (0.03, 0.06, 0.06), corrected, strict=True):
        name = f"p = {p} of three, corrected by Holm"
        yield Number("tests", name, expected, float(corrected_p))

    rows = made_comparison().table.set_index(["stratum", "metric"])
    for place, columns in _EXPECTED.items():
        stratum, metric = place
        name = f"{metric}, {_SIZES[stratum]} cases"
        yield from numbers_of("differences", name, rows.loc[place], columns)
    yield from _trainings()


def _trainings() -> Iterator[Number]:
    """The difference of repeated trainings, which differ by 0.01, 0.02 and 0.03 in every case.

    The cases have no spread, so that the interval is Student's t of the three trainings, with
    2 degrees of freedom and a standard deviation of 0.01.
    """
    before = []
    after = []
    for number in (1, 2, 3):
        before.append(_alike("before", 0.5))
        after.append(_alike("after", 0.5 + number / 100))
    row = compare({"before": before, "after": after}).table.set_index("metric").loc["dice"]

    half = 4.302652729749464 * 0.01 / math.sqrt(3)
    expected = {
        "mean_difference": 0.02,
        "mean_difference_low": 0.02 - half,
        "mean_difference_high": 0.02 + half,
        "mean_difference_lowest": 0.01,
        "mean_difference_highest": 0.03,
    }
    yield from numbers_of("differences", "three trainings", row, expected)


def _alike(method: str, dice: float) -> Evaluation:
    """An evaluation of eight cases that score the same."""
    scores = made_scores(dice=[dice] * 8, hd95=[1.0] * 8)
    return made_evaluation(method, scores, made_strata(ALL, [ALL] * 8))


def made_comparison() -> Comparison:
    """The comparison of two made-up methods in strata of 6, 1 and 44 cases."""
    before = made_scores(
        dice=[*_SIX, 0.0, *[0.9] * 43, 0.3],
        hd95=[10.0] * 6 + [math.nan] + [4.0] * 44,
        n_prediction=[1.0] * 6 + [0.0] + [1.0] * 44,
    )
    after = made_scores(
        dice=[*_SIX_AFTER, 1.0, *[0.2] * 7, *[0.9] * 37],
        hd95=[9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 2.0] + [4.0] * 44,
    )

    strata = made_strata("group", ["six"] * 6 + ["one"] + ["many"] * 44)
    return compare(
        {
            "before": made_evaluation("before", before, strata),
            "after": made_evaluation("after", after, strata),
        }
    )
