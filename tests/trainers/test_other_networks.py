"""nnU-Net's other networks: its residual encoders through their planner, and Primus through a class
of one's own."""

import os

import numpy as np
import pytest
import torch

from nnunet_dro.losses import PooledHardness
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from tests.trainers.draws import draws_of


def check_an_epoch(trainer):
    """An epoch of one training step and one validation step."""
    trainer.num_iterations_per_epoch = trainer.num_val_iterations_per_epoch = 1
    trainer.on_train_start()
    trainer.on_epoch_start()
    trainer.on_train_epoch_start()
    assert isinstance(trainer.loss.pooled, PooledHardness)
    before = [p.detach().clone() for p in trainer.network.parameters()]
    batch = next(trainer.dataloader_train)
    step = trainer.train_step(batch)
    assert np.isfinite(step["loss"])
    assert np.isfinite(trainer.hardness_log.table.losses[draws_of(batch).indices]).all()
    changed = [
        not torch.equal(old, new)
        for old, new in zip(before, trainer.network.parameters(), strict=True)
    ]
    assert np.mean(changed) > 0.5, (
        "all but what a residual branch, which begins at 0, hides in the first step"
    )
    trainer.on_train_epoch_end([step])
    with torch.no_grad():
        trainer.on_validation_epoch_start()
        trainer.on_validation_epoch_end([trainer.validation_step(next(trainer.dataloader_val))])
    trainer.on_epoch_end()


def test_it_trains_what_the_planner_of_residual_encoders_plans(make_trainer, project):
    project("labels").run(
        "nnUNetv2_plan_experiment",
        "-d",
        project("labels").dataset_id,
        "-pl",
        "nnUNetPlannerResEncM",
    )
    trainer = make_trainer("nnUNetTrainerDRO", "3d_fullres", plans_name="nnUNetResEncUNetMPlans")

    trainer.initialize()

    assert type(trainer.network).__name__ == "ResidualEncoderUNet"

    check_an_epoch(trainer)


@pytest.mark.filterwarnings(
    "ignore:`torch.jit:FutureWarning", "ignore:Environment variable TORCH_FORCE"
)
def test_the_mixin_trains_primus_and_continues(make_trainer, monkeypatch):
    primus = pytest.importorskip("nnunetv2.training.nnUNetTrainer.primus.primus_trainers")

    class DROWithPrimus(HardnessWeighted, primus.nnUNet_Primus_S_Trainer):
        pass

    trainer = make_trainer(DROWithPrimus)

    trainer.initialize()

    assert type(trainer.network).__name__ == "Primus"

    check_an_epoch(trainer)
    path = os.path.join(trainer.output_folder, "checkpoint_latest.pth")
    trainer.save_checkpoint(path)
    resumed = make_trainer(DROWithPrimus)
    # Primus reads its checkpoints as torch reads files of others, which holds for no trainer of
    # nnU-Net.
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    resumed.load_checkpoint(path)
    resumed.get_dataloaders()

    np.testing.assert_array_equal(
        resumed.hardness_log.table.losses, trainer.hardness_log.table.losses
    )
