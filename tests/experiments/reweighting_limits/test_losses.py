import numpy as np
import pytest
import torch

from experiments.reweighting_limits.losses import logistic_loss, polynomial_loss, squared_loss


def test_polynomial_loss_has_the_values_and_slopes_of_its_pieces():
    log2 = np.log(2)
    margins = np.array([[-50.0, -1.0, 0.0, 2 * log2, 6 * log2]])
    values, slopes = polynomial_loss(margins, np.ones(5))
    np.testing.assert_allclose(values[0], [50, np.log1p(np.e), log2, log2 / 2, log2 / 4], rtol=1e-12)
    np.testing.assert_allclose(slopes[0, 2:], [-1 / 2, -1 / 8, -1 / 32], rtol=1e-12)


@pytest.mark.parametrize("loss", [squared_loss, logistic_loss, polynomial_loss])
def test_slopes_are_the_derivatives_of_the_values(loss):
    rng = np.random.default_rng(0)
    predictions, targets = rng.normal(size=(3, 8)) * 3, np.sign(rng.normal(size=8))
    above, below = (loss(predictions + sign * 1e-6, targets)[0] for sign in (1, -1))
    np.testing.assert_allclose(loss(predictions, targets)[1], (above - below) / 2e-6, atol=1e-8)


def test_logistic_loss_is_that_of_torch_and_never_overflows():
    predictions = torch.tensor([[-900.0, -2.0, 0.5, 900.0]], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        predictions, (targets.expand(1, -1) + 1) / 2, reduction="none"
    )
    expected.sum().backward()
    values, slopes = logistic_loss(predictions.detach().numpy(), targets.numpy())
    np.testing.assert_allclose(values, expected.detach(), rtol=1e-12)
    np.testing.assert_allclose(slopes, predictions.grad, rtol=1e-12)
