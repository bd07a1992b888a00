"""What is true of every experiment: its committed page is that of its tables, and its command says
what is missing."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments.__main__ import MODULES, experiment, main

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize("name", [name for name in MODULES if (RESULTS / f"{name}.csv").exists()])
def test_the_committed_page_is_that_of_the_committed_tables(name, tmp_path, capsys, monkeypatch):
    # Half of the time; the tests that run an experiment save its pictures.
    monkeypatch.setattr(Figure, "savefig", lambda _, path, **__: path.touch())
    shutil.copytree(RESULTS, tmp_path / "results", ignore=shutil.ignore_patterns("*.png"))
    assert main([name, "--render", "--out", str(tmp_path / "results")]) == 0

    page = Path(capsys.readouterr().out.strip())
    for path in [page, *page.parent.glob(f"{name}*.csv")]:
        assert path.read_text(encoding="utf-8") == (RESULTS / path.name).read_text(encoding="utf-8")
    assert f"\npython -m experiments {name}" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted(RESULTS.glob("convergence*-cases.csv")), ids=lambda path: path.stem
)
def test_means_and_percentiles_are_those_of_the_cases(path):
    keys = ["method", "seed", "stratum", "label"]
    dice = pd.read_csv(path).groupby(keys)["dice"]
    found = pd.DataFrame({"n": dice.size(), "mean": dice.mean(), "p10": dice.quantile(0.1)})
    every = pd.read_csv(path.with_name(path.name.replace("-cases", "-all")))

    committed = every[every["iteration"] == every["iteration"].max()].set_index(keys)[
        ["n", "mean", "p10"]
    ]

    pd.testing.assert_frame_equal(
        found, committed.sort_index(), check_dtype=False, rtol=0, atol=2e-4
    )


@pytest.mark.parametrize("name", [name for name in MODULES if experiment(name).data])
def test_a_folder_without_the_dataset_is_one_line(name, tmp_path, capsys):
    assert main([name, "--data", str(tmp_path), "--work", str(tmp_path)]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"{name}: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["nothing"]])
def test_an_unknown_experiment_is_told_the_names(words, capsys):
    assert main(words) == 2

    said = capsys.readouterr().err
    assert all(name in said for name in MODULES)


def test_every_record_has_a_page_and_every_page_a_place_in_the_site():
    nav = (RESULTS.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
    for path in RESULTS.glob("*.md"):
        assert f"results/{path.name}" in nav
