"""Evaluations of earlier versions can be read."""

import shutil

import pandas as pd

from nnunet_dro.evaluation import read_evaluation
from nnunet_dro.evaluation.statistics.columns import GUARANTEED, STATISTICS
from tests.commands import done, run
from tests.kept.folders import VERSION_0_2

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
