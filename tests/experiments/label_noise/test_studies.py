import importlib

from experiments.label_noise.random_weights import RANDOM_WEIGHTS
from experiments.label_noise.studies import FINETUNED, METHODS, RIGHT, phantom_study
from experiments.nnunet_runs.study import BASELINE
from experiments.spoilt_labels.spoiling import right_cases, trusted_cases
from nnunet_dro.trainers.registry import trainer_class


def test_random_weights_are_a_trainer_of_the_folder_that_nnunet_is_told(monkeypatch):
    study = phantom_study(quick=False)
    (folder,) = study.trainer_folders
    # As nnU-Net does: by the bare names of the modules.
    monkeypatch.syspath_prepend(folder)
    modules = [importlib.import_module(path.stem) for path in folder.glob("*.py")]

    name = study.trainer("random")

    assert [getattr(module, name).__name__ for module in modules] == [name]
    assert not any(hasattr(module, "nnUNetTrainer_10epochs") for module in modules)


def test_trainers_are_what_the_page_says():
    study = phantom_study(quick=False)
    for trainer in (study.trainer(method) for method in METHODS if method != "random"):
        assert trainer_class(trainer).__name__ == trainer
    assert (
        study.trainer(RIGHT)
        == study.trainer(BASELINE)
        == "nnUNetTrainerHWS_beta0_40epochs_100iters"
    )
    assert study.trainer(FINETUNED) == "nnUNetTrainerHWS_beta0_lr0.001_40epochs_10iters"
    assert study.trainer("random").startswith(f"{RANDOM_WEIGHTS}_40epochs")
    assert "doro0.3_warmup12_" in study.trainer("DORO_warm")
    assert [study.fold_of(method) for method in (BASELINE, RIGHT, FINETUNED, "L2RW")] == [
        0,
        1,
        2,
        0,
    ]
    assert study.subsets == {RIGHT: right_cases, FINETUNED: trusted_cases}
