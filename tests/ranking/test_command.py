"""`nnunet-dro rank` as its users run it: from evaluations, and from folders of predictions that it
scores first."""

import json
import os

import pandas as pd
import pytest

from tests.commands import done, run
from tests.evaluation.made_folders import (
    bars,
    check_refused,
    contents,
    names_in,
    write_cases,
    write_dataset_json,
    write_map,
)
from tests.ranking.made import recorded

FILES = [
    *(
        "agreement.csv",
        "bootstrap.csv",
        "cases.csv",
        "kendall_tau.csv",
        "podium.csv",
        "ranks.csv",
        "report.html",
        "report.md",
    ),
    *("stability.csv", "summary.json", "tests.csv"),
]

#: Team to the shift of the tumour in each case; its Dice is 1 - shift / 4.
TEAMS = {"good": (0, 0, 1, 1), "fair": (1, 1, 1, 2), "poor": (2, 3, 2, 4)}


@pytest.fixture
def challenge(tmp_path):
    """References, a case table and the submissions of three teams."""
    for number in range(4):
        write_map(tmp_path / "labelsTs" / f"case_{number:02}.nii.gz", bars(4))
        for team, shifts in TEAMS.items():
            write_map(
                tmp_path / "submissions" / team / f"case_{number:02}.nii.gz",
                bars(4, shifts[number]),
            )
    write_dataset_json(tmp_path / "labelsTs")
    write_cases(tmp_path, centre=["A", "A", "B", "B"])
    return tmp_path


def run_rank(root, *options, teams=tuple(TEAMS), out="out"):
    fixed = ("-o", root / out, "--evaluate", root / "labelsTs", "--bootstrap", 50, "--jobs", 1)
    return run("rank", *(root / "submissions" / team for team in teams), *fixed, *options)


def ranks(folder):
    rows = pd.read_csv(folder / "ranks.csv", keep_default_na=False)
    rows = rows[(rows["kind"] == "all") & (rows["scheme"] == "mean") & (rows["metric"] == "all")]
    return {team: int(rank) for team, rank in zip(rows["team"], rows["rank"], strict=True)}


def test_submissions_are_ranked_as_their_evaluations_are(challenge):
    # The case table is that of the dataset, without words.
    lines = done(
        run_rank(challenge, "--by", "centre", "--metrics", "dice,hd95")
    ).stdout.splitlines()
    assert lines[0].startswith("good is first (3 teams, 4 cases, 2 metrics of 2 labels)")
    assert lines[-1] == str(challenge / "out" / "report.html")
    assert names_in(challenge / "out") == FILES
    assert ranks(challenge / "out") == {"good": 1, "fair": 2, "poor": 3}
    assert names_in(challenge / "out-evaluations") == sorted(TEAMS)
    assert json.loads((challenge / "out" / "summary.json").read_text())["strata"] == {
        "centre": {"A": 2, "B": 2}
    }

    named = [f"{team}={challenge / 'out-evaluations' / team}" for team in TEAMS]
    done(run("rank", *named, "-o", challenge / "again", "--bootstrap", 50, "--by", "centre"))

    for name in ("ranks.csv", "bootstrap.csv", "tests.csv"):
        assert (challenge / "again" / name).read_text() == (challenge / "out" / name).read_text()

    folders = (
        f"Team Rocket={challenge / 'submissions' / 'poor'}",
        challenge / "submissions" / "good",
    )
    options = (
        "--evaluate",
        challenge / "labelsTs",
        "--bootstrap",
        0,
        "--evaluations",
        challenge / "kept",
    )
    done(run("rank", *folders, "-o", challenge / "named", *options))

    assert ranks(challenge / "named") == {"good": 1, "Team Rocket": 2}
    assert names_in(challenge / "kept") == ["Team Rocket", "good"]

    (challenge / "kept" / "good" / "scored.json").unlink()  # as if evaluate had written it
    before = contents(challenge / "kept" / "good")
    result = done(run("rank", *folders, "-o", challenge / "other", *options), 2)

    assert "`--evaluations` must be a new or empty folder" in result.stderr
    assert contents(challenge / "kept" / "good") == before


