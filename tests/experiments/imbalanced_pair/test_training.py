from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.imbalanced_pair import training
from experiments.imbalanced_pair.experiment import RATIOS
from nnunet_dro.losses import LearnedWeights

#: 6 4s and 48 9s to train.
TINY = training.Run("plain", 8, 0, 0.05, n_train=54, n_test=10, batch=20, steps=4)


@pytest.fixture(scope="module")
def made_digits():
    """60 noisy images of a 4, 60 of a 9 and 5 of a 7, in [0, 1]; each has a first pixel of its own."""
    rng = np.random.default_rng(0)
    digits = np.repeat([4, 9, 7], [60, 60, 5])
    patterns = dict(zip((4, 7, 9), rng.random((3, 784)), strict=True))
    images = np.clip(
        [patterns[digit] for digit in digits] + rng.normal(scale=0.2, size=(125, 784)), 0, 1
    )
    images[:, 0] = np.arange(125) / 125
    return images, digits


def test_l2rw_learns_its_weights_from_all_trusted_images_the_quick_way(made_digits, monkeypatch):
    steps = []

    class Spy(LearnedWeights):
        def gradient(self, batch, trusted):
            found = super().gradient(batch, trusted)
            steps.append((trusted, float(found.total), self.not_at_once))
            return found

    monkeypatch.setattr(training, "LearnedWeights", Spy)
    split = training.split_pair(*made_digits, TINY)

    training.train(replace(TINY, method="L2RW"), split)

    assert len(steps) == TINY.steps
    assert any(total > 0 for _, total, _ in steps)
    for (images, labels), _, reason in steps:
        assert torch.equal(images, split.trusted_images)
        assert torch.equal(labels, split.trusted_labels)
        # The network has a forward-mode derivative.
        assert reason is None


@pytest.mark.parametrize(
    ("labels", "weights"),
    [
        # Two 4s: they and the two 9s of losses 5 and 3, not the 4 of loss 9 instead of one of
        # these.
        ([1, 0, 0, 1, 0], [0.25, 0.25, 0.25, 0.25, 0]),
        ([0, 0, 0, 1, 0], [0, 0.5, 0, 0.5, 0]),
        # No 4: the hardest 9.
        ([0, 0, 0, 0, 0], [0, 0, 0, 1, 0]),
        # Fewer 9s than 4s: all of both.
        ([1, 1, 0, 1, 1], [0.2] * 5),
        ([1, 1, 1, 1, 1], [0.2] * 5),
    ],
)
def test_hard_mining_keeps_the_4s_and_as_many_of_the_hardest_9s(labels, weights):
    losses = torch.tensor([2.0, 5, 3, 9, 1])
    found = training.hard_mining_weights(losses, torch.tensor(labels))

    torch.testing.assert_close(found, torch.tensor(weights, dtype=torch.float32))


def test_random_weights_are_a_rectified_gaussian_divided_by_its_sum():
    weights = training.random_weights(100_000, np.random.default_rng(0))
    assert float(weights.sum()) == pytest.approx(1, abs=1e-4)
    assert float((weights == 0).float().mean()) == pytest.approx(0.5, abs=0.01)
    # E[max(z, 0)] is 1 / sqrt(2 pi), E[max(z, 0)^2] is 1 / 2: the effective number is a share of 1
    # / pi.
    assert 1 / float((weights.double() ** 2).sum()) / 100_000 == pytest.approx(1 / np.pi, abs=0.01)

    class AllBelow:
        def standard_normal(self, n):
            return np.full(n, -1.0)

    assert training.random_weights(3, AllBelow()).tolist() == [0.0, 0.0, 0.0]


def test_resample_draws_half_of_a_batch_from_each_digit_others_all_alike():
    labels = np.array([0] * 96 + [1] * 4)
    rows = training.draw_batch(
        replace(TINY, method="resample", batch=100), labels, np.random.default_rng(0)
    )

    assert labels[rows].sum() == 50
    # With replacement there are fewer distinct 4s than drawn ones, and all of them.
    assert set(rows[labels[rows] == 1]) == {96, 97, 98, 99}

    many = training.draw_batch(replace(TINY, batch=100_000), labels, np.random.default_rng(0))
    assert labels[many].mean() == pytest.approx(0.04, abs=0.003)

    for method in set(training.METHODS) - {"plain", "resample"}:
        run = replace(TINY, method=method, batch=100_000)
        np.testing.assert_array_equal(
            training.draw_batch(run, labels, np.random.default_rng(0)), many
        )


