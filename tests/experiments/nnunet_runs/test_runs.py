import json
import os

import pandas as pd
import pytest

from experiments.nnunet_runs.runs import SeedRuns, epoch_seconds
from nnunet_dro.trainers.installation import FOLDER
from tests.experiments.made_studies import row_of, seed_of, tiny_study, write_label_map


def trained(nnunet):
    """The commands that train, in order."""
    return [command for command in nnunet.commands if "--times" in command]


def trainings(nnunet):
    """Seed and trainer of each training, in order."""
    return [
        (seed_of(environment["nnUNet_raw"]), command[command.index("-tr") + 1].split("_2epochs")[0])
        for command, environment in zip(nnunet.commands, nnunet.environments, strict=True)
        if "--times" in command
    ]


def test_all_methods_of_a_seed_come_before_the_next_seed_and_the_baseline_first(start, nnunet):
    start(methods=("beta10", "IW"))

    first = ["nnUNetTrainerHWS_beta0", "nnUNetTrainerHWS_beta10", "nnUNetTrainerIW_kind"]
    assert trainings(nnunet) == [(seed, trainer) for seed in (0, 1) for trainer in first]


def test_second_start_does_only_what_is_missing(start, nnunet):
    start(seeds=(0,))
    nnunet.commands.clear(), nnunet.environments.clear()

    start(methods=("beta10", "beta100"), seeds=(0, 1))

    assert trainings(nnunet) == [
        (0, "nnUNetTrainerHWS"),
        *((1, f"nnUNetTrainerHWS{suffix}") for suffix in ("_beta0", "_beta10", "")),
    ]
    assert sum(command[0] == "nnUNetv2_plan_and_preprocess" for command in nnunet.commands) == 1


def test_failed_run_is_recorded_and_tried_again(start, nnunet, tmp_path):
    nnunet.failing = {"nnUNetTrainerHWS_beta10_2epochs_5iters"}
    page = start(methods=("beta10", "beta100")).read_text()

    failures = json.loads((tmp_path / "work" / "tiny" / "failures.json").read_text())
    assert list(failures) == ["seed 0, beta10", "seed 1, beta10"]
    assert "No such trainer" in failures["seed 0, beta10"]
    assert "Runs that failed" in page
    assert "- seed 1, beta10" in page
    assert (1, "nnUNetTrainerHWS") in trainings(nnunet), "the run goes on"
    nnunet.failing = set()
    nnunet.commands.clear(), nnunet.environments.clear()

    page = start(methods=("beta10", "beta100")).read_text()

    assert trainings(nnunet) == [(0, "nnUNetTrainerHWS_beta10"), (1, "nnUNetTrainerHWS_beta10")]
    assert "Runs that failed" not in page
    assert json.loads((tmp_path / "work" / "tiny" / "failures.json").read_text()) == {}


def test_run_that_was_interrupted_starts_anew(start, nnunet, tmp_path):
    seed = tmp_path / "work" / "tiny" / "seed0"
    start(seeds=(0,))
    (seed / "runs" / "beta10.json").unlink()
    stray = seed / "predictions" / "beta10" / "stray.nii.gz"
    write_label_map(stray, row_of(10))

    start(seeds=(0,))

    assert not stray.exists()
    assert epoch_seconds(SeedRuns(seed, tiny_study(), 0).fold("beta10")) == [3.0, 2.0], "one log, not two"


def test_folder_of_other_settings_is_refused(start):
    start(seeds=(0,))
    with pytest.raises(ValueError, match=r"`work` must be a new folder .* which holds runs with epochs 2 instead of 3"):
        start(seeds=(0,), epochs=3)


def test_folder_of_trainings_without_seeds_is_refused(start, tmp_path):
    settings = tmp_path / "work" / "tiny" / "settings.json"
    start(seeds=(0,))
    settings.write_text(json.dumps({k: v for k, v in json.loads(settings.read_text()).items() if k != "seeded"}))
    with pytest.raises(ValueError, match=r"which holds runs with seeded None instead of True"):
        start(seeds=(0,))


def test_training_uses_one_thread_and_no_workers_and_the_planner_gets_some(start, nnunet):
    start(seeds=(0,))

    plan, *others = nnunet.environments
    assert plan["nnUNet_n_proc_DA"] == "2"
    assert all(environment["nnUNet_n_proc_DA"] == "0" for environment in others)
    assert all(environment["OMP_NUM_THREADS"] == "1" for environment in nnunet.environments)


def test_split_is_that_of_the_case_table(start, tmp_path):
    start(seeds=(0,))

    preprocessed = tmp_path / "work" / "tiny" / "seed0" / "nnUNet_preprocessed" / "Dataset912_Tiny"
    (split,) = json.loads((preprocessed / "splits_final.json").read_text())
    assert split == {"train": ["rare0Tr", "usual1Tr", "usual2Tr", "usual3Tr"], "val": ["usual0Tr"]}


def test_method_with_a_source_starts_from_its_model_and_is_trained_for_its_share(start, nnunet, tmp_path):
    start(methods=("beta10",), seeds=(1,), sources={"beta10": "ERM"}, factors={"beta10": 0.4})

    plain, finetuned = trained(nnunet)
    assert "--from" not in plain
    model = tmp_path / "work" / "tiny" / "seed1" / "nnUNet_results" / "Dataset912_Tiny"
    source = finetuned[finetuned.index("--from") + 1]
    assert source.startswith(f"{model}/nnUNetTrainerHWS_beta0_2epochs_5iters__")
    assert finetuned[finetuned.index("-tr") + 1] == "nnUNetTrainerHWS_beta10_2epochs_2iters"


def test_trainings_have_the_seed_of_their_data(start, nnunet):
    start(methods=("beta10",), seeds=(3, 1))

    seeds = [command[command.index("--seed") + 1] for command in nnunet.commands if "--seed" in command]
    assert seeds == ["3", "3", "1", "1"]


def test_method_with_a_subset_has_a_fold_of_its_own(start, nnunet, tmp_path):
    def some(raw):
        return [case for case in pd.read_csv(raw / "cases.csv")["case"] if case in ("usual3Tr", "usual1Tr")]

    start(methods=("beta10",), seeds=(0,), subsets={"beta10": some})

    seed = tmp_path / "work" / "tiny" / "seed0"
    splits = json.loads((seed / "nnUNet_preprocessed" / "Dataset912_Tiny" / "splits_final.json").read_text())
    assert [split["train"][-2:] for split in splits] == [["usual2Tr", "usual3Tr"], ["usual1Tr", "usual3Tr"]]
    assert len(splits[1]["train"]) == 2
    assert splits[0]["val"] == splits[1]["val"]
    folds = {command[command.index("-tr") + 1]: command[command.index("-tr") - 1] for command in trained(nnunet)}
    assert folds == {"nnUNetTrainerHWS_beta0_2epochs_5iters": "0", "nnUNetTrainerHWS_beta10_2epochs_5iters": "1"}
    predicted = [command[command.index("-f") + 1] for command in nnunet.commands if "-f" in command]
    assert predicted == ["0", "1"]


def test_trainers_of_an_experiment_are_found_beside_those_of_the_package(start, nnunet, tmp_path):
    start(seeds=(0,), trainer_folders=(tmp_path / "trainers",))

    folders = nnunet.environments[-1]["nnUNet_extTrainer"].split(os.pathsep)
    assert folders == [str(FOLDER), str(tmp_path / "trainers")]
