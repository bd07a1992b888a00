import math

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.inspection.doctor.comparisons import State
from nnunet_dro.inspection.doctor.rules import Finding, diagnose

from .made_cases import around, cases


def diagnosis_of(table: pd.DataFrame, by=("site",), *, n_iterations=250_000):
    return diagnose(table.drop(columns=list(by)), table[list(by)], n_iterations=n_iterations)


def finding(table: pd.DataFrame, **options) -> Finding:
    return diagnosis_of(table, **options).finding


def stratum(table: pd.DataFrame, name: str):
    return next(s for s in diagnosis_of(table).strata if s.name == name)


def test_a_stratum_that_is_low_on_training_cases_is_hard_to_learn():
    table = cases(
        a={"training": around(0.9, 80)},
        rare={"training": around(0.2, 6), "validation": around(0.1, 4)},
    )
    assert finding(table) == Finding.HARD

    rare = stratum(table, "rare")
    assert rare.state == State.BEHIND
    assert rare.training.label == "organ"
    assert rare.training.difference == pytest.approx(0.7)
    # All 80 x 6 pairs have the rare case below: one of all choices of 6 of 86 ranks.
    assert rare.training.probability == pytest.approx(1 / math.comb(86, 6))
    assert finding(table, n_iterations=1_000) == Finding.HARD, (
        "a short training can tell what fails"
    )


def with_size_and_contrast(table: pd.DataFrame, *, follows: bool):
    """The Dice of the organ follows the size, or size and contrast say nothing of it."""
    rng = np.random.default_rng(0)
    size = table["dice_organ"].rank().to_numpy() if follows else rng.permutation(len(table))
    return table.assign(voxels_organ=10 + size, contrast_organ=1 + rng.random(len(table)))


def test_what_size_and_contrast_explain_is_small_or_faint():
    table = cases(
        a={"training": [*np.linspace(0.1, 0.9, 60)]},
        faint={"training": [*np.linspace(0.1, 0.5, 40)]},
    )
    assert finding(with_size_and_contrast(table, follows=False)) == Finding.HARD

    diagnosis = diagnosis_of(with_size_and_contrast(table, follows=True))
    assert diagnosis.finding == Finding.SMALL_OR_FAINT
    assert diagnosis.explanation.label == "organ"
    assert diagnosis.explanation.share > 0.9
    assert diagnosis.explanation.low < diagnosis.explanation.high - 0.3


def test_large_organs_that_are_hard_are_not_small():
    table = cases(a={"training": [*np.linspace(0.1, 0.9, 60)]})
    falling = with_size_and_contrast(table, follows=True)

    falling["voxels_organ"] = falling["voxels_organ"].max() - falling["voxels_organ"]

    diagnosis = diagnosis_of(falling)
    assert diagnosis.explanation is None
    assert diagnosis.finding != Finding.SMALL_OR_FAINT


def test_a_stratum_that_is_behind_beyond_its_size_is_hard_to_learn():
    """Its organs are as large as those of the others."""
    table = with_size_and_contrast(
        cases(a={"training": [*np.linspace(0.3, 0.9, 80)]}), follows=True
    )
    rare = table.sample(12, random_state=0).assign(
        site="rare", case=lambda rows: "rare_" + rows["case"]
    )

    rare["dice_organ"] -= 0.3

    assert finding(pd.concat([table, rare], ignore_index=True)) == Finding.HARD


def test_a_rare_stratum_of_small_organs_alone_explains_nothing():
    table = cases(a={"training": around(0.9, 80)}, rare={"training": around(0.2, 6)})
    table = with_size_and_contrast(table, follows=False)

    table.loc[table["site"] == "rare", "voxels_organ"] = 5

    assert finding(table) == Finding.HARD


USUAL = {"training": around(0.9, 40), "validation": around(0.88, 10)}
LEVEL = {"training": around(0.88, 10), "validation": around(0.88, 4)}
LOW_IN_VALIDATION = {"training": around(0.9, 6), "validation": around(0.3, 5)}


@pytest.mark.parametrize(
    ("expected", "state", "usual", "rare"),
    [
        (Finding.NOTHING_FAILS, State.LEVEL, USUAL, LEVEL),
        (Finding.NOT_CARRIED_OVER, State.NOT_CARRIED_OVER, USUAL, LOW_IN_VALIDATION),
        # Chance may explain the difference.
        (
            Finding.CANNOT_TELL,
            State.SUSPICION,
            {"training": around(0.9, 22)},
            {"training": [0.2, 0.3]},
        ),
        # So few cases cannot tell, and decide nothing.
        (Finding.NOTHING_FAILS, State.TOO_FEW, {"training": around(0.9, 15)}, {"training": [0.6]}),
        # 3 points are less than what counts as behind; with p = 0.002 they are not nothing.
        (
            Finding.NOTHING_FAILS,
            State.LOWER,
            {"training": around(0.9, 40)},
            {"training": around(0.87, 15)},
        ),
    ],
)
def test_a_rare_stratum_has_a_state_and_decides_the_finding(expected, state, usual, rare):
    table = cases(a=usual, rare=rare)
    assert finding(table) == expected
    assert stratum(table, "rare").state == state
    if expected == Finding.NOTHING_FAILS:
        assert stratum(table, "a").state == State.LEVEL


def test_a_network_that_fails_all_validation_cases_has_not_carried_over():
    diagnosis = diagnosis_of(
        cases(a={"training": around(0.9, 20), "validation": around(0.5, 8)}), by=()
    )
    assert diagnosis.finding == Finding.NOT_CARRIED_OVER
    assert diagnosis.those(State.NOT_CARRIED_OVER)[0].name == "all cases"


