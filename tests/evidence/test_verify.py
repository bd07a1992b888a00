"""A pack says what the scores give, and whether anything in it was changed since it was written."""

import hashlib
import json
import shutil

import pandas as pd
import pytest

from nnunet_dro import __version__
from nnunet_dro.evaluation.report.recheck import says_the_same
from tests.commands import done, refused, run
from tests.evaluation.made_folders import contents, run_evaluate, write_cases, write_study

REQUIREMENTS = ("SRS-1: centre=* label=tumour mean>=0.6", "label=organ min>=1", "p5>=0.7@95")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Six cases evaluated under a protocol, compared with a worse method, and packed."""
    root = write_study(tmp_path_factory.mktemp("study"), shifts=(0, 1, 1, 0, 2, 3))
    table = write_cases(root, centre=list("AAABBB"), age=[3, 4, 5, 60, 61, 62])
    words = [word for text in REQUIREMENTS for word in ("--require", text)]
    words += ["--require", "mean_difference>=-5pt", "--margin", 5]
    done(run("protocol", "write", root / "protocol.toml", "--by", "centre", *words))

    locked = ("--cases", table, "--protocol", root / "protocol.toml")
    for out in ("out", "old"):
        command = ("evaluate", root / "reference", root / "prediction", "-o", root / out)
        done(run(*command, "--jobs", 1, "--method", out, *locked), 3)
    compared = (f"old={root / 'old'}", f"new={root / 'out'}", "-o", root / "both")
    assert run("compare", *compared, "--protocol", root / "protocol.toml").exit_code in (0, 3, 4)

    pack = ("--pack", root / "pack", "--comparison", root / "both")
    done(run("report", root / "out", *pack))
    return root


@pytest.fixture
def copy(study, tmp_path):
    """A copy of the folders, to be changed."""
    for name in ("out", "pack", "both"):
        shutil.copytree(study / name, tmp_path / name)
    return tmp_path


def altered(path, before, after, *, count=-1):
    """Alter a file as an editor does."""
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, count), encoding="utf-8")


def test_a_pack_is_verified_as_it_was_written(study):
    lines = done(run("report", "--verify", study / "pack")).stdout.splitlines()

    manifest = (study / "pack" / "manifest.json").read_bytes()
    content = json.loads(manifest)
    files = [path for path in (study / "pack").rglob("*") if path.is_file()]
    assert len(content["files"]) == len(files) - 1
    assert lines[-1].endswith(hashlib.sha256(manifest).hexdigest())
    for name, digest in content["files"].items():
        assert hashlib.sha256((study / "pack" / name).read_bytes()).hexdigest() == digest


def test_the_pack_holds_what_a_verdict_rests_on(study):
    files = contents_of(study / "pack")
    assert files["protocol.toml"] == (study / "protocol.toml").read_bytes()
    assert json.loads(files["selfcheck.json"])["agrees"] is True
    assert json.loads(files["manifest.json"])["time"] in files["README.md"].decode()
    verdicts = json.loads(files["verdicts.json"])
    assert {entry["identifier"] for entry in verdicts["verdicts"]} == {"SRS-1", "R2", "R3"}

    made_by_compare = contents(study / "both")
    for name in ("comparison.csv", "verdicts.json", "report.html"):
        assert files[f"comparison/{name}"] == made_by_compare[name], name


def contents_of(folder):
    """The contents of all files of a folder and those in it, by their path."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", ["README.md", "model_card.md", "claim.md", "requirements.md"])
def test_every_page_of_the_pack_tells_what_is_not_met(study, name):
    text = (study / "pack" / name).read_text(encoding="utf-8")
    summary = json.loads((study / "out" / "summary.json").read_text(encoding="utf-8"))
    words = [entry["verdict"] for entry in summary["requirements"]]

    assert f"{words.count('not met')} of {len(words)} not met" in text
    assert {"not met", "cannot tell"} <= set(words)
    if name != "claim.md":
        assert "SRS-1, not met: centre=B label=tumour: mean 0.583" in text
        assert "R3, cannot tell: label=organ: p5 has no lower 95 % bound" in text