def test_proportion_is_plain_training_where_the_digits_are_balanced(made_digits):
    runs = [replace(TINY, method=method, ratio=1) for method in ("plain", "proportion", "random")]
    plain, proportion, control = (
        training.train(run, training.split_pair(*made_digits, run)) for run in runs
    )

    assert replace(proportion, seconds=plain.seconds) == plain
    assert control.effective < 0.6 * plain.effective == pytest.approx(0.6 * 20)


def test_train_descends_along_the_weighted_sum_of_losses(made_digits, monkeypatch):
    network = training.lenet()
    monkeypatch.setattr(training, "lenet", lambda: network)
    run = replace(TINY, method="proportion", steps=1)
    split = training.split_pair(*made_digits, run)
    before = [p.detach().clone() for p in network.parameters()]
    rows = np.random.default_rng([0, 1]).integers(54, size=20)
    labels = split.train_labels[rows]
    # 6 4s and 48 9s.
    losses = training.losses_of(network(split.train_images[rows]), labels)
    loss = (
        sum(
            loss * (54 / 12 if label else 54 / 96)
            for loss, label in zip(losses, labels, strict=True)
        )
        / 20
    )
    gradients = torch.autograd.grad(loss, list(network.parameters()))

    training.train(run, split)

    for parameter, start, gradient in zip(network.parameters(), before, gradients, strict=True):
        torch.testing.assert_close(
            parameter.detach(), start - 0.05 * gradient, rtol=1e-4, atol=1e-6
        )


def test_train_counts_the_wrong_images_of_each_digit(made_digits, monkeypatch):
    always_4 = training.lenet()
    torch.nn.init.zeros_(always_4[-1].weight)
    always_4[-1].bias.data = torch.tensor([0.0, 10.0])
    monkeypatch.setattr(training, "lenet", lambda: always_4)

    outcome = training.train(TINY, training.split_pair(*made_digits, TINY))

    assert (outcome.rare, outcome.common, outcome.halfway) == (0, 100, 50)


def test_train_gives_the_same_again_and_leaves_the_global_seed_alone(made_digits):
    run = replace(TINY, method="L2RW")
    split = training.split_pair(*made_digits, run)
    state = torch.get_rng_state()

    first, second = (training.train(run, split) for _ in range(2))

    assert replace(first, seconds=second.seconds) == second
    assert torch.equal(torch.get_rng_state(), state)


def test_lenet_has_two_5x5_convolutions_and_the_published_widths():
    network = training.lenet()
    assert network(torch.zeros(3, 1, 28, 28)).shape == (3, 2)

    shapes = [tuple(p.shape) for p in network.parameters() if p.ndim > 1]
    assert shapes == [(6, 1, 5, 5), (16, 6, 5, 5), (120, 256), (84, 120), (2, 84)]


def test_split_has_the_ratio_the_same_total_and_enough_images(made_digits):
    for ratio, n_rare in ((8, 6), (1, 27), (9, 5)):
        split = training.split_pair(*made_digits, replace(TINY, ratio=ratio))
        assert (int(split.train_labels.sum()), len(split.train_labels)) == (n_rare, 54)
        assert split.train_images.shape == (54, 1, 28, 28)
        assert torch.bincount(split.test_labels).tolist() == [10, 10]
        assert torch.bincount(split.trusted_labels).tolist() == [
            training.N_TRUSTED,
            training.N_TRUSTED,
        ]
    runs = [training.Run("plain", ratio, 0, 0.1) for ratio in RATIOS]

    assert [run.n_rare for run in runs] == [212, 39, 14, 5]
    assert {run.n_train - run.n_rare + run.n_test for run in runs[-1:]} == {500}

    split = training.split_pair(*made_digits, TINY)
    assert float(split.train_images.mean()) == pytest.approx(0, abs=1e-6)
    assert float(split.train_images.std()) == pytest.approx(1, abs=1e-4)


