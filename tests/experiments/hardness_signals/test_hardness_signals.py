import json
import os
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from experiments.__main__ import main
from experiments.hardness_signals.measurement import (
    add_configurations,
    share_between,
    signal_row,
    variance_parts,
)


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_the_experiment_runs(tmp_path, capsys):
    words = ["hardness-signals", "--quick", "--jobs", "1"]
    with mock.patch.dict(os.environ):  # a run sets the variables of its process
        code = main([*words, "--out", str(tmp_path), "--work", str(tmp_path)])

    assert code == 0
    assert "2 runs to make" in capsys.readouterr().err

    table = pd.read_csv(tmp_path / "hardness-signals.csv")
    assert len(table) == 2 * 2 * 4

    is_pooled = table["signal"] == "hardPooled"
    assert table.loc[is_pooled, "share, momentum 0.9"].isna().all(), (
        "pooled patches are not independent"
    )

    shares = table.loc[~is_pooled, [f"share, momentum {m}" for m in ("0", "0.5", "0.9")]]
    assert (shares.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    assert ((shares >= 0) & (shares <= 1)).all(axis=None)
    assert "Smoke run" in (tmp_path / "hardness-signals.md").read_text()


def test_an_empty_slice_is_told_from_a_hard_case():
    rng = np.random.default_rng(0)
    case = np.repeat(np.arange(20), 30)
    hardness_of_case = rng.normal(size=20)
    is_empty = rng.random(len(case)) < 0.3
    values = pd.DataFrame(
        {"case": case, "has_foreground": ~is_empty, "whole": hardness_of_case[case]}
    )
    # One signal looks for empty slices, the other for hard cases.
    values["loss"] = np.where(is_empty, 10.0, 0.0) + rng.normal(size=len(case))
    values["hardPooled"] = hardness_of_case[case] + 0.01 * rng.normal(size=len(case))
    values.loc[:4, "hardPooled"] = np.nan
    is_rare = hardness_of_case[case] > np.median(hardness_of_case)

    rows = {signal: signal_row(values, signal, is_rare) for signal in ("loss", "hardPooled")}

    assert rows["loss"]["empty patch is harder"] > 0.99
    assert abs(rows["loss"]["rank correlation with the whole case"]) < 0.15
    assert rows["hardPooled"]["empty patch is harder"] == pytest.approx(0.5, abs=0.06)
    assert rows["hardPooled"]["rank correlation with the whole case"] > 0.99
    assert rows["hardPooled"]["rare patch is harder"] > 0.99
    assert rows["hardPooled"]["share, momentum 0"] > 0.99
    assert np.isnan(rows["hardPooled"]["share, momentum 0.9"])


def test_slices_are_cut_from_the_volumes_that_were_preprocessed(tmp_path):
    inherited = {
        "arch_kwargs": {
            "n_stages": 4,
            "kernel_sizes": [[3, 3]] * 4,
            "strides": [[1, 1]] + [[2, 2]] * 3,
        }
    }
    planned = {"2d": {"patch_size": [56, 40], "architecture": inherited}}
    planned["3d_fullres"] = {"data_identifier": "nnUNetPlans_3d_fullres"}
    path = tmp_path / "plans.json"
    path.write_text(json.dumps({"configurations": planned}))
    add_configurations(path, [(16, 16), (12, 12, 12)])

    configurations = json.loads(path.read_text())["configurations"]

    assert configurations["16x16"]["data_identifier"] == "nnUNetPlans_3d_fullres"
    assert configurations["16x16"]["patch_size"] == [16, 16]
    assert configurations["12x12x12"]["inherits_from"] == "3d_fullres_small"


def test_variance_is_split_between_and_within_cases():
    rng = np.random.default_rng(0)
    cases = np.repeat(np.arange(400), rng.integers(5, 40, size=400))
    values = rng.normal(0, 0.3, size=400)[cases] + rng.normal(0, 0.8, size=len(cases))

    between, within = variance_parts(values, cases)

    assert between == pytest.approx(0.09, rel=0.15)
    assert within == pytest.approx(0.64, rel=0.05)

    # Means 1 and 3, mean squares between 8 and within 2 / 3.
    between, within = variance_parts(
        np.array([0.5, 1.5, 1.0, 2.0, 4.0, 3.0]), np.array([7, 7, 7, 2, 2, 2])
    )
    assert within == pytest.approx((0.25 + 0.25 + 1 + 1) / 4)
    assert between == pytest.approx((3 * 2 * 1**2 - within) / 3)
    assert variance_parts(np.array([0.0, 2.0, 0.0, 2.0]), np.array([0, 0, 1, 1]))[0] == 0


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_history_shrinks_what_is_within_a_case(momentum):
    rng = np.random.default_rng(0)
    history = noise = rng.normal(0, 2, size=5000)
    for _ in range(100):
        noise = rng.normal(0, 2, size=5000)
        history = momentum * history + (1 - momentum) * noise

    simulated = 1 / (1 + history.var())

    assert share_between(1.0, 4.0, momentum=momentum) == pytest.approx(simulated, rel=0.05)