def test_scattered_low_cases_are_outliers_sorted_by_their_distance():
    table = cases(
        a={"training": [*around(0.9, 50), 0.3, 0.1]}, b={"training": [*around(0.9, 50), 0.2]}
    )
    diagnosis = diagnosis_of(table)

    assert diagnosis.finding == Finding.OUTLIERS
    assert [o.case for o in diagnosis.outliers] == ["a_t051", "b_t050", "a_t050"]
    assert diagnosis.outliers[0].limit == pytest.approx(0.9 - 0.2, abs=0.01)


def of_training(**strata):
    return {name: {"training": dice} for name, dice in strata.items()}


NO_LABEL = [np.nan] * 10
WITH_OUTLIERS = [*around(0.9, 80), *around(0.1, 16)]


@pytest.mark.parametrize(
    ("expected", "strata"),
    [
        # One outlier is none, and several must be 1 % of the cases.
        (Finding.NOTHING_FAILS, of_training(a=[*around(0.9, 50), 0.1])),
        (Finding.NOTHING_FAILS, of_training(a=[*around(0.9, 300), 0.1, 0.2])),
        (Finding.OUTLIERS, of_training(a=[*around(0.9, 150), 0.1, 0.2])),
        # With wrong labels everywhere, a stratum that is behind and has fewer cases must not be
        # what is trained for.
        (Finding.HARD, of_training(a=WITH_OUTLIERS[:85], rare=around(0.3, 15))),
        (Finding.OUTLIERS, of_training(a=WITH_OUTLIERS, rare=around(0.3, 15))),
        # Few training cases tell nothing.
        *(
            (Finding.CANNOT_TELL, {"a": {"training": around(0.9, n), "validation": around(0.2, 5)}})
            for n in (1, 2, 9)
        ),
        # Cases without the label are left out.
        (Finding.NOTHING_FAILS, of_training(a=around(0.9, 40), b=NO_LABEL)),
        # Equal Dice everywhere is no difference.
        (Finding.NOTHING_FAILS, of_training(a=[1.0] * 20, b=[1.0] * 5)),
    ],
)
def test_finding_of_outliers_few_cases_and_missing_labels(expected, strata):
    assert finding(cases(**strata)) == expected


def test_cases_without_the_label_do_not_count():
    table = cases(**of_training(a=around(0.9, 40), b=[*around(0.3, 8), *NO_LABEL]))
    assert finding(table) == Finding.HARD
    assert stratum(table, "b").training.n == 8


@pytest.mark.parametrize(("difference", "state"), [(0.09, State.LOWER), (0.11, State.BEHIND)])
def test_the_threshold_is_ten_points(difference, state):
    table = cases(
        a={"training": around(0.9, 60, width=0.02)},
        b={"training": around(0.9 - difference, 20, width=0.02)},
    )
    assert stratum(table, "b").state == state


def test_the_comparison_that_is_shown_is_the_one_that_decides():
    """The label with the largest difference need not be the one with the evidence."""
    table = cases(a={"training": around(0.9, 40)}, b={"training": around(0.84, 6)})
    spread = np.linspace(0.5, 1.0, 46)
    spread[40:] = [0.99, 0.98, 0.97, 0.5, 0.1, 0.3]
    table = table.assign(dice_other=spread)

    found = stratum(table, "b")

    assert found.state == State.LOWER
    assert found.training.label == "organ"


@pytest.mark.parametrize(("n_iterations", "dice"), [(250_000, 0.55), (4_999, 0.9), (100, 0.55)])
def test_a_short_or_low_training_cannot_tell_that_nothing_fails(n_iterations, dice):
    table = cases(a={"training": around(dice, 40)}, b={"training": around(dice, 10)})
    diagnosis = diagnosis_of(table, n_iterations=n_iterations)

    assert diagnosis.finding == Finding.CANNOT_TELL
    assert diagnosis.is_short == (n_iterations < 5_000)
    assert list(diagnosis.low) == (["organ"] if dice < 0.6 else [])
    assert finding(table.assign(dice_organ=0.9), n_iterations=5_000) == Finding.NOTHING_FAILS


@pytest.mark.slow
def test_more_comparisons_ask_for_more_evidence():
    table = cases(a={"training": around(0.9, 20)}, rare={"training": around(0.4, 4)})
    assert finding(table) == Finding.HARD

    noise = {f"column{k}": np.roll(["x", "y"] * 12, k % 2) for k in range(300)}
    diagnosis = diagnosis_of(pd.concat([table, pd.DataFrame(noise)], axis=1), ["site", *noise])

    assert diagnosis.n_comparisons == 2 * (2 * 602 + 1)
    assert diagnosis.finding == Finding.CANNOT_TELL


def test_a_label_that_nobody_has_learnt_or_predicted_ranks_none_behind():
    table = cases(a={"training": around(0.02, 40, width=0.02)}, b={"training": [0.0] * 10})
    assert {s.state for s in diagnosis_of(table).strata} == {State.LEVEL}
    assert finding(table) == finding(table.drop(columns="dice_other")) == Finding.CANNOT_TELL

    table = cases(a={"training": around(0.9, 40)})
    assert finding(table.drop(columns=["dice_organ", "dice_other"])) == Finding.CANNOT_TELL


def test_the_table_is_not_changed_and_must_have_training_cases():
    table = cases(a={"training": around(0.9, 12)})
    before = table.copy()

    diagnosis_of(table)

    pd.testing.assert_frame_equal(table, before)
    with pytest.raises(ValueError, match="`cases` must have training cases, got none"):
        diagnosis_of(table.assign(set="validation"))