def test_a_stopped_run_goes_on_with_what_was_scored(challenge, monkeypatch):
    scored = recorded(monkeypatch, stop_at="poor")
    done(run_rank(challenge), 130)

    assert not (challenge / "out").exists()

    done(run_rank(challenge))
    assert scored == ["good", "fair", "poor", "poor"]
    assert ranks(challenge / "out") == {"good": 1, "fair": 2, "poor": 3}


@pytest.mark.parametrize("change", ["prediction", "reference", "voxel size", "option", "damaged"])
def test_what_changed_is_scored_again(challenge, monkeypatch, change):
    if change == "voxel size":
        (challenge / "labelsTs" / "case_00.nii.gz").unlink()
        write_map(challenge / "labelsTs" / "case_00.tif", bars(4))
    run_rank(challenge)
    kept = challenge / "out-evaluations" / "good" / "summary.json"
    options = []
    if change == "prediction":
        write_map(challenge / "submissions" / "good" / "case_00.nii.gz", bars(4, 4))
        os.utime(challenge / "submissions" / "good" / "case_00.nii.gz", ns=(1, 1))
    elif change == "reference":
        os.utime(challenge / "labelsTs" / "case_00.nii.gz", ns=(1, 1))
    elif change == "voxel size":
        (challenge / "labelsTs" / "case_00.json").write_text('{"spacing": [1, 1, 1]}')
    elif change == "option":
        options = ["--metrics", "dice,iou"]
    else:
        kept.write_text("{}")
    scored = recorded(monkeypatch)

    done(run_rank(challenge, "--overwrite", *options))

    assert scored == (["good"] if change in ("prediction", "damaged") else list(TEAMS))
    if change == "prediction":
        assert pd.read_csv(kept.with_name("scores.csv"))["dice"][0] == 0


def test_a_missing_prediction_is_refused_or_the_worst_and_unnamed_if_asked(challenge):
    (challenge / "submissions" / "good" / "case_00.nii.gz").unlink()

    check_refused(
        run_rank(challenge), challenge, "case_00", "The team is 'good'", "--missing worst"
    )

    assert not (challenge / "out-evaluations").exists()

    done(run_rank(challenge, "--missing", "worst", "--scheme", "rank-mean"))
    cases = pd.read_csv(challenge / "out" / "cases.csv").set_index(["case", "label"])

    assert cases.loc[("case_00", "organ"), "dice_worst"] == 0
    assert (
        "Cases without a prediction are scored as failed: case_00"
        in (challenge / "out" / "report.html").read_text()
    )

    assert (
        "case_0"
        not in done(
            run_rank(challenge, "--missing", "worst", "--aggregate-only", "--overwrite")
        ).output
    )
    assert names_in(challenge / "out") == [name for name in FILES if name != "cases.csv"]
    for path in (challenge / "out").iterdir():
        assert "case_0" not in path.read_text(encoding="utf-8")


@pytest.fixture
def spoilt(challenge):
    """Three files that cannot be scored: no NIfTI, another shape, and a value without a label."""
    good, fair = (challenge / "submissions" / team for team in ("good", "fair"))
    (good / "case_01.nii.gz").write_bytes(b"no label map")
    write_map(fair / "case_02.nii.gz", bars(4)[:, :-1])
    write_map(fair / "case_03.nii.gz", bars(4) * 5)
    return challenge


def test_all_invalid_files_are_listed_at_once(spoilt):
    result = done(run_rank(spoilt), 2)

    lines = result.stderr.strip().splitlines()
    starts = [line.split(": ")[1] for line in lines]
    assert starts[:-1] == ["good, case_01", "fair, case_02", "fair, case_03"]
    assert "got 3 invalid files (good: case_01, fair: case_02, fair: case_03)" in lines[-1]
    assert "--invalid worst" in lines[-1]
    assert not (spoilt / "out").exists()


