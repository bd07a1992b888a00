"""The guards of the ball: what is not learnt, and how often a case is drawn at most."""

import numpy as np
import pytest
from scipy.optimize import minimize

from nnunet_dro.sampling import GuardedBall, HardnessTable, effective_cases
from nnunet_dro.sampling.guarded_ball import LARGEST_BETA, guarded_tilt
from nnunet_dro.sampling.learning import learnt

SIZES = (20, 100, 177, 300, 1000, 5000, 10_000)


def common_losses(n, seed=0):
    """Losses of cases that are all segmented well."""
    return np.random.default_rng(seed).normal(-0.85, 0.05, n)


def relative_draws(losses, *, share=0.5, cap=8.0, is_earned=False):
    """How many times as often as by chance each case is drawn, exploration aside."""
    rule = GuardedBall(share, cap, is_earned=is_earned).following(losses)
    return len(losses) * rule.probabilities(losses)


def test_it_is_the_worst_case_of_its_ball():
    """Against a general solver: no distribution within the ball and the bound has a larger loss."""
    losses = np.array([-0.9, -0.85, -0.8, -0.7, -0.45])
    cap = 2.2
    share = 0.6

    def divergence(q):
        return np.sum(q * np.log(np.maximum(len(q) * q, 1e-12)))

    result = minimize(
        lambda q: -q @ losses,
        np.full(5, 0.2),
        bounds=[(0, cap / 5)] * 5,
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "ineq", "fun": lambda q: np.log(1 / share) - divergence(q)},
        ],
    )

    np.testing.assert_allclose(
        relative_draws(losses, share=share, cap=cap) / 5, result.x, atol=2e-3
    )


@pytest.mark.parametrize("is_earned", [False, True])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("loss", [0.3, 0.0, -0.05])
def test_one_hopeless_case_is_drawn_as_by_chance_and_changes_no_other(n, loss, is_earned):
    losses = common_losses(n)
    before = relative_draws(losses[1:], is_earned=is_earned)
    losses[0] = loss

    drawn = relative_draws(losses, is_earned=is_earned)

    assert drawn[0] == pytest.approx(1.0)
    np.testing.assert_allclose(drawn[1:], before, rtol=0.02)


@pytest.mark.parametrize("is_earned", [False, True])
def test_eight_hopeless_cases_of_177_hardly_change_the_others(is_earned):
    learnt_cases = np.append(common_losses(141), np.random.default_rng(1).normal(-0.5, 0.1, 28))
    with_hopeless = np.append(learnt_cases, np.zeros(8))

    drawn = relative_draws(with_hopeless, is_earned=is_earned)

    np.testing.assert_allclose(drawn[-8:], 1.0)
    np.testing.assert_allclose(
        drawn[:-8], relative_draws(learnt_cases, is_earned=is_earned), rtol=8 / 177
    )


@pytest.mark.parametrize(
    ("n_hopeless", "most"), [(0, 8.01), (8, 8.01), (12, 6.0), (20, 1.02), (50, 1.02)]
)
def test_a_share_is_earned_only_where_few_cases_are_hopeless(n_hopeless, most):
    """28 hard cases of which a part is found, and others of which nothing is."""
    hard = np.random.default_rng(1).normal(-0.5, 0.1, 28)
    losses = np.concatenate([common_losses(141), hard, np.zeros(n_hopeless)])

    drawn = relative_draws(losses, is_earned=True)

    assert drawn.max() < most
    if n_hopeless <= 8:
        assert drawn.max() > 2.0
    np.testing.assert_allclose(drawn[169:], 1.0)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("cap", [4.0, 8.0])