def test_where_it_fails_has_numbers_of_every_metric(study):
    text = (study / "pack" / "model_card.md").read_text(encoding="utf-8")
    section = text.split("## Where it fails")[1].split("\n## ")[0]
    assert "The mean Dice is 58.3 % (25.0, 50.0, 100.0) in B" in section
    assert "tumour: 1 case failed, and up to 58 % of all such cases may" in section


def test_only_columns_of_demographics_are_called_so(study):
    text = (study / "pack" / "claim.md").read_text(encoding="utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| Demographic")]
    assert "demographic: age (by no stratum)" in row
    assert "clinical: *yours*" in row
    assert "centre" not in row


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("summary.json", '"passed": false', '"passed": true'),
        ("summary.json", '"verdict": "cannot tell"', '"verdict": "met"'),
        ("summary.json", '"bound": 0.6', '"bound": 0.5'),
        ("summary.json", "mean>=0.6", "mean>=0.5"),
        ("summary.json", '"attribute": "centre"', '"attribute": "all"'),
        ("summary.json", '"case_05": "B"', '"case_05": "A"'),
    ],
)
def test_altered_verdicts_stop_the_pack(copy, file, before, after):
    altered(copy / "out" / file, before, after)

    for words in (("--pack", copy / "new"), ()):
        files = contents(copy / "out")
        line = refused(run("report", copy / "out", *words))
        assert "`" in line
        assert contents(copy / "out") == files
    assert not (copy / "new").exists()


def test_a_requirement_that_was_removed_stops_the_pack(copy):
    path = copy / "out" / "summary.json"
    summary = json.loads(path.read_text(encoding="utf-8"))
    summary["requirements"] = summary["requirements"][:-1]
    path.write_text(json.dumps(summary), encoding="utf-8")

    refused(run("report", copy / "out", "--pack", copy / "new"), "summary.json")

    summary["requirements"] = []
    path.write_text(json.dumps(summary), encoding="utf-8")
    line = refused(run("report", copy / "out", "--pack", copy / "new"), "of its protocol")
    assert "others or not all" in line


def test_altered_statistics_stop_the_pack_though_their_hash_fits(copy):
    out = copy / "out"
    table = (out / "strata.csv").read_text(encoding="utf-8")
    before = hashlib.sha256(table.encode()).hexdigest()
    rows = table.splitlines(keepends=True)
    (position,) = [n for n, row in enumerate(rows) if row.startswith("centre,B,tumour,dice")]
    rows[position] = rows[position].replace("0.5833333333333334", "0.9", 1)
    (out / "strata.csv").write_text("".join(rows), encoding="utf-8")
    after = hashlib.sha256("".join(rows).encode()).hexdigest()
    altered(out / "summary.json", before, after)

    line = refused(run("report", out, "--pack", copy / "new"), "mean 0.9 of centre B tumour dice")
    assert "where they give 0.583333" in line


@pytest.mark.parametrize("file", ["summary.json", "comparison.csv"])
def test_an_altered_comparison_stops_the_pack(copy, file):
    changes = {
        "summary.json": ('"passed": true', '"passed": false'),
        "comparison.csv": ("centre,B,tumour,dice,old,new,3", "centre,B,tumour,dice,old,new,4"),
    }
    altered(copy / "both" / file, *changes[file])

    words = ("--pack", copy / "new", "--comparison", copy / "both")
    refused(run("report", copy / "out", *words), file)
    assert not (copy / "new").exists()


def test_a_requirement_that_was_removed_from_a_comparison_stops_the_pack(copy):
    path = copy / "both" / "summary.json"
    summary = json.loads(path.read_text(encoding="utf-8"))
    summary["about"]["requirements"] = []
    path.write_text(json.dumps(summary), encoding="utf-8")

    words = ("--pack", copy / "new", "--comparison", copy / "both")
    refused(run("report", copy / "out", *words), "must have the requirements of its protocol")


def test_a_comparison_of_other_predictions_is_refused(study, tmp_path):
    other = write_study(tmp_path, shifts=(1, 1))
    done(run_evaluate(other))

    words = ("--pack", tmp_path / "new", "--comparison", study / "both")
    refused(run("report", tmp_path / "out", *words), "must be of the evaluation")


