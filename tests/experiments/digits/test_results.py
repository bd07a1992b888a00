from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.digits import results
from experiments.digits.plan import Run
from experiments.digits.training import Epoch
from tests.experiments.digits.made_epochs import made_epochs


def test_epochs_table_is_in_the_order_of_share_beta_and_seed():
    def result(run):
        numbers = [[100 * run.share, beta, run.seed] + [0.0] * 6 for beta in run.betas]
        return {
            "epochs": [[asdict(Epoch(epoch, *of)) for epoch in (1, 2, 4)] for of in numbers],
            "seconds": 1.0,
        }

    runs = [Run(share, (10.0, 0.0), seed, 4) for seed in (1, 0) for share in (0.05, 0.01)]

    table = results.epochs_table([(run, result(run)) for run in runs])

    assert list(table)[:5] == ["kept", "method", "seed", "epoch", "rare"]
    assert len(table) == 2 * 2 * 2 * 3

    trainings = table.drop_duplicates(["kept", "method", "seed"])
    assert trainings["kept"].tolist() == [1.0] * 4 + [5.0] * 4
    assert trainings["method"].tolist() == (["ERM"] * 2 + ["beta 10"] * 2) * 2
    assert trainings["seed"].tolist() == [0, 1] * 4
    assert table["epoch"].tolist() == [1, 2, 4] * 8
    # The numbers are those of the training.
    assert table["rare"].tolist() == table["kept"].tolist()
    assert table["overall"].tolist() == [
        0.0 if method == "ERM" else 10.0 for method in table["method"]
    ]
    assert table["drawn"].tolist() == table["seed"].tolist()


def test_quarters_are_those_of_the_epochs_also_from_the_file():
    epochs = made_epochs(lambda method, seed, epoch: 0.0, methods=("ERM",), seeds=(0,))
    assert results.quarter_of(epochs).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]

    measured = epochs[epochs["epoch"].isin([1, 2, 4, 6, 8])]
    assert results.quarter_of(measured).tolist() == [1, 1, 2, 3, 4]

    # Whole shares are whole numbers when they are read again.
    epochs = made_epochs(lambda method, seed, epoch: epoch / 3, kept=(1.0, 5.0))
    again = epochs.astype({"kept": int})

    pd.testing.assert_frame_equal(results.quarters_table(epochs), results.quarters_table(again))
    pd.testing.assert_frame_equal(results.trainings_table(epochs), results.trainings_table(again))


def test_gains_are_differences_to_erm_by_seed_with_a_t_interval():
    gained = {0: 1.0, 1: 2.0, 2: 6.0}

    def rare(method, seed, epoch):
        # The seeds differ by far more than the methods.
        return 20.0 * seed + (0 if method == "ERM" or epoch <= 6 else gained[seed])

    found = results.gains(made_epochs(rare)).set_index(["label", "stratum", "iteration", "method"])

    last = found.loc["3s", "1 %", 4, "beta 10"]

    assert (last["mean"], last["difference"]) == (pytest.approx(23), pytest.approx(3))

    half = stats.t.ppf(0.975, 2) * np.std([1, 2, 6], ddof=1) / np.sqrt(3)
    assert (last["low"], last["high"]) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert found.loc[("3s", "1 %", 3, "beta 10"), "difference"] == 0
    assert found.loc[("all", "1 %", 4, "beta 10"), "mean"] == 50


def test_a_plateau_asks_for_less_than_a_point_and_for_3s_that_are_fitted():
    def rare(method, seed, epoch):
        # Means over the seeds rise by 0.9, 1.1 and 0 points in the last quarter.
        return 50 + (epoch > 6) * {"ERM": 0.9 * seed, "beta 10": 1.1 * seed, "beta 100": 0}[method]

    def rare_loss(method, seed, epoch):
        return {"ERM": 0.04, "beta 10": 0.04, "beta 100": 0.06}[method] if epoch > 6 else 1.0

    found = results.plateaus(made_epochs(rare, rare_loss=rare_loss)).set_index("method")

    assert found["reached"].to_dict() == {"ERM": True, "beta 10": False, "beta 100": False}
    assert found["rise"].to_dict() == pytest.approx({"ERM": 0.9, "beta 10": 1.1, "beta 100": 0})
    assert found["rare_loss"].tolist() == pytest.approx([0.04, 0.04, 0.06])


