from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from experiments.digits import training
from experiments.digits.plan import RARE, Run, split_digits
from experiments.digits.training import train

TINY = Run(0.1, (0.0,), 0, epochs=4, largest_share=0.2, n_train=20, n_test=5)


def curve(result, name, i=0):
    return [getattr(epoch, name) for epoch in result.epochs[i]]


def test_a_beta_of_almost_0_is_ordinary_training(made_digits):
    run = replace(TINY, betas=(0.0, 1e-12))
    erm, small = train(run, split_digits(*made_digits, run)).epochs

    for ours, theirs in zip(small, erm, strict=True):
        assert asdict(ours) == pytest.approx(asdict(theirs), abs=1e-3)


def test_betas_side_by_side_are_as_alone(made_digits):
    split = split_digits(*made_digits, TINY)
    alone = train(TINY, split)

    together = train(replace(TINY, betas=(100.0, 0.0)), split)

    for name in ("drawn", "distinct"):
        assert curve(alone, name) == curve(together, name, 1)
    for name in ("loss", "loss_sd", "rare_loss", "stale_loss", "stale_sd"):
        assert curve(alone, name) == pytest.approx(curve(together, name, 1), abs=0.02)


def test_large_beta_draws_the_rare_digit_more_once_every_image_was_seen(made_digits):
    result = train(replace(TINY, betas=(0.0, 100.0)), split_digits(*made_digits, TINY))
    drawn, distinct = ([curve(result, name, i) for i in (0, 1)] for name in ("drawn", "distinct"))

    # 2 of 182 images are rare; the first epoch shows each image once, whatever beta.
    assert drawn[0][0] == drawn[1][0] == pytest.approx(100 * 2 / 182, abs=0.6)
    assert np.mean(drawn[1][1:]) > 3 * np.mean(drawn[0][1:])
    # Its batches are full of the same few images.
    assert np.mean(distinct[1][1:]) < 60 < 95 < np.mean(distinct[0][1:])


class Constant(torch.nn.Module):
    """Says 3 to everything in evaluation, and 0 in training."""

    def __init__(self):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        digit = 0 if self.training else RARE
        return 5 * torch.eye(10)[torch.full((len(x),), digit)] + self.bias


def test_accuracy_and_losses_are_those_in_evaluation_and_as_last_drawn(made_digits, monkeypatch):
    monkeypatch.setattr(training, "side_by_side", lambda network, n_networks: Constant())
    result = train(TINY, split_digits(*made_digits, TINY))

    assert curve(result, "rare") == [100.0] * 3
    # 21 of the 66 test images are 3s.
    assert curve(result, "overall") == pytest.approx([10.0] * 3)

    right = np.log1p(9 * np.exp(-5))
    wrong = 5 + np.log1p(9 * np.exp(-5))
    # In evaluation the 2 images of 3s of 182 are right; in training the 20 of 0s.
    share = 2 / 182

    assert curve(result, "loss") == pytest.approx([share * right + (1 - share) * wrong] * 3)
    assert curve(result, "loss_sd") == pytest.approx([5 * np.sqrt(share * (1 - share))] * 3)
    assert curve(result, "rare_loss") == pytest.approx([right] * 3)

    share = 20 / 182
    assert curve(result, "stale_loss") == pytest.approx([share * right + (1 - share) * wrong] * 3)
    assert curve(result, "stale_sd") == pytest.approx([5 * np.sqrt(share * (1 - share))] * 3)
    assert curve(result, "epoch") == [1, 2, 4]


def test_train_gives_the_same_curve_again_and_leaves_the_global_seed_alone(made_digits):
    split = split_digits(*made_digits, TINY)
    run = replace(TINY, betas=(0.0, 10.0))
    state = torch.get_rng_state()

    first, second = (train(run, split) for _ in range(2))

    assert first.epochs == second.epochs
    assert torch.equal(torch.get_rng_state(), state)
