"""Bad input: one line that names the file or case and the cure, exit code 2, and nothing written."""

import os
from pathlib import Path

import numpy as np
import pytest
import SimpleITK

from tests.evaluation.made_folders import (
    bars,
    check_refused,
    run,
    run_evaluate,
    write_cases,
    write_dataset_json,
    write_map,
    write_study,
)


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path, shifts=(0, 1))


def first_prediction(study):
    return study / "prediction" / "case_00.nii.gz"


@pytest.mark.parametrize("folder", ["reference", "prediction"])
def test_empty_folder_is_refused(study, folder):
    for path in (study / folder).iterdir():
        path.unlink()

    check_refused(run_evaluate(study), study, study / folder, "must hold label maps", "Check the path")


@pytest.mark.parametrize("folder", ["reference", "prediction"])
def test_folder_that_is_not_there_is_refused(study, folder):
    (study / folder).rename(study / "moved")

    check_refused(run_evaluate(study), study, study / folder, "must be a folder")


def test_no_common_file_name_is_refused(study):
    for n in range(2):
        (study / "prediction" / f"case_{n:02}.nii.gz").rename(study / "prediction" / f"seg_{n}.nii.gz")

    check_refused(run_evaluate(study), study, "case_00.nii.gz", "seg_0.nii.gz", "Name the predictions")


def test_missing_predictions_are_named(study):
    first_prediction(study).unlink()

    check_refused(run_evaluate(study), study, "case_00", study / "prediction", "--missing worst")


GRIDS = {
    "shape": ({"values": bars(4)[:7]}, "(8, 8, 8)", "(8, 8, 7)"),
    "spacing": ({"spacing": (1, 1, 2.5)}, "(1, 1, 1)", "(1, 1, 2.5)"),
    "origin": ({"origin": (0, 0, 3)}, "(0, 0, 0)", "(0, 0, 3)"),
    "direction": ({"direction": (0.8, -0.6, 0, 0.6, 0.8, 0, 0, 0, 1)}, "0.8", "0.6"),
}


@pytest.mark.parametrize("ending", [".nii.gz", ".nrrd"])
@pytest.mark.parametrize("differs", list(GRIDS))
def test_another_grid_is_refused(tmp_path, differs, ending):
    study = write_study(tmp_path, shifts=(0, 1), ending=ending)
    changes, *numbers = GRIDS[differs]
    path = first_prediction(study).with_name(f"case_00{ending}")
    write_map(path, **({"values": bars(4)} | changes))

    check_refused(run_evaluate(study), study, path, differs, *numbers, "resample it")


@pytest.mark.parametrize("folder", ["reference", "prediction"])
def test_value_that_dataset_json_lacks_is_refused(study, folder):
    write_map(study / folder / "case_01.nii.gz", bars(4) * 4)

    check_refused(run_evaluate(study), study, study / folder / "case_01.nii.gz", "4, 8", "--dataset-json")


def test_fractions_are_refused(study):
    write_map(first_prediction(study), bars(4) * 0.7, dtype=np.float32)

    check_refused(run_evaluate(study), study, first_prediction(study), "0.7", "nearest neighbour")


@pytest.mark.parametrize("folder", ["reference", "prediction"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-6],
        lambda content: b"",
        lambda content: b"no label map",
        lambda content: content[:40] + b"\0\0\0\0" + content[44:],
    ],
    ids=["half", "no end", "empty", "text", "changed"],
)
def test_damaged_file_is_refused(study, folder, damage):
    path = study / folder / "case_01.nii.gz"
    path.write_bytes(damage(path.read_bytes()))

    check_refused(run_evaluate(study), study, path, "Write it again")


def test_four_axes_are_refused(study):
    image = SimpleITK.JoinSeries([SimpleITK.GetImageFromArray(bars(4))] * 2)
    SimpleITK.WriteImage(image, str(first_prediction(study)))

    check_refused(run_evaluate(study), study, first_prediction(study), "8, 8, 8, 2")


def test_two_files_of_a_case_are_refused(study):
    write_map(study / "prediction" / "case_00.nrrd", bars(4))

    check_refused(run_evaluate(study), study, "case_00.nii.gz", "case_00.nrrd", "Remove one")


def test_file_without_permission_is_refused(study, monkeypatch):
    # Whoever runs the tests may be allowed to read everything.
    read_bytes = Path.read_bytes

    def refuse(path):
        if path.name == "case_00.nii.gz" and path.parent.name == "prediction":
            raise PermissionError(13, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)

    check_refused(run_evaluate(study), study, first_prediction(study), "permissions")


