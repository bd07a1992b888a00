"""The files that `nnunet-dro evaluate` and `report` write, whole or not at all, and those of
earlier versions."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation import evaluate, parse_requirement
from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
from nnunet_dro.evaluation.evaluating.result_files import evaluation_files
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.evaluation.statistics.columns import GUARANTEED, STATISTICS
from nnunet_dro.files import output_folder
from tests.commands import done, refused, run
from tests.evaluation import made_folders as made
from tests.kept.folders import VERSION_0_2
from tests.test_cli import PROGRAM


def test_summary_says_what_was_done_and_is_strict_json(tmp_path):
    made.write_study(tmp_path)
    made.write_pair(tmp_path, "case_04.nii.gz", made.bars(0), made.bars(0))
    made.run_evaluate(tmp_path, "--method", "ERM", "--seed", 7)

    summary = made.summary_of(tmp_path / "out")

    assert summary["method"] == "ERM"
    assert summary["options"]["seed"] == 7
    assert set(summary["versions"]) >= {"nnunet-dro", "numpy", "python"}
    assert summary["worst"][0]["gap_low"] is None
    assert np.isnan(made.dice_of(tmp_path / "out")["case_04"])


def test_an_evaluation_is_read_as_it_was_written(tmp_path):
    made.write_study(tmp_path, (0, 1, 3), centre=["NA", "1.0", "nan"], age=["007", "", "1e3"])
    made.run_evaluate(tmp_path, "--by", "centre", "--metrics", "dice,hd95", bootstrap=20)

    written = {
        name: text.encode()
        for name, text in evaluation_files(read_evaluation(tmp_path / "out")).items()
    }

    assert sorted(written) == ["scores.csv", "strata.csv", "summary.json"]
    assert written.items() <= made.contents(tmp_path / "out").items()


@pytest.mark.parametrize("change", ["edited", "gone"])
def test_tables_that_are_not_those_that_were_written_are_refused(study, change):
    made.run_evaluate(study)
    table = study / "out" / "scores.csv"
    table.unlink() if change == "gone" else table.write_text(
        table.read_text().replace("1.0", "0.9")
    )
    words = "`evaluation` must hold its tables as written, got another scores.csv, or none, in"
    refused(run("report", study / "out"), words)


def test_files_are_the_same_whatever_the_seed_and_number_of_jobs(tmp_path):
    made.write_study(tmp_path)
    files = []
    for out, seed, jobs in (("one", 3, 1), ("two", 3, 2), ("other", 4, 2)):
        done(made.run_evaluate(tmp_path, "--seed", seed, "--jobs", jobs, out=out, bootstrap=50))
        files.append(made.contents(tmp_path / out))

    one, two, other = files

    assert one == two
    # No number of a verdict is drawn by chance.
    assert one["strata.csv"] == other["strata.csv"]


ODD_NAMES = [
    "<script>alert(1)<script>",
    "Fälle & [red]Ärzte[bold], №1",
    "007",
    "a b;c'd\"e",
    "$x_1%#{\\",
    "NA",
]


def test_odd_names_are_kept_and_never_become_markup(tmp_path):
    for n, case in enumerate(ODD_NAMES):
        made.write_pair(tmp_path, f"{case}.nii.gz", made.bars(4), made.bars(4, n % 4))
    made.write_dataset_json(tmp_path, {"background": 0, "<b>[/]|tumour": 1, "organ": 2})
    sites = ["[/]", "<i>", "|", "$&%", "{}", "[/]"]
    pd.DataFrame({"case": ODD_NAMES, "si|te": sites}).to_csv(tmp_path / "cases.csv", index=False)

    done(made.run_evaluate(tmp_path, "--by", "si|te"))

    assert sorted(made.dice_of(tmp_path / "out", "<b>[/]|tumour")) == sorted(ODD_NAMES)

    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in html
    assert "<b>[/]" not in html
    assert run("report", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == html


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such file names")
def test_file_name_that_is_no_utf8_is_kept(study):
    name = b"case_\xff.nii.gz"
    for folder in ("reference", "prediction"):
        os.rename(
            os.fsencode(study / folder / "case_01.nii.gz"),
            os.path.join(os.fsencode(study / folder), name),
        )
    (study / "prediction" / "case_00.nii.gz").unlink()

    done(made.run_evaluate(study, "--missing", "worst"))

    assert b"case_\xff" in (study / "out" / "scores.csv").read_bytes()
    assert run("report", study / "out").exit_code == 0


def test_nothing_defined_is_still_evaluated_compared_and_reported(study):
    made.write_dataset_json(study / "reference", {"background": 0, "a": 1, "b": 2, "never": 3})
    for n in range(2):
        made.write_pair(study, f"case_{n:02}.nii.gz", *np.zeros((2, 2, 2, 2)))

    done(made.run_evaluate(study, bootstrap=10))

    assert made.strata_of(study / "out", "never")["n_undefined"].tolist() == [2]
    assert run("report", study / "out").exit_code == 0

    twice = (f"A={study / 'out'}", f"B={study / 'out'}")
    assert run("compare", *twice, "-o", study / "both", "--bootstrap", 10).exit_code == 0


def test_report_is_made_again_with_the_worst_cases_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made.write_study(tmp_path, shifts=(0, 3))
    for n in range(2):
        grey = np.random.default_rng(n).normal(size=(8, 8, 8))
        made.write_map(tmp_path / "images" / f"case_{n:02}_0000.nii.gz", grey, dtype=np.float32)
    run("evaluate", "reference", "prediction", "-o", "out", "--bootstrap", 0)
    expected = made.contents(tmp_path / "out")
    (tmp_path / "out" / "report.html").write_text("changed")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    done(run("report", tmp_path / "out"))

    assert made.contents(tmp_path / "out") == expected

    done(run("report", "../out", "--images", "../images", "--per-stratum", 1))
    html = (tmp_path / "out" / "report.html").read_bytes()

    assert html.count(b"data:image/") > 0
    assert len(html) > len(expected["report.html"])


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("full", ["/full", "--overwrite"]),
        ("file", ["/file", "must be a folder", "Name another"]),
        ("file/within", ["/file", "must be a folder", "Name another"]),
        ("/proc/results", ["/proc", "must be writable", "Name another folder"]),
    ],
)
def test_output_that_is_in_use_is_refused_before_reading(study, out, words):
    (study / "full").mkdir()
    for name in ("full/mine.txt", "file"):
        (study / name).write_text("keep")
    (study / "prediction" / "case_00.nii.gz").write_text("no label map")

    made.check_refused(
        made.run_evaluate(study, out=out),
        study,
        *words,
        out=out,
        files=["mine.txt"] * (out == "full"),
    )

    assert (study / "file").read_text() == "keep"


def test_full_disk_is_one_line_and_keeps_the_earlier_results(study, monkeypatch):
    made.run_evaluate(study)
    before = made.contents(study / "out")
    made.write_map(study / "prediction" / "case_00.nii.gz", made.bars(4, 3))

    def refuse(path, content, write=output_folder._write):
        if path.name.startswith("summary"):
            raise OSError(28, "No space left on device", str(path))
        write(path, content)

    monkeypatch.setattr(output_folder, "_write", refuse)

    made.check_refused(
        made.run_evaluate(study, out="new"), study, "No space left on device", out="new"
    )

    made.check_refused(
        made.run_evaluate(study, "--overwrite"), study, "No space left", files=before
    )

    assert made.contents(study / "out") == before


@pytest.mark.parametrize("out", ["reference", "mine", "nnunet"])
def test_overwrite_spares_inputs_and_what_no_run_wrote(study, out):
    for name, file in (("mine", "cases.csv"), ("nnunet", "summary.json")):
        (study / name).mkdir()
        (study / name / file).write_text('{"mean": {}}')
    before = sorted(path.name for path in (study / out).iterdir())
    words = ["input"] if out == "reference" else ["earlier run", "other files"]
    made.check_refused(
        made.run_evaluate(study, "--overwrite", out=out), study, *words, out=out, files=before
    )
    done(made.run_evaluate(study, out="same"))
    for command, *given in (
        ("explore", study / "same"),
        ("compare", f"A={study / 'same'}", f"B={study / 'same'}"),
    ):
        refused(
            made.run(command, *given, "-o", study / "same", "--overwrite"),
            "must not be the folder of an input",
        )


def test_overwrite_leaves_no_files_of_another_command(study):
    done(made.run_evaluate(study))
    done(made.run_evaluate(study, out="other"))
    before = made.contents(study / "out")
    for command, kind, *given in (
        ("explore", "exploration", study / "other"),
        ("rank", "ranking", f"A={study / 'other'}", f"B={study / 'other'}"),
    ):
        refused(
            made.run(command, *given, "-o", study / "out", "--overwrite"),
            f"must have the {kind} of an earlier run to overwrite",
            "which holds other files",
        )
    assert made.contents(study / "out") == before


def test_a_closed_pipe_does_not_hide_that_a_requirement_is_not_met(study):
    words = [
        study / "reference",
        study / "prediction",
        "-o",
        study / "out",
        "--require",
        "p5>=1.0",
        "--bootstrap",
        0,
    ]
    shell = f"set -o pipefail; {shlex.join(map(str, (PROGRAM, 'evaluate', *words)))} | true"

    found = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)

    assert ("requirement not met" in found.stderr, found.returncode) == (True, 3)


def test_overwrite_replaces_results_and_keeps_other_files(study):
    made.run_evaluate(study)
    (study / "out.partial").mkdir()
    for name in ("out", "out.partial"):
        (study / name / "mine.txt").write_text("keep")

    made.write_map(study / "prediction" / "case_01.nii.gz", made.bars(4, 3))

    assert made.run_evaluate(study, "--overwrite").exit_code == 0
    assert made.dice_of(study / "out") == {"case_00": 1.0, "case_01": 0.25}
    assert made.names_in(study / "out") == sorted([*made.EVALUATION_FILES, "mine.txt"])
    for name in ("out", "out.partial"):
        assert (study / name / "mine.txt").read_text() == "keep"


def test_a_new_folder_has_the_usual_permissions_and_an_empty_one_is_kept(study):
    # It may be a mount point, or the shell's working directory.
    (study / "empty").mkdir()
    inode = (study / "empty").stat().st_ino

    for out in ("out", "empty"):
        assert made.run_evaluate(study, out=out).exit_code == 0
        assert made.names_in(study / out) == made.EVALUATION_FILES

    (study / "usual").mkdir()
    (study / "usual" / "file").touch()

    assert (study / "empty").stat().st_ino == inode
    assert stat.S_IMODE((study / "out").stat().st_mode) == stat.S_IMODE(
        (study / "usual").stat().st_mode
    )
    for path in (study / "out").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(
            (study / "usual" / "file").stat().st_mode
        )


KEPT = VERSION_0_2 / "evaluations"


def test_a_comparison_of_evaluations_of_version_0_2_has_its_numbers(tmp_path):
    methods = (f"{name.upper()}={KEPT / name}" for name in ("erm", "dro"))
    done(run("compare", *methods, "-o", tmp_path / "comparison", "--bootstrap", 200))
    table = pd.read_csv(tmp_path / "comparison" / "comparison.csv")
    kept = pd.read_csv(KEPT / "comparison.csv")

    # Since then, other intervals are computed.
    columns = [name for name in kept.columns if not name.endswith(("_low", "_high"))]

    pd.testing.assert_frame_equal(table[columns], kept[columns], rtol=1e-12)


def test_an_evaluation_of_version_0_2_is_described_and_reported_anew(tmp_path):
    read = read_evaluation(KEPT / "erm").strata
    kept = pd.read_csv(KEPT / "erm" / "strata.csv")

    same = ["attribute", "stratum", "label", "metric", "n", "n_undefined", *STATISTICS]

    pd.testing.assert_frame_equal(read[same], kept[same], rtol=1e-12, check_dtype=False)
    assert set(GUARANTEED) <= set(read.columns)
    assert (read.loc[read["metric"] == "dice", "failure_high"] > 0).all()

    folder = shutil.copytree(KEPT / "erm", tmp_path / "erm")
    done(run("report", folder))

    assert "Dataset042_Kept" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "summary.json").read_bytes() == (KEPT / "erm" / "summary.json").read_bytes()


def test_options_are_read_as_they_were_written(study):
    done(
        made.run_evaluate(
            study, "--by", "auto:size", "--instances", "tumour", "--failure", "dice<0.7"
        )
    )
    written = made.summary_of(study / "out")["options"]

    options = read_evaluation(study / "out").options

    assert (
        written
        == {name: str(study / name) for name in ("reference", "prediction")} | options.record()
    )
    assert (options.by, options.failure, options.instances) == (
        ("auto:size",),
        "dice<0.7",
        ("tumour",),
    )


def test_options_that_python_code_gives_by_name_replace_those_of_an_object(study):
    folders = (study / "reference", study / "prediction")
    options = EvaluateOptions(n_resamples=0, seed=7)

    evaluation = evaluate(
        *folders, options, seed=3, requirements=[parse_requirement("label=tumour mean>=0.5")]
    )

    assert (evaluation.options.n_resamples, evaluation.options.seed) == (0, 3)
    assert [outcome["passed"] for outcome in evaluation.about["requirements"]] == [True]
    with pytest.raises(TypeError, match="speed"):
        evaluate(*folders, speed=1)


def test_what_an_evaluation_does_not_record_has_its_default():
    assert EvaluateOptions.of({}) == EvaluateOptions(metrics=())
    assert EvaluateOptions.of({"seed": 3, "of_later_versions": 1}) == EvaluateOptions(
        metrics=(), seed=3
    )

    options = EvaluateOptions(by="centre", metrics="dice", instances="tumour")
    assert (options.by, options.metrics, options.instances) == (("centre",), ("dice",), ("tumour",))


def test_a_name_that_is_none_is_no_attribute():
    import nnunet_dro.evaluation

    assert not hasattr(nnunet_dro.evaluation, "evalute")


def test_guaranteed_bounds_of_another_version_are_computed_anew(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1, 2, 3))
    done(made.run_evaluate(tmp_path, "--failure", "dice<0.8"))
    folder = tmp_path / "out"
    now = read_evaluation(folder).strata

    # As version 0.3 wrote them: drawn by chance, and with another definition.
    drawn = now.assign(mean_low_guaranteed=0.123)
    drawn.to_csv(folder / "strata.csv", index=False)
    summary = json.loads((folder / "summary.json").read_text())
    summary["definitions"]["guaranteed"] = "random weights"
    summary["tables_sha256"]["strata.csv"] = sha256_of(folder / "strata.csv")
    (folder / "summary.json").write_text(json.dumps(summary))

    pd.testing.assert_frame_equal(read_evaluation(folder).strata, now)
    assert now["n_failed"].max() > 0
