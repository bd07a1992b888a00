from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.digits.plan import (
    BETAS,
    EPOCHS,
    RARE,
    SKETCH_SEED,
    Run,
    planned_runs,
    split_digits,
)

TINY = Run(0.1, (0.0,), 0, epochs=4, largest_share=0.2, n_train=20, n_test=5)


def test_planned_runs_are_both_shares_with_every_beta_and_three_seeds():
    runs = planned_runs([0, 1, 2], quick=False)
    assert [(run.seed, run.share) for run in runs] == [
        (seed, share) for seed in range(3) for share in (0.01, 0.05)
    ]
    assert {(run.share, run.betas) for run in runs} == {(0.01, (0.0, 10.0, 100.0)), (0.05, BETAS)}
    assert all(run.epochs == EPOCHS[run.share] for run in runs)
    assert SKETCH_SEED not in {run.seed for run in runs}
    # Both shares have the same test images of the rare digit.
    assert [(run.n_rare, run.n_rare_test) for run in runs[:2]] == [(4, 480), (20, 480)]
    assert Run(0.001, (0.0,), 0, 1).n_rare == 1
    assert [(run.share, run.betas) for run in planned_runs([0], [0.1], quick=False)] == [
        (0.05, (0.1,))
    ]

    measured = [epoch for epoch in range(1, 17) if Run(0.01, (0.0,), 0, 16).measures(epoch)]
    assert measured == [1, 2, 3, 4, 6, 8, 10, 12, 14, 16]


def test_split_cuts_the_rare_digit_averages_pixels_and_depends_on_the_seed(made_digits):
    split = split_digits(*made_digits, TINY)
    assert torch.bincount(split.train_labels).tolist() == [
        2 if digit == RARE else 20 for digit in range(10)
    ]
    # 25 images, of which 4 are in training at the largest share.
    assert torch.bincount(split.test_labels).tolist() == [
        21 if digit == RARE else 5 for digit in range(10)
    ]
    assert (split.train_images.shape, split.test_images.shape) == ((182, 8, 8), (66, 8, 8))

    images, labels = made_digits
    split = split_digits(images, labels, TINY)
    small = (
        images.reshape(-1, 28, 28)[:, 2:-2, 2:-2]
        .reshape(-1, 8, 3, 8, 3)
        .mean(axis=(2, 4))[labels == 0]
    )
    # The same picture up to one scale and one shift for all.
    ours = split.test_images[:5].numpy()

    assert (
        sum(
            max(np.corrcoef(image.ravel(), o.ravel())[0, 1] for o in ours) > 1 - 1e-9
            for image in small
        )
        == 5
    )
    # The rim of these images is as bright as their middle.
    assert float(split.train_images.mean()) == pytest.approx(0, abs=0.05)

    runs = (TINY, replace(TINY, betas=(100.0,)), replace(TINY, seed=1))
    split, same, other = (split_digits(*made_digits, run) for run in runs)

    assert torch.equal(split.train_images, same.train_images)
    assert not torch.equal(split.train_images, other.train_images)


def test_a_larger_share_has_the_same_test_images_and_more_of_the_same_3s(made_digits):
    images, labels = made_digits
    # Each image of one value of its own, which survives the averaging and the standardisation of
    # its own training set.
    images = np.repeat(np.arange(250.0)[:, None], 784, axis=1)
    small, large = (
        split_digits(images, labels, replace(TINY, share=share)) for share in (0.1, 0.2)
    )

    def numbers(split, part):
        """The images by number, whatever the scale and the shift that the training images have
        given them."""
        first, last = (float(split.test_images[:, 0, 0].quantile(q)) for q in (0, 1))
        return set((250 * (part[:, 0, 0] - first) / (last - first)).round(decimals=1).tolist())

    in_test = [numbers(split, split.test_images) for split in (small, large)]

    in_training = [numbers(split, split.train_images) for split in (small, large)]

    assert in_test[0] == in_test[1]
    assert in_training[0] < in_training[1]
    assert [len(those) for those in (*in_training, in_test[0])] == [182, 184, 66]
    assert not in_training[1] & in_test[1]
