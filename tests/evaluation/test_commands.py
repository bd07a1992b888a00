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
from nnunet_dro.evaluation.judging.verdict_files import VERDICT_FILES
from tests.commands import done, refused, run
from tests.evaluation import made_folders as made

PROGRAM = Path(sys.executable).parent / "nnunet-dro"

COMPARISON_FILES = [
    "changed.csv",
    "comparison.csv",
    "failures.csv",
    "report.html",
    "report.md",
    "report.tex",
    "summary.json",
]


def test_evaluate_writes_scores_strata_and_reports(tmp_path):
    made.write_study(tmp_path)

    result = done(made.run_evaluate(tmp_path, bootstrap=100))

    assert result.stdout.splitlines()[-1] == str(tmp_path / "out" / "report.html")
    assert made.names_in(tmp_path / "out") == made.EVALUATION_FILES
    assert made.dice_of(tmp_path / "out") == {
        "case_00": 1.0,
        "case_01": 0.75,
        "case_02": 0.5,
        "case_03": 0.0,
    }
    assert (made.scores_of(tmp_path / "out")["label"] == ["tumour", "organ"] * 4).all()

    row = made.strata_of(tmp_path / "out").loc[("all", "all")]
    names = ["n", "n_undefined", "n_failed", "mean", "median", "min", "max"]

    assert row[names].tolist() == [4, 0, 1, 0.5625, 0.625, 0, 1]
    assert row["p5"] == pytest.approx(0.075)
    # Four values are shorter than any interval.
    assert row[["mean_low", "mean_high"]].isna().all()
    assert row["mean_low_guaranteed"] < row["mean"] < row["mean_high_guaranteed"]


def test_a_failure_is_what_the_user_says(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1, 2, 4))
    counts = {}

    for n, options in enumerate(
        ((), ("--failure", "dice<=0.75"), ("--metrics", "dice,hd95", "--failure", "hd95>0"))
    ):
        assert made.run_evaluate(tmp_path, *options, out=f"out{n}").exit_code == 0
        table = made.read_csv(tmp_path / f"out{n}" / "strata.csv").set_index(["metric", "label"])
        metric = "hd95" if n == 2 else "dice"
        counts[n] = table.loc[(metric, "tumour"), "n_failed"]
        assert table.loc[table.index.get_level_values(0) != metric, "n_failed"].isna().all()

    assert counts == {0: 1, 1: 3, 2: 3}
    assert (
        run(
            "compare", *[f"{name}={tmp_path / 'out1'}" for name in "AB"], "-o", tmp_path / "both"
        ).exit_code
        == 0
    )
    assert made.summary_of(tmp_path / "both")["about"]["options"]["failure"] == "dice<=0.75"


#: Names that this package's own tables and texts use.
OWN_NAMES = (
    *(
        "set",
        "label",
        "method",
        "metric",
        "n",
        "attribute",
        "stratum",
        "patient",
        "difference",
        "baseline",
        "case_id",
    ),
    *(
        "dice",
        "hd95",
        "n_reference",
        "reference_ml",
        "mean",
        "value",
        "half",
        "combination",
        "share",
        "rank",
    ),
)


