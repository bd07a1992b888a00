import numpy as np
import pandas as pd
import pytest

from nnunet_dro.trainers.l2rw import weights_log
from nnunet_dro.trainers.l2rw.weights_log import WeightsLog, running_means
from nnunet_dro.trainers.log import pace
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
    log.record(step([1, 3], [np.nan, np.nan]))  # of an image with NaN, for example

    (line,) = log.end_epoch(0, tmp_path)

    assert log.rows == [{"epoch": 0, "n_steps": 2, "n_without_step": 2, "zero_share": 0.5}]
    assert log.lowest() == [
        ("case, one", 0.0),
        (CASES[3], pytest.approx(0.375)),
        ("001", pytest.approx(1.625)),
    ]

    said = "2 of 4 iterations made a step, zero weights 50.0 %, lowest so far: case, one (0.000)"
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


#: Few rows and epochs, so that the log of a small training is thinned.
N_THINNED = 12


@pytest.fixture
def thinned(monkeypatch):
    """Logs of 12 epochs get the rows of four cases every fourth epoch, and at the end."""
    monkeypatch.setattr(pace, "MOST_ROWS", 12)
    monkeypatch.setattr(pace, "FEWEST_EPOCHS", 3)
    monkeypatch.setattr(weights_log, "save_picture", lambda *_: None)


def thinned_log():
    return WeightsLog(CASES, trusted=[], n_epochs=N_THINNED)


def write_epochs(folder, log, *, start=0, end=N_THINNED):
    for epoch in range(start, end):
        log.record(step([0, epoch % 4], [0.5 + epoch, 1.0]))
        log.end_epoch(epoch, folder)


def test_a_large_log_has_every_so_many_epochs_and_their_means(tmp_path, thinned):
    log = thinned_log()

    write_epochs(tmp_path, log)
    rows = read(tmp_path)
    fourth = rows.query("epoch == 4 and case == 'case, one'")

    assert rows["epoch"].unique().tolist() == [0, 4, 8, 11]
    assert rows.groupby("epoch")["times_seen"].sum().tolist() == [2, 8, 8, 6]
    # The epochs 1 to 4 have given it 1.5, 2.5, 3.5, 4.5, and the last one 1.0 as well.
    assert fourth["weight"].item() == pytest.approx(13 / 5)
    assert [row["epoch"] for row in log.rows] == list(range(N_THINNED))


@pytest.mark.parametrize("at", range(1, N_THINNED))
def test_a_resumed_large_log_is_that_of_a_whole_training(tmp_path, thinned, at):
    """The checkpoint is older than the log: what was written since is written again."""
    (tmp_path / "whole").mkdir()
    whole = thinned_log()
    write_epochs(tmp_path / "whole", whole)
    first = thinned_log()
    write_epochs(tmp_path, first, end=at)
    state = first.state_dict()
    write_epochs(tmp_path, first, start=at)

    resumed = thinned_log()
    resumed.load_state_dict(state)
    resumed.keep_epochs_before(at, tmp_path)
    write_epochs(tmp_path, resumed, start=at)

    expected = (tmp_path / "whole" / "weights.csv").read_bytes()
    assert (tmp_path / "weights.csv").read_bytes() == expected
    assert resumed.lowest() == whole.lowest()
    np.testing.assert_equal(resumed.rows, whole.rows)
