"""A part of the draws for the hardest cases: the worst case of its set, and its guards."""

import numpy as np
import pytest
from scipy.optimize import linprog

from nnunet_dro.sampling import Hardest, HardnessTable
from nnunet_dro.sampling.hardest import hardest_part

SIZES = (20, 100, 177, 1000, 10_000)


def losses_of(n, *, n_hard=0, hard=-0.5, n_hopeless=0, seed=0):
    """Learnt cases, some of which are hard, and others of which nothing is found."""
    rng = np.random.default_rng(seed)
    losses = rng.normal(-0.85, 0.05, n)
    losses[:n_hard] = rng.normal(hard, 0.02, n_hard)
    losses[n - n_hopeless :] = 0.1
    return losses


def weights_of(losses, *, part=0.2, cap=6.0, base=None):
    rule = Hardest(part, cap, base).following(losses)
    return len(losses) * rule.probabilities(losses)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_worst_mean_over_its_set_of_weights(seed):
    n = 30
    part = 0.2
    cap = 3.0
    losses = losses_of(n, n_hard=3, seed=seed)
    base = np.random.default_rng(seed).uniform(0.7, 1.3, n)
    base /= base.mean()

    ours = weights_of(losses, part=part, cap=cap, base=base)

    bounds = [((1 - part) * b / n, cap / n) for b in base]
    worst = linprog(-losses, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=bounds)
    np.testing.assert_allclose(ours / n, worst.x, atol=1e-9)


@pytest.mark.parametrize("n", SIZES)
def test_every_case_keeps_most_of_its_draws_and_none_gets_too_many(n):
    for n_hard in (0, 1, n // 25, n // 7, n // 2):
        weights = weights_of(losses_of(n, n_hard=n_hard))

        assert weights.min() >= 0.8 - 1e-9
        assert weights.max() <= 6 + 1e-9
        assert weights.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("n", SIZES)
def test_a_few_hard_cases_get_a_fifth_of_the_draws_and_many_no_more(n):
    n_few = max(1, n // 25)
    n_many = n // 7

    few = weights_of(losses_of(n, n_hard=n_few))[:n_few].sum() / n
    many = weights_of(losses_of(n, n_hard=n_many))[:n_many].sum() / n

    assert few > 0.2
    assert many == pytest.approx(0.8 * n_many / n + 0.2)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_hopeless", [1, 8])
def test_hopeless_cases_change_the_draws_of_the_others_by_their_number(n, n_hopeless):
    without = losses_of(n, n_hard=n // 25 + 1)
    hopeless = np.full(n_hopeless, 0.1)
    if n_hopeless > 0.05 * (n + n_hopeless):
        pytest.skip("more than a twentieth of all")

    before = weights_of(without)
    after = weights_of(np.concatenate([without, hopeless]))

    assert (after[n:] <= 1).all()
    change = np.abs(before / n - after[:n] / (n + n_hopeless)).sum()
    assert change <= 2 * n_hopeless / (n + n_hopeless) + 1e-9


def test_what_the_not_learnt_would_have_got_all_others_share():
    losses = np.full(100, -0.9)
    losses[:6] = 0.0  # two more than are set aside
    losses[6:8] = (-0.79, -0.8)

    weights = weights_of(losses)

    assert weights[:6].max() < 1
    assert 6 < weights.max() <= 6 / (1 - 0.2)
    assert weights.mean() == pytest.approx(1.0)


def test_many_cases_of_which_nothing_is_found_leave_draws_by_chance():
    losses = losses_of(100, n_hard=5, n_hopeless=15)

    np.testing.assert_array_equal(weights_of(losses), 1.0)


@pytest.mark.parametrize("losses", [np.full(50, -0.8), np.full(50, 0.2), np.array([-0.4])])
def test_nothing_is_told_from_equal_losses(losses):
    np.testing.assert_allclose(weights_of(losses), 1.0)


def test_the_base_weights_decide_what_the_losses_do_not():
    base = np.where(np.arange(100) < 5, 3.4, 95 / 100)
    base /= base.mean()
    losses = losses_of(100, n_hopeless=30)

    np.testing.assert_allclose(weights_of(losses, base=base), base)


def test_a_base_weight_above_the_bound_takes_its_place():
    base = np.where(np.arange(100) < 2, 7.5, 85 / 98)

    weights = weights_of(losses_of(100, n_hard=4), base=base)

    np.testing.assert_allclose(np.sort(weights)[-2:], 7.5)


def test_a_new_loss_changes_its_own_weight_until_the_next_look():
    table = HardnessTable([str(i) for i in range(100)], rule=Hardest(), exploration=0.0)
    losses = losses_of(100, n_hard=4)
    table.update(np.arange(100), losses)
    assert table.probabilities()[0] > 0.04

    table.update([0], [-0.85])

    assert table.probabilities()[0] < 0.01


@pytest.mark.parametrize("part", [0.0, 1.0, -0.1, np.nan])
def test_a_part_that_is_none_is_refused(part):
    with pytest.raises(ValueError, match=r"`part` must be a number in \(0, 1\)"):
        hardest_part(np.zeros(3), np.ones(3), part=part, cap=6.0)
