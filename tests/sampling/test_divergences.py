import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from nnunet_dro.sampling import (
    effective_cases,
    kl_percentile_bound,
    kl_probabilities,
    kl_robust_loss,
)

losses_and_beta = st.tuples(
    st.lists(st.floats(-5, 5), min_size=1, max_size=30).map(np.array), st.floats(0, 1000, allow_subnormal=False)
)


@given(losses_and_beta)
def test_kl_probabilities_equal_scipys_softmax(case):
    losses, beta = case
    np.testing.assert_allclose(kl_probabilities(losses, beta=beta), softmax(beta * losses), rtol=1e-9, atol=1e-300)


@given(losses_and_beta)
def test_kl_probabilities_sum_to_one_and_follow_the_order_of_the_losses(case):
    losses, beta = case
    before = losses.copy()
    probabilities = kl_probabilities(losses, beta=beta)
    assert probabilities.sum() == pytest.approx(1)
    order = np.argsort(losses)
    assert (np.diff(probabilities[order]) >= 0).all()
    np.testing.assert_array_equal(losses, before)


def test_kl_probabilities_go_from_uniform_to_the_hardest_case():
    losses = np.array([0.1, 0.5, 0.3])
    np.testing.assert_array_equal(kl_probabilities(losses, beta=0.0), np.full(3, 1 / 3))
    np.testing.assert_allclose(kl_probabilities(losses, beta=1e5), [0, 1, 0])


def test_kl_probabilities_maximise_the_regularised_objective():
    """argmax_q <q, L> - KL(q || uniform) / beta, checked against random distributions on the simplex."""
    rng = np.random.default_rng(0)
    losses, beta = rng.normal(size=6), 3.0

    def objective(q):
        return q @ losses - np.sum(q * np.log(q * 6)) / beta

    best = objective(kl_probabilities(losses, beta=beta))
    assert all(objective(q) < best for q in rng.dirichlet(np.ones(6), size=2000))


def test_effective_cases_are_n_when_uniform_and_one_when_concentrated():
    assert effective_cases(np.full(7, 1 / 7)) == pytest.approx(7)
    assert effective_cases(np.array([0.0, 1.0, 0.0])) == 1


def test_robust_loss_is_what_its_distribution_reaches():
    """R = <p, L> - KL(p || uniform) / beta at p = softmax(beta L), and no other distribution reaches more."""
    rng = np.random.default_rng(0)
    losses, beta = rng.normal(size=20), 3.0

    def value(q):
        return q @ losses - np.sum(q * np.log(q * len(q))) / beta

    robust = kl_robust_loss(losses, beta=beta)
    assert value(kl_probabilities(losses, beta=beta)) == pytest.approx(robust, abs=1e-12)
    assert all(value(q) < robust for q in rng.dirichlet(np.ones(20), size=200))


@given(losses_and_beta)
def test_robust_loss_equals_scipys_and_lies_between_mean_and_maximum(case):
    losses, beta = case
    robust = kl_robust_loss(losses, beta=beta)
    assert losses.mean() - 1e-12 <= robust <= losses.max() + 1e-12
    if beta > 1e-3:
        expected = (logsumexp(beta * losses) - np.log(len(losses))) / beta
        assert robust == pytest.approx(expected, abs=1e-8)


def test_robust_loss_goes_from_the_mean_to_the_maximum():
    losses = np.array([0.1, 0.5, 0.3])
    assert kl_robust_loss(losses, beta=0.0) == pytest.approx(0.3)
    assert kl_robust_loss(losses, beta=1e-9) == pytest.approx(0.3, abs=1e-9)
    assert kl_robust_loss(losses, beta=1e6) == pytest.approx(0.5, abs=1e-5)


@given(losses_and_beta, st.floats(0.01, 1))
def test_at_most_the_share_of_the_cases_exceeds_the_bound(case, share):
    losses, beta = case
    bound = kl_percentile_bound(losses, beta=beta, share=share)
    assert np.mean(losses > bound + 1e-9) <= share
    if beta == 0:
        assert bound == np.inf
