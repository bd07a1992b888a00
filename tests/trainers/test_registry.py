import pickle
from importlib.util import module_from_spec, spec_from_file_location

import pytest
import torch
from nnunetv2.utilities.file_path_utilities import (
    convert_trainer_plans_config_to_identifier,
    get_ensemble_name,
)

from nnunet_dro.trainers.installation import FOLDER
from nnunet_dro.trainers.named import longest_name
from nnunet_dro.trainers.nnUNetTrainerHWS import nnUNetTrainerHWS
from nnunet_dro.trainers.registry import TRAINERS, trainer_class
from tests.trainers.draws import log_of
from tests.trainers.names import ALL_NAMES, PLAIN_NAMES


def test_class_has_the_name_that_was_asked_for(make_trainer):
    cls = trainer_class("nnUNetTrainerHWS_beta0.5_2epochs_5iters")
    assert cls.__name__ == "nnUNetTrainerHWS_beta0.5_2epochs_5iters"
    assert issubclass(cls, nnUNetTrainerHWS)
    assert (cls.options.beta, cls.options.epochs, cls.options.iterations) == (0.5, 2, 5)
    assert trainer_class("nnUNetTrainerHWS_beta0.5_2epochs_5iters") is cls

    trainer = make_trainer(trainer_class("nnUNetTrainerHWS_beta10_3epochs_10iters"))
    lengths = (
        trainer.num_epochs,
        trainer.num_iterations_per_epoch,
        trainer.num_val_iterations_per_epoch,
    )

    assert lengths == (3, 10, 2)
    assert "nnUNetTrainerHWS_beta10_3epochs_10iters__nnUNetPlans__3d_small" in trainer.output_folder
    assert list(TRAINERS) == [cls.__module__.split(".")[-1] for cls in TRAINERS.values()]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", [*ALL_NAMES, "nnUNetTrainerHWS_beta0.5"])
def test_classes_pickle_by_name(name, protocol):
    cls = trainer_class(name)
    assert pickle.loads(pickle.dumps(cls, protocol)) is cls


@pytest.mark.parametrize("name", ["DA5", "LSTM", "IWhatever", "HWSP"])
def test_a_name_that_is_not_ours_is_no_attribute(name):
    """nnU-Net then goes on looking: somebody else's trainer may begin like one of ours."""
    with pytest.raises(AttributeError, match=f"nnUNetTrainer{name} is not a trainer of nnunet-dro"):
        trainer_class(f"nnUNetTrainer{name}")


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_nnunet_is_told_of_every_trainer(name):
    """The module that is installed inside nnU-Net, asked as nnU-Net asks."""
    spec = spec_from_file_location("discovery", FOLDER / "nnUNetTrainer_nnunet_dro.py")
    module = module_from_spec(spec)

    spec.loader.exec_module(module)

    assert hasattr(module, name)
    assert getattr(module, name) is trainer_class(name)


# What every trainer with a name has


@pytest.fixture
def n_threads():
    """Threads as nnUNetv2_train sets them on a machine with three processors."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield torch.get_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("wished", "used"), [("1", 1), ("2,1", 2), ("8", 3), ("0", 3), ("many", 3), ("", 3), (None, 3)]
)
def test_training_on_a_cpu_keeps_to_omp_num_threads(
    make_trainer, monkeypatch, n_threads, wished, used
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if wished is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", wished)

    make_trainer(nnUNetTrainerHWS).initialize()

    assert n_threads() == used


LONG = (
    "nnUNetTrainerHWS_beta12.5_exactIS_normIS_clip0.25to7.5_momentum0.75_hardPresent_la0.5_3epochs"
)


@pytest.mark.parametrize(
    ("plans", "configurations", "longest"),
    [
        ("nnUNetPlans", ["2d", "3d_fullres", "3d_cascade_fullres"], 77),
        ("nnUNetResEncUNetLPlans", ["2d"], 70),
        ("nnUNetPlans", ["3d_fullres_of_small_patches"], 68),
        ("nnUNetPlans", [], 77),
    ],
)
def test_two_of_the_longest_names_make_a_folder_of_nnunet(plans, configurations, longest):
    assert longest_name(plans, configurations) == longest

    configuration = max([*configurations, "3d_cascade_fullres"], key=len)
    model = convert_trainer_plans_config_to_identifier(
        "n" * longest, plans.ljust(15, "-"), configuration
    )
    ensemble = get_ensemble_name(model, model, (0, 1, 2, 3, 4))

    assert 253 < len(ensemble) <= 255


@pytest.mark.parametrize("name", [LONG, "nnUNetTrainerHWS_3epochs"])
def test_a_name_too_long_for_an_ensemble_is_warned_of(make_trainer, name):
    trainer = make_trainer(trainer_class(name), "2d_small")
    trainer.on_train_start()

    warned = (
        f"WARNING: {name} has {len(name)} characters. nnUNetv2_find_best_configuration"
        in log_of(trainer)
    )

    assert warned == (len(name) > 77)
