"""beta 0 is plain nnU-Net: the tests that catch every drift from it."""

import numpy as np
import pytest
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
from scipy.stats import chisquare

N_STEPS = 20


def copy_of(batch):
    """nnU-Net's validation step writes into its batch."""
    return {
        key: [part.clone() for part in value] if isinstance(value, list) else value
        for key, value in batch.items()
    }


@pytest.mark.parametrize("kind", ["labels", "regions", "ignore", "regions_ignore"])
@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_training_steps_are_nnunets(start, configuration, kind):
    plain, _ = start(nnUNetTrainer, configuration, kind)
    dro, _ = start("nnUNetTrainerHWS_beta0", configuration, kind)
    for trainer in (plain, dro):
        trainer.set_deep_supervision_enabled(trainer.enable_deep_supervision)
    np.random.seed(0)
    loader, validation_loader = dro.get_dataloaders()
    for _ in range(N_STEPS):
        batch = next(loader)
        theirs = plain.train_step(copy_of(batch))["loss"]
        mine = dro.train_step(copy_of(batch))["loss"]
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    difference = scale = torch.zeros(())

    for mine, theirs in zip(dro.network.parameters(), plain.network.parameters(), strict=True):
        difference = difference + (mine - theirs).detach().square().sum()
        scale = scale + theirs.detach().square().sum()

    assert torch.sqrt(difference / scale) < 1e-5

    with torch.no_grad():
        batch = next(validation_loader)
        theirs = plain.validation_step(copy_of(batch))
        mine = dro.validation_step(copy_of(batch))
    np.testing.assert_allclose(mine["loss"], theirs["loss"], rtol=1e-4)


def test_cases_are_drawn_uniformly(start):
    table = start("nnUNetTrainerHWS_beta0")[0].hardness_log.table
    rng = np.random.default_rng(0)
    table.update(np.arange(len(table)), rng.normal(size=len(table)))

    draws = [table.draw(2, rng=rng).indices for _ in range(4000)]

    assert chisquare(np.bincount(np.concatenate(draws), minlength=len(table))).pvalue > 1e-3
