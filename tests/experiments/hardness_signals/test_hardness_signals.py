import subprocess
import sys

import pandas as pd
import pytest


@pytest.mark.slow
def test_the_experiment_runs(tmp_path):
    command = [sys.executable, "-m", "experiments.hardness_signals", "--quick", "--out", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    table = pd.read_csv(tmp_path / "hardness-signals.csv")
    assert len(table) == 2 * 2 * 3
    shares = table[[f"share, momentum {m}" for m in ("0", "0.5", "0.9")]]
    assert (shares.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    assert ((shares >= 0) & (shares <= 1)).all(axis=None)
    assert "smoke run" in (tmp_path / "hardness-signals.md").read_text()
