"""The commands as their users run them: what they show, write and return."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from nnunet_dro.evaluation import read_evaluation
from tests.evaluation.made_folders import (
    EVALUATION_FILES,
    bars,
    check_refused,
    dice_of,
    names_in,
    read_csv,
    run,
    run_evaluate,
    scores_of,
    strata_of,
    summary_of,
    write_cases,
    write_map,
    write_study,
)

PROGRAM = Path(sys.executable).parent / "nnunet-dro"


COMPARISON_FILES = ["changed.csv", "comparison.csv", "report.html", "report.md", "report.tex", "summary.json"]


def test_evaluate_writes_scores_strata_and_reports(tmp_path):
    write_study(tmp_path)

    result = run_evaluate(tmp_path, bootstrap=100)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(tmp_path / "out" / "report.html")
    assert names_in(tmp_path / "out") == EVALUATION_FILES
    assert dice_of(tmp_path / "out") == {"case_00": 1.0, "case_01": 0.75, "case_02": 0.5, "case_03": 0.0}
    assert (scores_of(tmp_path / "out")["label"] == ["tumour", "organ"] * 4).all()
    row = strata_of(tmp_path / "out").loc[("all", "all")]
    assert row[["n", "n_undefined", "mean", "median", "min", "max"]].tolist() == [4, 0, 0.5625, 0.625, 0, 1]
    assert row["p5"] == pytest.approx(0.075)
    # Four values are shorter than any interval.
    assert row[["mean_low", "mean_high"]].isna().all()
    assert row["mean_low_guaranteed"] < row["mean"] < row["mean_high_guaranteed"]
    assert row["n_failed"] == 1


def test_a_failure_is_what_the_user_says(tmp_path):
    write_study(tmp_path, shifts=(0, 1, 2, 4))
    counts = {}
    for n, options in enumerate(((), ("--failure", "dice<=0.75"), ("--metrics", "dice,hd95", "--failure", "hd95>0"))):
        assert run_evaluate(tmp_path, *options, out=f"out{n}").exit_code == 0
        table = read_csv(tmp_path / f"out{n}" / "strata.csv").set_index(["metric", "label"])
        metric = "hd95" if n == 2 else "dice"
        counts[n] = table.loc[(metric, "tumour"), "n_failed"]
        assert table.loc[table.index.get_level_values(0) != metric, "n_failed"].isna().all()
    assert counts == {0: 1, 1: 3, 2: 3}
    folders = [f"{name}={tmp_path / 'out1'}" for name in "AB"]
    assert run("compare", *folders, "-o", tmp_path / "both").exit_code == 0
    assert summary_of(tmp_path / "both")["about"]["options"]["failure"] == "dice<=0.75"
    for rule, words in (
        ("hd95>20", "must be about a metric that is computed"),
        ("dice<50", "Write 0.5 for 50 %"),
    ):
        refused = run_evaluate(tmp_path, "--failure", rule, out="refused")
        assert refused.exit_code == 2
        assert words in refused.stderr
        assert not (tmp_path / "refused").exists()


#: Names that this package's own tables and texts use.
OWN_NAMES = (
    *("set", "label", "method", "metric", "n", "attribute", "stratum", "patient", "difference", "baseline", "case_id"),
    *("dice", "hd95", "n_reference", "reference_ml", "mean", "value", "half", "combination", "share", "rank"),
)


@pytest.mark.parametrize("is_used", [False, True])
def test_columns_may_be_called_like_those_of_every_table(tmp_path, is_used):
    write_study(tmp_path, [n % 4 for n in range(12)])
    for n in range(12):
        write_map(tmp_path / "other" / f"case_{n:02}.nii.gz", bars(4, n % 3))
    columns = {name: [f"{name} {'ab'[(n // (1 + k % 3)) % 2]}" for n in range(12)] for k, name in enumerate(OWN_NAMES)}
    cases = write_cases(tmp_path, **columns, centre=[f"c{n // 6}" for n in range(12)])
    by = [*OWN_NAMES, "n,label", "method,set"] if is_used else ["centre"]
    options = ("--cases", cases, *(word for name in by for word in ("--by", name)), "--bootstrap", 0)

    for name, folder in (("a", "prediction"), ("b", "other")):
        result = run("evaluate", tmp_path / "reference", tmp_path / folder, "-o", tmp_path / name, *options)
        assert result.exit_code == 0, result.output

    assert {"tumour", "organ"} == set(scores_of(tmp_path / "a")["label"])
    assert scores_of(tmp_path / "a")["label (case table)"].tolist()[::2] == columns["label"]
    for name in OWN_NAMES if is_used else ():
        assert strata_of(tmp_path / "a").loc[(name, f"{name} a"), "n"] == 6
    folders = (f"A={tmp_path / 'a'}", f"B={tmp_path / 'b'}")
    for command in (
        ("report", tmp_path / "a"),
        ("compare", *folders, "-o", tmp_path / "compared", "--bootstrap", 0),
        ("rank", *folders, "-o", tmp_path / "ranked"),
        ("explore", tmp_path / "a", "-o", tmp_path / "explored", "--min-cases", 2, "--cases", cases),
    ):
        result = run(*command)
        assert result.exit_code == 0, (command, result.output)


def test_patients_may_be_in_a_column_called_label(tmp_path):
    write_study(tmp_path)
    cases = write_cases(tmp_path, label=["p", "p", "q", "r"])

    assert run_evaluate(tmp_path, "--cases", cases, "--patient", "label").exit_code == 0

    scores = scores_of(tmp_path / "out")
    assert scores["label"].tolist() == ["tumour", "organ"] * 4
    assert scores["label (case table)"].tolist() == ["p"] * 4 + ["q"] * 2 + ["r"] * 2
    assert any("4 cases are of 3 patients (label)" in note for note in summary_of(tmp_path / "out")["notes"])
    read = read_evaluation(tmp_path / "out")
    assert read.patient_of_case.tolist() == ["p", "p", "q", "r"]
    assert read.patient_of_case.name == "label"


def test_requirement_that_fails_is_exit_code_3_after_writing(tmp_path):
    write_study(tmp_path, shifts=(0, 1, 2, 4))
    cases = write_cases(tmp_path, centre=["A", "A", "B", "B"])
    (tmp_path / "requirements.txt").write_text("# release\ncentre=* label=organ min>=1\n")
    options = ("--require", "centre=B label=tumour mean>=0.5", "--require", "centre=* label=tumour p5>=0.1 n>=2")

    result = run_evaluate(
        tmp_path, "--cases", cases, "--by", "centre", *options, "--require-file", tmp_path / "requirements.txt"
    )

    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        "nnunet-dro: requirement not met: centre=B label=tumour: mean 0.250 is not >= 0.5 (2 cases)",
        "nnunet-dro: requirement not met: centre=B label=tumour: p5 0.025 is not >= 0.1 (2 cases); n 2 is >= 2",
    ]
    assert names_in(tmp_path / "out") == EVALUATION_FILES
    assert [outcome["passed"] for outcome in summary_of(tmp_path / "out")["requirements"]] == [
        *(False, True, False),
        *(True, True),
    ]


def test_requirements_that_are_met_are_exit_code_0(tmp_path):
    write_study(tmp_path, shifts=(0, 1))

    result = run_evaluate(tmp_path, "--require", "label=tumour p5>=70% n>=2", "--require", "label=organ mean >= 1")

    assert result.exit_code == 0
    assert not result.stderr


@pytest.mark.parametrize("requirement", ["p5>=0.70", "iqr<=0.1"])
def test_a_percentile_of_one_case_is_exit_code_3(tmp_path, requirement):
    write_study(tmp_path, shifts=(0,))

    result = run_evaluate(tmp_path, "--require", f"label=tumour {requirement}")

    assert result.exit_code == 3
    (line,) = result.stderr.splitlines()
    assert line.startswith("nnunet-dro: cannot tell if a requirement is met: label=tumour: ")
    assert line.endswith("if 1 is enough, add n>=1")
    (outcome,) = summary_of(tmp_path / "out")["requirements"]
    assert (outcome["passed"], outcome["verdict"]) == (False, "cannot tell")
    assert "? cannot tell" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_cases_without_a_value_do_not_count_as_cases(tmp_path):
    write_study(tmp_path, shifts=(0,) * 4)
    for n in range(4):
        for folder in ("reference", "prediction"):
            write_map(tmp_path / folder / f"case_{n:02}.nii.gz", bars(0))

    result = run_evaluate(tmp_path, "--require", "label=tumour n>=4")

    assert result.exit_code == 3
    assert "label=tumour: n 0 is not >= 4 (0 of 4 cases with a value)" in result.stderr


def test_patients_can_be_required(tmp_path):
    write_study(tmp_path, shifts=(0,) * 4)
    cases = write_cases(tmp_path, patient=["p", "p", "q", "q"])
    options = ("--cases", cases, "--patient", "patient", "--require")

    assert run_evaluate(tmp_path, *options, "n_patients>=2", out="a").exit_code == 0
    result = run_evaluate(tmp_path, *options, "label=tumour mean>=0.9 n_patients>=3", out="b")

    assert result.exit_code == 3
    assert "mean 1.000 is >= 0.9 (4 cases, 2 patients); n_patients 2 is not >= 3" in result.stderr
    refused = run_evaluate(tmp_path, "--require", "n_patients>=2", out="c")
    check_refused(refused, tmp_path, "a reported statistic, not 'n_patients'", "--patient COLUMN", out="c")


@pytest.mark.parametrize("n_cases", [1, 2])
def test_few_cases_are_enough_for_every_command(tmp_path, n_cases):
    write_study(tmp_path, shifts=(0, 1)[:n_cases])
    for out in ("erm", "dro"):
        assert run_evaluate(tmp_path, out=out, bootstrap=20).exit_code == 0

    comparison = (f"ERM={tmp_path / 'erm'}", f"DRO={tmp_path / 'dro'}")
    result = run("compare", *comparison, "-o", tmp_path / "out", "--bootstrap", 20)

    assert result.exit_code == 0, result.output
    assert strata_of(tmp_path / "erm")["n"].tolist() == [n_cases]
    assert read_csv(tmp_path / "out" / "comparison.csv")["mean_difference"].tolist() == [0, 0]


def test_three_hundred_cases_take_seconds(tmp_path):
    write_study(tmp_path, shifts=[n % 5 for n in range(300)])
    start = time.monotonic()

    result = run_evaluate(tmp_path, bootstrap=2000)

    assert result.exit_code == 0, result.output
    assert strata_of(tmp_path / "out")["mean"].tolist() == [pytest.approx(0.5)]
    assert time.monotonic() - start < 20


def two_evaluations(root, **columns):
    """ERM is off by two voxels in case_01, DRO by one."""
    write_study(root, shifts=(0, 2, 1, 1))
    cases = write_cases(root, **(columns or {"centre": ["A", "B", "A", "B"]}))
    run_evaluate(root, "--cases", cases, "--by", "centre", out="erm")
    write_map(root / "prediction" / "case_01.nii.gz", bars(4, 1))
    run_evaluate(root, "--cases", cases, "--by", "centre", out="dro")
    return f"ERM={root / 'erm'}", f"DRO={root / 'dro'}"


def test_compare_writes_paired_differences(tmp_path):
    both = two_evaluations(tmp_path)

    result = run("compare", *both, "-o", tmp_path / "out", "--bootstrap", 50)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(tmp_path / "out" / "report.html")
    assert names_in(tmp_path / "out") == COMPARISON_FILES
    table = read_csv(tmp_path / "out" / "comparison.csv")
    tumour = table[table["label"] == "tumour"].set_index("stratum")
    assert tumour["mean_difference"].to_dict() == {"all": 0.0625, "A": 0, "B": 0.125}
    assert tumour.loc["B", ["wins", "ties", "losses"]].tolist() == [1, 1, 0]
    assert read_csv(tmp_path / "out" / "changed.csv")["case"].tolist() == ["case_01"]
    assert summary_of(tmp_path / "out")["methods"] == ["ERM", "DRO"]


def test_report_of_a_comparison_says_how_it_is_made_again(tmp_path):
    write_study(tmp_path)
    run_evaluate(tmp_path, bootstrap=0)
    folders = [f"{name}={tmp_path / 'out'}" for name in ("ERM", "DRO")]
    assert run("compare", *folders, "-o", tmp_path / "comparison", "--bootstrap", 0).exit_code == 0

    result = run("report", tmp_path / "comparison")

    assert result.exit_code == 2
    assert "`nnunet-dro compare --overwrite` makes a comparison again" in result.stderr


def test_compare_can_divide_by_another_column(tmp_path):
    both = two_evaluations(tmp_path, centre=["A", "B", "A", "B"], age=["1", "2", "3", "4"])

    run("compare", *both, "-o", tmp_path / "out", "--by", "age:q2", "--bootstrap", 0)

    table = read_csv(tmp_path / "out" / "comparison.csv")
    assert table["stratum"].unique().tolist() == ["q1: 1 to 2", "q2: 3 to 4"]


def test_compare_of_different_cases_lists_them_unless_intersected(tmp_path):
    both = two_evaluations(tmp_path)
    for folder in ("reference", "prediction"):
        (tmp_path / folder / "case_03.nii.gz").unlink()
    cases = write_cases(tmp_path, centre=["A", "B", "A"])
    run_evaluate(tmp_path, "--cases", cases, "--by", "centre", "--overwrite", out="dro")

    refused = run("compare", *both, "-o", tmp_path / "out")

    assert refused.exit_code == 2
    assert "case_03" in refused.stderr
    assert "--intersect" in refused.stderr
    assert not (tmp_path / "out").exists()
    allowed = run("compare", *both, "-o", tmp_path / "out", "--intersect", "--bootstrap", 0)
    assert allowed.exit_code == 0, allowed.output
    assert read_csv(tmp_path / "out" / "comparison.csv")["n"].tolist() == [2, 2, 1, 1, 3, 3]
    assert any("case_03" in note for note in summary_of(tmp_path / "out")["notes"])


def make_raw_dataset(root, n_cases=6):
    folder = root / "Dataset001_Made"
    for n in range(n_cases):
        write_map(folder / "labelsTr" / f"case_{n:02}.nii.gz", bars(4))
    (folder / "dataset.json").write_text('{"labels": {"background": 0, "a": 1}, "file_ending": ".nii.gz"}')
    return folder


def test_splits_are_written_shown_and_kept(tmp_path):
    raw = make_raw_dataset(tmp_path)
    cases = write_cases(tmp_path, centre=["A", "A", "A", "B", "B", "B"])
    options = ("--cases", cases, "--stratify", "centre", "--folds", 3, "-o", tmp_path / "splits_final.json")

    result = run("splits", raw, *options)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(tmp_path / "splits_final.json")
    assert "A" in result.stdout
    assert "B" in result.stdout
    written = (tmp_path / "splits_final.json").read_bytes()
    again = run("splits", raw, *options)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert len(again.stderr.splitlines()) == 1
    leave_out = ("--cases", cases, "--leave-out", "centre", "-o", tmp_path / "splits_final.json")
    assert run("splits", raw, *leave_out, "--force").exit_code == 0
    assert (tmp_path / "splits_final.json").read_bytes() != written


def test_splits_makes_no_folder_for_a_dataset_that_was_never_preprocessed(tmp_path, monkeypatch):
    raw, preprocessed = make_raw_dataset(tmp_path), tmp_path / "preprocessed"
    monkeypatch.setenv("nnUNet_preprocessed", str(preprocessed))

    result = run("splits", raw, "--folds", 2)

    check_refused(result, tmp_path, preprocessed / raw.name, "nnUNetv2_plan_and_preprocess", "--output")
    assert not preprocessed.exists()
    (preprocessed / raw.name).mkdir(parents=True)
    assert run("splits", raw, "--folds", 2).exit_code == 0
    assert (preprocessed / raw.name / "splits_final.json").is_file()


def test_splits_names_centres_that_are_left_out_with_few_cases(tmp_path):
    raw = make_raw_dataset(tmp_path, n_cases=11)
    cases = write_cases(tmp_path, centre=["A"] * 5 + ["B"] + ["C"] * 5)

    result = run("splits", raw, "--cases", cases, "--leave-out", "centre", "-o", tmp_path / "out.json")

    assert result.exit_code == 0, result.output
    shown = " ".join(result.stdout.split())
    assert "Validated on fewer than 5 cases: fold 1 (B) on 1. Such a fold says little of its centre." in shown


def test_splits_finds_the_case_table_which_may_have_test_cases(tmp_path):
    raw = make_raw_dataset(tmp_path, n_cases=2)
    cases = write_cases(raw, camera=["A", "B", "C"])

    result = run("splits", raw, "--stratify", "camera", "--folds", 2, "-o", tmp_path / "out.json")

    assert result.exit_code == 0, result.output
    assert str(cases) in result.stdout.replace("\n", "")
    assert json.loads((tmp_path / "out.json").read_text()) == [
        {"train": ["case_01"], "val": ["case_00"]},
        {"train": ["case_00"], "val": ["case_01"]},
    ]


def test_splits_says_where_a_case_table_can_be(tmp_path):
    raw = make_raw_dataset(tmp_path, n_cases=2)

    result = run("splits", raw, "--stratify", "camera", "--folds", 2, "-o", tmp_path / "out.json")

    check_refused(result, tmp_path, "'camera' alone", "--cases, or write cases.csv into the folder of the dataset")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "evaluate",
            ["--nsd-tolerance-mm", "--require-file", "undefined|one|brats", "error|worst"],
        ),
        ("compare", ["--intersect", "NAME=FOLDER"]),
        ("report", ["--images", "--per-stratum"]),
        ("splits", ["--leave-out", "--stratify", "--group", "--force"]),
    ],
)
def test_help_names_the_options_and_their_choices(command, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = run(command, "--help")
    assert result.exit_code == 0
    for word in words:
        assert word in result.stdout


def test_program_evaluates_in_one_quiet_process(tmp_path):
    write_study(tmp_path, shifts=(0, 1))
    arguments = ("reference", "prediction", "-o", "made/by/me", "--bootstrap", "10")

    done = subprocess.run([PROGRAM, "evaluate", *arguments], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert done.stdout.splitlines()[-1] == "made/by/me/report.html"
    assert names_in(tmp_path / "made" / "by" / "me") == EVALUATION_FILES


def test_program_tells_bad_input_in_one_line(tmp_path):
    write_study(tmp_path, shifts=(0, 1))
    (tmp_path / "prediction" / "case_01.nii.gz").write_text("no label map")

    arguments = ("reference", "prediction", "-o", "out")
    done = subprocess.run([PROGRAM, "evaluate", *arguments], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "case_01.nii.gz" in done.stderr
    assert not done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prediction", "reference"]


#: The program, in whose process Ctrl-C works even where the tests run in the background.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from nnunet_dro.cli import main
main()
"""


def is_reading(process, folder):
    """Whether the process has a file of the folder open at this moment."""
    opened = Path(f"/proc/{process.pid}/fd")
    try:
        return any(os.readlink(link).startswith(str(folder)) for link in opened.iterdir())
    except FileNotFoundError:  # closed meanwhile
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_interrupt_while_reading_leaves_nothing_behind(tmp_path):
    large = np.zeros((64, 128, 128), np.uint8)
    large[10:20] = 1
    for folder in ("reference", "prediction"):
        write_map(tmp_path / folder / "0000.nii", large)
        for n in range(1, 4000):
            os.link(tmp_path / folder / "0000.nii", tmp_path / folder / f"{n:04}.nii")
    command = [sys.executable, "-c", INTERRUPTIBLE, "evaluate", "reference", "prediction", "-o", "out", "--jobs", "2"]

    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not is_reading(process, tmp_path / "reference"):
            time.sleep(0.001)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == 130, stderr
    assert stderr.splitlines() == ["nnunet-dro: interrupted"]
    assert not stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prediction", "reference"]
