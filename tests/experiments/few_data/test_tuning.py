import numpy as np
import pytest

from experiments.few_data.page import trials_table, tuning_told
from experiments.few_data.studies import (
    TUNED,
)
from experiments.few_data.tuning import OPTIONS, Tuning, n_finished, read_tuning
from experiments.nnunet_runs.plans import CONFIGURATION
from nnunet_dro.trainers.registry import trainer_class
from nnunet_dro.tuning.parsing import parse_space
from tests.experiments.few_data.made_study import TRIALS, write_tuning


@pytest.mark.parametrize("method", TUNED)
def test_every_tuned_option_is_one_of_its_trainer_with_the_ranges_of_the_source(method):
    space = parse_space(TUNED[method], OPTIONS[method], epochs=4, iterations=45)
    ends = {one.name: (one.low, one.high, one.log) for one in space.ranges}
    ranges = {"alpha": (0, 0.5, False), "T": (1, 15, False), "eta": (0.1, 3, True)}
    assert ends == {name: ranges[name] for name in ends}
    assert list(ends) == (["alpha"] if method == "LS" else ["alpha", "T", "eta"])
    name = space.trainer_name({one.name: one.middle for one in space.ranges})
    assert trainer_class(name).__name__ == name
    if method == "GI-LS":
        assert trainer_class(name).options.penalty == 1e-3


def test_trials_are_told_best_first():
    tuning = Tuning("LS", TRIALS, "nnUNetTrainerLS_alpha0.3", {"alpha": 0.7, "T": 0.3})
    told = tuning_told(tuning)
    assert "4 trials (4 different): 2 complete, 1 pruned, 1 failed. Their Dice ranges from 50.0 to 70.0" in told
    assert "`nnUNetTrainerLS_alpha0.3`" in told
    assert "alpha 70 %, T 30 %" in told
    assert "PED-ANOVA" not in tuning_told(Tuning("LS", TRIALS, "nnUNetTrainerLS_alpha0.3", {"alpha": 1.0}))
    shown = trials_table(tuning)
    assert shown["trial"].tolist() == [2, 0, 1, 3]
    assert shown["Dice of the held-out cases"].tolist()[:2] == [70, 50]
    assert shown["change of the images"].tolist()[:3] == [0.3, 0.1, 0.2]
    assert tuning.seconds == 120


def test_best_trainer_is_without_the_length_of_the_trials(tmp_path):
    folder = tmp_path / "tuning" / "LS"
    write_tuning(folder)
    fold = tmp_path / f"{TRIALS['trainer'][2]}__nnUNetPlansExperiment__{CONFIGURATION}" / "fold_1"
    fold.mkdir(parents=True)
    (fold / "perturbations.csv").write_text("epoch,mean_change\n0,0.25\n1,0.75\n")
    tuning = read_tuning(folder, "LS")
    assert tuning.trials["image_change"].tolist() == pytest.approx([np.nan, np.nan, 0.5, np.nan], nan_ok=True)
    assert tuning.trainer == "nnUNetTrainerLS_alpha0.3"
    assert tuning.importance == {}, "no trials in the database, no importance"
    assert n_finished(folder) == 3
    assert n_finished(tmp_path / "none") == 0


def test_tuning_without_a_complete_trial_is_refused(tmp_path):
    write_tuning(tmp_path / "LS", TRIALS[TRIALS["state"] != "complete"])
    with pytest.raises(ValueError, match="`LS` must have a complete trial, got none in"):
        read_tuning(tmp_path / "LS", "LS")
