import importlib

from experiments.label_noise.random_weights import RANDOM_WEIGHTS
from experiments.label_noise.trainings import FINETUNED, METHODS, RIGHT, phantoms
from experiments.nnunet_runs.results import BASELINE
from experiments.spoilt_labels.spoiling import right_cases, trusted_cases
from nnunet_dro.trainers.registry import trainer_class


def test_random_weights_are_a_trainer_of_the_folder_that_nnunet_is_told(monkeypatch):
    trainings = phantoms(quick=False)
    (folder,) = trainings.trainer_folders
    # As nnU-Net does: by the bare names of the modules.
    monkeypatch.syspath_prepend(folder)
    modules = [importlib.import_module(path.stem) for path in folder.glob("*.py")]

    name = trainings.trainer("random")

    assert [getattr(module, name).__name__ for module in modules] == [name]
    assert not any(hasattr(module, "nnUNetTrainer_10epochs") for module in modules)


def test_trainers_are_what_the_page_says():
    trainings = phantoms(quick=False)
    for trainer in (trainings.trainer(method) for method in METHODS if method != "random"):
        assert trainer_class(trainer).__name__ == trainer
    assert (
        trainings.trainer(RIGHT)
        == trainings.trainer(BASELINE)
        == "nnUNetTrainerHWS_beta0_40epochs_100iters"
    )
    assert trainings.trainer(FINETUNED) == "nnUNetTrainerHWS_beta0_lr0.001_40epochs_10iters"
    assert trainings.trainer("random").startswith(f"{RANDOM_WEIGHTS}_40epochs")
    assert "doro0.3_warmup12_" in trainings.trainer("DORO_warm")
    assert trainings.folds == {RIGHT: 1, FINETUNED: 2}
    assert trainings.data.folds == (right_cases, trusted_cases)
