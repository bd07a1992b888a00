import re

import numpy as np
import pandas as pd
import pytest

from experiments.__main__ import main
from experiments.reweighting_limits.descent import Setting, Trajectory, summary
from experiments.reweighting_limits.experiment import of_networks, results_table
from experiments.reweighting_limits.networks import Network
from tests.experiments.made_trainings import needs_digits


@needs_digits
def test_quick_run_writes_the_record_and_shows_the_claims(tmp_path, capsys):
    words = ["reweighting-limits", "--quick", "--jobs", "1", "--work", str(tmp_path / "work")]
    main([*words, "--out", str(tmp_path)])
    page = tmp_path / "reweighting-limits.md"

    assert capsys.readouterr().out == f"{page}\n"

    text = page.read_text()
    assert "Smoke run" in text
    assert not re.search(r"[{}]", text)

    table = pd.read_csv(tmp_path / "reweighting-limits.csv").set_index(["setting", "step"])
    last = table.groupby("setting").last()
    tails = [name for name in last.index if name.startswith("polynomial tail")]

    assert len(tails) == 3

    for method in ("weighting", "Group DRO"):
        weights, directions, functions = (
            f"{what}, {method}" for what in ("weights", "directions", "functions")
        )
        assert last.loc["squared loss", weights] < 1e-4 * table.loc[("squared loss", 10), weights]
        assert (
            last.loc["squared loss, mu 0.1", weights]
            < 0.1 * last.loc["squared loss, mu 10", weights]
        )
        for tail in tails:
            assert last.loc["logistic loss", directions] < 0.5 * last.loc[tail, directions]
            assert last.loc[tail, directions] == pytest.approx(
                last.loc[tail, f"limit, {method}"], rel=0.1
            )
        narrow, wide = (
            last.loc[[f"network, {units} units, seed {seed}" for seed in (0, 1)], functions].mean()
            for units in (16, 128)
        )
        assert wide < 0.5 * narrow
    assert "Seeds 0, 1. " in text
    for published in ("about 0.63", "about 0.06", "more than 0.22"):
        assert published in text
    assert "not differentiable" in text
    assert str(tmp_path) not in text.split("## How it was made")[0]


def test_rows_are_the_powers_of_ten_with_distances_to_erm():
    # Weights (3, 4) of ERM, with the others 1 and 2 away from them, after 5 and 10 steps.
    weights = np.array([[3.0, 4], [3, 5], [5, 4]])
    of_groups = np.tile([[0.8, 0.2], [0.5, 0.5], [0.4, 0.6]], (2, 1, 1))
    found = summary(
        Trajectory(
            np.array([5, 10]), np.stack([weights / 2, weights]), np.ones((2, 3, 6)), of_groups
        )
    )
    runs = {
        "one": (Setting("one", "squared loss", 10), found),
        "tail": (Setting("tail", "squared loss", 10, polynomial=True), found),
        "network, 64 units, seed 7": (Network(64, 7, 10), found | {"functions": [0.5, 2.0]}),
    }
    table = results_table(runs, (0.2, 0.3))

    row, tail, _ = table.to_dict("records")

    assert (row["setting"], row["step"], row["norm, ERM"]) == ("one", 10, 5)
    assert (row["weights, weighting"], row["weights, Group DRO"]) == (1, 2)
    assert row["weight of the 1"] == 0.6
    assert np.isnan([row["limit, weighting"], row["functions, weighting"]]).all()
    assert (tail["limit, weighting"], tail["limit, Group DRO"]) == (0.2, 0.3)

    (network,) = of_networks(table).to_dict("records")
    assert (network["units"], network["seed"]) == (64, 7)
    assert (network["functions, weighting"], network["functions, Group DRO"]) == (0.5, 2)
