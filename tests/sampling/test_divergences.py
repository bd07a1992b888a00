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

some_losses = st.lists(st.floats(-5, 5), min_size=1, max_size=30).map(np.array)
losses_and_beta = st.tuples(some_losses, st.floats(0, 1000, allow_subnormal=False))


@given(losses_and_beta)
def test_kl_probabilities_equal_scipys_softmax(case):
    losses, beta = case
    np.testing.assert_allclose(
        kl_probabilities(losses, beta=beta), softmax(beta * losses), rtol=1e-9, atol=1e-300
    )


def test_kl_probabilities_and_loss_go_from_the_mean_to_the_hardest_case():
    losses = np.array([0.1, 0.5, 0.3])
    np.testing.assert_array_equal(kl_probabilities(losses, beta=0.0), np.full(3, 1 / 3))
    np.testing.assert_allclose(kl_probabilities(losses, beta=1e5), [0, 1, 0])
    for beta, expected in ((0.0, 0.3), (1e-9, 0.3), (1e6, 0.5)):
        assert kl_robust_loss(losses, beta=beta) == pytest.approx(
            expected, abs=1e-5 if beta > 1 else 1e-9
        )


def test_effective_cases_are_n_when_uniform_and_one_when_concentrated():
    assert effective_cases(np.full(7, 1 / 7)) == pytest.approx(7)
    assert effective_cases(np.array([0.0, 1.0, 0.0])) == 1


def test_robust_loss_is_what_its_distribution_reaches():
    """R = <p, L> - KL(p || uniform) / beta at p = softmax(beta L), and no other distribution
    reaches more."""
    rng = np.random.default_rng(0)
    losses = rng.normal(size=20)
    beta = 3.0

    def value(q):
        return q @ losses - np.sum(q * np.log(q * len(q))) / beta

    robust = kl_robust_loss(losses, beta=beta)

    assert value(kl_probabilities(losses, beta=beta)) == pytest.approx(robust, abs=1e-12)
    assert all(value(q) < robust for q in rng.dirichlet(np.ones(20), size=2000))


@given(losses_and_beta)
def test_robust_loss_equals_scipys_and_lies_between_mean_and_maximum(case):
    losses, beta = case
    robust = kl_robust_loss(losses, beta=beta)

    assert losses.mean() - 1e-12 <= robust <= losses.max() + 1e-12

    if beta > 1e-3:
        expected = (logsumexp(beta * losses) - np.log(len(losses))) / beta
        assert robust == pytest.approx(expected, abs=1e-8)


@given(losses_and_beta, st.floats(0.01, 1))
def test_at_most_the_share_of_the_cases_exceeds_the_bound(case, share):
    losses, beta = case
    bound = kl_percentile_bound(losses, beta=beta, share=share)

    assert np.mean(losses > bound + 1e-9) <= share
    if beta == 0:
        assert bound == np.inf