def test_a_comparison_of_other_files_of_nnunet_is_refused(tmp_path):
    root = write_study(tmp_path, shifts=(0,))
    for method, n_wrong in (("old", 1), ("new", 2), ("other", 3)):
        counts = {"TP": 9, "FP": n_wrong, "FN": 1}
        files = dict.fromkeys(("reference_file", "prediction_file"), "case_00.nii.gz")
        entries = [{**files, "metrics": {"1": counts, "2": counts}}]
        path = root / f"{method}.json"
        path.write_text(json.dumps({"metric_per_case": entries}), encoding="utf-8")
        done(run("evaluate", root / "reference", path, "-o", root / method))
    both = (f"old={root / 'old'}", f"new={root / 'new'}", "-o", root / "both")
    done(run("compare", *both))

    words = ("--comparison", root / "both", "--pack")
    done(run("report", root / "new", *words, root / "pack"))
    refused(run("report", root / "other", *words, root / "others"), "must be of the evaluation")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda pack: altered(pack / "claim.md", "yours", "ours"), "altered claim.md"),
        (lambda pack: (pack / "table1.csv").unlink(), "missing table1.csv"),
        (lambda pack: (pack / "comparison" / "a.txt").write_text("x"), "added comparison/a.txt"),
        (lambda pack: (pack / "manifest.json").write_text("{}"), "manifest of format"),
        (lambda pack: (pack / "manifest.json").unlink(), "pack with a manifest.json"),
    ],
)
def test_a_changed_pack_is_not_verified(copy, change, words):
    change(copy / "pack")
    refused(run("report", "--verify", copy / "pack"), words)


@pytest.mark.parametrize(
    ("file", "before", "after", "words"),
    [
        ("summary.json", '"passed": false', '"passed": true', "passed True in summary.json"),
        ("verdicts.json", '"passed": false', '"passed": true', "others, or none, in"),
        ("comparison/summary.json", '"passed": true', '"passed": false', "passed False in summary"),
        ("protocol.toml", "mean>=0.6", "mean>=0.5", "others, or none, in"),
        ("comparison/verdicts.xml", 'failures="', 'failures="1', "others, or none, in"),
        ("comparison/failures.csv", "fails with both", "recovery", "others, or none, in"),
        ("comparison/comparison.csv", "cannot tell", "not worse", "margin 'not worse' of centre"),
        ("comparison/comparison.csv", "tumour,dice,old,new,3", "tumour,dice,old,new,4", "n 4 of"),
        ("README.md", "not met", "met", "others, or none, in"),
        ("requirements.md", "0.583", "0.683", "others, or none, in"),
        ("report.html", "not met", "met", "others, or none, in"),
        ("table1.csv", "all,all,6", "all,all,7", "others, or none, in"),
        ("comparison/changed.csv", "difference", "gain", "others, or none, in"),
        ("comparison/report.tex", "Dice", "IoU", "others, or none, in"),
        (
            "summary.json",
            '"empty": "undefined"',
            '"empty": "one"',
            "empty 'one' in place of 'undef",
        ),
        ("comparison/summary.json", '"margin": 5.0', '"margin": 9.0', "margin 9.0 in place of 5.0"),
        ("summary.json", '"notes": [', '"notes": ["No case was left out.",', "others, or none, in"),
    ],
)
def test_verdicts_that_were_altered_with_the_manifest_are_not_verified(
    copy, file, before, after, words
):
    pack = copy / "pack"
    altered(pack / file, before, after)
    write_manifest(pack)

    refused(run("report", "--verify", pack), words)


def test_a_pack_whose_protocol_was_removed_is_not_verified(copy):
    (copy / "pack" / "protocol.toml").unlink()
    write_manifest(copy / "pack")

    refused(run("report", "--verify", copy / "pack"), "others, or none, in")


