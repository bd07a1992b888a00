import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure
from rich.console import Console

from experiments.record.page import (
    QUICK_RESULTS,
    RESULTS,
    cache_folder,
    cached_runs,
    markdown_table,
    module_command,
    result_folder,
    write_result,
)

TABLE = pd.DataFrame({"method": ["ERM", "beta 10"], "accuracy": [12.345, 98.7654], "n": [3, 4]})
SILENT = Console(quiet=True)


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


def test_markdown_table_aligns_and_rounds_by_column():
    table = pd.DataFrame(
        {
            "name": ["a|b", "c"],
            "percent": [98.7654, 5.0],
            "tiny": [0.000123456, -0.0000999],
            "wide": [1e-9, 250.0],
            "count": [1000, 2],
            "holes": [np.nan, 0.5],
            "yes": [True, False],
        }
    )
    lines = markdown_table(table).splitlines()
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert rows[0] == list(table.columns)
    assert rows[2] == ["a\\|b", "98.8", "1.23e-04", "1e-09", "1000", "–", "True"]
    assert rows[3] == ["c", "5.0", "-9.99e-05", "250", "2", "0.500", "False"]
    assert [cell.endswith(":") for cell in rows[1]] == [False, True, True, True, True, True, False]
    assert len({len(line) for line in lines}) == 1


def test_markdown_table_never_shows_minus_zero():
    assert "-0" not in markdown_table(pd.DataFrame({"gain": [-0.01, 20.0]})).splitlines()[2]


def test_markdown_table_keeps_missing_integers_and_infinities():
    table = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "bound": [np.inf, 2.0]})
    assert [line.split() for line in markdown_table(table).splitlines()[2:]] == [
        ["|", "1", "|", "inf", "|"],
        ["|", "–", "|", "2.00", "|"],
    ]


def test_result_folder_keeps_smoke_runs_out_of_the_documentation(tmp_path):
    assert result_folder(None, quick=False) == RESULTS
    assert result_folder(None, quick=True) == QUICK_RESULTS != RESULTS
    assert result_folder(tmp_path, quick=True) == tmp_path


def test_cache_folder_follows_the_users_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("digits") == tmp_path / "nnunet-dro" / "digits"


def test_module_command_quotes_for_the_shell():
    assert module_command("a.b", ["--out", "my folder"]) == "python -m a.b --out 'my folder'"


def test_cached_runs_goes_on_after_an_interruption(tmp_path):
    made = []

    def make(name, progress):
        if name == "b" and len(made) == 1:
            raise KeyboardInterrupt
        made.append(name)
        progress(0.5)
        return {"name": name, "curve": [1.5, 2.5]}

    runs = {"a": {"beta": 0}, "b": {"beta": 1}}
    with pytest.raises(KeyboardInterrupt):
        cached_runs(tmp_path, runs, make, console=SILENT)
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]
    made.append("interrupted")
    results = cached_runs(tmp_path, runs, make, console=SILENT)
    assert made == ["a", "interrupted", "b"]
    assert results == {name: {"name": name, "curve": [1.5, 2.5]} for name in "ab"}


def test_cached_runs_makes_a_run_with_other_settings_anew(tmp_path):
    def make(name, progress):
        return {"count": len(list(tmp_path.iterdir()))}

    first = cached_runs(tmp_path, {"a": {"epochs": 1}}, make, console=SILENT)
    other = cached_runs(tmp_path, {"a": {"epochs": 2}}, make, console=SILENT)
    again = cached_runs(tmp_path, {"a": {"epochs": 1}}, make, console=SILENT)
    assert (first, other, again) == ({"a": {"count": 0}}, {"a": {"count": 1}}, {"a": {"count": 0}})
    assert {json.loads(path.read_text())["settings"]["epochs"] for path in tmp_path.iterdir()} == {1, 2}
