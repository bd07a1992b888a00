"""What the host of a challenge does, from the folders of twelve teams to what is published: a
missing file, damaged ones, a team that submits another's, and a label that some cases lack."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from tests.commands import done, run
from tests.evaluation.made_folders import write_cases, write_dataset_json, write_map

N_TEAMS = 12
N_CASES = 12
TEAMS = [f"team_{number:02}" for number in range(1, N_TEAMS + 1)]
CASES = [f"heart_{126 + number}" for number in range(N_CASES)]
CENTRES = [f"centre_{'ABC'[number % 3]}" for number in range(N_CASES)]

#: Cases of a healthy patient, whose reference lacks the lesion.
HEALTHY = (2, 7)


def label_map(shift=0, *, lesion=True):
    """An organ of 8 x 6 voxels and a lesion of 4 x 3 in it, moved by some voxels."""
    values = np.zeros((2, 14, 14), np.uint8)
    values[:, 2:10, 2 + shift : 8 + shift] = 1
    if lesion:
        values[:, 3:7, 3 + shift : 6 + shift] = 2
    return values


@pytest.fixture(scope="module")
def challenge(tmp_path_factory):
    """References, a case table and the submissions; the first teams are the best."""
    root = tmp_path_factory.mktemp("challenge")
    rng = np.random.default_rng(0)
    for place, case in enumerate(CASES):
        write_map(root / "labelsTs" / f"{case}.nii.gz", label_map(lesion=place not in HEALTHY))
        for number, team in enumerate(TEAMS):
            shift = int(rng.binomial(4, 0.1 + 0.05 * number))
            # The last teams invent a lesion in the healthy.
            lesion = place not in HEALTHY or number >= 9
            path = root / "submissions" / team / f"{case}.nii.gz"
            write_map(path, label_map(shift, lesion=lesion))

    write_dataset_json(root / "labelsTs", labels={"background": 0, "organ": 1, "lesion": 2})
    write_cases(root, case=CASES, centre=CENTRES)
    submissions = root / "submissions"
    shutil.copytree(submissions / "team_02", submissions / "team_05", dirs_exist_ok=True)
    (submissions / "team_04" / f"{CASES[3]}.nii.gz").unlink()
    (submissions / "team_06" / f"{CASES[4]}.nii.gz").write_bytes(b"")
    write_map(submissions / "team_08" / f"{CASES[5]}.nii.gz", label_map()[:, 1:])
    return root


def rank(root, out, *options):
    given = ("--evaluate", root / "labelsTs", "--metrics", "dice,hd95", "--by", "centre")
    folders = [root / "submissions" / team for team in TEAMS]
    kept = ("--evaluations", root / "kept", "--bootstrap", 100, "--jobs", 1)
    return run("rank", *folders, "-o", root / out, *given, *kept, *options)


def scores_of(folder, metric, label):
    rows = pd.read_csv(folder / "ranks.csv", keep_default_na=False)
    is_row = (rows["kind"] == "all") & (rows["scheme"] == "mean")
    rows = rows[is_row & (rows["metric"] == metric) & (rows["label"] == label)]
    return rows.set_index("team")["score"].astype(float).to_dict()


def test_a_host_finds_every_fault_and_publishes_scores_that_stand(challenge):
    # What is missing stops the host before anything is scored.
    assert "The team is 'team_04'" in done(rank(challenge, "out"), 2).stderr
    # Then all damaged files are told at once.
    result = done(rank(challenge, "out", "--missing", "worst"), 2)
    assert "team_06, heart_130: " in result.stderr
    assert "team_08, heart_131: " in result.stderr
    assert "2 invalid files" in result.stderr

    scored = ("--missing", "worst", "--invalid", "worst")
    result = done(rank(challenge, "out", *scored), 5)
    out = challenge / "out"
    assert result.stdout.startswith("team_01 is first (12 teams, 12 cases, 2 metrics of 2 labels)")
    assert pd.read_csv(out / "invalid.csv")["team"].tolist() == ["team_06", "team_08"]
    notes = json.loads((out / "summary.json").read_text())["notes"]
    assert any(note.startswith("team_02, team_05 have the same scores") for note in notes)

    # The published score of a team is that of its own evaluation.
    published = scores_of(out, "dice", "lesion")
    for team in TEAMS:
        strata = pd.read_csv(challenge / "kept" / team / "strata.csv")
        is_row = (strata["attribute"] == "all") & (strata["label"] == "lesion")
        own = strata[is_row & (strata["metric"] == "dice")]["mean"].item()
        assert published[team] == pytest.approx(own), team
    # And it stays when others leave.
    some = [f"{team}={challenge / 'kept' / team}" for team in TEAMS[:6]]
    done(run("rank", *some, "-o", challenge / "some", "--bootstrap", 0), 5)
    again = scores_of(challenge / "some", "dice", "lesion")
    assert again == {team: published[team] for team in TEAMS[:6]}

    # The lesion decides, as was announced; no case of the hidden test set is named.
    options = ("--metric-weight", "hd95=0.5", "--label-weight", "lesion=3", "--aggregate-only")
    result = done(rank(challenge, "public", *scored, *options), 5)
    page = (challenge / "public" / "report.html").read_text()
    assert "Weights: hd95=0.5, lesion=3" in page
    assert "weighted mean of these ranks" in result.stdout
    for path in (challenge / "public").iterdir():
        assert "heart_" not in path.read_text(encoding="utf-8")
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80
