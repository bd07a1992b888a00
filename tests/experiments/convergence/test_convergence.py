import numpy as np
import pandas as pd
import pytest

from experiments.convergence.__main__ import main
from experiments.convergence.page import verdict
from experiments.convergence.training import moments


def test_the_network_is_tested_after_a_tenth_and_at_the_end():
    assert moments(8000) == [500, 800, 1000, 2000, 4000, 8000]
    assert moments(4) == [1, 2, 4]


def rows(differences, intervals):
    low, high = zip(*intervals, strict=True)
    moments = [500 * 2**power for power in range(len(differences))]
    columns = {"method": "DRO", "iteration": moments, "difference": differences, "low": low, "high": high}
    return pd.DataFrame(columns)


def test_a_gain_that_has_gone_is_a_gain_of_speed():
    found = verdict(rows([10.0, 40.0, 0.2], [(5, 15), (30, 50), (-0.5, 0.9)]), last=2000)
    assert (found["moment"], found["largest"], found["end"], found["left"]) == (1000, 40.0, 0.2, False)


def test_a_gain_whose_interval_is_above_zero_is_left():
    assert verdict(rows([1.0, 2.0], [(0, 2), (0.1, 3.9)]), last=1000)["left"]


def test_one_seed_shows_nothing():
    assert not verdict(rows([1.0, 2.0], [(np.nan, np.nan)] * 2), last=1000)["left"]


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_the_experiment_runs_and_goes_on_where_it_stopped(tmp_path):
    words = ["--quick", "--slices", "--methods", "DRO", "--work", str(tmp_path / "work"), "--out", str(tmp_path)]
    main(words)
    page = (tmp_path / "convergence-slices.md").read_text()
    assert "Smoke run" in page
    assert "`DRO` is `nnUNetTrainerDRO`" in page
    table = pd.read_csv(tmp_path / "convergence-slices-all.csv")
    # Two methods, six moments, three pathologies and three labels.
    assert len(table) == 2 * 6 * 3 * 3
    assert table["mean"].between(0, 1).all()
    np.testing.assert_allclose(table.groupby(["method", "iteration", "label"])["share"].sum(), 1, atol=2e-4)
    (runs,) = (tmp_path / "work").glob("*/finished")
    finished = {path: path.stat().st_mtime_ns for path in runs.iterdir()}
    assert len(finished) == 2
    main(words)
    assert finished == {path: path.stat().st_mtime_ns for path in finished}
