import re
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.__main__ import main
from experiments.imbalanced_pair.experiment import (
    RATES,
    compared,
    published_runs,
    results_table,
    short_runs,
)
from experiments.imbalanced_pair.training import METHODS, Outcome, Run
from tests.experiments.made_trainings import needs_digits


@needs_digits
def test_quick_run_of_the_shorter_trainings(tmp_path):
    words = ["imbalanced-pair", "--quick", "--jobs", "1"]
    main([*words, "--out", str(tmp_path), "--work", str(tmp_path / "work")])
    text = (tmp_path / "imbalanced-pair-published.md").read_text()

    assert "Smoke run" in text
    assert not re.search(r"[{}]|nan", text)

    table = pd.read_csv(tmp_path / "imbalanced-pair.csv")
    assert table["method"].tolist() == list(METHODS) * 2

    worst = table[table["ratio"] == "16:1"].set_index("method")
    # 5 of 85 images are 4s.
    assert worst["weight"][["plain", "random"]].to_numpy() == pytest.approx(100 * 5 / 85, abs=1)
    assert worst["weight"][["proportion", "hard mining"]].to_numpy() == pytest.approx(50, abs=3)
    assert worst.loc["resample", "weight"] == pytest.approx(50, abs=1e-4)
    assert 3 * 100 * 5 / 85 < worst.loc["L2RW", "weight"] < 100
    assert worst["effective"][["plain", "resample"]].to_numpy() == pytest.approx(100)
    assert worst["effective"].drop(["plain", "resample"]).between(1, 80).all()
    assert worst.loc["plain", "minus plain"] == worst.loc["resample", "minus resample"] == 0


@needs_digits
def test_quick_run_at_the_published_settings(tmp_path):
    words = ["imbalanced-pair-published", "--quick", "--seeds", "0", "1", "--jobs", "1"]
    main([*words, "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")])

    rows = pd.read_csv(tmp_path / "out" / "imbalanced-pair-published-all.csv")

    assert rows.groupby("images")["n_rare"].unique().map(list).to_dict() == {
        "10:1, 36 4s": [36],
        "40:1, 10 4s": [10],
    }

    table = pd.read_csv(tmp_path / "out" / "imbalanced-pair-published.csv").set_index(
        ["training images", "method"]
    )
    for key, here in rows.groupby(["images", "method"]):
        assert table.loc[key, "error"] == pytest.approx(here["error"].mean())
        difference = here["minus resample"]
        if difference.std() > 0:
            interval = stats.t.interval(0.95, 1, difference.mean(), stats.sem(difference))
            assert table.loc[key, ["low", "high"]].tolist() == pytest.approx(interval)
    text = (tmp_path / "out" / "imbalanced-pair-published.md").read_text()

    assert "Smoke run" in text
    assert not re.search(r"[{}]|nan", text)


def test_runs_cross_everything_with_the_settings_of_the_published_code():
    runs = short_runs(range(5), quick=False)
    assert len(runs) == len(set(runs)) == 6 * 4 * 5 * 2

    lengths = {run.learning_rate * run.steps for run in runs}
    assert lengths == {rate * 320 for rate in RATES} == {1e-3 * 8000, 64}

    runs = published_runs(range(5), quick=False)
    assert len(runs) == len(set(runs)) == 2 * 5 * 5
    assert {(run.learning_rate, run.momentum, run.batch, run.n_train) for run in runs} == {
        (1e-3, 0.9, 100, 5000)
    }
    assert {run.steps for run in runs if run.method == "L2RW"} == {4000}
    assert {run.steps for run in runs if run.method != "L2RW"} == {8000}
    assert {run.n_rare for run in runs} == {25, 455}


def _outcome(rare, common=0.0):
    return asdict(Outcome(rare, common, halfway=20.0, weight=50.0, effective=7.0, seconds=1.0))


def test_compared_pairs_the_methods_of_a_split():
    errors = {
        ("plain", 0): 40,
        ("plain", 1): 20,
        ("resample", 0): 10,
        ("resample", 1): 12,
        ("L2RW", 0): 14,
    }
    errors["L2RW", 1] = 100
    rows = compared(
        [(Run(method, 84, seed, 0.1), _outcome(error)) for (method, seed), error in errors.items()]
    )

    l2rw = rows[rows["method"] == "L2RW"].set_index("seed")

    # An error is the mean of both digits, of which one is 0 here.
    assert l2rw["error"].tolist() == [7, 50]
    assert l2rw["minus plain"].tolist() == [7 - 20, 50 - 10]
    assert l2rw["minus resample"].tolist() == [7 - 5, 50 - 6]
    assert l2rw["lost"].tolist() == [False, True]

    table = results_table(rows).set_index("method")
    assert table.index.tolist() == ["plain", "resample", "L2RW"]
    assert table.loc["L2RW", ["ratio", "4s", "error", "by split"]].tolist() == [
        "84:1",
        5,
        28.5,
        "7.0, 50.0",
    ]
    assert table.loc["L2RW", ["minus plain", "minus resample", "lost"]].tolist() == [13.5, 23, 1]
    assert table.loc["plain", "sd"] == pytest.approx(np.std([20, 10], ddof=1))

    runs = {"plain": 1.25, "resample": 1.2500000186264515, "L2RW": 1.249999994}
    rows = compared(
        [(Run(method, 84, 0, 0.1), _outcome(error, 2.5)) for method, error in runs.items()]
    )

    assert (rows[["minus plain", "minus resample"]] == 0).all(axis=None)
