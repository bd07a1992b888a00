"""The committed pages are those of the templates, with the numbers of the committed tables.

Some numbers are in no table (times of trainings); these are taken from the page itself.
"""

from pathlib import Path

import pandas as pd
import pytest

import experiments.convergence.page
from experiments.convergence.studies import hippocampus, lesions, nuclei, phantoms
from experiments.curves import decision, differences, results_table
from experiments.record import markdown_table, shown_rows

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def assert_page(name: str, title: str, text: str, table: pd.DataFrame) -> None:
    numbers = f"{markdown_table(shown_rows(table))}\n\nAll rows and digits are in [{name}.csv]"
    expected = f"# {title}\n\n{text}\n\n## Numbers\n\n{numbers}"
    page = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert page[: len(expected)].splitlines() == expected.splitlines()
    made = f"![{title}]({name}.png)\n\n## How it was made\n\n```bash\npython -m experiments."
    assert f"({name}.csv). [How to read this page](reading.md).\n\n{made}" in page


def read(name: str, **options) -> pd.DataFrame:
    return pd.read_csv(RESULTS / f"{name}.csv", **options)


MADE = {
    "convergence": phantoms(quick=False),
    "convergence-long": phantoms(quick=False, long=True),
    "convergence-slices": phantoms(quick=False, slices=True),
    "convergence-lesions-slices": lesions(quick=False, slices=True),
    "convergence-lesions-slices-wrong": lesions(quick=False, slices=True, wrong=True),
}


@pytest.mark.parametrize("name", MADE)
def test_convergence(name):
    asked, scores = MADE[name], read(f"{name}-all")
    rule = decision(scores, asked.roles, wrong_labels=asked.wrong_labels)
    assert (RESULTS / f"{name}-rule.csv").read_text() == rule.to_csv(index=False, float_format="%.4f")
    found = differences(scores, asked.roles)
    table = results_table(found[found["label"] == asked.roles.label], asked.roles)
    assert (RESULTS / f"{name}.csv").read_text() == table.to_csv(index=False)
    if (RESULTS / f"{name}.md").exists():
        text = experiments.convergence.page.page_text(found, scores, asked, seeds=list(scores["seed"].unique()))
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
