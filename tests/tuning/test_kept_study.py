"""Studies of earlier versions go on."""

import shutil

import pandas as pd

from tests.kept.folders import VERSION_0_1

KEPT = VERSION_0_1 / "study"


def test_a_study_of_version_0_1_goes_on_to_more_trials(fake, tune):
    shutil.copytree(KEPT, fake.results / "tuning" / "DRO_4epochs__nnUNetPlans__2d__fold_0")
    result = tune("--option", "beta:10:100", "--trials", "4", "--objective", "mean by centre worst")
    assert result.exit_code == 0, result.output
    trials = fake.trials()
    assert trials["state"].tolist() == ["complete"] * 4
    kept = pd.read_csv(KEPT / "trials.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(trials.head(3)[["value", "beta", "trainer"]], kept[["value", "beta", "trainer"]])
    assert len(fake.calls) == 1, "what is finished is not trained again"