@pytest.mark.parametrize("is_used", [False, True])
def test_columns_may_be_called_like_those_of_every_table(tmp_path, is_used):
    made.write_study(tmp_path, [n % 4 for n in range(12)])
    for n in range(12):
        made.write_map(tmp_path / "other" / f"case_{n:02}.nii.gz", made.bars(4, n % 3))
    columns = {
        name: [f"{name} {'ab'[(n // (1 + k % 3)) % 2]}" for n in range(12)]
        for k, name in enumerate(OWN_NAMES)
    }
    cases = made.write_cases(tmp_path, **columns, centre=[f"c{n // 6}" for n in range(12)])
    by = [*OWN_NAMES, "n,label", "method,set"] if is_used else ["centre"]
    options = (
        "--cases",
        cases,
        *(word for name in by for word in ("--by", name)),
        "--bootstrap",
        0,
    )

    for name, folder in (("a", "prediction"), ("b", "other")):
        done(
            run(
                "evaluate",
                tmp_path / "reference",
                tmp_path / folder,
                "-o",
                tmp_path / name,
                *options,
            )
        )

    assert {"tumour", "organ"} == set(made.scores_of(tmp_path / "a")["label"])
    assert made.scores_of(tmp_path / "a")["label (case table)"].tolist()[::2] == columns["label"]
    for name in OWN_NAMES if is_used else ():
        assert made.strata_of(tmp_path / "a").loc[(name, f"{name} a"), "n"] == 6

    folders = (f"A={tmp_path / 'a'}", f"B={tmp_path / 'b'}")
    for command in (
        ("report", tmp_path / "a"),
        ("compare", *folders, "-o", tmp_path / "compared", "--bootstrap", 0),
        ("rank", *folders, "-o", tmp_path / "ranked", "--bootstrap", 20),
        (
            "explore",
            tmp_path / "a",
            "-o",
            tmp_path / "explored",
            "--min-cases",
            2,
            "--cases",
            cases,
        ),
    ):
        done(run(*command))


def test_patients_may_be_in_a_column_called_label(tmp_path):
    made.write_study(tmp_path, label=["p", "p", "q", "r"])

    done(made.run_evaluate(tmp_path, "--patient", "label"))

    scores = made.scores_of(tmp_path / "out")

    assert scores["label"].tolist() == ["tumour", "organ"] * 4
    assert scores["label (case table)"].tolist() == ["p"] * 4 + ["q"] * 2 + ["r"] * 2
    assert any(
        "4 cases are of 3 patients (label)" in note
        for note in made.summary_of(tmp_path / "out")["notes"]
    )

    read = read_evaluation(tmp_path / "out")
    assert read.patient_of_case.tolist() == ["p", "p", "q", "r"]
    assert read.patient_of_case.name == "label"


def test_requirement_that_fails_is_exit_code_3_after_writing(tmp_path):
    made.write_study(tmp_path, centre=["A", "A", "B", "B"])
    (tmp_path / "requirements.txt").write_text("# release\ncentre=* label=organ min>=1\n")
    options = (
        "--require",
        "centre=B label=tumour mean>=0.5",
        "--require",
        "centre=* label=tumour p5>=0.1 n>=2",
    )

    options += ("--require-file", tmp_path / "requirements.txt")

    assert done(made.run_evaluate(tmp_path, "--by", "centre", *options), 3).stderr.splitlines() == [
        "nnunet-dro: requirement not met: centre=B label=tumour: mean 0.250 is not >= 0.5 (2 cases)",
        "nnunet-dro: requirement not met: centre=B label=tumour: p5 0.025 is not >= 0.1 (2 cases); n 2 is >= 2",
    ]
    assert made.names_in(tmp_path / "out") == sorted((*made.EVALUATION_FILES, *VERDICT_FILES))

    outcomes = made.summary_of(tmp_path / "out")["requirements"]
    assert [outcome["passed"] for outcome in outcomes] == [False, True, False, True, True]


def test_a_percentile_of_one_case_is_exit_code_4(tmp_path):
    made.write_study(tmp_path, shifts=(0,))

    result = done(
        made.run_evaluate(tmp_path, "--require", "label=tumour p5>=0.70", bootstrap=20), 4
    )

    (line,) = result.stderr.splitlines()

    assert line.startswith("nnunet-dro: cannot tell if a requirement is met: label=tumour: ")
    assert line.endswith("if 1 is enough, add n>=1")

    (outcome,) = made.summary_of(tmp_path / "out")["requirements"]
    assert (outcome["passed"], outcome["verdict"]) == (False, "cannot tell")
    assert "? cannot tell" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")

    # One case is enough for a comparison too.
    done(
        run(
            "compare",
            *(f"{name}={tmp_path / 'out'}" for name in "AB"),
            "-o",
            tmp_path / "both",
            "--bootstrap",
            20,
        )
    )
    assert made.read_csv(tmp_path / "both" / "comparison.csv")["mean_difference"].tolist() == [0, 0]


