"""nnUNetTrainerGroupDRO in nnU-Net: groups are drawn equally often, and their weights are in the
loss."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from nnunet_dro.trainers.case_columns import CaseColumns
from tests.trainers.draws import log_of


@pytest.fixture
def started(start):
    """A trainer in its first epoch."""

    def make(name, configuration="3d_small"):
        trainer, _ = start(name, configuration)
        trainer.on_train_start()
        trainer.on_train_epoch_start()
        return trainer

    return make


def gradients_of(trainer):
    return torch.cat(
        [p.grad.flatten() for p in trainer.network.parameters() if p.grad is not None]
    ).clone()


def check_that_a_step_weights(trainer, batch, weights):
    output = trainer.network(batch["data"])
    trainer.loss.per_case(output, batch["target"]).weighted(weights).backward()
    torch.nn.utils.clip_grad_norm_(trainer.network.parameters(), 12)
    gradient = gradients_of(trainer)
    plain = float(trainer.loss(output, batch["target"]).detach())
    loss = trainer.train_step(batch)["loss"]  # which leaves the gradients
    torch.testing.assert_close(gradients_of(trainer), gradient, rtol=1e-4, atol=1e-6)
    assert loss == pytest.approx(plain, rel=1e-5), "the reported loss is nnU-Net's"


def weights_of(trainer, batch):
    draws = CaseColumns.in_batch(batch)
    rule = trainer.hardness_log.table.rule
    return torch.from_numpy(
        rule.loss_weights(draws.indices.numpy(), draws.probabilities.numpy())
    ).float()


@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_the_weights_at_the_step_are_not_in_the_reported_loss(started, configuration):
    trainer = started("nnUNetTrainerGroupDRO_site_nu0.5", configuration)
    table = trainer.hardness_log.table
    batch = next(trainer.dataloader_train)

    site = np.array(trainer.groups(table.cases))

    assert set(site) == {"a", "b"}

    # The batch waited while the weights moved on.
    for _ in range(4):
        table.update(np.arange(len(table)), np.where(site == "a", 0.0, 1.0))
    np.testing.assert_allclose(table.rule.weights, np.array([1, np.e**2]) / (1 + np.e**2))

    check_that_a_step_weights(trainer, batch, weights_of(trainer, batch))


def test_a_warm_up_has_weights_of_one(started):
    trainer = started("nnUNetTrainerGroupDRO_site_nu0.5_warmup1")
    batch = next(trainer.dataloader_train)

    assert not torch.allclose(weights_of(trainer, batch), torch.ones(2)), (
        "the cases are drawn uniformly"
    )

    check_that_a_step_weights(trainer, batch, torch.ones(2))


@pytest.mark.parametrize("options", ["site", "site_power0.5", "site_share0.5", "number_asWeights"])
def test_what_is_drawn_by_group_or_weight_counts_the_same_in_the_loss(started, options):
    trainer = started(f"nnUNetTrainerIW_{options}")
    batch = next(trainer.dataloader_train)

    assert (
        trainer.hardness_log.table.rule.loss_weights(
            CaseColumns.in_batch(batch).indices, np.ones(2)
        )
        is None
    )

    check_that_a_step_weights(trainer, batch, torch.ones(2))


def test_one_step_moves_the_weights_by_its_losses_and_the_csv_has_them(started):
    trainer = started("nnUNetTrainerGroupDRO_site_nu0.5")
    table = trainer.hardness_log.table
    batch = next(trainer.dataloader_train)
    site = np.array(trainer.groups(table.cases))

    table.update(np.arange(len(table)), np.full(len(table), 1.0))

    np.testing.assert_allclose(table.rule.weights, 0.5)

    trainer.train_step(batch)
    drawn = CaseColumns.in_batch(batch).indices.numpy()
    mine = {group: drawn[site[drawn] == group] for group in "ab"}
    means = [table.losses[of].mean() if len(of) else 1.0 for of in mine.values()]
    expected = np.exp(0.5 * np.array(means))

    np.testing.assert_allclose(table.rule.weights, expected / expected.sum(), rtol=1e-5)

    for _ in range(2):
        loss = trainer.train_step(next(trainer.dataloader_train))
    trainer.on_train_epoch_end([loss])
    row = pd.read_csv(Path(trainer.output_folder) / "training.csv").iloc[-1]
    weights = trainer.hardness_log.table.rule.weights

    np.testing.assert_allclose(row[["weight[a]", "weight[b]"]].astype(float), weights, rtol=1e-5)
    assert (
        "Group DRO, each of 2 groups equally often and weighted in the loss, step size 0.5"
        in log_of(trainer)
    )
