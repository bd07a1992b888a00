"""New failures and recoveries, by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.report.requirement_sentences import requirement_sentences
from nnunet_dro.evaluation.scoring.failures import most_failures, most_failures_added
from nnunet_dro.evaluation.statistics.significance import mcnemar_p
from tests.evaluation.comparing.test_comparison import NAN, evaluation, two

COUNTS = [
    "n_counted",
    "n_failed_baseline",
    "n_failed_method",
    "n_failed_difference",
    "new_failures",
    "recoveries",
]


def with_patients(made, patients):
    """The evaluation with a column of the patients of its cases."""
    scores = made.scores.assign(patient=patients)
    options = {**made.about["options"], "patient": "patient"}
    return type(made)(
        made.method,
        scores,
        made.strata,
        made.stratum_of_case,
        made.worst,
        made.false_positives,
        {**made.about, "options": options},
    )


def test_seven_new_failures_of_44_that_none_recovers_are_significant():
    comparison = compare(two([0.9] * 44, [0.92] * 37 + [0.1] * 7), n_resamples=0)

    row = comparison.table.iloc[0]

    assert row[COUNTS].tolist() == [44, 0, 7, 7, 7, 0]
    assert row["mcnemar_p"] == pytest.approx(2 / 2**7)
    assert comparison.failures["case"].tolist() == [f"c{n}" for n in range(37, 44)]
    assert set(comparison.failures["change"]) == {"new failure"}


def test_equally_many_failures_can_be_others():
    before = [0.1, 0.1, 0.9, 0.9, 0.1, 0.9]
    after = [0.9, 0.9, 0.1, 0.1, 0.1, 0.9]
    comparison = compare(two(before, after), n_resamples=0)

    row = comparison.table.iloc[0]

    assert row[COUNTS].tolist() == [6, 3, 3, 0, 2, 2]
    assert row["mcnemar_p"] == 1
    changes = comparison.failures.groupby("change")["case"].agg(list).to_dict()
    assert changes == {
        "new failure": ["c02", "c03"],
        "recovery": ["c00", "c01"],
        "fails with both": ["c04"],
    }


@pytest.mark.parametrize(
    ("n_new", "n_recovered", "expected"),
    [(0, 0, 1), (1, 0, 1), (5, 0, 1 / 16), (0, 5, 1 / 16), (1, 5, 14 / 64), (3, 3, 1)],
)
def test_mcnemar_is_the_binomial_test_of_the_discordant(n_new, n_recovered, expected):
    assert mcnemar_p(n_new, n_recovered) == pytest.approx(expected)


def test_failures_are_told_per_stratum_and_label():
    by = {"centre": ["A", "A", "B", "B"], "all": ["all"] * 4}
    before = {"liver": [0.9] * 4, "tumour": [0.9] * 4}
    after = {"liver": [0.1, 0.9, 0.9, 0.9], "tumour": [0.9, 0.9, 0.1, 0.1]}
    table = compare(two(before, after, by=by), n_resamples=0).table

    new = table.set_index(["stratum", "label"])["new_failures"]

    assert new.to_dict() == {
        ("A", "liver"): 1,
        ("A", "tumour"): 0,
        ("B", "liver"): 0,
        ("B", "tumour"): 2,
        ("all", "liver"): 1,
        ("all", "tumour"): 2,
    }


def test_label_rightly_left_out_by_one_method_fails_with_the_other():
    before = evaluation([NAN, NAN, 0.9], n_reference=[0, 0, 10])
    after = evaluation([0.0, NAN, 0.9], n_reference=[0, 0, 10])
    before.scores["n_prediction"] = [0, 0, 10]
    after.scores["n_prediction"] = [5, 0, 10]

    row = compare({"old": before, "new": after}, n_resamples=0).table.iloc[0]

    assert row[COUNTS].tolist() == [2, 0, 1, 1, 1, 0]


def test_label_without_distance_fails_however_short_the_largest():
    options = {"failure": "hd95>20"}
    before = evaluation([0.9] * 3, hd95=[1.0, 2.0, 3.0], options=options)
    after = evaluation([0.9, 0.9, 0.0], hd95=[1.0, 2.0, NAN], options=options)
    after.scores["n_prediction"] = [10, 10, 0]

    table = compare({"old": before, "new": after}, n_resamples=0).table.set_index("metric")

    assert table.loc["hd95", COUNTS].tolist() == [3, 0, 1, 1, 1, 0]
    assert table.loc["dice", COUNTS].isna().all()


def test_values_that_are_unknown_do_not_count():
    row = compare(two([NAN, 0.9, NAN], [0.1, NAN, NAN]), n_resamples=0).table.iloc[0]
    assert row[COUNTS].tolist() == [0, 0, 0, 0, 0, 0]
    assert np.isnan(row["mcnemar_p"])


def test_patient_fails_with_any_case_and_is_named():
    patients = ["p2", "p2", "p1", "p1"]
    before = with_patients(evaluation([0.1, 0.9, 0.9, 0.9]), patients)
    after = with_patients(evaluation([0.9, 0.1, 0.9, 0.1]), patients)

    comparison = compare({"old": before, "new": after}, n_resamples=0)

    assert comparison.table.iloc[0][COUNTS].tolist() == [2, 1, 2, 1, 1, 0]
    names = comparison.failures[["patient", "change"]].to_numpy().tolist()
    assert names == [["p1", "new failure"], ["p2", "fails with both"]]


def test_several_trainings_have_sums_and_no_pairs():
    trained = [evaluation([0.1, 0.9]), evaluation([0.1, 0.1])]
    comparison = compare({"old": trained, "new": trained[::-1]}, n_resamples=0)

    row = comparison.table.iloc[0]

    assert row[COUNTS[:4]].tolist() == [2, 3, 3, 0]
    assert row[["new_failures", "recoveries", "mcnemar_p"]].isna().all()
    assert comparison.failures.empty


def test_unequal_numbers_of_trainings_have_no_difference_of_sums():
    trained = [evaluation([0.1, 0.9]), evaluation([0.1, 0.1])]
    row = compare({"old": trained[0], "new": trained}, n_resamples=0).table.iloc[0]
    assert row[["n_failed_baseline", "n_failed_method"]].tolist() == [1, 3]
    assert np.isnan(row["n_failed_difference"])


def test_metric_of_the_failure_that_is_not_compared_leaves_counts_empty():
    made = [evaluation([0.9] * 2, hd95=[1.0, 2.0], options={"failure": "hd95>20"}) for _ in "ab"]
    made = [
        type(one)(
            one.method,
            one.scores.drop(columns="hd95"),
            one.strata[one.strata["metric"] == "dice"],
            one.stratum_of_case,
            one.worst,
            one.false_positives,
            one.about,
        )
        for one in made
    ]
    comparison = compare({"old": made[0], "new": made[1]}, n_resamples=0)
    assert comparison.table[COUNTS].isna().all(axis=None)
    assert pd.api.types.is_float_dtype(comparison.table["new_failures"])


def test_the_bound_of_added_failures_holds_for_every_pair_of_shares():
    # Exactly, over all numbers of new failures and recoveries among ten pairs.
    n = 10
    counts = [(new, old) for new in range(n + 1) for old in range(n + 1 - new)]
    bounds = np.array([most_failures_added(new, old, n) for new, old in counts])
    new_bounds = np.array([most_failures(new, n) for new, _ in counts])
    outcomes = [[new, old, n - new - old] for new, old in counts]

    for share_new, share_old in itertools.product(np.linspace(0, 1, 21), repeat=2):
        if share_new + share_old > 1:
            continue
        shares = [share_new, share_old, max(0.0, 1 - share_new - share_old)]
        chances = stats.multinomial.pmf(outcomes, n, shares)
        assert chances[bounds < share_new - share_old - 1e-12].sum() <= 0.05
        assert chances[new_bounds < share_new - 1e-12].sum() <= 0.05


def test_bounds_of_failures_by_hand():
    comparison = compare(two([0.9] * 72, [0.9] * 72))
    row = comparison.table.iloc[0]
    assert row["new_failures_high"] == pytest.approx(1 - 0.05 ** (1 / 72))
    assert row["failure_difference_high"] == pytest.approx(1 - 0.025 ** (1 / 72))

    interval = stats.binomtest(7, 44).proportion_ci(0.95)
    recovered = compare(two([0.1] * 7 + [0.9] * 37, [0.9] * 44)).table.iloc[0]
    none = 1 - 0.025 ** (1 / 44)
    assert recovered["failure_difference_high"] == pytest.approx(none - interval.low)


def test_failures_can_be_required():
    before = [0.9] * 44
    after = [0.92] * 37 + [0.1] * 7
    texts = (
        "new_failures<=0",
        "n_failed_difference<=0",
        "new_failures_high<=5%",
        "failure_difference_high<=5%",
        "failure_difference_high<=31pt",
        "mcnemar_p>=0.05",
        "recoveries>=0",
    )
    outcomes = compare(two(before, after), requirements=texts).outcomes

    assert [outcome.passed for outcome in outcomes] == [False] * 4 + [True, False, True]
    assert outcomes[0].line == "method=DRO label=one: new_failures 7 is not <= 0 (44 cases)"
    assert "failure_difference_high 30.1% is not <= 5% (44 cases)" in outcomes[3].line

    seeds = [evaluation(before), evaluation(before)]
    (several,) = compare({"A": seeds, "B": seeds}, requirements=["new_failures<=0"]).outcomes
    assert several.verdict.word == "cannot tell"
    assert several.line.endswith("there is none where a method has several trainings")


def test_a_small_gain_in_every_patient_can_be_shown_to_harm_nobody():
    rng = np.random.default_rng(0)
    before = rng.beta(30, 5, 44) * 0.95
    after = before + np.clip(rng.normal(0.016, 0.003, 44), 0.005, None)
    texts = (
        "mean_difference_low_guaranteed>=-1pt",
        "typical_difference_low>=-1pt",
        "typical_difference>=0@97.5",
        "mean_difference_low_t>=-1pt",
        "new_failures_high<=7%",
        "failure_difference_high<=9%",
    )
    comparison = compare(two(before, after), requirements=texts)

    row = comparison.table.iloc[0]
    assert row["wins"] == 44
    assert 0.014 < row["typical_difference_low"] < row["typical_difference_high"] < 0.018
    strictest, *others = comparison.outcomes
    # Four failures in a hundred, each of 100 points, are not excluded by 44 patients.
    assert strictest.verdict.word == "not met"
    assert [outcome.verdict.word for outcome in others] == ["met"] * 5
    assert "spread alike to both sides" in others[0].line
    assert "Student's t, which holds if" in others[2].line


def test_a_distance_has_a_typical_difference_to_require():
    values = np.linspace(0.5, 0.9, 20)
    distances = {"A": values * 10, "B": values * 10 - 1 + values / 10}
    evaluations = {name: evaluation(values, hd95=hd95) for name, hd95 in distances.items()}
    texts = (
        "metric=hd95 typical_difference_high<=0.5mm",
        "metric=hd95 mean_difference_high_t<=0mm",
    )

    comparison = compare(evaluations, requirements=texts)

    assert [outcome.passed for outcome in comparison.outcomes] == [True, True]
    (sentence,) = requirement_sentences(comparison, "B")
    assert "typical difference HD95 in all cases" in sentence
