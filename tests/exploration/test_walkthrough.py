"""The commands of docs/explore.md run as they stand there, and its tables say what was measured."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.explore_null import planted_table, read
from tests.commands import done, run
from tests.evaluation.made_folders import bars, names_in, write_cases, write_dataset_json, write_map
from tests.test_docs import ROOT, calls

PAGE = (ROOT / "docs" / "explore.md").read_text("utf-8")


@pytest.fixture
def here(tmp_path, monkeypatch):
    n = 44
    rng = np.random.default_rng(0)
    for number in range(n):
        name = f"case_{number:02}.nii.gz"
        write_map(tmp_path / "labelsTs" / name, bars(4))
        write_map(tmp_path / "predictions" / "dro" / name, bars(4, int(rng.integers(0, 4))))
        write_map(
            tmp_path / "imagesTs" / name.replace(".nii", "_0000.nii"), rng.normal(size=(8, 8, 8)), dtype=np.float32
        )
    write_dataset_json(tmp_path / "labelsTs")
    write_cases(tmp_path, centre=["A", "A", "B", "B"] * 11, scanner=["X", "Y"] * 22, age=[n % 37 for n in range(n)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_page_run_and_it_names_every_column(here):
    commands = calls(PAGE)
    assert [words[0] for words in commands] == ["evaluate", "explore", "strata", "explore"]
    for words in commands:
        done(run(*words, *(["--bootstrap", "0"] if words[0] == "evaluate" else [])))
    for name in names_in(here / "explored-more"):
        assert f"`{name}`" in PAGE
    columns = pd.read_csv(here / "explored-more" / "explore.csv").columns
    known = [c for c in columns if f"`{c}`" in PAGE or f"`{c.replace('_test', '_search')}`" in PAGE]
    assert [c for c in columns if c not in known and c[:-1] not in ("attribute_", "stratum_")] == []


def test_the_tables_of_the_page_are_those_of_the_benchmark():
    runs = read(ROOT / "benchmarks" / "results" / "explore_null.csv")
    assert planted_table(runs) in PAGE
    null = runs[runs["kind"] == "null"]
    text = " ".join(PAGE.split())
    assert f"1,000 times in each of {(null['repeat'] == 0).sum()} settings" in text
    assert f"claimed in {100 * np.average(null['claims'], weights=null['runs']):.1f} % of all runs" in text
    worst = null.loc[null["claims"].idxmax()]
    assert f"{100 * worst['claims']:.1f} % [{100 * worst['low']:.1f}, {100 * worst['high']:.1f}]" in text