def test_falls_are_counted_in_the_first_quarter_with_the_loss_there():
    # The first quarter has five epochs; the fall of the sixth is none of its.
    overall = [60, 57, 57.5, 56.8, 55.8, 10]
    loss = [1.0, 1.1, 1.3, 1.2, 1.1, 9]
    stale = [1.0, 0.9, 0.8, 0.9, 1.0, 9]
    sd = [9.0, 0.4, 0.1, 0.3, 0.6, 9]

    def of(values):
        return lambda method, seed, epoch: values[min(epoch, 6) - 1]

    others = {"overall": of(overall), "loss": of(loss), "stale_loss": of(stale), "loss_sd": of(sd)}
    epochs = made_epochs(of([0.0] * 6), n_epochs=20, **others)

    fallen = results.falls(epochs)

    assert len(fallen) == 9

    row = fallen.iloc[0]
    # Falls of 3, 0.7 and 1 points; two of them are a point or more.
    assert row["fall"] == pytest.approx((3 + 0 + 0.7 + 1) / 4)
    assert row[["falls", "loss_rises", "stale_rises"]].tolist() == [2, 1, 1]
    assert (row["sd_there"], row["sd_elsewhere"]) == (pytest.approx(0.5), pytest.approx(0.2))

    # A stable training has none.
    fallen = results.falls(made_epochs(lambda method, seed, epoch: 0.0, n_epochs=20))
    assert (fallen[["fall", "falls", "loss_rises", "stale_rises"]] == 0).all(axis=None)
    assert fallen["sd_there"].isna().all()
    assert (results.fall_differences(fallen)["difference"].dropna() == 0).all()


def test_a_smaller_rate_is_compared_within_beta_and_seed():
    methods = ("ERM", "beta 100", "ERM, rate 0.003", "beta 100, rate 0.003")

    def overall(method, seed, epoch):
        # The largest beta falls by 4 points every second epoch, and with the smaller rate by 1 plus
        # that of its seed.
        return (
            50.0
            if "beta" not in method
            else 50 + epoch % 2 * (1 + seed / 10 if "rate" in method else 4)
        )

    found = results.calmed(
        results.falls(made_epochs(overall, overall=overall, methods=methods, n_epochs=20))
    )

    assert found["method"].tolist() == ["ERM", "ERM", "beta 100", "beta 100"]
    # Five epochs, so four steps, of which two are falls.
    assert found["change"].tolist() == pytest.approx([0, 0, (1.1 - 4) / 2, 2 * (1.1 - 4)])

    low, high = stats.t.interval(0.95, 2, (1.1 - 4) / 2, 0.05 / np.sqrt(3))
    assert found.loc[2, ["low", "high"]].tolist() == pytest.approx([low, high])


def test_level_is_reached_when_five_epochs_have_what_erm_has_at_its_end():
    def rare(method, seed, epoch):
        if method == "ERM":
            return 40.0 if epoch > 12 else 0.0
        # One epoch at 45 is not enough; from the fourth on, the mean of five is 40 in the eighth.
        return {0: 45.0 if epoch == 2 else 40.0 * (epoch >= 4), 1: 39.0, 2: 40.0}[seed]

    table = results.trainings_table(made_epochs(rare, methods=("ERM", "beta 10"), n_epochs=16))

    np.testing.assert_array_equal(table["level by"], [np.nan] * 3 + [8, np.nan, 5])


def test_distance_is_compared_with_that_of_the_next_smaller_beta():
    def rare(method, seed, epoch):
        # On one side of ERM and then on the other.
        return 50 + {"ERM": 0, "beta 0.1": 1, "beta 10": 4 + seed}[method] * (-1) ** epoch

    table = results.distances(
        made_epochs(rare, methods=("beta 10", "ERM", "beta 0.1"), kept=(5.0,))
    )

    assert table["method"].tolist() == ["beta 0.1", "beta 10"]
    assert table["distance"].tolist() == [1, 5]
    assert np.isnan(table["more"].iloc[0])
    assert table["more"].iloc[1] == pytest.approx(4)
    assert table["low"].iloc[1] == pytest.approx(4 - stats.t.ppf(0.975, 2) / np.sqrt(3))
