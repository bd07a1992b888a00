"""What trainings of version 0.3 left, whose `nnUNetTrainerDRO` drew by another rule."""

import torch

from nnunet_dro.trainers.checkpoint import recorded_options
from nnunet_dro.trainers.options import DROOptions


def options_of_0_3(**changes):
    """What a checkpoint of version 0.3 has of nnUNetTrainerDRO and of options in its name."""
    recorded = recorded_options(DROOptions())
    for name in ("hardest", "rare"):
        del recorded["values"][name]
    recorded["values"] |= {"earned": 0.5, **changes}
    return recorded


def write_training_of_0_3(fold):
    """A fold that nnUNetTrainerDRO of version 0.3 has finished, as far as its checkpoint tells."""
    fold.mkdir(parents=True)
    write_checkpoint(fold, {"options": options_of_0_3()})


def write_checkpoint(fold, state):
    """The last checkpoint of a fold with a state of this package, and little else."""
    checkpoint = {
        "init_args": {"configuration": "2d"},
        "trainer_name": "nnUNetTrainerDRO",
        "network_weights": {},
        "logging": {"nnunet_dro": state},
    }
    torch.save(checkpoint, fold / "checkpoint_final.pth")
