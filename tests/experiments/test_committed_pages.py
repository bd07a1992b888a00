"""The committed pages are those of the templates, with the numbers of the committed tables.

Some numbers are in no table (times of trainings); these are taken from the page itself.
"""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import experiments.convergence.factorial
import experiments.convergence.page
import experiments.factorial.page
import experiments.hardness_signals.__main__
import experiments.hardness_signals.page
import experiments.imbalanced_pair.page
import experiments.imbalanced_pair.published
import experiments.label_noise.page
import experiments.nuclei.factorial
import experiments.nuclei.finetuning
import experiments.nuclei.page
import experiments.nuclei.unseen_page
import experiments.nuclei.wrong_labels
import experiments.segmentation.page
from experiments.convergence.studies import hippocampus, lesions, nuclei, phantoms
from experiments.curves import differences, results_table
from experiments.imbalanced_pair.plan import published_runs
from experiments.imbalanced_pair.results import shown_table as shown_pair
from experiments.imbalanced_pair.training import METHODS
from experiments.imbalanced_pair.training import Run as PairRun
from experiments.label_noise.studies import phantom_study
from experiments.nnunet_runs.results import Results
from experiments.nuclei.methods import ROLES
from experiments.record import markdown_table, shown_rows
from experiments.segmentation.studies import finetuning_study

RESULTS = Path(__file__).parents[2] / "docs" / "results"
SEGMENTATION = {"finetuning": finetuning_study}
NOTHING = pd.DataFrame()


def assert_page(name: str, title: str, text: str, table: pd.DataFrame) -> None:
    numbers = f"{markdown_table(shown_rows(table))}\n\nAll rows and digits are in [{name}.csv]"
    expected = f"# {title}\n\n{text}\n\n## Numbers\n\n{numbers}"
    page = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert page[: len(expected)].splitlines() == expected.splitlines()
    made = f"![{title}]({name}.png)\n\n## How it was made\n\n```bash\npython -m experiments."
    assert f"({name}.csv). [How to read this page](reading.md).\n\n{made}" in page