def test_no_case_is_drawn_more_often_than_the_bound(n, cap):
    losses = common_losses(n)
    losses[: max(1, n // 50)] = -0.4

    for share in (0.05, 0.3, 0.5, 0.9):
        drawn = relative_draws(losses, share=share, cap=cap)
        assert drawn.max() <= cap * (1 + 1e-9)
        assert drawn.mean() == pytest.approx(1.0)


def test_the_share_is_that_of_the_cases_that_are_learnt():
    losses = common_losses(200)
    for share in (0.9, 0.5, 0.3):
        probabilities = relative_draws(losses, share=share, cap=20.0) / 200
        assert effective_cases(probabilities) / 200 == pytest.approx(share, rel=2e-3)


def test_cases_that_are_nearly_equal_are_drawn_nearly_uniformly():
    losses = -0.8 + 0.001 * np.random.default_rng(0).normal(size=50)

    assert guarded_tilt(losses, np.ones(50), share=0.5, cap=8.0).beta == LARGEST_BETA
    assert relative_draws(losses).max() < 1.3
    np.testing.assert_array_equal(relative_draws(np.full(50, -0.8)), 1.0)


@pytest.mark.parametrize("scale", [1e-1, 1.0, 1e3, 1e6])
def test_losses_of_any_size_are_drawn_within_the_bound(scale):
    rng = np.random.default_rng(0)
    losses = -scale * rng.uniform(0.1, 1.0, 200)

    for share in (0.01, 0.5, 0.99):
        drawn = relative_draws(losses, share=share)
        assert drawn.max() <= 8 * (1 + 1e-9)
        assert drawn.mean() == pytest.approx(1.0)


def test_a_loss_far_from_those_of_the_last_look_has_a_weight():
    losses = common_losses(50)
    rule = GuardedBall(0.5).following(losses)

    with np.errstate(all="raise"):
        weights = rule.weigh(np.array([1e5, -1e5, np.nan]), slice(0, 3))

    assert weights[0] == 1.0
    assert 0 <= weights[1] <= 1
    assert weights[2] == 0


def test_before_anything_is_learnt_draws_are_uniform():
    losses = np.linspace(-0.04, 1.0, 30)

    np.testing.assert_array_equal(learnt(losses, median=float(np.median(losses))), 0.0)
    np.testing.assert_array_equal(relative_draws(losses), 1.0)


def test_a_case_on_its_way_to_being_learnt_counts_in_part():
    losses = common_losses(100)
    losses[0] = 0.2 * np.median(losses)

    drawn = relative_draws(losses)

    assert learnt(losses, median=float(np.median(losses)))[0] == pytest.approx(0.5, abs=0.01)
    assert 1 < drawn[0] < relative_draws(np.append(losses[1:], -0.4))[-1]


def test_base_weights_stay_where_nothing_is_learnt_and_are_bounded():
    base = np.array([4.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 2.0])
    nothing = np.zeros(10)
    hard_and_rare = np.array([-0.3, *[-0.9] * 8, -0.5])

    unlearnt = GuardedBall(0.5, 5.0, base).following(nothing)
    tilted = GuardedBall(0.5, 5.0, base).following(hard_and_rare)

    np.testing.assert_allclose(10 * unlearnt.probabilities(nothing), base)
    assert 10 * tilted.probabilities(hard_and_rare)[0] == pytest.approx(5.0)
    assert 10 * tilted.probabilities(hard_and_rare)[-1] > 2.0


def test_the_table_draws_by_it():
    """The weights of the table, kept block by block, are those of the rule."""
    n = 700
    losses = common_losses(n)
    losses[:10] = -0.4
    losses[10] = 0.1
    table = HardnessTable([str(i) for i in range(n)], rule=GuardedBall(0.5), exploration=0.0)
    table.update(range(n), losses)

    np.testing.assert_allclose(table.probabilities(), relative_draws(losses) / n, rtol=1e-6)
    rng = np.random.default_rng(0)
    counts = np.zeros(n)
    for _ in range(3000):
        draws = table.draw(2, rng=rng)
        np.testing.assert_allclose(draws.shares, table.probabilities()[draws.indices])
        counts[draws.indices] += 1
    assert counts[:10].sum() / counts.sum() == pytest.approx(
        table.probabilities()[:10].sum(), rel=0.1
    )


def test_between_two_looks_a_case_follows_its_own_loss():
    n = 700
    losses = common_losses(n)
    table = HardnessTable([str(i) for i in range(n)], rule=GuardedBall(0.5), exploration=0.0)
    table.update(range(n), losses)
    before = table.probabilities()[0]

    table.update([0], [-0.5])

    assert table.probabilities()[0] > 2 * before
    assert table.probabilities().sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("share", "cap"), [(0.0, 8.0), (1.1, 8.0), (0.5, 1.0), (0.5, np.nan)])
def test_numbers_out_of_range_are_refused(share, cap):
    with pytest.raises(ValueError, match="must be"):
        GuardedBall(share, cap)
