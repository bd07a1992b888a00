import numpy as np
import pandas as pd
import pytest

from nnunet_dro.trainers.l2rw.weights_log import WeightsLog, running_means
from tests.trainers.draws import cases_of_step

CASES = ["case, one", "001", "NA", "d\u2028e"]


def step(indices, weights):
    """With relative weights, 1 being what plain training gives to every case."""
    return cases_of_step(indices, weights=np.array(weights) / max(1, len(weights)))


def read(folder):
    return pd.read_csv(
        folder / "weights.csv",
        dtype={"case": str},
        keep_default_na=False,
        na_values={"weight": [""]},
    )


def test_csv_has_the_mean_weight_of_each_case(tmp_path):
    log = WeightsLog(CASES, trusted=[])
    log.record(step([0, 1], [0.0, 2.0]))
    log.record(step([0, 3], [1.5, 0.5]))
    log.record(step([3, 3], [0.25, 1.75]))
    log.end_epoch(7, tmp_path)

    rows = read(tmp_path)

    assert list(rows.columns) == ["epoch", "case", "weight", "times_seen"]
    assert rows["case"].tolist() == CASES
    assert rows["epoch"].tolist() == [7] * 4
    assert rows["times_seen"].tolist() == [2, 1, 0, 3]
    np.testing.assert_allclose(rows["weight"], [0.75, 2.0, np.nan, 2.5 / 3], rtol=1e-5)

    means = {0: np.array([1.0, np.nan], np.float32), 2: np.array([4.0, 2.0], np.float32)}
    times = {0: np.array([1, 0]), 2: np.array([2, 5])}
    running = running_means(means, times, np.array([0, 2]))

    np.testing.assert_allclose(running, [[1.0, np.nan], [3.0, 2.0]])


def test_summary_counts_steps_and_zero_weights(tmp_path):
    log = WeightsLog(CASES, trusted=[])
    log.record(step([0, 1], [0.0, 2.0]))
    log.record(step([0, 3], [0.0, 0.0]))
    log.record(step([1, 3], [1.25, 0.75]))

    (line,) = log.end_epoch(0, tmp_path)

    assert log.rows == [{"epoch": 0, "n_steps": 2, "n_without_step": 1, "zero_share": 0.5}]
    assert log.lowest() == [
        ("case, one", 0.0),
        (CASES[3], pytest.approx(0.375)),
        ("001", pytest.approx(1.625)),
    ]

    said = "2 of 3 iterations made a step, zero weights 50.0 %, lowest so far: case, one (0.000)"
    assert line.startswith(f"Weights: {said}")

    log.end_epoch(1, tmp_path)
    assert (log.rows[-1]["n_steps"], log.rows[-1]["n_without_step"]) == (0, 0)
    assert np.isnan(log.rows[-1]["zero_share"])
    assert read(tmp_path)["times_seen"].tolist() == [2, 2, 0, 2, 0, 0, 0, 0]
    assert log.lowest()[0] == ("case, one", 0.0), "over all epochs so far"


def test_a_changed_case_list_keeps_the_weights_by_name(tmp_path):
    first = WeightsLog(CASES, trusted=["001"])
    for epoch, indices in enumerate(([0, 1], [1, 2])):
        first.record(step(indices, [0.5, 1.5]))
        first.end_epoch(epoch, tmp_path)
    log = WeightsLog(["new", "001"], trusted=[])
    log.load_state_dict(first.state_dict())
    log.keep_epochs_before(2, tmp_path)

    log.end_epoch(2, tmp_path)

    assert log.lowest() == [("001", pytest.approx((1.5 + 0.5) / 2))]
    assert len(read(tmp_path)) == 2 * len(CASES) + 2, "what was written stays"