def table_after(heading: str, name: str) -> pd.DataFrame:
    """The first table after a heading of a page."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8").split(f"{heading}\n", 1)[1]
    headers, rule, *lines = [
        [cell.strip() for cell in line.strip("|\n").split(" | ")]
        for line in re.search(r"(^\|.*\n)+", text, re.MULTILINE)[0].splitlines()
    ]
    table = pd.DataFrame(lines, columns=headers)
    return table.astype({name: float for name, dashes in zip(headers, rule, strict=True) if dashes.endswith(":")})


def named_after(words: str, name: str) -> list[str]:
    """The trainings that a page says have not learnt a label."""
    found = re.search(rf"{re.escape(words)}\*\* (.*?)\. ", (RESULTS / f"{name}.md").read_text(encoding="utf-8"))
    return found[1].split("; ") if found else []


def read(name: str, **options) -> pd.DataFrame:
    return pd.read_csv(RESULTS / f"{name}.csv", **options)


@pytest.fixture
def times_of_the_page(monkeypatch):
    """Makes a family take the times, and which trainings have not learnt a label, from its page."""

    def take(family, name, words):
        times, missed = table_after("### Time of a training iteration", name), named_after(words, name)
        monkeypatch.setattr(family, "time_table", lambda *_: times)
        monkeypatch.setattr(family, "not_learnt", lambda _: missed)
        return tuple(times["method"])

    return take


@pytest.mark.parametrize("name", SEGMENTATION)
def test_segmentation(name, times_of_the_page):
    family = experiments.segmentation.page
    study = SEGMENTATION[name](quick=False)
    name = f"segmentation-{name}"
    words = "**Trainings that never learnt a label, in any stratum:"
    methods = times_of_the_page(family, name, words)
    dice = pd.DataFrame({"label": list(study.labels)})
    table, n_training = read(f"{name}-all"), pd.Series(study.settings["train"])
    results = Results(study, methods, dice, NOTHING)
    text = family.page_text(results, table, n_training, failures={}, quick=False, seeded=False)
    assert_page(name, study.title, text, family.shown_columns(family.page_table(table, study)))


def test_hardness_signals():
    family, table = experiments.hardness_signals.page, read("hardness-signals")
    measurement = experiments.hardness_signals.__main__.volumes(quick=False)
    text = family.page_text(table, measurement.study, n_draws=measurement.n_draws)
    assert_page("hardness-signals", measurement.title, text, family.shown_table(table))


def test_hardness_signals_in_slices():
    family, main = experiments.hardness_signals.page, experiments.hardness_signals.__main__
    study = replace(main.volumes(quick=False).study, settings={"rare": main.RARE, "common": main.COMMON})
    table = read("hardness-signals-slices")
    text = family.page_text(table, study, n_draws=40)
    assert_page("hardness-signals-slices", "What a stale loss says in slices", text, family.shown_table(table))


def test_imbalanced_pair():
    table = read("imbalanced-pair", dtype={"rate": str})
    rows = []
    for row in table.to_dict("records"):
        for seed, error in enumerate(row["by split"].split(", ")):
            key = {"learning_rate": float(row["rate"]), "ratio": int(row["ratio"].split(":")[0]), "seed": seed}
            # One image of the 80 of a digit is 0.625 points of error.
            found = {"method": row["method"], "error": round(float(error) / 0.625) * 0.625}
            rows.append(key | found | {"effective": row["effective"], "lost": seed < row["lost"], "n_rare": row["4s"]})
    runs = pd.DataFrame(rows)
    runs["method"] = pd.Categorical(runs["method"], METHODS)
    keys = ["learning_rate", "ratio", "seed"]
    for other in ("plain", "resample"):
        theirs = runs[runs["method"] == other].set_index(keys)["error"].rename("theirs")
        runs[f"minus {other}"] = runs["error"] - runs.join(theirs, on=keys)["theirs"]
    text = experiments.imbalanced_pair.page.page_text(runs, PairRun("plain", 1, 0, 0.025))
    assert_page("imbalanced-pair", "4 against 9, imbalanced", text, shown_pair(table))


def test_imbalanced_pair_at_the_published_settings():
    rows = pd.read_csv(RESULTS / "imbalanced-pair-published-all.csv")
    rows["method"] = pd.Categorical(rows["method"], METHODS)
    page = experiments.imbalanced_pair.published
    text = page.published_text(rows, published_runs(quick=False)[0])
    title = "4 against 9, at the settings of the published code"
    assert_page("imbalanced-pair-published", title, text, page.published_table(rows))


@pytest.mark.parametrize(
    "name", ["convergence", "convergence-long", "convergence-slices", "convergence-lesions-slices"]
)
def test_convergence(name):
    if "lesions" in name:
        asked = lesions(quick=False, slices=True)
    else:
        asked = phantoms(quick=False, slices=name.endswith("slices"), long=name.endswith("long"))
    scores = read(f"{name}-all")
    found = differences(scores, asked.roles)
    text = experiments.convergence.page.page_text(found, scores, asked, seeds=list(scores["seed"].unique()))
    table = results_table(found[found["label"] == asked.roles.label], asked.roles)
    assert_page(name, asked.study.title, text, table)


@pytest.mark.parametrize(
    ("name", "dataset", "asked_of"),
    [("hippocampus", "Dataset004_Hippocampus", hippocampus), ("nuclei", "Dataset022_DSBNuclei", nuclei)],
)
def test_convergence_on_real_data(name, dataset, asked_of):
    data = Path(__file__).parents[3] / "shared" / "data" / dataset
    if not data.is_dir():
        pytest.skip("the data are not there")
    name, asked = f"convergence-{name}", asked_of(data, quick=False)
    scores = read(f"{name}-all")
    found = differences(scores, asked.roles)
    regrouped = None if asked.regrouped is None else differences(read(f"{name}-regrouped-all"), asked.roles)
    text = experiments.convergence.page.page_text(
        found, scores, asked, seeds=list(scores["seed"].unique()), regrouped=regrouped
    )
    table = results_table(found[found["label"] == asked.roles.label], asked.roles)
    assert_page(name, asked.study.title, text, table)


def test_wrong_labels_among_phantoms():
    page, name, study = experiments.label_noise.page, "label-noise", phantom_study(quick=False)
    scores, cases, separation = (read(f"{name}-{suffix}") for suffix in ("seeds", "cases", "separation"))
    text = page.page_text(scores, cases, separation, study, failures={}, name=name)
    assert_page(name, study.title, text, page.shown_table(page.page_table(scores, study)))


def test_nuclei():
    scores = read("nuclei-all")
    found = differences(scores, ROLES)
    text = experiments.nuclei.page.page_text(found, scores, iterations=4000, seeds=list(scores["seed"].unique()))
    assert_page("nuclei", "Rare modalities of cell nuclei", text, results_table(found, ROLES))


def test_wrong_labels_among_nuclei():
    page, scores = experiments.nuclei.wrong_labels, read("nuclei-wrong-labels-all")
    text = page.page_text(scores, read("nuclei-wrong-labels-separation"), seeds=list(scores["seed"].unique()))
    assert_page("nuclei-wrong-labels", "Wrong labels among nuclei", text, page.page_table(scores))


@pytest.mark.parametrize("experiment", [experiments.nuclei.factorial, experiments.convergence.factorial])
def test_factorial(experiment):
    page = experiment.PAGE
    table = page.rows(read(f"{page.name}-all"))
    text = page.text(table, iterations=experiment.ITERATIONS, seeds=list(table["seed"].unique()))
    family = experiments.factorial.page
    assert_page(page.name, page.title, text, family.shown_table(family.page_table(table, page.strata)))


def test_unseen_domains_of_nuclei():
    page, scores = experiments.nuclei.unseen_page, read("nuclei-unseen-all")
    text = page.page_text(scores, seeds=list(scores["seed"].unique()))
    assert_page("nuclei-unseen", "Few images of nuclei, and domains in no training", text, page.page_table(scores))


def test_finetuning_of_nuclei():
    page, scores = experiments.nuclei.finetuning, read("nuclei-finetuning-all")
    text, found = page.page_of(scores, seeds=list(scores["seed"].unique()))
    title = "Finetuning a plain training on rare modalities of cell nuclei"
    assert_page("nuclei-finetuning", title, text, page.shown_table(page.page_table(found)))
