import pickle
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from nnunet_dro.trainers.installation import FOLDER
from nnunet_dro.trainers.nnUNetTrainerHWS import nnUNetTrainerHWS
from nnunet_dro.trainers.registry import TRAINERS, parse_trainer_name, trainer_class
from tests.trainers.names import ALL_NAMES, PLAIN_NAMES


def test_class_has_the_name_that_was_asked_for():
    cls = trainer_class("nnUNetTrainerHWS_beta0.5_2epochs_5iters")
    assert cls.__name__ == "nnUNetTrainerHWS_beta0.5_2epochs_5iters"
    assert issubclass(cls, nnUNetTrainerHWS)
    assert (cls.options.beta, cls.options.epochs, cls.options.iterations) == (0.5, 2, 5)
    assert trainer_class("nnUNetTrainerHWS_beta0.5_2epochs_5iters") is cls


@pytest.mark.parametrize("name", [*ALL_NAMES, "nnUNetTrainerHWS_beta0.5"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_classes_pickle_by_name(name, protocol):
    cls = trainer_class(name)
    assert pickle.loads(pickle.dumps(cls, protocol)) is cls


@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_name_is_parsed_into_the_trainer_and_its_options(name):
    base, options = parse_trainer_name(name)
    assert TRAINERS[base].options_class is type(options)
    assert base + options.suffix() == name


def test_options_reach_the_trainer(make_trainer):
    trainer = make_trainer(trainer_class("nnUNetTrainerHWS_beta10_3epochs_10iters"))
    lengths = (trainer.num_epochs, trainer.num_iterations_per_epoch, trainer.num_val_iterations_per_epoch)
    assert lengths == (3, 10, 2)
    assert "nnUNetTrainerHWS_beta10_3epochs_10iters__nnUNetPlans__3d_small" in trainer.output_folder


@pytest.mark.parametrize(
    "name", ["nnUNetTrainerDA5", "nnUNetTrainerLSTM", "nnUNetTrainerIWhatever", "nnUNetTrainerHWSP"]
)
def test_a_name_that_is_not_ours_is_no_attribute(name):
    """nnU-Net then goes on looking: somebody else's trainer may begin like one of ours."""
    with pytest.raises(AttributeError, match=f"{name} is not a trainer of nnunet-dro"):
        trainer_class(name)


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_nnunet_is_told_of_every_trainer(name):
    """The module that is installed inside nnU-Net, asked as nnU-Net asks."""
    spec = spec_from_file_location("discovery", FOLDER / "nnUNetTrainer_nnunet_dro.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert hasattr(module, name)
    assert getattr(module, name) is trainer_class(name)


def test_trainers_are_named_after_their_files():
    assert list(TRAINERS) == [cls.__module__.split(".")[-1] for cls in TRAINERS.values()]
