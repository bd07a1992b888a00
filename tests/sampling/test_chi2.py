import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, brentq, minimize

from nnunet_dro.sampling.divergences import chi2_probabilities, chi2_robust_loss
from tests.sampling.made_losses import SIZES, betas, random_losses, some_losses


def chi2_objective(q, losses, beta):
    return q @ losses - np.mean((len(q) * q - 1) ** 2) / beta


def chi2_by_root_finding(losses, beta):
    """The stationary point of the Lagrangian, its multiplier found by a scalar root finder."""
    n = len(losses)
    slopes = beta * (losses - losses.max()) / 2
    shift = brentq(lambda t: np.maximum(slopes + t, 0).sum() - n, 0, n + 1, xtol=1e-14, rtol=1e-15)
    return np.maximum(slopes + shift, 0) / n


@pytest.mark.parametrize("beta", [1e-12, 1e-3, 0.1, 1.0, 10.0, 1000.0, 1e8])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_chi2_probabilities_equal_those_of_a_root_finder(n, ties, beta):
    losses = random_losses(n, ties=ties)
    np.testing.assert_allclose(
        chi2_probabilities(losses, beta=beta), chi2_by_root_finding(losses, beta), atol=1e-12
    )


@pytest.mark.parametrize("beta", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("n", [2, 3, 7])
def test_chi2_probabilities_and_loss_equal_those_of_a_general_optimiser(n, beta):
    losses = random_losses(n, ties=False)
    found = minimize(
        lambda q: -beta * chi2_objective(q, losses, beta),
        np.full(n, 1 / n),
        jac=lambda q: -beta * losses + 2 * (n * q - 1),
        method="SLSQP",
        bounds=[(0, 1)] * n,
        constraints=LinearConstraint(np.ones(n), 1, 1),
        options={"ftol": 1e-16, "maxiter": 1000},
    )

    np.testing.assert_allclose(chi2_probabilities(losses, beta=beta), found.x, atol=1e-8)
    assert chi2_robust_loss(losses, beta=beta) == pytest.approx(
        chi2_objective(found.x, losses, beta), abs=1e-8
    )


def test_chi2_probabilities_go_from_uniform_to_the_hardest_cases():
    losses = np.array([-9.1, 0.5, 0.3, 0.5])
    np.testing.assert_array_equal(chi2_probabilities(losses, beta=0.0), np.full(4, 0.25))
    np.testing.assert_allclose(chi2_probabilities(losses, beta=1e-12), np.full(4, 0.25), atol=1e-12)
    for beta in (1e8, 1e300, np.finfo(float).max):
        np.testing.assert_array_equal(chi2_probabilities(losses, beta=beta), [0, 0.5, 0, 0.5])

    # from twice n over the gap on
    three = np.array([0.0, 0.3, 0.8])
    beta = 2 * 3 / 0.5

    np.testing.assert_allclose(chi2_probabilities(three, beta=beta), [0, 0, 1], atol=1e-15)
    assert chi2_probabilities(three, beta=0.99 * beta)[1] > 0

    losses = np.array([0.0, 0.25, 0.5, 1.0])
    np.testing.assert_array_equal(
        chi2_probabilities(losses + 2.0**40, beta=1.7), chi2_probabilities(losses, beta=1.7)
    )


def test_chi2_probabilities_of_a_million_cases_sum_to_one():
    losses = np.random.default_rng(0).normal(size=1_000_000)
    for beta in (1.0, 100.0, 1e6):
        assert chi2_probabilities(losses, beta=beta).sum() == pytest.approx(1, abs=1e-12)
        weights = chi2_by_root_finding(losses, beta)
        np.testing.assert_allclose(
            chi2_probabilities(losses, beta=beta), weights / weights.sum(), atol=1e-12
        )


@given(some_losses, betas, st.integers(0, 24), st.floats(0, 5))
def test_chi2_gives_more_to_a_case_that_grew_harder_and_to_no_other(losses, beta, case, growth):
    case %= len(losses)
    harder = losses.copy()
    harder[case] += growth

    change = chi2_probabilities(harder, beta=beta) - chi2_probabilities(losses, beta=beta)

    assert change[case] >= -1e-12
    assert (np.delete(change, case) <= 1e-12).all()


@given(some_losses, betas)
def test_chi2_robust_loss_is_what_its_distribution_reaches(losses, beta):
    robust = chi2_robust_loss(losses, beta=beta)
    assert losses.mean() <= robust <= losses.max() or robust == pytest.approx(
        losses.mean(), abs=1e-14
    )

    if beta >= 1e-6:
        reached = chi2_objective(chi2_probabilities(losses, beta=beta), losses, beta)
        assert robust == pytest.approx(reached, abs=1e-9)


def test_chi2_robust_loss_goes_from_the_mean_to_the_maximum():
    losses = np.array([0.1, 0.5, 0.3])
    for beta in (0.0, 5e-324, 1e-200, 1e-40, 1e-15):
        assert chi2_robust_loss(losses, beta=beta) == pytest.approx(0.3, abs=1e-15)
    assert chi2_robust_loss(losses, beta=1e10) == pytest.approx(0.5, abs=1e-9)
    assert chi2_robust_loss(losses, beta=2.0) == pytest.approx(0.3 + losses.var() / 2, abs=1e-15)
