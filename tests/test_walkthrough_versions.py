"""A quality engineer compares two versions of a model under a locked protocol, from start to end."""

import re

import numpy as np
import pytest

from nnunet_dro import __version__
from tests.commands import done, run
from tests.evaluation.made_folders import (
    read_csv,
    summary_of,
    write_cases,
    write_dataset_json,
    write_map,
)

#: Cases that the new version no longer finds, each of another patient.
LOST = range(0, 14, 2)
N_CASES = 28


def shell(shift):
    """A map of 12 x 12 x 12 with a cube of the tumour, moved by ``shift`` voxels, and an organ."""
    values = np.zeros((12, 12, 12), np.uint8)
    values[2:8, 2:8, 1 + shift : 7 + shift] = 1
    values[9:11] = 2
    return values


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The study after the whole job, and what the commands printed and how they ended."""
    root = tmp_path_factory.mktemp("job")
    letters = np.random.default_rng(2).choice(list("abc"), N_CASES)
    for n in range(N_CASES):
        file = f"case_{n:02}.nii.gz"
        write_map(root / "reference" / file, shell(0))
        write_map(root / "old" / file, shell(1))
        write_map(root / "new" / file, shell(4 if n in LOST else 0))
    write_dataset_json(root / "reference")
    patients = [f"patient_{n // 2:02}" for n in range(N_CASES)]
    centre = ["north", "south"] * 12 + ["east"] * 4
    cases = write_cases(root, patient=patients, centre=centre, letter=letters)

    protocol = root / "protocol.toml"
    done(
        run(
            *("protocol", "write", protocol, "--by", "centre", "--by", "letter"),
            *("--patient", "patient", "--patient-score", "worst", "--metrics", "dice,hd95"),
            *("--require", "label=tumour metric=dice mean>=70%"),
            *("--require", "label=tumour metric=dice new_failures<=0"),
            *("--require", "label=tumour metric=dice mean_difference_low_guaranteed>=-2pt"),
        )
    )
    results = {}
    for version in ("old", "new"):
        results[version] = run(
            *("evaluate", root / "reference", root / version, "-o", root / "out" / version),
            *("--cases", cases, "--protocol", protocol, "--jobs", 1),
        )
    versions = [f"{version}={root / 'out' / version}" for version in ("old", "new")]
    comparison = root / "out" / "comparison"
    results["comparison"] = run("compare", *versions, "-o", comparison, "--protocol", protocol)
    return root, results


def test_new_failures_are_the_first_line_and_stop_the_release(job):
    root, results = job
    first = " ".join(results["comparison"].stdout.split())

    assert first.startswith(
        "Failures (Dice < 50 %), old → new: tumour from 0 to 7 of 14 patients (7 new, 0 recovered, exact "
        "McNemar p = 0.016): patient_00, patient_01, patient_02, patient_03, patient_04, "
        "patient_05, patient_06."
    )
    assert "requirements not met" in first[:400]
    assert results["comparison"].exit_code == 3

    page = (root / "out" / "comparison" / "report.html").read_text(encoding="utf-8")
    assert page.index("from 0 to 7 of 14") < page.index("<h2>What changed")

    failures = read_csv(root / "out" / "comparison" / "failures.csv")
    of_all = failures[failures["attribute"] == "all"]
    assert of_all["patient"].tolist() == [f"patient_{n:02}" for n in range(7)]
    assert set(of_all["change"]) == {"new failure"}


def test_losses_by_any_metric_go_before_gains(job):
    root, _ = job
    lines = (root / "out" / "comparison" / "report.md").read_text(encoding="utf-8").splitlines()
    findings = [line for line in lines if line.startswith("- **")]

    assert re.search("loses most|falls most", findings[0])
    assert not [line for line in findings[:2] if "gains" in line]
    assert any("loses most by HD95" in line for line in findings)


def test_random_letters_are_no_finding(job):
    root, _ = job
    report = (root / "out" / "old" / "report.md").read_text(encoding="utf-8")
    assert "is worst in" not in report

    page = (root / "out" / "new" / "report.html").read_text(encoding="utf-8")
    assert "differs no more than by chance <small>letter" in page.replace("</h3>", "")


def test_protocol_says_when_by_what_and_what_a_failure_is(job):
    root, _ = job
    about = summary_of(root / "out" / "comparison")["about"]
    report = (root / "out" / "comparison" / "report.md").read_text(encoding="utf-8")

    assert re.search(rf"protocol of \d{{4}}-\d\d-\d\d \(nnunet-dro {__version__}\)", report)
    assert about["options"]["failure"] == "dice<0.5"
    assert about["options"]["patient_score"] == "worst"
    assert report.count(about["protocol"]["sha256"]) == 1


@pytest.mark.parametrize("name", ["old", "new", "comparison"])
def test_reader_meets_short_keys_one_unit_and_no_raw_numbers(job, name):
    root, results = job
    report = (root / "out" / name / "report.md").read_text(encoding="utf-8")

    requirements = [line for line in report.splitlines() if line.startswith("- Requirement")]
    assert requirements
    assert not [line for line in requirements if re.search(r"\d\.\d{4,}", line)]
    assert not [line for line in requirements if "pt is" in line and re.search(r"is -0\.\d", line)]

    notes = [line for line in report.splitlines() if line.startswith("> ")]
    assert len(notes) == len(set(notes))

    assert max(map(len, results[name].stdout.splitlines()[:-1])) <= 80
