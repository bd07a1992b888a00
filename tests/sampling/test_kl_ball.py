import numpy as np
import pytest
from scipy.optimize import minimize

from nnunet_dro.sampling import HardnessTable, KLBall, effective_cases, kl_ball_beta, kl_probabilities

LOSSES = np.array([0.3, -0.2, 0.9, 0.1, 0.4, 0.8])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_the_effective_cases_are_the_share_of_all(share):
    beta = kl_ball_beta(LOSSES, share=share)
    assert effective_cases(kl_probabilities(LOSSES, beta=beta)) == pytest.approx(share * len(LOSSES), rel=1e-6)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_it_is_the_worst_weighting_of_the_ball(share):
    """An independent solver finds no larger weighted loss where KL(q || uniform) <= log(1 / share)."""
    n = len(LOSSES)

    def divergence(q):
        return float(np.sum(q * np.log(np.maximum(n * q, 1e-300))))

    found = minimize(
        lambda q: -q @ LOSSES,
        np.full(n, 1 / n),
        bounds=[(0, 1)] * n,
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "ineq", "fun": lambda q: -np.log(share) - divergence(q)},
        ],
    )
    rule = KLBall(0.0, share).following(LOSSES)
    assert rule.robust_loss(LOSSES) == pytest.approx(-found.fun, abs=5e-3)
    assert divergence(rule.probabilities(LOSSES)) == pytest.approx(-np.log(share))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_unit_and_offset_of_the_losses_do_not_matter(factor):
    beta = kl_ball_beta(LOSSES, share=0.5)
    assert kl_ball_beta(factor * LOSSES + 7, share=0.5) == pytest.approx(beta / factor, rel=1e-5)


def test_limits():
    assert kl_ball_beta(LOSSES, share=1.0) == 0
    assert kl_ball_beta(np.full(5, 0.3) + 1e-12 * np.arange(5), share=0.5) == 0, "rounding errors decide nothing"
    nearly_one = kl_probabilities(LOSSES, beta=kl_ball_beta(LOSSES, share=1e-3))
    assert nearly_one[2] == pytest.approx(1)
    ties = np.array([1.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(kl_probabilities(ties, beta=kl_ball_beta(ties, share=0.25)), [1 / 3, 1 / 3, 1 / 3, 0])
    assert kl_ball_beta(np.array([3.0]), share=0.5) == 0


@pytest.mark.parametrize("share", [0.0, -0.5, 1.1, np.nan])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match=r"`share` must be in \(0, 1\]"):
        KLBall(0.0, share)


def test_losses_must_be_finite_and_stay_unchanged():
    with pytest.raises(ValueError, match="`losses`"):
        kl_ball_beta(np.array([1.0, np.nan]), share=0.5)
    before = LOSSES.copy()
    kl_ball_beta(LOSSES, share=0.5)
    np.testing.assert_array_equal(LOSSES, before)


def test_a_table_follows_its_losses():
    """Once all cases were seen the share holds, whatever happens to the spread of the losses."""
    table = HardnessTable([f"case_{i}" for i in range(6)], rule=KLBall(0.0, 0.5), exploration=0.0)
    table.update(np.arange(5), LOSSES[:5])
    assert table.rule.beta == 0
    for factor in (1.0, 0.01, 100.0):
        table.update(np.arange(6), factor * LOSSES)
        assert effective_cases(table.probabilities()) == pytest.approx(3, rel=1e-6)
        draws = table.draw(2, rng=np.random.default_rng(0))
        np.testing.assert_allclose(draws.betas, table.rule.beta)
        np.testing.assert_allclose(draws.shares, table.probabilities()[draws.indices], rtol=1e-9)


def test_a_refused_loss_leaves_the_others_their_share():
    table = HardnessTable(["a", "b", "c", "d"], rule=KLBall(0.0, 0.5), exploration=0.0)
    table.update([0, 1, 2, 3], [0.1, 0.5, 0.9, np.inf])
    probabilities = table.probabilities()
    assert probabilities[3] == 0
    assert effective_cases(probabilities) == pytest.approx(1.5, rel=1e-6)


def test_a_restored_table_draws_as_before():
    def new():
        return HardnessTable([f"case_{i}" for i in range(6)], rule=KLBall(0.0, 0.5))

    table = new()
    table.update(np.arange(6), LOSSES)
    again = new()
    again.load_state_dict(table.state_dict())
    np.testing.assert_allclose(again.probabilities(), table.probabilities(), rtol=1e-9)


def test_in_a_large_table_beta_follows_now_and_then():
    table = HardnessTable([f"case_{i}" for i in range(320)], rule=KLBall(0.0, 0.5), exploration=0.0)
    losses = np.random.default_rng(0).normal(size=320)
    table.update(np.arange(320), losses)
    for _ in range(20):
        table.update(np.arange(320), losses)
    beta = table.rule.beta
    assert beta == pytest.approx(kl_ball_beta(losses, share=0.5))
    table.update([0], [0.0])
    assert table.rule.beta == beta
    for _ in range(20):
        table.update([0], [50.0])
    assert table.rule.beta != beta
