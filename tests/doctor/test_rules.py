import numpy as np
import pandas as pd
import pytest

from nnunet_dro.doctor.rules import Finding, State, diagnose

from .made_cases import around, cases


def finding(table: pd.DataFrame, by=("site",)) -> Finding:
    return diagnose(table, by=by).finding


def stratum(table: pd.DataFrame, name: str):
    return next(s for s in diagnose(table, by=["site"]).strata if s.name == name)


def test_nothing_fails_where_all_strata_are_alike():
    table = cases(
        a={"training": around(0.9, 40), "validation": around(0.88, 10)},
        b={"training": around(0.88, 10), "validation": around(0.86, 4)},
    )
    assert finding(table) == Finding.NOTHING_FAILS
    assert {s.state for s in diagnose(table, by=["site"]).strata} == {State.LEVEL}


def test_a_stratum_that_is_low_on_training_cases_is_hard_to_learn():
    table = cases(a={"training": around(0.9, 80)}, rare={"training": around(0.2, 6), "validation": around(0.1, 4)})
    assert finding(table) == Finding.HARD
    rare = stratum(table, "rare")
    assert rare.state == State.BEHIND
    assert rare.training.label == "organ"
    assert rare.training.difference == pytest.approx(0.7)
    # All 80 x 6 pairs have the rare case below.
    assert rare.training.probability == pytest.approx(rare.training.smallest)


def test_a_stratum_that_is_low_in_validation_only_is_not_carried_over():
    table = cases(
        a={"training": around(0.9, 40), "validation": around(0.88, 10)},
        rare={"training": around(0.9, 6), "validation": around(0.3, 5)},
    )
    assert finding(table) == Finding.NOT_CARRIED_OVER
    assert stratum(table, "rare").state == State.NOT_CARRIED_OVER


def test_a_network_that_fails_all_validation_cases_has_not_carried_over():
    table = cases(a={"training": around(0.9, 20), "validation": around(0.5, 8)})
    diagnosis = diagnose(table)
    assert diagnosis.finding == Finding.NOT_CARRIED_OVER
    assert diagnosis.those(State.NOT_CARRIED_OVER)[0].name == "all cases"


def test_scattered_low_cases_are_outliers_and_sorted_by_how_far_they_are_below():
    table = cases(a={"training": [*around(0.9, 50), 0.3, 0.1]}, b={"training": [*around(0.9, 50), 0.2]})
    diagnosis = diagnose(table, by=["site"])
    assert diagnosis.finding == Finding.OUTLIERS
    assert [o.case for o in diagnosis.outliers] == ["a_t051", "b_t050", "a_t050"]
    assert diagnosis.outliers[0].limit == pytest.approx(0.9 - 0.2, abs=0.01)


def test_outliers_come_before_a_stratum_that_has_fewer_cases():
    """With wrong labels everywhere, a stratum that is behind must not be what is trained for."""
    low = {"training": around(0.3, 15)}
    few = cases(a={"training": [*around(0.9, 80), *around(0.1, 5)]}, rare=low)
    many = cases(a={"training": [*around(0.9, 80), *around(0.1, 16)]}, rare=low)
    assert finding(few) == Finding.HARD
    assert finding(many) == Finding.OUTLIERS


@pytest.mark.parametrize(("n", "expected"), [(300, Finding.NOTHING_FAILS), (150, Finding.OUTLIERS)])
def test_outliers_must_be_a_share_of_the_cases(n, expected):
    assert finding(cases(a={"training": [*around(0.9, n), 0.1, 0.2]})) == expected


def test_one_outlier_is_none():
    assert finding(cases(a={"training": [*around(0.9, 50), 0.1]})) == Finding.NOTHING_FAILS


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_training_cases_tell_nothing(n):
    table = cases(a={"training": around(0.9, n), "validation": around(0.2, 5)})
    assert finding(table) == Finding.CANNOT_TELL


def test_a_difference_that_chance_may_explain_is_a_suspicion():
    table = cases(a={"training": around(0.9, 22)}, rare={"training": [0.2, 0.3]})
    assert finding(table) == Finding.CANNOT_TELL
    assert stratum(table, "rare").state == State.SUSPICION


def test_a_group_whose_size_cannot_tell_is_named_and_decides_nothing():
    table = cases(a={"training": around(0.9, 15)}, rare={"training": [0.6]})
    assert stratum(table, "rare").state == State.TOO_FEW
    assert finding(table) == Finding.NOTHING_FAILS


@pytest.mark.parametrize(("difference", "state"), [(0.09, State.LEVEL), (0.11, State.BEHIND)])
def test_the_threshold_is_ten_points(difference, state):
    table = cases(a={"training": around(0.9, 60, width=0.02)}, b={"training": around(0.9 - difference, 20, width=0.02)})
    assert stratum(table, "b").state == state


@pytest.mark.slow
def test_more_comparisons_ask_for_more_evidence():
    table = cases(a={"training": around(0.9, 20)}, rare={"training": around(0.4, 4)})
    assert finding(table) == Finding.HARD
    noise = {f"column{k}": np.roll(["x", "y"] * 12, k % 2) for k in range(300)}
    wide = pd.concat([table, pd.DataFrame(noise)], axis=1)
    diagnosis = diagnose(wide, by=["site", *noise])
    assert diagnosis.n_comparisons == 2 * (2 * 602 + 1)
    assert diagnosis.finding == Finding.CANNOT_TELL


def test_without_predictions_nothing_is_told():
    table = cases(a={"training": around(0.9, 40)}).drop(columns=["dice_organ", "dice_other"])
    assert finding(table) == Finding.CANNOT_TELL


def test_a_label_that_nobody_has_learnt_ranks_none_behind():
    table = cases(a={"training": around(0.02, 40, width=0.02)}, b={"training": [0.0] * 10})
    assert finding(table) == Finding.NOTHING_FAILS
    assert finding(table.drop(columns="dice_other")) == Finding.CANNOT_TELL


def test_cases_without_the_label_are_left_out():
    table = cases(a={"training": around(0.9, 40)}, b={"training": [*around(0.3, 8), *[np.nan] * 10]})
    assert finding(table) == Finding.HARD
    assert stratum(table, "b").training.n == 8
    empty = cases(a={"training": around(0.9, 40)}, b={"training": [np.nan] * 10})
    assert finding(empty) == Finding.NOTHING_FAILS


def test_equal_dice_everywhere_is_no_difference():
    assert finding(cases(a={"training": [1.0] * 20}, b={"training": [1.0] * 5})) == Finding.NOTHING_FAILS


def test_the_table_is_not_changed_and_must_have_training_cases():
    table = cases(a={"training": around(0.9, 12)})
    before = table.copy()
    diagnose(table, by=["site"])
    pd.testing.assert_frame_equal(table, before)
    with pytest.raises(ValueError, match="`cases` must have training cases, got none"):
        diagnose(table.assign(set="validation"), by=["site"])


def test_probabilities_are_those_of_scipys_exact_test():
    """4 of 24 cases all below: 1 / C(28, 4) is the smallest probability there is."""
    table = cases(a={"training": around(0.9, 24)}, b={"training": around(0.4, 4)})
    assert stratum(table, "b").training.probability == pytest.approx(1 / 20475, rel=0.05)
