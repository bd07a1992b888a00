"""The commands of docs/explore.md run as they stand there, and its tables say what was measured."""

import numpy as np
import pandas as pd
import pytest

from tests.evaluation.made_folders import bars, names_in, run, write_cases, write_dataset_json, write_map
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
        result = run(*words, *(["--bootstrap", "0"] if words[0] == "evaluate" else []))
        assert result.exit_code == 0, result.output
    for name in names_in(here / "explored-more"):
        assert f"`{name}`" in PAGE
    columns = pd.read_csv(here / "explored-more" / "explore.csv").columns
    known = [c for c in columns if f"`{c}`" in PAGE or f"`{c.replace('_test', '_search')}`" in PAGE]
    assert [c for c in columns if c not in known and c[:-1] not in ("attribute_", "stratum_")] == []


def test_the_tables_of_the_page_are_those_of_the_benchmark():
    runs = pd.read_csv(ROOT / "benchmarks" / "results" / "explore_null.csv", keep_default_na=False, na_values=[""])
    null, planted = (runs[runs["kind"] == kind] for kind in ("null", "planted"))
    assert f"1,000 times in each of {len(null)} settings" in PAGE
    assert f"On average {100 * null['claims'].mean():.1f} % of the runs claimed something" in PAGE
    assert f"at most {100 * null['claims'].max():.1f} % in one setting" in PAGE
    for (n, points), rows in planted.groupby(["n", "points"]):
        found = rows.set_index("candidates")["found"]
        cells = " | ".join(f"{100 * found[m]:.0f} %" for m in (1, 3, 5, 10))
        alone = f"{100 * rows['strata_alone'].mean():.0f} %"
        assert f"| {n} | {points} | {cells} | {alone} |" in PAGE
