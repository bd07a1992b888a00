"""A locked protocol: options decided beforehand, and a hash that shows it."""

import hashlib
import inspect
import json
from copy import copy
from dataclasses import replace
from shutil import copytree

import pytest

from nnunet_dro import __version__
from nnunet_dro.commands.compare import compare
from nnunet_dro.commands.evaluate import evaluate
from nnunet_dro.commands.protocol_file import (
    Protocol,
    read_protocol,
    sorted_requirements,
    write_protocol,
)
from nnunet_dro.commands.shared import REFUSED
from tests.commands import done, refused, run
from tests.evaluation.made_folders import check_refused, run_evaluate, summary_of, write_study

OPTIONS = (
    *("--by", "centre", "--metrics", "dice,hd95", "--bootstrap", 20, "--margin", 2),
    *("--require", "label=tumour mean>=0.5", "--require", "label=tumour mean_difference>=0"),
)

PROTOCOL = Protocol(
    evaluate={
        "by": ["centre"],
        "overall": True,
        "reference_stratum": None,
        "patient": "p\\ä\x7f \U0001f9e0",
        "patient_score": "worst",
        "metrics": ["dice"],
        "nsd_tolerance_mm": 1.0,
        "empty": "undefined",
        "instances": ["tumour"],
        "match": "brats:3",
        "connectivity": None,
        "lesions_above_mm3": 2.5,
        "missing": "error",
        "failure": "dice<0.6",
        "bootstrap": 2000,
        "seed": 0,
        "require": ['centre="A b" p5>=0.7', "n>=2"],
    },
    compare={
        "intersect": False,
        "margin": None,
        "margin_bound": None,
        "bootstrap": 2000,
        "seed": 0,
        "require": [],
    },
    written="2026-11-27",
    version="0.4.0",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study, a protocol, and an evaluation under it."""
    root = write_study(
        tmp_path_factory.mktemp("protocol"), shifts=(0, 1, 1, 2), centre=["A", "A", "B", "B"]
    )
    assert run("protocol", "write", root / "protocol.toml", *OPTIONS).exit_code == 0
    done(locked_evaluate(root, "locked"))
    return root


def locked_evaluate(root, out, *options):
    arguments = (root / "reference", root / "prediction", "-o", root / out)
    return run(
        "evaluate",
        *arguments,
        "--cases",
        root / "cases.csv",
        "--protocol",
        root / "protocol.toml",
        *options,
    )


def sha256_of(root):
    return read_protocol(root / "protocol.toml").sha256


def test_a_protocol_is_read_as_it_was_written_whatever_its_comments(tmp_path):
    write_protocol(PROTOCOL, tmp_path / "protocol.toml")
    assert read_protocol(tmp_path / "protocol.toml") == PROTOCOL

    text = (tmp_path / "protocol.toml").read_text(encoding="utf-8")
    (tmp_path / "protocol.toml").write_text(
        "# Approved.\n" + text.replace("\n\n", "\n"), encoding="utf-8"
    )

    assert read_protocol(tmp_path / "protocol.toml") == PROTOCOL


def test_a_protocol_of_version_0_2_keeps_its_hash(study, tmp_path):
    options = {"patient": None, "patient_score": "mean", "ignore_unknown_cases": True}
    old = Protocol({**PROTOCOL.evaluate, **options}, PROTOCOL.compare)
    write_protocol(old, tmp_path / "old.toml")

    assert "patient_score" not in old.text
    assert read_protocol(tmp_path / "old.toml") == old
    assert read_protocol(tmp_path / "old.toml").sha256 == old.sha256 != PROTOCOL.sha256
    assert "ignore-unknown-cases  yes" in run("protocol", "show", tmp_path / "old.toml").stdout


def test_the_hash_is_that_of_the_day_the_version_and_the_options():
    present = {
        "format": "nnunet-dro protocol 2",
        "written": "2026-11-27",
        "version": "0.4.0",
        "evaluate": {name: value for name, value in PROTOCOL.evaluate.items() if value is not None},
        "compare": {name: value for name, value in PROTOCOL.compare.items() if value is not None},
    }
    text = json.dumps(present, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert PROTOCOL.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert replace(PROTOCOL, compare={**PROTOCOL.compare, "seed": 1}).sha256 != PROTOCOL.sha256
    assert replace(PROTOCOL, written="2026-11-26").sha256 != PROTOCOL.sha256

    texts = ["p5>=0.7@95", "method=DRO mean_difference_low_guaranteed>=0", "n>=20", "wins>=3"]

    assert sorted_requirements(texts) == ([texts[0], texts[2]], [texts[1], texts[3]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("# none yet\n", ("at least one requirement",)),
        ("p5>=0.7\np5>=70\n\nfoo>=1\n", ("Line 4", "statistic of strata.csv")),
    ],
)
def test_a_file_of_requirements_is_read_as_evaluate_reads_it(content, words, tmp_path):
    (tmp_path / "wanted.txt").write_text(content)

    result = run(
        "protocol", "write", tmp_path / "p.toml", "--require-file", tmp_path / "wanted.txt"
    )

    refused(result, *words)
    assert not (tmp_path / "p.toml").exists()


@pytest.mark.parametrize(("command", "section"), [(evaluate, "evaluate"), (compare, "compare")])
def test_every_option_is_locked_or_free(command, section):
    free = {"reference", "prediction", "evaluations", "output", "overwrite", "resume", "protocol"}
    free |= {"cases", "images", "dataset_json", "jobs", "workers", "method"}
    free |= {"dataset", "configuration", "trainer", "plans", "folds"}
    options = set(inspect.signature(command).parameters)

    locked = set(PROTOCOL.sections[section])

    assert options - free - (set(REFUSED) - locked) == locked


def test_an_evaluation_under_a_protocol_has_its_options(study):
    summary = summary_of(study / "locked")

    assert summary["options"]["by"] == ["centre"]
    assert summary["options"]["metrics"] == ["dice", "hd95"]
    assert summary["options"]["n_resamples"] == 20
    assert [outcome["passed"] for outcome in summary["requirements"]] == [True, True, True]
    assert summary["protocol"] == {
        "file": str(study / "protocol.toml"),
        "sha256": sha256_of(study),
        "content": (study / "protocol.toml").read_text(encoding="utf-8"),
    }

    result = done(run("protocol", "show", study / "protocol.toml"))

    assert f"SHA-256 {sha256_of(study)}" in result.stdout
    assert "  margin                2.0\n" in result.stdout


def test_a_protocol_has_a_day_a_version_and_the_failure(study):
    protocol = read_protocol(study / "protocol.toml")

    assert protocol.evaluate["failure"] == "dice<0.5"
    assert protocol.version == __version__
    assert len(protocol.written) == 10

    shown = run("protocol", "show", study / "protocol.toml").stdout
    assert f"written {protocol.written}\nversion {__version__}\n" in shown
    assert "  failure               dice<0.5\n" in shown
    note = f"locked protocol of {protocol.written} (nnunet-dro {__version__}) with SHA-256"
    assert note in (study / "locked" / "report.md").read_text(encoding="utf-8")


def test_failure_of_a_metric_that_is_not_computed_is_not_locked(tmp_path):
    assert run("protocol", "write", tmp_path / "p.toml", "--metrics", "hd95").exit_code == 0
    assert read_protocol(tmp_path / "p.toml").evaluate["failure"] is None


def test_the_hash_is_in_every_report_and_in_those_that_are_made_again(study, tmp_path):
    assert sha256_of(study) in "".join(locked_evaluate(study, tmp_path / "out").stdout.split())

    for made_again in (False, True):
        if made_again:
            assert run("report", tmp_path / "out").exit_code == 0
        for name in ("report.html", "report.md", "report.tex", "summary.json"):
            text = (tmp_path / "out" / name).read_text(encoding="utf-8")
            assert f"with SHA-256 {sha256_of(study)}" in text
    options = (
        "--by",
        "centre",
        "--metrics",
        "dice, hd95",
        "--empty",
        "undefined",
        "--jobs",
        1,
        "--method",
        "M",
    )

    assert locked_evaluate(study, tmp_path / "agreed", *options).exit_code == 0


@pytest.mark.parametrize(
    ("option", "line"),
    [
        (
            ("--metrics", "hd95,dice"),
            "`--metrics` must be 'dice' and 'hd95', as locked in '{}', got 'hd95' and 'dice'",
        ),
        (("--empty", "one"), "`--empty` must be 'undefined', as locked in '{}', got 'one'"),
        (("--by", "age"), "`--by` must be 'centre', as locked in '{}', got 'age'"),
        (("--no-overall",), "`--overall` must be True, as locked in '{}', got False"),
        (("--patient", "p"), "`--patient` must be left out, as locked in '{}', got 'p'"),
        (("--bootstrap", 0), "`--bootstrap` must be 20, as locked in '{}', got 0"),
        (
            ("--require", "n>=1"),
            "`--require` must be 'label=tumour mean>=0.5', as locked in '{}', got 'n>=1'",
        ),
        (
            ("--require-file", "x.txt"),
            "`--require-file` must be left out, as locked in '{}', got 'x.txt'",
        ),
    ],
)
def test_an_option_that_differs_is_refused(study, tmp_path, option, line):
    result = locked_evaluate(study, tmp_path / "out", *option)
    check_refused(
        result,
        tmp_path,
        line.format(study / "protocol.toml"),
        "Leave the option out, or write another",
    )


def edited(root, tmp_path, old, new):
    text = (root / "protocol.toml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "edited.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    return tmp_path / "edited.toml"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "overall = true",
            "overall = false",
            "which was edited: its hash does not fit. Restore the file, or write",
        ),
        ("margin = 2.0", "margin = 3.0", "its hash does not fit"),
        ('sha256 = "', 'sha256 = "0', "its hash does not fit"),
        ("[compare]", "[other]\n[compare]", "its hash does not fit"),
        ("[compare]", "[compare]\nspeed = 1", "its hash does not fit"),
        ("overall = true", 'overall = "yes"', "its hash does not fit"),
        ("overall = true", "overall = 2026-11-27", "its hash does not fit"),
        ("seed = 0", "seed = -1", "its hash does not fit"),
        ('"hd95"', '"hd96"', "its hash does not fit"),
        ("protocol 2", "protocol 3", "must have the format 'nnunet-dro protocol 2', got"),
        ("protocol 2", "protocol 1", "its hash does not fit"),
        ('written = "20', 'written = "19', "its hash does not fit"),
        ('failure = "dice<0.5"', 'failure = "dice<0.4"', "its hash does not fit"),
        ("[compare]", "[compare", "must be TOML in UTF-8"),
    ],
)
def test_a_protocol_that_was_edited_or_is_not_there_is_refused(study, tmp_path, old, new, words):
    for path in (tmp_path / "none.toml", tmp_path):
        check_refused(
            run("protocol", "show", path), tmp_path, "`protocol` must be a file", "Write one with"
        )
    path = edited(study, tmp_path, old, new)
    for result in (
        run("protocol", "show", path),
        run(
            "evaluate",
            study / "reference",
            study / "prediction",
            "-o",
            tmp_path / "out",
            "--protocol",
            path,
        ),
    ):
        check_refused(result, tmp_path, words)


def test_a_protocol_whose_options_this_version_lacks_is_refused(tmp_path):
    later = copy(PROTOCOL)
    vars(later)["evaluate"] = {**PROTOCOL.evaluate, "speed": 1}
    (tmp_path / "later.toml").write_text(later.text, encoding="utf-8")

    check_refused(
        run("protocol", "show", tmp_path / "later.toml"),
        tmp_path,
        "must be as it was written",
        "others or not all: speed",
    )


def test_an_error_whose_cure_is_locked_says_so(study, tmp_path):
    copytree(study, tmp_path / "study")
    next((tmp_path / "study" / "prediction").iterdir()).unlink()

    result = done(locked_evaluate(tmp_path / "study", "out"), 2)

    words = "The protocol locks --missing: to change that, write another one."
    assert words in " ".join(result.stderr.split())


def test_a_comparison_is_of_evaluations_under_the_protocol(study, tmp_path):
    run_evaluate(study, out="free")
    locked = study / "locked"
    options = ("-o", tmp_path / "out", "--protocol", study / "protocol.toml")

    refused = run("compare", f"A={locked}", f"B={study / 'free'}", *options)
    check_refused(
        refused, tmp_path, "got one without a protocol for 'B'. Evaluate again with --protocol"
    )

    done(run("compare", f"A={locked}", f"B={locked}", *options))

    about = summary_of(tmp_path / "out")["about"]

    assert (about["options"]["margin"], about["options"]["n_resamples"]) == (2, 20)
    assert about["protocol"]["sha256"] == sha256_of(study)
    assert [outcome["passed"] for outcome in about["requirements"]] == [True] * 3

    for name in ("report.html", "report.md", "report.tex"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert text.count(f"with SHA-256 {sha256_of(study)}") == 1

    differs = done(
        run("compare", f"A={locked}", f"B={locked}", *options, "--margin", 3, "--overwrite"), 2
    )

    assert "`--margin` must be 2.0, as locked in" in differs.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--require", "mean_difference>=0@95"), "holds with that: write @97.5"),
        (("--require", "meen>=0"), "be about a statistic of strata.csv, not 'meen'"),
        (("--metrics", "dise"), "dise"),
        (("--margin", -1), "`--margin` must be 0 or more"),
        (("--require-file", "none.txt"), "which does not exist"),
        (("--require", "p5>=95"), "Write 95% or 0.95."),
        (("--require", "mean_difference>=-0.5"), "Write -0.5pt for 0.5 percentage points"),
        (("--require", "metric=hd95 p75<=4@95"), "name a reported metric, not 'hd95'"),
        (
            ("--metrics", "hd95", "--instances", "*", "--require", "p75<=20"),
            "name one of the metrics hd95, lesion_",
        ),
    ],
)
def test_a_wrong_protocol_is_not_written(tmp_path, options, words):
    check_refused(run("protocol", "write", tmp_path / "protocol.toml", *options), tmp_path, words)
    assert not list(tmp_path.iterdir())


def test_a_protocol_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "protocol.toml"
    done(
        run(
            "protocol",
            "write",
            path,
            "--instances",
            "*",
            "--require",
            "metric=lesion_recall mean>=0.2",
        )
    )
    written = path.read_bytes()

    check_refused(
        run("protocol", "write", path, "--seed", 1),
        tmp_path,
        "must be a new file",
        "or give --force",
    )

    assert path.read_bytes() == written
    assert run("protocol", "write", path, "--seed", 1, "--force").exit_code == 0
    assert path.read_bytes() != written

    check_refused(
        run("protocol", "write", tmp_path / "a" / "b.toml"), tmp_path, "in an existing folder"
    )