@pytest.fixture
def both(tmp_path):
    """ERM is off by two voxels in case_01, DRO by one."""
    made.write_study(tmp_path, shifts=(0, 2, 1, 1))
    return made.evaluate_both(tmp_path, (0, 1, 1, 1), "--by", "centre", centre=["A", "B", "A", "B"])


def test_compare_writes_paired_differences(tmp_path, both):
    result = done(run("compare", *both, "-o", tmp_path / "out", "--bootstrap", 50))

    assert result.stdout.splitlines()[-1] == str(tmp_path / "out" / "report.html")
    assert made.names_in(tmp_path / "out") == COMPARISON_FILES

    table = made.read_csv(tmp_path / "out" / "comparison.csv")
    tumour = table[table["label"] == "tumour"].set_index("stratum")

    assert tumour["mean_difference"].to_dict() == {"all": 0.0625, "A": 0, "B": 0.125}
    assert tumour.loc["B", ["wins", "ties", "losses"]].tolist() == [1, 1, 0]
    assert made.read_csv(tmp_path / "out" / "changed.csv")["case"].tolist() == ["case_01"]
    assert made.summary_of(tmp_path / "out")["methods"] == ["ERM", "DRO"]

    refused(
        run("report", tmp_path / "out"), "`nnunet-dro compare --overwrite` makes a comparison again"
    )
    # Neither leaves tables of the other in a folder that it overwrites.
    assert made.run_evaluate(tmp_path, "--overwrite").exit_code == 0
    assert made.names_in(tmp_path / "out") == made.EVALUATION_FILES

    done(run("compare", *both, "-o", tmp_path / "out", "--overwrite", "--bootstrap", 0))
    assert made.names_in(tmp_path / "out") == COMPARISON_FILES


def test_compare_of_different_cases_lists_them_unless_intersected(tmp_path, both):
    for folder in ("reference", "prediction"):
        (tmp_path / folder / "case_03.nii.gz").unlink()
    made.run_evaluate(tmp_path, "--by", "centre", "--overwrite", out="dro")
    made.check_refused(
        run("compare", *both, "-o", tmp_path / "out"), tmp_path, "case_03", "--intersect"
    )

    done(run("compare", *both, "-o", tmp_path / "out", "--intersect", "--bootstrap", 0))

    assert made.read_csv(tmp_path / "out" / "comparison.csv")["n"].tolist() == [2, 2, 1, 1, 3, 3]
    assert any("case_03" in note for note in made.summary_of(tmp_path / "out")["notes"])


def make_raw_dataset(root, n_cases=6):
    folder = root / "Dataset001_Made"
    for n in range(n_cases):
        made.write_map(folder / "labelsTr" / f"case_{n:02}.nii.gz", made.bars(4))
    (folder / "dataset.json").write_text(
        '{"labels": {"background": 0, "a": 1}, "file_ending": ".nii.gz"}'
    )
    return folder


def test_splits_are_written_shown_and_kept(tmp_path):
    raw = make_raw_dataset(tmp_path, n_cases=11)
    output = tmp_path / "splits_final.json"
    cases = made.write_cases(tmp_path, centre=["A"] * 5 + ["B"] + ["C"] * 5)
    leave_out = ("--cases", cases, "--leave-out", "centre", "--folds", 1, "-o", output)

    result = done(
        run("splits", raw, "--cases", cases, "--stratify", "centre", "--folds", 3, "-o", output)
    )

    assert result.stdout.splitlines()[-1] == str(output)

    written = output.read_bytes()
    refused(run("splits", raw, *leave_out), "--force")

    assert output.read_bytes() == written

    shown = " ".join(done(run("splits", raw, *leave_out, "--force")).stdout.split())
    assert output.read_bytes() != written
    assert "train on A 0 5 0 B 1 1 0 C 2 5 0 Note: Validated" in shown
    assert (
        "Validated on fewer than 5 cases: fold 1 (B) on 1. Such a fold says little of its centre."
        in shown
    )


