import numpy as np
import pytest
import torch

from experiments.reweighting_limits import networks
from experiments.reweighting_limits.descent import GROUP_STEP, distances, six_digits
from tests.experiments.made_trainings import needs_digits


@pytest.fixture(scope="module")
def examples():
    """Six examples in 12 dimensions, their targets and groups, and 20 more to look at."""
    rng = np.random.default_rng(0)
    images, others = networks.in_unit_ball(rng.normal(size=(6, 12)), rng.normal(size=(20, 12)))
    return images, np.array([1.0, 1, 1, 1, 1, -1]), np.array([0, 0, 0, 0, 0, 1]), others


def test_functions_and_weights_come_nearer_to_erm_with_the_width(examples):
    functions = []
    weights = []

    for units in (16, 128, 1024):
        ends = [
            networks.train_network(*examples, networks.Network(units, seed, 2_000))
            for seed in range(3)
        ]
        assert max(end.losses.max() for end, _ in ends) < 1e-7
        functions.append(
            np.mean([np.abs(outputs[1:] - outputs[0]).max(axis=1) for _, outputs in ends], axis=0)
        )
        weights.append(np.mean([_relative(end) for end, _ in ends], axis=0))

    for found, factor in ((functions, 0.25), (weights, 0.6)):
        assert (found[1] < factor * found[0]).all()
        assert (found[2] < factor * found[1]).all()


def test_methods_are_apart_on_the_way(examples):
    early, late = (
        networks.train_network(*examples, networks.Network(256, 0, steps))[0]
        for steps in (10, 1_500)
    )
    for one, other in zip(_relative(early), _relative(late), strict=True):
        assert one > 5 * other


@pytest.mark.parametrize(
    ("loss", "mu"), [("squared loss", 0.0), ("squared loss", 0.2), ("logistic loss", 0.2)]
)
def test_training_is_gradient_descent_on_all_weights(examples, loss, mu):
    images, targets, groups, others = examples
    network = networks.Network(8, 3, 25, loss, mu)
    end, found = networks.train_network(*examples, network)
    for method in range(3):
        outputs, moved = _with_torch(images, targets, groups, others, network, method)
        np.testing.assert_allclose(found[method], outputs, rtol=1e-9, atol=1e-12)
        assert np.linalg.norm(end.weights[0, method]) == pytest.approx(moved, rel=1e-9)


def test_training_depends_on_its_seed_alone_and_leaves_its_input_alone(examples):
    before = [part.copy() for part in examples]
    first, same, other = (
        networks.train_network(*examples, networks.Network(8, seed, 5))[1] for seed in (0, 0, 1)
    )

    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3
    for part, copy in zip(examples, before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_longest_image_has_length_one():
    images, others = networks.in_unit_ball(np.array([[3.0, 4]]), np.array([[6.0, 8], [0, 1]]))
    np.testing.assert_allclose(images, [[0.3, 0.4]])
    np.testing.assert_allclose(others, [[0.6, 0.8], [0, 0.1]])

    wide = networks.networks(quick=False)
    assert sorted({one.units for one in wide}) == [64, 512, 4096]
    assert len(wide) == len(set(wide)) == 3 * 5


@needs_digits
def test_held_out_digits_are_not_among_the_six():
    images = six_digits()[0]
    others = networks.held_out_digits()

    assert others.shape == (200, 784)
    assert np.linalg.norm(others[:, None] - images, axis=-1).min() > 1
    # A 1 has less ink than a 0.
    assert others[:100].mean() > 2 * others[100:].mean()


def _relative(end):
    """Distances of the weights from those of ERM, over the movement of ERM."""
    return distances(end, directions=False)[0, 1:] / np.linalg.norm(end.weights[0, 0])


def _with_torch(images, targets, groups, others, network, method):
    """Outputs and movement of one method, with the gradients of torch for every weight."""
    rng = np.random.default_rng(network.seed)
    start = [
        rng.normal(size=(network.units, images.shape[1])),
        rng.normal(size=network.units),
        np.zeros(network.units),
    ]
    weights = [torch.tensor(part, requires_grad=True) for part in start]
    q = torch.tensor([[5 / 6, 1 / 6], [1 / 2, 1 / 2], [1 / 2, 1 / 2]][method], dtype=torch.float64)

    def outputs(x):
        w, b, a = weights
        return torch.tanh(torch.tensor(x) @ w.T + b) @ a / np.sqrt(network.units)

    for _ in range(network.steps):
        wanted = torch.tensor(targets)
        found = outputs(images)
        logistic = torch.nn.functional.softplus(-wanted * found)
        losses = (found - wanted) ** 2 / 2 if network.loss == "squared loss" else logistic
        means = torch.stack([losses[groups == group].mean() for group in (0, 1)])
        if method == 2:
            q = q * torch.exp(GROUP_STEP * means.detach())
            q = q / q.sum()
        moved = sum(
            ((w - torch.tensor(part)) ** 2).sum() for w, part in zip(weights, start, strict=True)
        )
        gradients = torch.autograd.grad(q @ means + network.mu / 2 * moved, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= networks.NETWORK_RATE * gradient
    ends = [weight.detach().numpy() for weight in weights]
    moved = np.sqrt(sum(np.sum((end - part) ** 2) for end, part in zip(ends, start, strict=True)))
    return outputs(others).detach().numpy(), moved
