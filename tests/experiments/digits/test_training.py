from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.digits import training
from experiments.digits.training import RARE, Run, split_digits, train

TINY = Run(0.1, 0.0, 0, n_train=20, n_test=5, epochs=4)


def test_small_beta_is_ordinary_training(made_digits):
    erm, small = (train(run, split_digits(*made_digits, run)) for run in (TINY, replace(TINY, beta=1e-12)))
    assert replace(small, seconds=erm.seconds) == erm


def test_large_beta_draws_the_rare_digit_more_often_once_every_image_was_seen(made_digits):
    split = split_digits(*made_digits, TINY)
    erm, hard = (train(replace(TINY, beta=beta), split) for beta in (0.0, 100.0))
    # 2 of 182 images are rare; the first epoch shows each image once, whatever beta.
    assert erm.drawn[0] == hard.drawn[0] == pytest.approx(100 * 2 / 182, abs=0.6)
    assert np.mean(hard.drawn[1:]) > 3 * np.mean(erm.drawn[1:])
    # Its batches are full of the same few images.
    assert np.mean(hard.distinct[1:]) < 60 < 95 < np.mean(erm.distinct[1:])


def test_split_cuts_the_rare_digit_in_training_alone(made_digits):
    split = split_digits(*made_digits, TINY)
    assert torch.bincount(split.train_labels).tolist() == [2 if digit == RARE else 20 for digit in range(10)]
    assert torch.bincount(split.test_labels).tolist() == [5] * 10
    assert split.train_images.shape == (182, 1, 14, 14)


def test_split_of_the_full_experiment_keeps_4_and_20_threes():
    labels = np.repeat(np.arange(10), 500)
    images = np.random.default_rng(0).random((5000, 784))
    for share, n_rare in ((0.01, 4), (0.05, 20)):
        split = split_digits(images, labels, Run(share, 0.0, 0))
        assert int((split.train_labels == RARE).sum()) == n_rare
        assert len(split.test_labels) == 1000


def test_split_shares_no_image_between_training_and_test(made_digits):
    _, labels = made_digits
    # Each image of one value of its own, which survives the averaging.
    images = np.repeat(np.arange(250.0)[:, None], 784, axis=1)
    split = split_digits(images, labels, TINY)
    train_values, test_values = (set(part[:, 0, 0, 0].tolist()) for part in (split.train_images, split.test_images))
    assert (len(train_values), len(test_values)) == (182, 50)
    assert not train_values & test_values


def test_split_is_standardised_by_the_training_images_and_averages_2_by_2(made_digits):
    images, labels = made_digits
    split = split_digits(images, labels, TINY)
    assert float(split.train_images.mean()) == pytest.approx(0, abs=1e-6)
    whole = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    # The same picture up to one scale and one shift for all.
    ours = split.test_images[:5, 0].numpy()
    first = [
        image
        for image in whole[labels == 0]
        if any(np.corrcoef(image.ravel(), o.ravel())[0, 1] > 1 - 1e-9 for o in ours)
    ]
    assert len(first) == 5


def test_split_depends_on_the_seed_and_not_on_beta(made_digits):
    split, same, other = (
        split_digits(*made_digits, run) for run in (TINY, replace(TINY, beta=100.0), replace(TINY, seed=1))
    )
    assert torch.equal(split.train_images, same.train_images)
    assert not torch.equal(split.train_images, other.train_images)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5])
def test_run_refuses_a_share_that_is_none(share):
    with pytest.raises(ValueError, match=r"`share` must be in \(0, 1\]"):
        Run(share, 0.0, 0)


def test_train_gives_the_same_curve_again_and_leaves_the_global_seed_alone(made_digits):
    split = split_digits(*made_digits, TINY)
    state = torch.get_rng_state()
    done = []
    first, second = (train(replace(TINY, beta=10.0), split, progress=done.append) for _ in range(2))
    assert replace(first, seconds=second.seconds) == second
    assert torch.equal(torch.get_rng_state(), state)
    assert done == [0.25, 0.5, 0.75, 1.0] * 2


def test_train_tests_the_network_in_evaluation_mode(made_digits, monkeypatch):
    class Constant(torch.nn.Module):
        """Says 3 to everything in evaluation, and 0 in training."""

        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return 10 * torch.eye(10)[torch.full((len(x),), 0 if self.training else RARE)] + self.bias

    monkeypatch.setattr(training, "wide_resnet", Constant)
    curve = train(TINY, split_digits(*made_digits, TINY))
    assert curve.rare == [100.0] * 4
    assert curve.overall == pytest.approx([10.0] * 4)
