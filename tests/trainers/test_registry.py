import pickle

import pytest

from nnunet_dro.trainers.nnUNetTrainerDRO import nnUNetTrainerDRO
from nnunet_dro.trainers.registry import TRAINERS, trainer_class


def test_class_has_the_name_that_was_asked_for():
    cls = trainer_class("nnUNetTrainerDRO_beta0.5_2epochs_5iters")
    assert cls.__name__ == "nnUNetTrainerDRO_beta0.5_2epochs_5iters"
    assert issubclass(cls, nnUNetTrainerDRO)
    assert (cls.options.beta, cls.options.epochs, cls.options.iterations) == (0.5, 2, 5)
    assert trainer_class("nnUNetTrainerDRO_beta0.5_2epochs_5iters") is cls


@pytest.mark.parametrize("name", [*TRAINERS, "nnUNetTrainerDRO_beta10_noIS", "nnUNetTrainerDRO_beta0.5"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_classes_pickle_by_name(name, protocol):
    cls = trainer_class(name)
    assert pickle.loads(pickle.dumps(cls, protocol)) is cls


def test_options_reach_the_trainer(make_trainer):
    trainer = make_trainer(trainer_class("nnUNetTrainerDRO_beta10_3epochs_10iters"))
    lengths = (trainer.num_epochs, trainer.num_iterations_per_epoch, trainer.num_val_iterations_per_epoch)
    assert lengths == (3, 10, 2)
    assert "nnUNetTrainerDRO_beta10_3epochs_10iters__nnUNetPlans__3d_small" in trainer.output_folder


def test_a_name_that_is_not_ours_is_no_attribute():
    with pytest.raises(AttributeError, match="nnUNetTrainerDA5 is not a trainer of nnunet-dro"):
        trainer_class("nnUNetTrainerDA5")
