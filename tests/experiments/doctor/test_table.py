from pathlib import Path

import pandas as pd

from experiments.doctor.recorded import EXPERIMENTS
from experiments.doctor.table import markdown
from nnunet_dro.doctor.rules import Finding

DOCS = Path(__file__).parents[3] / "docs"


def test_the_committed_page_shows_the_committed_numbers():
    table = pd.read_csv(DOCS / "results" / "doctor.csv")
    assert markdown(table) in (DOCS / "doctor.md").read_text(encoding="utf-8")
    assert set(table["finding"]) <= {finding.value for finding in Finding}
    assert set(table["experiment"]) == {experiment.name for experiment in EXPERIMENTS}


def test_a_finding_that_does_not_agree_is_said_to_be_wrong():
    table = pd.read_csv(DOCS / "results" / "doctor.csv").assign(finding=Finding.NOTHING_FAILS.value)
    rows = [line for line in markdown(table).splitlines() if line.endswith(" |")][2:]
    assert [row.endswith("| yes |") for row in rows] == [Finding.NOTHING_FAILS in e.right for e in EXPERIMENTS]
    assert all(row.endswith(("| yes |", "| **no** |")) for row in rows)


def test_one_experiment_is_left_out_and_every_page_is_there():
    assert [experiment.name for experiment in EXPERIMENTS if experiment.left_out] == ["hippocampus"]
    for experiment in EXPERIMENTS:
        assert (DOCS / "results" / experiment.page).is_file()
