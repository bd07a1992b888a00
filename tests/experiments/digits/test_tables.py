import numpy as np
import pandas as pd

from experiments.digits.results import falls
from experiments.digits.tables import quarters_table, stability_table, trainings_table
from tests.experiments.digits.made_epochs import made_epochs


def test_trainings_table_has_a_row_per_training_with_its_first_and_last_quarter():
    def rare(method, seed, epoch):
        return 10.0 * epoch if method == "ERM" else 2 * epoch + seed

    table = trainings_table(made_epochs(rare, kept=(1.0, 5.0), methods=("ERM", "beta 10")))
    assert table["3s kept"].tolist() == ["1 %"] * 6 + ["5 %"] * 6
    assert table["method"].tolist() == (["ERM"] * 3 + ["beta 10"] * 3) * 2
    assert table["seed"].tolist() == [0, 1, 2] * 4
    erm, other = table.iloc[0], table.iloc[4]
    assert (erm["3s first"], erm["3s last"]) == (15, 75)
    assert (other["3s first"], other["3s last"], other["gain"]) == (4, 16, 16 - 75)
    assert np.isnan(erm["gain"])
    assert not table.drop(columns=["gain", "level by"]).isna().any(axis=None)


def test_level_is_reached_when_five_epochs_have_what_erm_has_in_its_last_quarter():
    def rare(method, seed, epoch):
        if method == "ERM":
            return 40.0 if epoch > 12 else 0.0
        # One epoch at 45 is not enough; from the fourth on, the mean of five is 40 in the eighth.
        return {0: 45.0 if epoch == 2 else 40.0 * (epoch >= 4), 1: 39.0, 2: 40.0}[seed]

    table = trainings_table(made_epochs(rare, methods=("ERM", "beta 10"), n_epochs=16))
    np.testing.assert_array_equal(table["level by"], [np.nan] * 3 + [8, np.nan, 5])


def test_quarters_table_has_the_accuracy_of_erm_and_the_differences_of_the_others():
    def rare(method, seed, epoch):
        return 10 * ((epoch - 1) // 2) + (0 if method == "ERM" else 5 + seed)

    table = quarters_table(made_epochs(rare, kept=(1.0, 5.0), methods=("ERM", "beta 10")))
    assert table[["test images", "3s kept"]].drop_duplicates().to_numpy().tolist() == [
        ["3s", "1 %"],
        ["3s", "5 %"],
        ["all", "1 %"],
        ["all", "5 %"],
    ]
    assert table["method"].tolist() == ["ERM", "beta 10"] * 4
    # The t-quantile of two degrees of freedom times the standard error of 5, 6 and 7.
    differences = ["+6.0 [+3.5, +8.5]"] * 4
    quarters = [f"quarter {quarter}" for quarter in (1, 2, 3, 4)]
    assert table[quarters].to_numpy().tolist()[:2] == [["0.0", "10.0", "20.0", "30.0"], differences]


def test_stability_table_sums_the_falls_of_the_seeds_and_averages_the_standard_deviations():
    def overall(method, seed, epoch):
        return 50 - 2 * (epoch == 3) * (method != "ERM") * (seed > 0)

    epochs = made_epochs(
        lambda *_: 50.0,
        methods=("ERM", "beta 10"),
        n_epochs=20,
        overall=overall,
        loss=lambda method, seed, epoch: epoch,
        loss_sd=lambda method, seed, epoch: seed if epoch == 3 else 0.25,
    )
    erm, other = stability_table(falls(epochs)).to_dict("records")
    assert (erm["method"], erm["mean fall"], erm["falls"], erm["- ERM"]) == ("ERM", 0, 0, "")
    assert np.isnan([erm["SD there"], erm["SD elsewhere"]]).all()
    # A fall of two points in one of four epochs, for two seeds of three.
    assert (other["mean fall"], other["falls"], other["loss rises"], other["last drawn rises"]) == (0.33, 2, 2, 0)
    assert other["- ERM"].startswith("+0.3 [-0.4, +1.1]")
    # Of the two seeds with a fall.
    assert (other["SD there"], other["SD elsewhere"]) == (1.5, 0.25)


def test_tables_are_the_same_from_the_file():
    # Whole shares are whole numbers when they are read again.
    epochs = made_epochs(lambda method, seed, epoch: epoch / 3, kept=(1.0, 5.0))
    again = epochs.astype({"kept": int})
    pd.testing.assert_frame_equal(quarters_table(epochs), quarters_table(again))
    pd.testing.assert_frame_equal(trainings_table(epochs), trainings_table(again))
