import numpy as np
import pytest
from scipy.optimize import minimize

from experiments.reweighting_limits.limits import tail_distances, tail_limit


@pytest.fixture(scope="module")
def six():
    """Six examples in 30 dimensions, five of one class."""
    images = np.random.default_rng(1).normal(size=(6, 30)) + 0.5
    return images, np.array([1.0, 1, 1, 1, 1, -1]), np.array([0, 0, 0, 0, 0, 1])


def test_limit_of_orthogonal_examples_is_the_one_computed_by_hand():
    # With margins a theta_1 and b theta_2: theta_i^3 is proportional to w_i / (length of the
    # example).
    found = tail_limit(np.array([[2.0, 0, 0], [0, 1, 0]]), np.array([0.8, 0.05]))
    expected = np.array([np.cbrt(0.8 / 2), np.cbrt(0.05), 0])

    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-7)


def test_limit_is_the_best_direction_of_another_solver(six):
    images, targets, groups = six
    weights = np.where(groups == 0, 0.1, 0.5)
    margins = images * targets[:, None]

    best = _on_the_ball(lambda z: weights @ (1 / z), margins)

    np.testing.assert_allclose(tail_limit(margins, weights), best, atol=1e-4)


def test_group_dro_ends_where_the_worst_group_is_best(six):
    images, targets, groups = six
    margins = images * targets[:, None]
    best = _on_the_ball(lambda z: max((1 / z[groups == group]).mean() for group in (0, 1)), margins)
    plain = tail_limit(margins, np.full(6, 1 / 6))

    weighting, dro = tail_distances(images, targets, groups)

    assert weighting == pytest.approx(
        np.linalg.norm(tail_limit(margins, np.where(groups == 0, 0.1, 0.5)) - plain)
    )
    assert dro == pytest.approx(np.linalg.norm(best - plain), abs=5e-3)


def _on_the_ball(objective, margins):
    """The unit vector with the smallest objective of the margins."""
    span = np.linalg.svd(margins, full_matrices=False)[2]
    start = np.linalg.lstsq(margins @ span.T, np.ones(len(margins)), rcond=None)[0]
    found = minimize(
        lambda c: objective(np.maximum(margins @ span.T @ c / np.linalg.norm(c), 1e-6)),
        start / np.linalg.norm(start),
        method="Nelder-Mead",
        options={
            "maxiter": 40_000,
            "maxfev": 40_000,
            "xatol": 1e-9,
            "fatol": 1e-14,
            "adaptive": True,
        },
    )
    theta = span.T @ found.x
    return theta / np.linalg.norm(theta)
