"""The pack says what the evaluation says, and no name can change its form."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation import read_evaluation
from nnunet_dro.evaluation.report.evidence import evidence_pack, table_one
from tests.evaluation.made_folders import (
    bars,
    read_csv,
    run,
    run_evaluate,
    write_cases,
    write_map,
    write_study,
)

EVIL = "<b>A|B</b>"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Eight cases of five patients; the tumour of one is missed, and one case has none."""
    root = write_study(tmp_path_factory.mktemp("study"), shifts=(0, 1, 2, 3, 0, 1, 2, 4))
    write_map(root / "reference" / "case_05.nii.gz", bars(0))
    write_map(root / "prediction" / "case_05.nii.gz", bars(0))
    write_map(root / "prediction" / "case_06.nii.gz", bars(0))
    patients = ["p1", "p1", "p2", "p2", "p3", "p3", "p4", "p5"]
    table = write_cases(root, centre=["A"] * 5 + [EVIL] * 3, patient=patients)
    words = (
        "--cases",
        table,
        "--by",
        "centre",
        "--patient",
        "patient",
        "--metrics",
        "dice,hd95,volume_error,nsd",
        "--nsd-tolerance-mm",
        2,
    )
    assert run_evaluate(root, *words, bootstrap=200).exit_code == 0
    result = run("report", root / "out", "--pack", root / "pack")
    assert result.exit_code == 0, result.output
    return root


def text_of(study, name):
    return (study / "pack" / name).read_text(encoding="utf-8")


def test_table_one_counts_cases_patients_and_labels(study):
    table = table_one(read_evaluation(study / "out")).set_index("stratum")
    assert table["cases"].to_dict() == {"all": 8, "A": 5, EVIL: 3}
    assert table["patients"].to_dict() == {"all": 5, "A": 3, EVIL: 3}
    assert table["share"].to_dict() == {"all": 1, "A": 5 / 8, EVIL: 3 / 8}
    assert table["tumour, cases with it"].to_dict() == {"all": 7, "A": 5, EVIL: 2}

    scores = pd.read_csv(study / "out" / "scores.csv")
    tumours = scores[(scores["label"] == "tumour") & (scores["n_reference"] > 0)]["reference_ml"]

    assert table.loc["all", "tumour, median ml"] == pytest.approx(tumours.median())

    written = read_csv(study / "pack" / "table1.csv").set_index("stratum")
    pd.testing.assert_frame_equal(written, table)


def test_the_model_card_has_every_stratum_and_what_was_missed(study):
    front, body = text_of(study, "model_card.md").removeprefix("---\n").split("\n---\n", 1)
    entries = dict(line.split(": ", 1) for line in front.splitlines())
    (model,) = json.loads(entries["model-index"])
    strata = read_csv(study / "out" / "strata.csv")
    found = {
        (result["dataset"]["name"], metric["name"]): metric["value"]
        for result in model["results"]
        for metric in result["metrics"]
    }

    for row in strata.to_dict("records"):
        place = f"{row['attribute']}: {row['stratum']}"
        for statistic in ("mean", "p5" if row["metric"] in ("dice", "nsd") else "max"):
            if not np.isnan(row[statistic]):
                value = found[place, f"{row['metric']}, {statistic}, {row['label']}"]
                assert value == pytest.approx(row[statistic], rel=1e-12)

    assert "8 cases of 5 patients" in body

    performance = body.split("\n## Performance")[1].split("\n## ")[0]
    for title in ("Dice (%)", "HD95 (mm)", "Volume error (ml)"):
        table = performance.split(f"### centre: {title}")[1].split("\n#")[0]
        assert sum("| A |" in row for row in table.splitlines()) == 2, "a row per label"

    assert "Patients are not counted" not in text_of(study, "table1.md")

    head, _, *rows = [
        line.split("|")
        for line in performance.split("All cases: Dice")[1].splitlines()
        if "|" in line
    ]
    assert rows[0][head.index(" missed ")] == " 1 ", "one tumour was missed"


def test_a_reference_is_not_called_the_best_and_absent_cases_are_told(tmp_path):
    root = write_study(tmp_path, shifts=(0, 1, 3))
    words = (
        "--cases",
        write_cases(root, centre=list("ABC")),
        "--by",
        "centre",
        "--reference-stratum",
        "C",
    )

    assert run_evaluate(root, *words).exit_code == 0

    evaluation = read_evaluation(root / "out")
    pack = evidence_pack(evaluation)

    assert "**Tumour differs no more than by chance** (centre)" in pack["model_card.md"]
    assert "The reference stratum is C with 25.0 %" in pack["model_card.md"]
    assert "every evaluated case has a prediction;" in pack["claim.md"]

    inputs = {**evaluation.about["inputs"], "references_without_prediction": ["x"]}
    pack = evidence_pack(replace(evaluation, about={**evaluation.about, "inputs": inputs}))

    assert "without a prediction, and not evaluated: 1 of the references;" in pack["claim.md"]


def test_names_do_not_leave_their_cells(study):
    for name in ("table1.md", "model_card.md", "claim.md", "README.md"):
        text = text_of(study, name)
        assert (
            "<b>" not in text.partition("\n---\n")[2]
            if name == "model_card.md"
            else "<b>" not in text
        )
        widths = {
            line.replace("\\|", "").count("|")
            for line in text.splitlines()
            if line.startswith("| ")
        }
        assert len(widths) <= 3, "rows of a table have the same number of cells"


def test_hashes_and_reports_are_in_the_pack_and_no_rule_is_claimed(study):
    inputs = json.loads((study / "out" / "summary.json").read_text())["inputs"]
    text = text_of(study, "README.md")

    assert all(inputs[f"{name}_sha256"] in text for name in ("references", "predictions"))
    files = {"report.html", "scores.csv", "strata.csv", "summary.json"}
    assert files <= {path.name for path in (study / "pack").iterdir() if path.name in text}
    for path in (study / "pack").glob("*.md"):
        assert "compliant" not in path.read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("name", ["claim.md", "model_card.md", "report.html", "report.tex"])
def test_the_tolerance_of_a_metric_is_said(study, name):
    assert "tolerance 2 mm" in text_of(study, name)


def test_a_folder_with_something_in_it_is_not_touched(study):
    before = {path: path.stat().st_mtime_ns for path in (study / "pack").iterdir()}
    result = run("report", study / "out", "--pack", study / "pack")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert before == {path: path.stat().st_mtime_ns for path in (study / "pack").iterdir()}