def test_folder_without_permission_is_refused_in_one_line(study, monkeypatch):
    iterdir = Path.iterdir

    def refuse(path):
        if path.name == "reference":
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.W_OK)

    check_refused(run_evaluate(study), study, "Permission denied", study / "reference")


TABLES = {
    "twice": ("case,centre\ncase_00,A\ncase_00,B\ncase_01,B\n", ["case_00", "Remove a row"]),
    "misspelt": ("case,centre\ncase_00,A\ncase_1,B\n", ["none for case_01 (other rows: case_1)", "ame the cases"]),
    "lacking": ("case,centre\ncase_00,A\n", ["case_01", "Add the row"]),
    "no case": ("name,centre\ncase_00,A\ncase_01,B\n", ["`case`", "Rename"]),
    "empty": ("", ["Fill the table"]),
}


@pytest.mark.parametrize("kind", list(TABLES))
def test_unusable_case_table_is_refused_before_reading(study, kind):
    content, words = TABLES[kind]
    (study / "cases.csv").write_text(content)
    first_prediction(study).write_text("no label map")

    result = run_evaluate(study, "--cases", study / "cases.csv", "--by", "centre")

    check_refused(result, study, study / "cases.csv", *words)


def test_case_table_that_is_not_there_is_refused(study):
    check_refused(run_evaluate(study, "--cases", study / "none.csv"), study, study / "none.csv", "Write a table")


OPTIONS = {
    "metric": (("--metrics", "dice,dise"), ["dise", "hd95"]),
    "no metric": (("--metrics", " , "), ["at least one metric", "Choose from"]),
    "empty": (("--empty", "zero"), ["'--empty'", "brats", "zero"]),
    "missing": (("--missing", "skip"), ["'--missing'", "worst", "skip"]),
    "tolerance": (("--nsd-tolerance-mm", "0"), ["`--nsd-tolerance-mm`", "millimetres"]),
    "not a number": (("--nsd-tolerance-mm", "nan"), ["`--nsd-tolerance-mm`", "millimetres"]),
    "dataset.json": (("--dataset-json", "none.json"), ["none.json", "Check the path"]),
    "requirement file": (("--require-file", "none.txt"), ["none.txt", "a requirement per line"]),
    "by without a table": (("--by", "centre"), ["centre", "--cases"]),
}


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_unusable_option_is_refused_before_reading(study, kind):
    options, words = OPTIONS[kind]
    first_prediction(study).write_text("no label map")

    check_refused(run_evaluate(study, *options), study, *words)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("center", ["center", "centre, age", "Choose from"]),
        ("centre,center", ["center", "Choose from"]),
        ("age:18", ["age:18", "two or more increasing numbers"]),
        ("age:0,10", ["case_01", "Widen the edges"]),
        ("centre:q2", ["finite number", "case_00"]),
        ("age:q3", ["3 different numbers", "Ask for fewer"]),
        ("", ["`--by`", "Choose from"]),
    ],
)
def test_unusable_by_is_refused_before_reading(study, by, words):
    cases = write_cases(study, centre=["A", "B"], age=[5, 70])
    first_prediction(study).write_text("no label map")

    check_refused(run_evaluate(study, "--cases", cases, "--by", by), study, *words)


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ("centre=C p5>=0.7", ["'C'", "A, B"]),
        ("site=A p5>=0.7", ["'site'", "--by site"]),
        ("label=liver p5>=0.7", ["'liver'", "tumour, organ"]),
        ("metric=hd95 p75<=3", ["'hd95'", "--metrics"]),
        ("p5>=70", ["fraction", "Write 70% or 0.7."]),
        ("p5>=4mm", ["fraction", "70%"]),
        ("p5_low>=0.7", ["p5_low", "intervals"]),
        ("std_low<=0.1", ["a bound that exists, not 'std_low'", "ask for p5 or p75"]),
        ("p6>=0.7", ["p6", "p10"]),
        ("p5", ["condition", "Write, for example"]),
    ],
)
def test_unusable_requirement_is_refused_before_reading(study, requirement, words):
    cases = write_cases(study, centre=["A", "B"])
    first_prediction(study).write_text("no label map")

    result = run_evaluate(study, "--cases", cases, "--by", "centre", "--require", requirement)

    check_refused(result, study, requirement, *words)


def test_unusable_requirement_is_refused_before_reading_without_dataset_json(tmp_path):
    study = write_study(tmp_path, shifts=(0, 1), dataset_json=False)
    first_prediction(study).write_text("no label map")

    check_refused(run_evaluate(study, "--require", "site=A p5>=0.7"), study, "'site'", "--by site")


