"""Logs of earlier versions can be read."""

import shutil

import pandas as pd
import pytest

from tests.kept.folders import VERSION_0_2

from .made_folds import fold_folder, run


@pytest.mark.parametrize(
    ("trainer", "first"),
    [
        ("nnUNetTrainerDRO_2epochs_4iters", "loss"),
        ("nnUNetTrainerL2RW_2epochs_4iters", "weight"),
    ],
)
def test_logs_of_version_0_2_are_ranked(tmp_path, trainer, first):
    kept = VERSION_0_2 / "trainings" / trainer
    folder = fold_folder(tmp_path)
    for path in kept.glob("*.csv"):
        shutil.copy(path, folder)
    assert run(folder, "--by", first).exit_code == 0
    table = pd.read_csv(folder / "suspects.csv", dtype={"case": str})
    assert sorted(table["case"]) == sorted(set(pd.read_csv(kept / "hardness.csv")["case"]))
    assert table["times_seen"].sum() == 2 * 4 * 6, "two epochs of four batches of six"