def test_invalid_files_are_scored_as_failed_if_asked(spoilt):
    options = ("--invalid", "worst", "--metrics", "dice,hd95")
    result = done(run_rank(spoilt, *options), 5)

    assert "invalid predictions are scored as failed: good, fair; see invalid.csv" in result.stderr
    table = pd.read_csv(spoilt / "out" / "invalid.csv")
    keys = [("good", "case_01"), ("fair", "case_02"), ("fair", "case_03")]
    assert list(zip(table["team"], table["case"], strict=True)) == keys
    assert "case_01.nii.gz" in table["reason"][0]
    page = (spoilt / "out" / "report.html").read_text()
    assert "Invalid predictions" in page
    assert "Cases with an invalid prediction are scored as failed: case_01." in page
    scores = pd.read_csv(spoilt / "out-evaluations" / "good" / "scores.csv").set_index("case")
    assert scores.loc["case_01", "dice"].tolist() == [0, 0]
    assert (scores.loc["case_01", "hd95"] > 10).all()

    pack = spoilt / "pack"
    done(run("report", spoilt / "out-evaluations" / "good", "--pack", pack))
    said = "1 case with a prediction that cannot be scored and counts as failed; every other case"
    assert said in (pack / "claim.md").read_text()
    assert "cannot be scored and counts as failed: 1 case." in (pack / "model_card.md").read_text()

    # What is kept is not what is asked for without --invalid worst.
    assert "3 invalid files" in done(run_rank(spoilt, out="again"), 2).stderr
    options = (*options, "--aggregate-only", "--overwrite")
    assert "case_0" not in done(run_rank(spoilt, *options), 5).output
    table = pd.read_csv(spoilt / "out" / "invalid.csv")
    assert table.to_dict("records") == [{"team": "good", "n": 1}, {"team": "fair", "n": 2}]
    for path in (spoilt / "out").iterdir():
        assert "case_0" not in path.read_text(encoding="utf-8")


def test_a_reference_that_cannot_be_read_is_no_fault_of_a_team(challenge):
    (challenge / "labelsTs" / "case_01.nii.gz").write_bytes(b"no label map")

    result = run_rank(challenge, "--invalid", "worst")

    check_refused(result, challenge, "labelsTs/case_01.nii.gz")


def test_folders_that_cannot_be_scored_are_all_named(challenge):
    for team in ("good", "poor"):
        (challenge / "submissions" / team / "case_00.nii.gz").unlink()

    words = ("The team is 'good'", "There are such errors in poor, too.")
    check_refused(run_rank(challenge), challenge, *words)


def test_bad_input_is_one_line(challenge):
    good, fair, none = (challenge / "submissions" / name for name in ("good", "fair", "none"))
    out = ("-o", challenge / "out")
    scored = ("-o", challenge / "out", "--evaluate", challenge / "labelsTs")
    for arguments, words in (
        ((f"a={good}", *out), "summary.json"),
        ((good, *out), "must be NAME=FOLDER"),
        ((f"a={good}", *out, "--cases", "cases.csv"), "`--cases` must come with --evaluate"),
        ((f"a={good}", *out, "--jobs", 2), "`--jobs` must come with --evaluate"),
        ((f"a={good}", *out, "--workers", "tcp://s:1"), "`--workers` must come with --evaluate"),
        ((f"a={good}", *out, "--invalid", "worst"), "`--invalid` must come with --evaluate"),
        ((good, fair, *scored, "--label-weight", "spleen=2"), "`--label-weight` must name"),
        ((good, none, *scored), "must be folders"),
        ((good, f"GOOD={fair}", *scored), "must have different names"),
        ((good, f"a/b={fair}", *scored), "without slashes"),
        ((good, f"={fair}", *scored), "without slashes"),
        ((good, *scored), "at least two methods"),
        ((good, fair, *scored, "--by", "scanner"), "must be a column"),
        ((good, fair, *scored, "--metrics", "rand"), "`--metrics` must be among"),
        ((good, fair, *scored, "--patient", "patient"), "case table"),
    ):
        check_refused(run("rank", *arguments), challenge, words)


def test_an_existing_output_folder_is_refused_before_the_long_work(challenge):
    (challenge / "out").mkdir()
    (challenge / "out" / "notes.txt").write_text("mine")

    check_refused(run_rank(challenge), challenge, "--overwrite", files=["notes.txt"])

    assert not (challenge / "out-evaluations").exists()
