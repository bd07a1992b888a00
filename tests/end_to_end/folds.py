"""What a fold's folder must hold after nnU-Net's commands."""

from pathlib import Path

import pandas as pd
import pytest


def check_fold(folder: Path, n_epochs: int, n_cases: int) -> None:
    rows = pd.read_csv(folder / "hardness.csv")
    assert len(rows) == n_epochs * n_cases
    assert (rows.groupby("epoch")["case"].nunique() == n_cases).all()
    assert rows["probability"].groupby(rows["epoch"]).sum().tolist() == pytest.approx(
        [1.0] * n_epochs, abs=1e-4
    )
    assert (folder / "hardness.png").stat().st_size > 10_000
    assert (folder / "checkpoint_final.pth").exists()
    assert not list(folder.glob("*.partial*"))
    # One log per start; a start that was killed may have none of this.
    logs = "".join(path.read_text() for path in sorted(folder.glob("training_log_*.txt")))
    assert "Hardness: mean loss" in logs
    assert (folder / "validation" / "summary.json").exists()