def test_requirement_on_a_label_is_met_without_dataset_json(tmp_path):
    study = write_study(tmp_path, shifts=(0, 1), dataset_json=False)

    assert run_evaluate(study, "--require", "label=1 min>=0.7").exit_code == 0
    check_refused(run_evaluate(study, "--require", "label=7 min>=0.7", out="other"), study, "'7'", "1, 2", out="other")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["must be JSON", "Correct it"]),
        ("[]", ["must be a mapping"]),
        ("{}", ["`labels`", "Add it"]),
        ('{"labels": {"background": 0}}', ["at least one foreground label"]),
        ('{"labels": {"0": "background", "1": "tumour"}}', ["'background'", "Correct dataset.json"]),
        ('{"labels": {"tumour": 1.5}}', ["1.5", "Correct dataset.json"]),
        ('{"labels": {"tumour": Infinity}}', ["inf", "Correct dataset.json"]),
    ],
)
def test_broken_dataset_json_is_refused(study, content, words):
    (study / "reference" / "dataset.json").write_text(content)

    check_refused(run_evaluate(study), study, study / "reference" / "dataset.json", *words)


def test_only_background_without_dataset_json_is_refused(tmp_path):
    for folder in ("reference", "prediction"):
        write_map(tmp_path / folder / "a.png", np.zeros((4, 4)))

    check_refused(run_evaluate(tmp_path), tmp_path, "only background", "Check the folder")


def test_model_folder_without_validation_is_refused(study):
    model = study / "Trainer__Plans__2d"
    (model / "fold_0").mkdir(parents=True)

    result = run("evaluate", study / "reference", model, "-o", study / "out")

    check_refused(result, study, model, "--val")


def test_case_in_two_folds_is_refused(study):
    model = study / "Trainer__Plans__2d"
    for fold in (0, 1):
        write_map(model / f"fold_{fold}" / "validation" / "case_00.nii.gz", bars(4))

    check_refused(run("evaluate", study / "reference", model, "-o", study / "out"), study, "case_00", "one fold")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["out"], ["NAME=FOLDER", "'out'"]),
        (["=out"], ["NAME=FOLDER"]),
        (["ERM="], ["NAME=FOLDER"]),
        (["ERM=out", "ERM=out"], ["ERM", "twice"]),
        (["ERM=out"], ["two methods", "baseline"]),
        (["ERM=out", "DRO=reference"], ["summary.json", "reference", "nnunet-dro evaluate"]),
        (["ERM=out", "DRO=none"], ["summary.json", "none"]),
        (["ERM=out", "DRO=other"], ["summary.json", "other", "Evaluate again"]),
    ],
)
def test_unusable_evaluations_are_refused(study, monkeypatch, entries, words):
    monkeypatch.chdir(study)
    run_evaluate(study)
    (study / "other").mkdir()
    (study / "other" / "summary.json").write_text('{"mean": {}}')

    check_refused(run("compare", *entries, "-o", "both"), study, *words, out="both")


def test_comparison_by_an_unknown_column_is_refused(study):
    run_evaluate(study)
    twice = (f"A={study / 'out'}", f"B={study / 'out'}")

    check_refused(run("compare", *twice, "-o", study / "both", "--by", "centre"), study, "centre", out="both")


def test_evaluations_with_other_labels_are_refused(study):
    run_evaluate(study, out="a")
    write_dataset_json(study / "reference", {"background": 0, "both": [1, 2]})
    run_evaluate(study, out="b")

    result = run("compare", f"A={study / 'a'}", f"B={study / 'b'}", "-o", study / "both")

    check_refused(result, study, "same labels", "both", "dataset.json", out="both")


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "nnunet-dro evaluation 99"}', b"\xff\xfe", None])
def test_report_of_what_is_no_evaluation_is_refused(tmp_path, content):
    folder = tmp_path / "out"
    folder.mkdir()
    if content is not None:
        (folder / "summary.json").write_bytes(content if isinstance(content, bytes) else content.encode())

    files = ["summary.json"] if content is not None else ()
    result = run("report", folder)

    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert str(folder) in result.stderr
    assert "valuate" in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == list(files)


def test_report_of_images_that_are_not_there_is_refused(study):
    run_evaluate(study)
    before = (study / "out" / "report.html").read_bytes()

    result = run("report", study / "out", "--images", study / "none")

    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "none" in result.stderr
    assert (study / "out" / "report.html").read_bytes() == before
