import numpy as np
import pytest
from scipy.optimize import minimize

from nnunet_dro.sampling import (
    EarnedBall,
    HardnessTable,
    KLBall,
    earned_share,
    effective_cases,
    kl_ball_beta,
    kl_probabilities,
)

LOSSES = np.array([0.3, -0.2, 0.9, 0.1, 0.4, 0.8])


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
    assert effective_cases(rule.probabilities(LOSSES)) == pytest.approx(share * n, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_unit_and_offset_of_the_losses_do_not_matter(factor):
    beta = kl_ball_beta(LOSSES, share=0.5)
    assert kl_ball_beta(factor * LOSSES + 7, share=0.5) == pytest.approx(beta / factor, rel=1e-5)


def test_limits():
    assert kl_ball_beta(LOSSES, share=1.0) == 0
    assert kl_ball_beta(np.full(5, 0.3) + 1e-12 * np.arange(5), share=0.5) == 0, (
        "rounding errors decide nothing"
    )

    nearly_one = kl_probabilities(LOSSES, beta=kl_ball_beta(LOSSES, share=1e-3))
    assert nearly_one[2] == pytest.approx(1)

    ties = np.array([1.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(
        kl_probabilities(ties, beta=kl_ball_beta(ties, share=0.25)), [1 / 3, 1 / 3, 1 / 3, 0]
    )
    assert kl_ball_beta(np.array([3.0]), share=0.5) == 0

    before = LOSSES.copy()
    kl_ball_beta(LOSSES, share=0.5)

    np.testing.assert_array_equal(LOSSES, before)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("n", [7, 129, 1000])
def test_the_share_is_met_where_one_loss_is_far_above_the_others(n, share):
    """The divergence is then no power of beta: it rises all at once."""
    losses = np.random.default_rng(n).normal(-0.9, 1e-3, n)
    losses[0] = 0.0
    beta = kl_ball_beta(losses, share=share)
    q = kl_probabilities(losses, beta=beta)

    assert effective_cases(q) == pytest.approx(max(1, share * n), rel=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 0.3, 1.0, 1.01, 1e3])
def test_it_does_not_matter_where_the_search_begins(factor):
    beta = kl_ball_beta(LOSSES, share=0.5)

    assert kl_ball_beta(LOSSES, share=0.5, start=factor * beta) == pytest.approx(beta, rel=1e-8)


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
    table = HardnessTable(["a", "b", "c", "d"], rule=KLBall(0.0, 0.5), exploration=0.0)
    table.update([0, 1, 2, 3], [0.1, 0.5, 0.9, np.inf])
    probabilities = table.probabilities()

    assert probabilities[3] == 0
    assert effective_cases(probabilities) == pytest.approx(1.5, rel=1e-6)


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

    for _ in range(40):
        table.update([0], [50.0])
    assert table.rule.beta != beta


#: Losses where five of the cases are the hardest: hopeless, half as well segmented as the others,
#: and in between.
OTHERS = np.linspace(-0.9, -0.7, 15)
HOPELESS, BETWEEN, FOLLOWING = (
    np.concatenate([np.full(5, loss), OTHERS]) for loss in (0.1, -0.16, -0.5)
)


def test_those_that_follow_earn_the_share_and_hopeless_cases_nothing():
    assert earned_share(HOPELESS, share=0.5) == 1.0
    assert earned_share(FOLLOWING, share=0.5) == pytest.approx(0.5)
    assert 0.6 < earned_share(BETWEEN, share=0.5) < 0.9
    assert earned_share(np.zeros(20), share=0.5) == 1.0
    assert earned_share(FOLLOWING / 100, share=0.5) == 1.0
    assert earned_share(np.ones(1), share=0.5) == 1.0

    order = np.random.default_rng(0).permutation(20)
    assert earned_share(BETWEEN[order], share=0.3) == pytest.approx(
        earned_share(BETWEEN, share=0.3)
    )

    rule = EarnedBall(0.0, 0.5)
    assert rule.following(np.append(FOLLOWING, np.nan)).beta == pytest.approx(
        kl_ball_beta(FOLLOWING, share=0.5)
    )
    assert rule.following(np.full(21, np.nan)).beta == 0


@pytest.mark.parametrize(("wrong", "right"), [(0.6, -0.1), (0.3, -0.15), (0.1, -0.3), (0.0, -0.45)])
def test_wrong_labels_earn_nothing_when_their_loss_falls(wrong, right):
    """Their loss falls from 0.6 towards 0, more than that of the others, which is held up by them."""
    assert earned_share(np.where(np.arange(10) < 3, wrong, right), share=0.5) == 1.0


def test_one_hopeless_case_in_a_hundred_keeps_the_draws_uniform():
    losses = np.random.default_rng(0).normal(-0.8, 0.1, 100)
    assert earned_share(losses, share=0.5) == pytest.approx(0.5)
    assert earned_share(np.append(losses[:99], 0.3), share=0.5) == 1.0


def test_hopeless_cases_keep_draws_uniform_and_those_that_follow_do_not():
    table = HardnessTable(
        [f"case_{i}" for i in range(20)], rule=EarnedBall(0.0, 0.5), exploration=0.0
    )
    table.update(np.arange(20), HOPELESS)

    np.testing.assert_allclose(table.probabilities(), 1 / 20)

    table.update(np.arange(20), FOLLOWING)
    probabilities = table.probabilities()

    assert effective_cases(probabilities) == pytest.approx(10, rel=1e-6)
    assert probabilities[:5].sum() > 0.8

    for _ in range(4):
        table.update(np.arange(5), np.full(5, 0.1))
    np.testing.assert_allclose(table.probabilities(), 1 / 20)