def test_splits_makes_no_folder_for_a_dataset_that_was_never_preprocessed(tmp_path, monkeypatch):
    raw = make_raw_dataset(tmp_path)
    preprocessed = tmp_path / "preprocessed"
    monkeypatch.setenv("nnUNet_preprocessed", str(preprocessed))

    result = run("splits", raw, "--folds", 2)

    made.check_refused(
        result, tmp_path, preprocessed / raw.name, "nnUNetv2_plan_and_preprocess", "--output"
    )

    assert not preprocessed.exists()

    (preprocessed / raw.name).mkdir(parents=True)
    assert run("splits", raw, "--folds", 2).exit_code == 0
    assert (preprocessed / raw.name / "splits_final.json").is_file()


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_splits_refuses_other_folds_than_those_of_the_raw_dataset(tmp_path, monkeypatch, force):
    """nnUNetv2_plan_and_preprocess copies these, and fails where others are in the way."""
    raw = make_raw_dataset(tmp_path)
    preprocessed = tmp_path / "preprocessed"
    monkeypatch.setenv("nnUNet_preprocessed", str(preprocessed))
    own = preprocessed / raw.name / "splits_final.json"
    own.parent.mkdir(parents=True)
    run("splits", raw, "--folds", 3, "-o", raw / "splits_final.json")

    result = run("splits", raw, "--folds", 2, *force)

    made.check_refused(result, tmp_path, raw / "splits_final.json", "Rename or remove that file")
    assert not own.exists()

    assert run("splits", raw, "--folds", 3, *force).exit_code == 0
    assert own.read_bytes() == (raw / "splits_final.json").read_bytes()


def test_splits_finds_the_case_table_which_may_have_test_cases(tmp_path):
    raw = make_raw_dataset(tmp_path, n_cases=2)
    command = ("splits", raw, "--stratify", "camera", "--folds", 2, "-o", tmp_path / "out.json")
    where = "--cases, or write cases.csv into the folder of the dataset"

    made.check_refused(run(*command), tmp_path, "'camera' alone", where)

    cases = made.write_cases(raw, camera=["A", "B", "C"])

    assert str(cases) in done(run(*command)).stdout.replace("\n", "")

    folds = [{"train": ["case_01"], "val": ["case_00"]}, {"train": ["case_00"], "val": ["case_01"]}]
    assert json.loads((tmp_path / "out.json").read_text()) == folds


def test_program_is_quiet_and_tells_bad_input_in_one_line(study):
    def program(out):
        command = (PROGRAM, "evaluate", "reference", "prediction", "-o", out, "--bootstrap", "10")
        return subprocess.run(command, cwd=study, capture_output=True, text=True)

    ended = program("made/by/me")
    (study / "prediction" / "case_01.nii.gz").write_text("no label map")

    failed = program("out")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[-1] == "made/by/me/report.html"
    assert made.names_in(study / "made" / "by" / "me") == made.EVALUATION_FILES
    assert (failed.returncode, failed.stdout) == (2, "")
    assert len(failed.stderr.splitlines()) == 1, failed.stderr
    assert "case_01.nii.gz" in failed.stderr
    assert made.names_in(study) == ["made", "prediction", "reference"]


#: The program, in whose process Ctrl-C works even where the tests run in the background.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from nnunet_dro.cli import main
main()
"""


def is_reading(process, folder):
    """Whether the process has a file of the folder open at this moment."""
    try:
        return any(
            os.readlink(link).startswith(str(folder))
            for link in Path(f"/proc/{process.pid}/fd").iterdir()
        )
    except FileNotFoundError:  # closed meanwhile
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_interrupt_while_reading_leaves_nothing_behind(tmp_path):
    large = np.zeros((64, 128, 128), np.uint8)
    large[10:20] = 1
    for folder in ("reference", "prediction"):
        made.write_map(tmp_path / folder / "0000.nii", large)
        for n in range(1, 4000):
            os.link(tmp_path / folder / "0000.nii", tmp_path / folder / f"{n:04}.nii")
    command = [
        sys.executable,
        "-c",
        INTERRUPTIBLE,
        "evaluate",
        "reference",
        "prediction",
        "-o",
        "out",
        "--jobs",
        "2",
    ]

    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not is_reading(process, tmp_path / "reference"):
            time.sleep(0.001)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == 130, stderr
    assert stderr.splitlines() == ["nnunet-dro: interrupted"]
    assert not stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prediction", "reference"]
