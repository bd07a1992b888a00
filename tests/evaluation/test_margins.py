"""Non-inferiority: from the interval of the mean difference, per stratum."""

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.margins import margin_verdicts
from tests.evaluation.made_folders import bars, read_csv, run, run_evaluate, write_cases, write_map, write_study


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.03, 0.13, "better"),
        (0.0, 0.13, "not worse"),
        (-0.01, 0.02, "not worse"),
        (-0.011, 0.02, "cannot tell"),
        (-0.05, -0.02, "worse"),
        (-0.008, -0.001, "not worse"),
        (np.nan, 0.2, "cannot tell"),
        (np.nan, np.nan, "cannot tell"),
    ],
)
def test_verdicts_follow_from_the_interval(low, high, verdict):
    table = pd.DataFrame({"metric": ["dice"], "mean_difference_low": [low], "mean_difference_high": [high]})
    # The same in mm, where less is better, with the margin in mm.
    distances = pd.DataFrame({"metric": ["hd95"], "mean_difference_low": [-high], "mean_difference_high": [-low]})

    assert margin_verdicts(table, 1) == [verdict]
    assert margin_verdicts(distances, 0.01) == [verdict]


def test_findings_and_table_tell_the_margin(tmp_path):
    # Rare cases gain a lot, common ones stay as they are.
    write_study(tmp_path, shifts=[4] * 12 + [0] * 50)
    cases = write_cases(tmp_path, pathology=["rare"] * 12 + ["common"] * 50)
    run_evaluate(tmp_path, "--cases", cases, "--by", "pathology", out="erm")
    for n in range(12):
        write_map(tmp_path / "prediction" / f"case_{n:02}.nii.gz", bars(4))
    run_evaluate(tmp_path, "--cases", cases, "--by", "pathology", out="dro")
    folders = [f"{name}={tmp_path / name.lower()}" for name in ("ERM", "DRO")]

    result = run("compare", *folders, "-o", tmp_path / "both", "--margin", 1, "--bootstrap", 500)

    assert result.exit_code == 0, result.output
    table = read_csv(tmp_path / "both" / "comparison.csv").set_index(["stratum", "label"])["margin"]
    assert table[("rare", "tumour")] == "better"
    assert table[("common", "tumour")] == "not worse"
    text = (tmp_path / "both" / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert "not worse by more than 1 point: " in text
    assert "tumour in common 0.0 [0.0, 0.0]" in text
    assert "better: tumour in all cases +19.4" in text


def test_a_negative_margin_is_refused(tmp_path):
    write_study(tmp_path, shifts=(0,))
    run_evaluate(tmp_path)

    result = run("compare", f"A={tmp_path / 'out'}", f"B={tmp_path / 'out'}", "-o", tmp_path / "both", "--margin", -1)

    assert result.exit_code == 2
    assert "`--margin` must be 0 or more" in result.stderr