def test_split_tests_on_no_training_image_and_depends_on_the_seed_alone(made_digits):
    _, digits = made_digits
    # Each image of one value of its own, which grows with its row: first the 4s, then the 9s.
    images = np.repeat(np.arange(125.0)[:, None], 784, axis=1)
    split = training.split_pair(images, digits, TINY)
    parts = (split.train_images, split.trusted_images, split.test_images)

    seen, trusted, test = (set(part[:, 0, 0, 0].tolist()) for part in parts)

    assert (len(seen), len(trusted), len(test)) == (54, 10, 20)
    assert trusted <= seen
    assert not test & seen
    for part, labels in zip(
        parts, (split.train_labels, split.trusted_labels, split.test_labels), strict=True
    ):
        assert part[labels == 1].max() < part[labels == 0].min()

    runs = (TINY, replace(TINY, method="L2RW"), replace(TINY, ratio=1), replace(TINY, seed=1))
    split, same, even, other = (training.split_pair(images, digits, run) for run in runs)

    assert torch.equal(split.train_images, same.train_images)
    assert not torch.equal(split.test_images, other.test_images)
    # The standardisation differs, the order of the values does not.
    for ours, theirs in (
        (split.test_images, even.test_images),
        (split.trusted_images, even.trusted_images),
    ):
        assert torch.equal(ours[:, 0, 0, 0].argsort(), theirs[:, 0, 0, 0].argsort())


MADE = replace(TINY, ratio=19, n_train=400, made=True)


def test_made_images_leave_trusted_and_test_images_alone(made_digits, monkeypatch):
    kept = {}

    def remember(images, rng):
        kept["sources"] = images
        return images

    monkeypatch.setattr(training, "moved", remember)
    images, digits = made_digits
    split = training.split_pair(images, digits, MADE)
    first = kept["sources"][:, 0]

    n_rare = round(400 / 20)

    assert split.train_labels.sum() == n_rare
    # The first pixel is that of one image only; 60 less 10 for the test and 5 trusted ones are left
    # of the 9s.
    assert len(np.unique(first[split.train_labels == 1])) == n_rare
    assert len(np.unique(first[split.train_labels == 0])) == 45

    centre = kept["sources"].mean()
    spread = kept["sources"].std()
    for part in (split.trusted_images, split.test_images):
        values = part[:, 0, 0, 0].numpy() * spread + centre
        assert not np.isclose(values[:, None], first[None], atol=1e-4).any()


def test_images_are_moved_a_little_each_in_its_own_way():
    image = np.zeros((28, 28))
    image[10:18, 12:16] = 1
    found = training.moved(np.tile(image.ravel(), (50, 1)), np.random.default_rng(0)).reshape(
        50, 28, 28
    )
    rows, columns = np.indices((28, 28))
    mass = found.sum(axis=(1, 2))

    centres = np.stack([(found * axis).sum(axis=(1, 2)) / mass for axis in (rows, columns)], axis=1)

    assert np.abs(centres - [13.5, 13.5]).max() <= 1.5 + 0.1
    assert np.ptp(centres, axis=0).min() > 1
    # An area changes by the square of a scale of 0.9 to 1.1.
    assert 0.78 * 32 < mass.min() < mass.max() < 1.24 * 32
    assert len(np.unique(found.reshape(50, -1), axis=0)) == 50


def test_the_error_is_the_mean_of_the_last_quarter_of_the_tests(made_digits, monkeypatch):
    errors = iter([(100.0, 0.0)] * 7 + [(50.0, 10.0), (30.0, 20.0)])
    monkeypatch.setattr(training, "_wrong", lambda *_: next(errors))

    found = training.train(
        replace(TINY, steps=8, test_every=1), training.split_pair(*made_digits, TINY)
    )

    # One of the nine is the test half way.
    assert (found.rare, found.common) == (40.0, 15.0)
