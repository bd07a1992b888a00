"""A ranking of patients takes the mean or the worst of their cases, as their evaluations do."""

import pandas as pd
import pytest

from tests.commands import done, run
from tests.evaluation.made_folders import write_study


@pytest.mark.parametrize("score", ["mean", "worst"])
def test_patients_score_in_a_ranking_as_in_their_evaluation(tmp_path, score):
    root = write_study(tmp_path, shifts=(0, 3, 1, 0), patient=["a", "a", "b", "b"])
    folders = (root / "reference", root / "prediction")
    options = ("--cases", root / "cases.csv", "--patient", "patient", "--patient-score", score)
    done(run("evaluate", *folders, "-o", root / "out", *options))
    own = pd.read_csv(root / "out" / "strata.csv").set_index("label")["mean"]

    teams = [f"{team}={root / 'out'}" for team in ("A", "B")]
    done(run("rank", *teams, "-o", root / "ranking", "--bootstrap", 0))

    rows = pd.read_csv(root / "ranking" / "ranks.csv").query("scheme == 'mean' and team == 'A'")
    assert rows.set_index("label")["score"]["tumour"] == pytest.approx(own["tumour"])
