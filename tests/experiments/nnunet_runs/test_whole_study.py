import pytest
from rich.console import Console

from experiments.nnunet_runs.whole_study import run_study
from tests.experiments.made_studies import tiny_study


def test_seeds_at_the_same_time_are_made_in_other_processes_and_their_errors_come_out(tmp_path):
    def write(folder, rng):
        raise ValueError(f"no data for {folder.parents[1].name}")

    study = tiny_study(write=write)
    with pytest.raises(ValueError, match="no data for seed"):
        run_study(study, tmp_path, [0, 1], ["ERM"], Console(quiet=True), jobs=2)
    assert not list(tmp_path.rglob("nnUNetPlans*"))


def test_a_method_that_starts_from_another_is_run_after_it_whatever_is_run_at_the_same_time(start, nnunet, tmp_path):
    start(methods=("beta100", "beta10"), seeds=(0,), sources={"beta10": "ERM"})

    trained = [command[command.index("-tr") + 1] for command in nnunet.commands if "--times" in command]
    names = ["nnUNetTrainerHWS_beta0", "nnUNetTrainerHWS_beta10", "nnUNetTrainerHWS"]
    assert trained == [f"{name}_2epochs_5iters" for name in names]


def test_the_time_of_a_study_is_that_of_its_iterations_and_tests():
    study = tiny_study(factors={"IW": 3.0}, seconds={"beta10": 12.0}, minutes_around=2.0)
    assert study.minutes("ERM") == pytest.approx(2 + 10 * 0.1 / 60)
    assert study.minutes("beta10") == pytest.approx(2 + 10 * 12 / 60)
    assert study.minutes("IW") == pytest.approx(2 + 30 * 0.1 / 60)
