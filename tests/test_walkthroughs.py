"""The commands of a page of the documentation run one after the other, as its reader runs them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.explore_null import planted_table, read
from tests.commands import done, run
from tests.evaluation.made_folders import (
    bars,
    names_in,
    read_csv,
    write_cases,
    write_dataset_json,
    write_map,
)
from tests.evaluation.test_lesion_commands import LESION_FILES, spots
from tests.ranking.made import recorded
from tests.test_docs import ROOT, calls

PAGES = ("lesions", "ranking", "explore")
LESIONS, RANKING, EXPLORE = ((ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in PAGES)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a dataset, in which the commands run; makes the maps of its cases."""
    (tmp_path / "labelsTs").mkdir()
    monkeypatch.chdir(tmp_path)

    def make(maps_of, n, labels=None, **columns):
        for number in range(n):
            for folder, values in maps_of(number).items():
                write_map(tmp_path / folder / f"case_{number:02}.nii.gz", values)
        write_dataset_json(tmp_path / "labelsTs", labels)
        write_cases(tmp_path, **columns)
        return tmp_path

    return make


def test_the_commands_on_lesions_run(here):
    def maps_of(n):
        return {
            "labelsTs": spots(12, 4),
            "predictions/dro": spots(12, 3 * (n != 2)),
            "predictions/plain": spots(11),
        }

    folder = here(
        maps_of, 4, {"background": 0, "lesion": 1, "organ": 2}, centre=["A", "A", "B", "B"]
    )

    commands = calls(LESIONS)

    assert len(commands) == 5

    assert [done(run(*words)).stderr for words in commands] == [""] * 5

    assert names_in(folder / "lesions" / "dro") == LESION_FILES

    sizes = read_csv(folder / "lesions" / "dro" / "lesion_sizes.csv")
    of_all = (
        sizes.loc[sizes["stratum"] == "all", ["volume", "n_lesions", "n_found"]].to_numpy().tolist()
    )

    assert of_all == [["0 to 10", 4, 3], ["10 to 100", 4, 4]]

    comparison = read_csv(folder / "lesions" / "comparison" / "comparison.csv")
    recall = comparison[
        (comparison["metric"] == "lesion_recall") & (comparison["stratum"] == "all")
    ]

    assert recall["mean_difference"].tolist() == [0.375]


def test_the_commands_of_rankings_run_and_files_and_columns_are_named(here, monkeypatch):
    def maps_of(n):
        teams = ("alpha", "beta", "gamma") if n < 3 else ("alpha", "beta")
        moved = {f"submissions/{team}": bars(4, shift + n % 2) for shift, team in enumerate(teams)}
        return {"labelsTs": bars(4), **moved}

    folder = here(maps_of, 4, centre=["A", "A", "B", "B"])
    scored = recorded(monkeypatch)

    found = calls(RANKING)

    assert [words[0] for words in found] == ["rank", "rank", "rank", "compare"]

    for words in found:
        folders = [
            word for w in words for word in (sorted(map(str, Path().glob(w))) if "*" in w else [w])
        ]
        done(run(*folders, "--bootstrap", "20"))
    # The second and the third command score nothing again.
    assert scored == ["alpha", "beta", "gamma"]
    assert "case_0" in (folder / "ranking" / "report.html").read_text()
    for path in (folder / "public").iterdir():
        assert "case_0" not in path.read_text()
    assert [name for name in names_in(folder / "ranking") if f"`{name}`" not in RANKING] == []

    known = ("scheme", "metric", "label", "better", "worse")
    for name in ("ranks", "kendall_tau", "tests"):
        header = (folder / "ranking" / f"{name}.csv").read_text().splitlines()[0].split(",")
        assert [
            column for column in header if f"`{column}`" not in RANKING and column not in known
        ] == []


def test_the_commands_of_explorations_run_and_every_column_is_named(here):
    rng = np.random.default_rng(0)

    def maps_of(n):
        return {"labelsTs": bars(4), "predictions/dro": bars(4, int(rng.integers(0, 4)))}

    centre = ["A", "A", "B", "B"] * 11
    scanner = ["X", "Y"] * 22
    age = [n % 37 for n in range(44)]
    folder = here(maps_of, 44, centre=centre, scanner=scanner, age=age)
    for n in range(44):
        write_map(
            folder / "imagesTs" / f"case_{n:02}_0000.nii.gz",
            rng.normal(size=(8, 8, 8)),
            dtype=np.float32,
        )

    commands = calls(EXPLORE)

    assert [words[0] for words in commands] == ["evaluate", "explore", "strata", "explore"]

    for words in commands:
        done(run(*words, *(["--bootstrap", "0"] if words[0] == "evaluate" else [])))
    assert [name for name in names_in(folder / "explored-more") if f"`{name}`" not in EXPLORE] == []

    columns = pd.read_csv(folder / "explored-more" / "explore.csv").columns
    known = [
        c for c in columns if f"`{c}`" in EXPLORE or f"`{c.replace('_test', '_search')}`" in EXPLORE
    ]

    assert [c for c in columns if c not in known and c[:-1] not in ("attribute_", "stratum_")] == []


def test_the_tables_on_explorations_are_those_of_the_benchmark():
    runs = read(ROOT / "benchmarks" / "results" / "explore_null.csv")
    assert planted_table(runs) in EXPLORE

    null = runs[runs["kind"] == "null"]
    text = " ".join(EXPLORE.split())

    assert f"1,000 runs in each of {(null['repeat'] == 0).sum()} settings" in text
    assert (
        f"claimed in {100 * np.average(null['claims'], weights=null['runs']):.1f} % of all runs"
        in text
    )

    worst = null.loc[null["claims"].idxmax()]
    assert (
        f"{100 * worst['claims']:.1f} % [{100 * worst['low']:.1f}, {100 * worst['high']:.1f}]"
        in text
    )
