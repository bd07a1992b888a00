"""What stands out is found and confirmed on other cases, and nothing is claimed where there is
nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, mannwhitneyu

from benchmarks.explore_null import Setting, measure, read
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.exploration.candidates import halve, power_of
from nnunet_dro.exploration.exploration import explore_evaluation
from nnunet_dro.exploration.inputs import LabelScores, label_scores
from nnunet_dro.exploration.search import CodedAttribute, Limits, Search
from nnunet_dro.exploration.tables import exploration_findings
from tests.exploration.made import made
from tests.ranking.made import evaluation_of


def explored(n=160, of_data=0, *, effect=0.0, **options):
    return explore_evaluation(made(n, of_data, effect=effect), **options)


def test_an_interaction_that_neither_attribute_shows_alone_is_found():
    evaluation = made(200, effect=0.15)
    both = explore_evaluation(evaluation)

    assert explore_evaluation(evaluation, limits=Limits(max_attributes=1)).confirmed.empty
    assert both.confirmed["combination"].iloc[0] == "centre=A, scanner=X"

    row = both.confirmed.iloc[0]
    assert row["mean_test"] < row["mean_rest_test"] - 0.1
    assert row["p"] == pytest.approx(1e-4)
    assert 0.9 < row["share_lower"] <= 1


def test_numbers_are_those_of_the_half_they_name():
    exploration = explored(300, effect=0.15)
    cases = exploration.cases

    assert exploration.n_searched == (cases["half"] == "searched").sum() == 150
    assert len(exploration.table) == 3

    for place, row in enumerate(exploration.table.to_dict("records"), start=1):
        left = cases[~cases["combination"].between(1, place - 1)]
        inside = left[f"stratum of {row['attribute_1']}"] == row["stratum_1"]
        if row["attribute_2"]:
            inside &= left[f"stratum of {row['attribute_2']}"] == row["stratum_2"]
        assert (inside == (left["combination"] == place)).all()
        for half, name in (("searched", "search"), ("tested", "test")):
            of_half = left["half"] == half
            members = left.loc[inside & of_half, "value"]
            rest = left.loc[~inside & of_half, "value"]
            assert (row[f"n_{name}"], row[f"n_rest_{name}"]) == (len(members), len(rest))
            assert row[f"mean_{name}"] == pytest.approx(members.mean())
            assert row[f"mean_rest_{name}"] == pytest.approx(rest.mean())


@pytest.mark.parametrize(
    "setting",
    [
        Setting("null", "tenths", 60, 5),
        Setting("null", "HD95, 10 % missed", 100, 4, labels=2, patients=True),
    ],
)
def test_at_most_one_run_in_twenty_claims_something_where_there_is_nothing(setting):
    n_runs = 100
    # More claims than this have a probability of 1 in 1,000 where 5 % of the runs claim something.
    assert measure(setting, n_runs)["claims"] <= binom.ppf(0.999, n_runs, 0.05) / n_runs


def test_the_committed_runs_claim_something_in_at_most_five_per_cent():
    runs = read(Path(__file__).parents[2] / "benchmarks" / "results" / "explore_null.csv")
    null = runs[runs["kind"] == "null"]

    assert (null["runs"] >= 1000).all()
    assert np.average(null["claims"], weights=null["runs"]) <= 0.05
    # Among so many settings, one in which 5 % of the runs claim something shows more with a
    # probability of 1 in 1,000.
    assert (
        (null["claims"] * null["runs"]).round()
        <= binom.ppf(1 - 0.001 / len(null), null["runs"], 0.05)
    ).all()
    assert (
        runs[(runs["kind"] == "planted") & (runs["n"] >= 200) & (runs["points"] == 20)]["found"]
        > 0.9
    ).all()


def test_missed_cases_do_not_make_a_combination_look_better():
    hd95 = 5 + np.random.default_rng(0).normal(size=120)
    missed = range(0, 30)  # what is left of A is better than B
    hd95[:40] -= 1
    hd95[missed] = np.nan
    given = {
        "columns": {"centre": ["A"] * 40 + ["B"] * 80, "sex": ["f", "m"] * 60},
        "attributes": ["centre", "sex"],
    }
    evaluation = evaluation_of("dro", {"hd95": {"liver": hd95}}, missed=missed, **given)

    exploration = explore_evaluation(evaluation, limits=Limits(max_attributes=1))

    row = exploration.table.iloc[0]

    assert row["combination"] == "centre=A"
    assert row["confirmed"]
    assert row["n_worst_search"] + row["n_worst_test"] == 30
    assert row["mean_test"] > row["mean_rest_test"]
    assert (
        exploration.cases.loc[exploration.cases["value"].isna(), "filled"] == np.nanmax(hd95)
    ).all()
    assert any(
        "30 scores without a value, of a label that was missed" in note
        for note in exploration.notes
    )


def test_an_invented_label_counts_as_the_signed_error_farthest_from_0():
    errors = np.linspace(-0.9, -0.1, 40)
    errors[:3] = np.nan
    largest = np.nanmax(np.abs(errors))
    evaluation = evaluation_of("dro", {"relative_volume_error": {"liver": errors}}, absent=range(3))

    cases = sorted(evaluation.scores["case"])
    ((scores,), _) = label_scores(evaluation, cases, "relative_volume_error", ["liver"])

    assert scores.failed.tolist() == [True] * 3 + [False] * 37
    np.testing.assert_array_equal(scores.filled[:3], largest)


def test_labels_that_neither_has_do_not_count():
    evaluation = made(80)
    scores = evaluation.scores
    absent = scores.index[:10]
    scores.loc[absent, ["n_reference", "n_prediction"]] = 0
    scores.loc[absent, "dice"] = np.nan

    exploration = explore_evaluation(evaluation, limits=Limits(min_cases=3))

    assert "10 scores without a value do not count." in exploration.notes

    evaluation = made(40)
    evaluation.scores.loc[3, "dice"] = np.inf

    with pytest.raises(
        ValueError, match=r"must be finite, got an infinite one for 'case_003', 'liver'"
    ):
        explore_evaluation(evaluation)

    twice = made(40)
    twice.scores.loc[3, "case"] = "case_002"

    with pytest.raises(
        ValueError, match=r"one row per case and label, got two for 'case_002', 'liver'"
    ):
        explore_evaluation(twice)


def test_all_labels_are_one_family_and_one_can_be_chosen():
    evaluation = made(160, labels=("liver", "spleen"))
    both = explore_evaluation(evaluation)

    one = explore_evaluation(evaluation, labels=["spleen"])

    assert both.labels == ("liver", "spleen")
    assert len(both.table) <= 3
    assert both.n_combinations == 2 * one.n_combinations
    assert set(one.table["label"]) == {"spleen"}

    evaluation = made(80, labels=("liver", "spleen"))
    evaluation.scores.loc[evaluation.scores["label"] == "spleen", "dice"] = np.nan
    found = explore_evaluation(evaluation)

    assert (found.labels, found.notes) == (("liver",), ("No case has a value of spleen.",))
    with pytest.raises(ValueError, match="must have a value in some case, got 'dice' without any"):
        explore_evaluation(evaluation, labels=["spleen"])


@pytest.mark.parametrize("sizes", [[1] * 41, [2] * 20, [1, 2, 3, 4] * 10, [30, 1, 1, 1, 1, 1]])
def test_halves_keep_patients_together_and_are_as_even_as_patients_allow(sizes):
    patients = np.repeat(np.arange(len(sizes)), sizes)
    for seed in range(5):
        half = halve(patients, np.random.default_rng(seed))
        assert all(len(set(half[patients == patient])) == 1 for patient in range(len(sizes)))
        assert abs(int(half.sum()) - int((~half).sum())) <= max(sizes)


def test_patients_are_kept_together_and_exchanged_as_a_whole():
    evaluation = made(160, per_patient=4, patient="patient")
    exploration = explore_evaluation(evaluation)

    patients = evaluation.scores.set_index("case")["patient"]

    assert (
        exploration.cases.groupby(exploration.cases["case"].map(patients))["half"].nunique() == 1
    ).all()
    assert exploration.n_patients == 40
    assert exploration.about["options"]["patient"] == "patient"
    assert (exploration.table["n_patients_test"] < exploration.table["n_test"]).all()


def test_the_seed_decides():
    first, again, other = (explored(160, effect=0.1, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.table, again.table)
    assert (first.cases["half"].to_numpy() != other.cases["half"].to_numpy()).any()

    seen = []
    explored(160, effect=0.15, progress=lambda n_done, n_all: seen.append((n_done, n_all)))

    # Sets of one or two of four attributes, searched for three candidates.
    assert seen[0] == (1, 10 * 3)
    assert max(n for n, _ in seen) <= 30


def test_too_many_attributes_are_refused_before_the_search():
    rng = np.random.default_rng(0)
    columns = {f"c{n}": list(rng.choice(["a", "b"], 30)) for n in range(150)}

    evaluation = evaluation_of(
        "dro", {"dice": {"liver": rng.random(30)}}, columns=columns, attributes=list(columns)
    )

    with pytest.raises(
        ValueError,
        match=r"must be of fewer attributes, got 150 attributes, which make 562,625 sets",
    ):
        explore_evaluation(evaluation, limits=Limits(max_attributes=3))


@pytest.mark.parametrize(("n", "expected"), [(44, 0.62), (240, 1.0)])
def test_power_is_that_of_two_rank_tests_of_a_planted_group(n, expected):
    """Scores with a standard deviation of 8 points, a third of the cases, 10 points worse."""
    rng = np.random.default_rng(0)
    thirds = CodedAttribute("centre", np.arange(n) % 3, ("A", "B", "C"))
    searched = np.arange(n) % 2 == 0
    half = n // 2
    found = []

    for _ in range(12):
        values = 0.6 + 0.08 * rng.normal(size=n)
        scores = LabelScores("liver", values, np.zeros(n, bool), values, values)
        power = power_of(
            Search([thirds], np.arange(n), searched, Limits()), [scores], METRICS["dice"], rng=rng
        )
        found.append(power.share)

    assert (power.n_searched, power.n_tested) == (half, half)
    assert power.n_group == pytest.approx(n / 6, abs=1)

    drawn = 0.6 + 0.08 * rng.normal(size=(2, 1000, half))
    drawn[:, :, : power.n_group] -= 0.1
    inside = drawn[:, :, : power.n_group]
    outside = drawn[:, :, power.n_group :]
    p = mannwhitneyu(inside, outside, alternative="less", axis=2).pvalue

    assert np.mean(p.max(axis=0) <= 0.05) == pytest.approx(expected, abs=0.05)
    assert np.mean(found) == pytest.approx(expected, abs=0.1)


def test_power_keeps_patients_whole_and_counts_missed_labels_as_the_worst():
    n = 200
    values = np.where(np.arange(n) % 10 == 0, np.nan, 0.6)
    missed = np.isnan(values)
    scores = LabelScores(
        "liver", values, missed, np.where(missed, -np.inf, values), np.where(missed, 0, values)
    )
    halves = CodedAttribute("centre", np.arange(n) // 2 % 2, ("A", "B"))
    searched = np.arange(n) // 2 % 4 < 2

    def share(patients):
        search = Search([halves], patients, searched, Limits())
        return power_of(search, [scores], METRICS["dice"], rng=np.random.default_rng(0)).share

    # Equal scores but for those that are missed: every group that is worse is found, and one
    # patient is no group.
    assert share(np.arange(n)) == 1
    assert share(np.arange(n) // 2) == 1
    assert share((~searched).astype(int)) == 0


def test_what_could_have_been_found_is_said_where_nothing_stands_out():
    few = explored(44, limits=Limits(min_cases=3))
    many = explored(400)

    for exploration, halves in ((few, "22 and 22"), (many, "200 and 200")):
        assert exploration.confirmed.empty
        assert (
            f"in each half (of {halves}) whose Dice is 10 points lower is confirmed"
            in exploration_findings(exploration)[1]
        )
    assert few.power.share < 0.8 < many.power.share


@pytest.mark.parametrize(
    ("metric", "in_pixels", "worse"),
    [
        ("hd95", False, "HD95 is 10 mm larger"),
        ("hd95", True, "HD95 is 10 px larger"),
        (
            "absolute_relative_volume_error",
            False,
            "Absolute relative volume error is 10 points larger",
        ),
        ("volume_error", False, "Volume error is 10 ml farther from 0"),
    ],
)
def test_distances_and_errors_are_made_larger(metric, in_pixels, worse):
    exploration = explore_evaluation(
        made(60, seed=2, metric=metric), metric=metric, limits=Limits(min_cases=3)
    )
    assert exploration.confirmed.empty

    exploration = replace(exploration, about={**exploration.about, "in_pixels": in_pixels})
    assert f"whose {worse} is confirmed" in exploration_findings(exploration)[1]
