import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from experiments.reweighting_limits.descent import (
    GROUP_STEP,
    LEARNING_RATE,
    GroupWeights,
    Setting,
    descend,
    distances,
    six_digits,
)
from experiments.reweighting_limits.limits import tail_limit, widest_margin
from tests.experiments.made_trainings import needs_digits


@pytest.fixture(scope="module")
def six():
    """Six examples in 30 dimensions, five of one class, about as long as images of digits."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(6, 30)) * 2 + 0.5
    return images, np.array([1.0, 1, 1, 1, 1, -1]), np.array([0, 0, 0, 0, 0, 1])


def test_squared_loss_ends_at_the_smallest_interpolating_weights(six):
    images, targets, _ = six
    trajectory = descend(*six, Setting("", "squared loss", 5000))

    smallest = np.linalg.pinv(images) @ targets

    np.testing.assert_allclose(trajectory.weights[-1], [smallest] * 3, atol=1e-9)
    assert trajectory.losses[-1].max() < 1e-18
    # On the way they are not the same.
    assert distances(trajectory, directions=False)[10, 1:].min() > 0.01


@pytest.mark.parametrize("mu", [0.1, 10.0])
def test_squared_loss_with_penalty_ends_at_weighted_ridge_regression(six, mu):
    images, targets, groups = six
    trajectory = descend(*six, Setting("", "squared loss", 5000, mu=mu))

    for method, weights in enumerate((np.full(6, 1 / 6), np.where(groups == 0, 0.1, 0.5))):
        np.testing.assert_allclose(
            trajectory.weights[-1, method], _ridge(images, targets, weights, mu), atol=1e-9
        )


def test_group_dro_with_strong_penalty_ends_at_the_saddle_point(six):
    images, targets, groups = six
    mu = 10.0

    def lower_bound(share):
        """min over theta of the penalised loss with this share for the second group: concave in the
        share."""
        weights = np.where(groups == 0, (1 - share) / 5, share)
        theta = _ridge(images, targets, weights, mu)
        return weights @ (images @ theta - targets) ** 2 / 2 + mu / 2 * theta @ theta

    saddle = minimize_scalar(
        lambda share: -lower_bound(share), bounds=(1e-6, 1 - 1e-6), method="bounded"
    )

    trajectory = descend(*six, Setting("", "squared loss", 40_000, mu=mu))

    assert 0.01 < saddle.x < 0.99
    np.testing.assert_allclose(trajectory.group_weights[-1, 2], [1 - saddle.x, saddle.x], atol=5e-3)

    group_losses = [trajectory.losses[-1, 2][groups == group].mean() for group in (0, 1)]
    np.testing.assert_allclose(*group_losses, rtol=0.02)


def test_penalty_parts_the_methods_the_more_the_stronger_it_is(six):
    found = [descend(*six, Setting("", "squared loss", 5000, mu=mu)) for mu in (0, 0.1, 10)]
    apart = [distances(trajectory, directions=True)[-1] for trajectory in found]

    for method in (1, 2):
        assert apart[0][method] < 1e-8 < apart[1][method] < 0.1 * apart[2][method]


def test_logistic_directions_approach_the_maximum_margin_as_the_norm_grows(six):
    images, targets, _ = six
    trajectory = descend(*six, Setting("", "logistic loss", 30_000))
    norms = np.linalg.norm(trajectory.weights, axis=-1, keepdims=True)
    widest = widest_margin(targets[:, None] * images)
    to_margin = np.linalg.norm(trajectory.weights / norms - widest, axis=-1)
    early, late = np.searchsorted(trajectory.steps, [300, 30_000])

    assert (to_margin[late] < 0.7 * to_margin[early]).all()

    turned = distances(trajectory, directions=True)
    assert (turned[late, 1:] < 0.7 * turned[early, 1:]).all()
    # The distance of the weights themselves is bounded: that of the directions falls like 1 / norm.
    np.testing.assert_allclose(
        *distances(trajectory, directions=False)[[early, late], 1], rtol=0.15
    )


@pytest.mark.parametrize("loss", ["smooth", "eq. 19, beta 0", "eq. 19, beta 1"])
def test_polynomial_tail_ends_at_directions_that_depend_on_the_weights(six, loss):
    images, targets, groups = six

    margins = targets[:, None] * images
    limits = [
        tail_limit(margins, np.full(6, 1 / 6)),
        tail_limit(margins, np.where(groups == 0, 0.1, 0.5)),
    ]
    trajectory = descend(*six, Setting("", f"polynomial tail, {loss}", 20_000))
    weights = trajectory.weights[-1] / np.linalg.norm(
        trajectory.weights[-1], axis=-1, keepdims=True
    )

    apart = np.linalg.norm(limits[1] - limits[0])

    assert apart > 0.1
    assert np.linalg.norm(weights[:2] - limits, axis=-1).max() < 0.2 * apart
    assert distances(trajectory, directions=True)[-1, 1] == pytest.approx(apart, rel=0.1)


def test_group_weights_converge_where_losses_vanish_or_become_equal(six):
    fitted = descend(*six, Setting("", "squared loss", 10_000)).group_weights[:, 2, 1]
    assert np.ptp(fitted) > 1e-4
    assert np.ptp(fitted[-20:]) < 1e-12

    trajectory = descend(*six, Setting("", "polynomial tail, eq. 19, beta 0", 30_000))
    early, late, end = trajectory.group_weights[
        np.searchsorted(trajectory.steps, [300, 3_000, 30_000]), 2, 1
    ]

    assert abs(end - late) < 0.2 * abs(late - early)
    assert 0.01 < end < 0.99
    assert np.ptp(trajectory.group_weights[:, :2], axis=0).max() == 0


def test_weights_are_those_of_gradient_descent_in_all_dimensions(six):
    images, targets, groups = six
    trajectory = descend(*six, Setting("", "logistic loss", 100, mu=0.1))
    q = np.where(groups == 0, 0.1, 0.5)
    theta = np.zeros(images.shape[1])

    for _ in range(100):
        margins = targets * (images @ theta)
        theta = theta - LEARNING_RATE * (
            images.T @ (-q * targets / (1 + np.exp(margins))) + 0.1 * theta
        )

    np.testing.assert_allclose(trajectory.weights[-1, 1], theta, rtol=1e-9)


def test_first_step_is_the_one_computed_by_hand():
    images = np.array([[1.0, 0], [0, 2], [0, 4]])
    targets = np.array([1.0, 1, -1])
    groups = np.array([0, 0, 1])
    trajectory = descend(images, targets, groups, Setting("", "squared loss", 10))
    erm = LEARNING_RATE * np.array([1, 2 - 4]) / 3

    weighted = LEARNING_RATE * np.array([1 / 4, 2 / 4 - 4 / 2])

    # Both groups start with a loss of 1/2, so Group DRO's first weights stay equal.
    np.testing.assert_allclose(trajectory.weights[0], [erm, weighted, weighted], rtol=1e-12)
    np.testing.assert_allclose(trajectory.losses[0], 0.5)

    second = trajectory.losses[1, 2]
    odds = np.exp(GROUP_STEP * (second[2] - second[:2].mean()))

    assert trajectory.group_weights[1, 2, 1] / trajectory.group_weights[1, 2, 0] == pytest.approx(
        odds
    )


def test_descend_keeps_the_powers_of_ten_and_leaves_its_input_alone(six):
    before = [part.copy() for part in six]
    steps = descend(*six, Setting("", "squared loss", 1000)).steps

    assert set(steps) >= {1, 10, 100, 1000}
    assert (np.diff(steps) > 0).all()
    for part, copy in zip(six, before, strict=True):
        np.testing.assert_array_equal(part, copy)


@needs_digits
def test_six_digits_are_five_zeros_and_a_one():
    images, targets, groups = six_digits()
    assert images.shape == (6, 784)
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert targets.tolist() == [1, 1, 1, 1, 1, -1]
    assert groups.tolist() == [0, 0, 0, 0, 0, 1]


def _ridge(images, targets, weights, mu):
    """argmin of sum_i weights_i (f_i - y_i)^2 / 2 + mu / 2 ||theta||^2, as a plain least squares
    problem."""
    rows = np.vstack([np.sqrt(weights)[:, None] * images, np.sqrt(mu) * np.eye(images.shape[1])])
    return np.linalg.lstsq(
        rows, np.append(np.sqrt(weights) * targets, np.zeros(images.shape[1])), rcond=None
    )[0]


def test_only_group_dro_moves_its_weights_and_towards_the_larger_loss():
    weights = GroupWeights(np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(weights.values, [[3 / 4, 1 / 4], [1 / 2, 1 / 2], [1 / 2, 1 / 2]])

    of_examples = weights.of_examples(np.ones((3, 4)))
    np.testing.assert_allclose(of_examples[0], 1 / 4)
    np.testing.assert_allclose(of_examples[1:], [[1 / 6, 1 / 6, 1 / 6, 1 / 2]] * 2)

    losses = np.tile([1.0, 2, 3, 7], (3, 1))
    before = losses.copy()
    of_examples = weights.of_examples(losses)

    np.testing.assert_allclose(weights.values[:2], [[3 / 4, 1 / 4], [1 / 2, 1 / 2]])
    assert weights.values[2, 1] / weights.values[2, 0] == pytest.approx(
        np.exp(GROUP_STEP * (7 - 2))
    )
    np.testing.assert_allclose(of_examples.sum(axis=1), 1)
    np.testing.assert_array_equal(losses, before)