def test_a_pack_without_a_column_or_its_scores_is_not_verified(copy):
    pack = copy / "pack"
    strata = pd.read_csv(pack / "strata.csv", dtype=str)
    before = hashlib.sha256((pack / "strata.csv").read_bytes()).hexdigest()
    strata.drop(columns="p5_low").to_csv(pack / "strata.csv", index=False)
    after = hashlib.sha256((pack / "strata.csv").read_bytes()).hexdigest()
    altered(pack / "summary.json", before, after)
    write_manifest(pack)
    refused(run("report", "--verify", pack), "no column p5_low in strata.csv", "Restore")

    altered(pack / "summary.json", f'"nnunet-dro": "{__version__}"', '"nnunet-dro": "0.2.9"')
    write_manifest(pack)
    refused(run("report", "--verify", pack), "no column", "nnunet-dro 0.2.9", "CHANGELOG.md")

    (pack / "scores.csv").unlink()
    summary = json.loads((pack / "summary.json").read_text(encoding="utf-8"))
    del summary["tables_sha256"]["scores.csv"]
    (pack / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    write_manifest(pack)
    refused(run("report", "--verify", pack), "must be a folder with a scores.csv")


def test_pages_that_cannot_be_made_anew_are_named(copy):
    pack = copy / "pack"
    altered(pack / "report.html", "</main>", '<div class="gallery"></div></main>')
    write_manifest(pack)
    lines = done(run("report", "--verify", pack)).stdout
    assert "report.html is not compared: it has pictures of cases." in lines

    manifest = json.loads((pack / "manifest.json").read_text(encoding="utf-8"))
    text = json.dumps({**manifest, "nnunet-dro": "0.3.9"})
    (pack / "manifest.json").write_text(text, encoding="utf-8")
    lines = done(run("report", "--verify", pack)).stdout
    assert "Pages are not compared: they are of nnunet-dro 0.3.9." in lines


@pytest.mark.parametrize(
    ("computed", "is_same"),
    [
        ("a,0.30000000000000004,case_1", True),
        ("a,0.30001,case_1", False),
        ("a,0.3,case_01", False),
        ("a,0.3,case_1,0.5", False),
        ("b,0.3,case_1", False),
    ],
)
def test_texts_may_differ_by_rounding_alone(computed, is_same):
    assert says_the_same("a,0.3,case_1", computed) is is_same


def write_manifest(pack):
    """Write the manifest of a pack anew, as somebody who alters it may."""
    files = contents_of(pack)
    manifest = json.loads(files.pop("manifest.json"))
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    text = json.dumps({**manifest, "files": hashes})
    (pack / "manifest.json").write_text(text, encoding="utf-8")


def test_a_pack_is_verified_where_nothing_but_the_pack_is(study, tmp_path):
    shutil.copytree(study / "pack", tmp_path / "pack")
    (study / "old").rename(study / "elsewhere")
    try:
        lines = done(run("report", "--verify", tmp_path / "pack")).stdout.splitlines()
    finally:
        (study / "elsewhere").rename(study / "old")

    assert lines[0].endswith("verdicts as scores.csv gives them, and 6 of the comparison.")


def test_options_that_say_nothing_together_are_refused(study):
    refused(run("report", study / "out", "--comparison", study / "both"), "`--comparison`")
    refused(run("report", "--verify", study / "pack", "--pack", study / "x"), "`--verify`")


@pytest.mark.parametrize(
    "words",
    [
        ("--patient", "patient", "--patient-score", "worst"),
        ("--failure", "hd95>1", "--by", "patient", "--no-overall"),
        ("--empty", "brats", "--missing", "worst", "--bootstrap", 200),
        ("--instances", "*", "--metrics", "dice,hd95,volume_error,pq", "--nsd-tolerance-mm", 2),
        ("--by", "age:q2", "--by", "patient,age:0,50,99", "--reference-stratum", "q2: 60 to 62"),
    ],
)
def test_whatever_the_options_the_numbers_are_computed_anew(tmp_path, words):
    root = write_study(tmp_path, shifts=(0, 1, 1, 0, 2, 3))
    (root / "prediction" / "case_03.nii.gz").unlink()
    shutil.copy(root / "prediction" / "case_02.nii.gz", root / "prediction" / "case_03.nii.gz")
    table = write_cases(root, patient=list("aabbcc"), age=[3, 4, 5, 60, 61, 62])
    failing = "hd95" if "--failure" in words else "dice"
    required = ("--require", "metric=dice p5>=0.2", "--require", f"metric={failing} n_failed<=1")
    options = ("--metrics", "dice,hd95", "--cases", table, *words, *required)
    assert run_evaluate(root, *options).exit_code in (0, 3, 4)

    done(run("report", root / "out", "--pack", root / "pack"))
    done(run("report", "--verify", root / "pack"))
