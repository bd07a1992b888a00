import re

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from experiments.record import write_result

TABLE = pd.DataFrame({"method": ["ERM", "beta 10"], "accuracy": [12.345, 98.7654], "n": [3, 4]})


@pytest.fixture
def write(tmp_path):
    def write(**changed):
        figure = Figure()
        figure.subplots().plot([0, 1])
        given = {
            "title": "A title",
            "text": "Asked and answered.",
            "table": TABLE,
            "figure": figure,
            "command": "python -m made.up --out x",
            "seeds": [0, 7],
            "quick": False,
            "seconds": 125.4,
        }
        name = changed.pop("name", "made-up")
        return write_result(tmp_path / "results", name, **{**given, **changed})

    return write


def test_page_has_all_that_makes_the_result_again(write):
    text = write().read_text()
    assert text.startswith("# A title\n\nAsked and answered.\n")
    assert "python -m made.up --out x" in text
    assert "- Seeds: 0, 7\n" in text
    assert f"torch {torch.__version__.split('+')[0]}" in text
    assert f"numpy {np.__version__}" in text
    assert "- Duration: 2 min 5 s\n" in text
    assert re.search(r"- Date: 20\d\d-\d\d-\d\d\n", text)
    assert re.search(rf"- Processor: .*\S, {torch.get_num_threads()} of \d+ cores used\n", text)
    assert "![A title](made-up.png)" in text
    assert "- Kind: full run\n" in text
    assert "Smoke run" not in text


def test_page_says_which_seeds_were_added(write):
    text = write(added=[7]).read_text()
    assert "- Seeds: 0, 7; 7 when the results of the others were known\n" in text
    assert "- Duration: 2 min 5 s for the seeds that were added\n" in text


def test_quick_page_says_so_before_anything_else(write):
    lines = write(quick=True).read_text().splitlines()
    assert "Smoke run" in lines[2]


def test_files_are_there_and_the_csv_has_all_digits(write):
    page = write()
    assert sorted(path.name for path in page.parent.iterdir()) == ["made-up.csv", "made-up.md", "made-up.png"]
    pd.testing.assert_frame_equal(pd.read_csv(page.with_suffix(".csv")), TABLE)
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_interrupted_writing_leaves_the_old_result(write, monkeypatch):
    page = write()
    before = {path.name: path.read_bytes() for path in page.parent.iterdir()}

    def cut_short(self, path, **options):
        path.write_bytes(b"half a picture")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", cut_short)
    with pytest.raises(KeyboardInterrupt):
        write(text="Other text.")
    assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == before


def test_index_with_a_name_becomes_a_column(write):
    page = write(table=TABLE.set_index("method"))
    assert list(pd.read_csv(page.with_suffix(".csv"))) == ["method", "accuracy", "n"]
    assert "| method " in page.read_text()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "Made up"}, "`name` must be of lower-case letters"),
        ({"name": "../up"}, "`name` must be of lower-case letters"),
        ({"table": TABLE.iloc[:0]}, "`table` must have at least one row"),
        ({"seconds": float("nan")}, "`seconds` must be finite"),
    ],
)
def test_unusable_input_is_refused_and_writes_nothing(write, tmp_path, changed, message):
    with pytest.raises(ValueError, match=message):
        write(**changed)
    assert list(tmp_path.iterdir()) == []
