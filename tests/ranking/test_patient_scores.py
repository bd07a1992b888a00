"""A ranking of patients takes the mean of their cases, and refuses another rule."""

from tests.commands import done, refused, run
from tests.evaluation.made_folders import write_study


def test_worst_cases_of_patients_are_refused(tmp_path):
    root = write_study(tmp_path, shifts=(0, 3, 1, 0), patient=["a", "a", "b", "b"])
    folders = (root / "reference", root / "prediction")
    options = ("--cases", root / "cases.csv", "--patient", "patient", "--patient-score", "worst")
    done(run("evaluate", *folders, "-o", root / "out", *options))

    teams = [f"{team}={root / 'out'}" for team in ("A", "B")]
    result = run("rank", *teams, "-o", root / "ranking", "--bootstrap", 0)

    refused(result, "`patient_score` must be mean", "Evaluate with --patient-score mean")
