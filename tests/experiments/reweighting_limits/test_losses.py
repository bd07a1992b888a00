from functools import partial

import numpy as np
import pytest
import torch

from experiments.reweighting_limits.losses import (
    logistic_loss,
    polynomial_loss,
    smooth_polynomial_loss,
    squared_loss,
)

EQ_19 = [partial(polynomial_loss, beta=beta) for beta in (0.0, 1.0, -0.5)]


def test_smooth_polynomial_loss_has_the_values_and_slopes_of_its_pieces():
    log2 = np.log(2)
    margins = np.array([[-50.0, -1.0, 0.0, 2 * log2, 6 * log2]])

    values, slopes = smooth_polynomial_loss(margins, np.ones(5))

    np.testing.assert_allclose(
        values[0], [50, np.log1p(np.e), log2, log2 / 2, log2 / 4], rtol=1e-12
    )
    np.testing.assert_allclose(slopes[0, 2:], [-1 / 2, -1 / 8, -1 / 32], rtol=1e-12)

    margins = np.linspace(-3, 3, 6001)[None]
    values, slopes = smooth_polynomial_loss(margins, np.ones(margins.size))

    assert (np.diff(values[0], 2) > 0).all()
    assert (np.diff(slopes[0]) > 0).all()
    assert np.diff(slopes[0]).max() < 1e-3


def test_eq_19_has_the_values_and_slopes_of_its_pieces():
    values, slopes = polynomial_loss(np.array([[-50.0, 0.0, 1.0, 3.0]]), np.ones(4), beta=0.0)
    np.testing.assert_allclose(values[0], [51 - np.log(2), 1, 1 / 2, 1 / 4], rtol=1e-12)
    np.testing.assert_allclose(slopes[0], [-1, -1, -1 / 4, -1 / 16], rtol=1e-12)

    values, slopes = polynomial_loss(np.array([[0.0, 1.0, 2.0, 4.0]]), np.ones(4), beta=1.0)
    np.testing.assert_allclose(
        values[0], [1 + np.log(2) - np.log1p(np.exp(-1)), 1, 1 / 2, 1 / 4], rtol=1e-12
    )
    np.testing.assert_allclose(slopes[0], [-1 / 2, -1, -1 / 4, -1 / 16], rtol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_eq_19_is_continuous_but_not_differentiable_or_convex_at_its_joint(beta):
    step = 1e-6
    below, joint, above = polynomial_loss(
        beta + np.array([[-step, 0, step]]), np.ones(3), beta=beta
    )[0][0]

    assert abs(below - above) < 3 * step
    assert (joint - below) / step == pytest.approx(-1 / (1 + np.exp(beta)), abs=1e-5)
    assert (above - joint) / step == pytest.approx(-1, abs=1e-5)
    assert joint > (below + above) / 2


@pytest.mark.parametrize("loss", [squared_loss, logistic_loss, smooth_polynomial_loss, *EQ_19])
def test_slopes_are_the_derivatives_of_the_values(loss):
    rng = np.random.default_rng(0)
    predictions = rng.normal(size=(3, 8)) * 3
    targets = np.sign(rng.normal(size=8))

    above, below = (loss(predictions + sign * 1e-6, targets)[0] for sign in (1, -1))

    np.testing.assert_allclose(loss(predictions, targets)[1], (above - below) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("loss", [smooth_polynomial_loss, *EQ_19])
def test_tails_fall_like_one_over_the_margin(loss):
    near, far = loss(np.array([[1e4, 1e8]]), np.ones(2))[0][0]
    assert near / far == pytest.approx(1e4, rel=1e-3)


def test_logistic_loss_is_that_of_torch_and_never_overflows():
    predictions = torch.tensor(
        [[-900.0, -2.0, 0.5, 900.0]], dtype=torch.float64, requires_grad=True
    )
    targets = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    are_positive = (targets.expand(1, -1) + 1) / 2
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        predictions, are_positive, reduction="none"
    )
    expected.sum().backward()

    values, slopes = logistic_loss(predictions.detach().numpy(), targets.numpy())

    np.testing.assert_allclose(values, expected.detach(), rtol=1e-12)
    np.testing.assert_allclose(slopes, predictions.grad, rtol=1e-12)
