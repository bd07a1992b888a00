"""Studies of earlier versions."""

import shutil

from tests.kept.folders import VERSION_0_1

KEPT = VERSION_0_1 / "study"
NAME = "DRO_4epochs__nnUNetPlans__2d__fold_0"


def test_a_study_of_version_0_1_is_not_mixed_with_what_its_trainer_means_today(fake, tune):
    folder = fake.results / "tuning" / NAME
    shutil.copytree(KEPT, folder)
    result = tune("--trainer", "DRO", "--option", "beta:10:100", "--objective", "mean by centre worst")
    assert result.exit_code == 2
    assert "`--study` must be about the same hardness, got 'pooled'" in result.stderr
    assert "Name another study with --study." in result.stderr
    assert fake.calls == []
    assert (folder / "trials.csv").read_bytes() == (KEPT / "trials.csv").read_bytes()
