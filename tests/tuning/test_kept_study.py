"""Studies of earlier versions go on."""

import shutil

import pandas as pd

from tests.kept.folders import VERSION_0_2

KEPT = VERSION_0_2 / "study"


def test_a_study_of_version_0_2_goes_on_to_more_trials(fake, tune):
    shutil.copytree(KEPT, fake.results / "tuning" / "HWS_4epochs__nnUNetPlans__2d__fold_0")
    tune("--option", "beta:10:100", "--trials", "4", "--objective", "mean by centre worst")
    kept, trials = pd.read_csv(KEPT / "trials.csv", keep_default_na=False), fake.trials()
    assert trials["state"].tolist() == ["complete"] * 7, "three of the search, three repetitions, and a new one"
    columns = ["value", "beta", "trainer", "repeat_of", "pseudo_dice"]
    pd.testing.assert_frame_equal(trials.head(6)[columns], kept[columns])
    assert fake.calls == trials["trainer"].tolist()[6:], "what is finished is not trained again"
