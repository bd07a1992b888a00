import numpy as np
import pandas as pd
import pytest

from experiments.convergence.__main__ import convergence_study, main, roles_in
from experiments.convergence.page import page_text, verdict
from experiments.convergence.training import moments
from experiments.curves import differences


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


def made_page(dice):
    """The page of three seeds where the rare cerebellum has this Dice by method, and everything else 0.9."""
    study = convergence_study(quick=False, slices=False)
    rows = [
        (method, method, seed, iteration, stratum, "cerebellum", values[seed] if stratum == "rare" else 0.9)
        for method, values in dice.items()
        for seed in range(3)
        for iteration in (800, 4000, 8000)
        for stratum in study.strata
    ]
    columns = ["method", "trainer", "seed", "iteration", "stratum", "label", "mean"]
    scores = pd.DataFrame(rows, columns=columns).assign(n=40, p10=0.2, share=0.3)
    collapsed = scores[scores["mean"] == 0][["method", "seed"]].drop_duplicates().apply(tuple, axis=1)
    scores.loc[scores[["method", "seed"]].apply(tuple, axis=1).isin(list(collapsed)), "mean"] = 0.0
    roles = roles_in(study)
    return page_text(differences(scores, roles), scores, roles, study=study, iterations=8000, seeds=[0, 1, 2])


def test_collapsed_trainings_are_counted_and_left_out_once_more():
    page = made_page({"plain": (0.5, 0.0, 0.5), "DRO": (0.6, 0.6, 0.6), "IW": (0.7, 0.7, 0.7)})
    assert "plain 1 of 3, DRO 0 of 3, IW 0 of 3. Without them" in page
    first, second = page.split("Without them")
    assert "at the end it is +26.7" in first
    assert "at the end it is +10.0" in second


def test_nothing_is_said_of_collapsed_trainings_where_there_is_none():
    assert "Without them" not in made_page({"plain": (0.5, 0.4, 0.5), "IW": (0.7, 0.7, 0.7)})


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
