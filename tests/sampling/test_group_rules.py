import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import chisquare

from nnunet_dro.sampling import Balanced, GroupDRO, HardnessTable

GROUPS = ["b", "a", "a", "a", "c", "a", "b", "a"]
A, B, C = (np.array([group == name for group in GROUPS]) for name in "abc")


def counts_of(table, n_draws, seed=0):
    rng = np.random.default_rng(seed)
    return sum(np.bincount(table.draw(50, rng=rng).indices, minlength=len(table)) for _ in range(n_draws // 50))


def test_balanced_draws_every_group_equally_often_from_the_first_draw():
    rule = Balanced(GROUPS)
    expected = np.where(A, 1 / 15, np.where(B, 1 / 6, 1 / 3))
    np.testing.assert_allclose(rule.probabilities(np.full(8, np.nan)), expected)
    table = HardnessTable([str(i) for i in range(8)], rule=rule, exploration=0.0, replace=True)
    counts = counts_of(table, 30_000)
    assert chisquare(counts, expected * counts.sum()).pvalue > 1e-3
    table.update(np.arange(8), np.linspace(-5, 5, 8))
    np.testing.assert_allclose(table.probabilities(), expected, err_msg="whatever the losses")
    assert chisquare(counts_of(table, 30_000, seed=1), expected * counts.sum()).pvalue > 1e-3


def test_group_weights_follow_the_exponentiated_gradient():
    """Sagawa et al. 2020, Algorithm 1, with the mean stale loss of each group."""
    rule = GroupDRO(GROUPS, nu=0.1, adjustment=0.5)
    losses = np.array([1.0, 0.1, 0.2, 0.3, 2.0, 0.4, 3.0, 0.5])
    gains = np.array([0.3 + 0.5 / np.sqrt(5), 2.0 + 0.5 / np.sqrt(2), 2.0 + 0.5])
    np.testing.assert_allclose(rule.weights, 1 / 3)
    for step in range(1, 5):
        rule.learn(losses, 1)
        np.testing.assert_allclose(rule.weights, softmax(0.1 * step * gains))
    at_once = GroupDRO(GROUPS, nu=0.1, adjustment=0.5)
    at_once.learn(losses, 4)
    np.testing.assert_allclose(at_once.weights, rule.weights)
    expected = np.where(A, rule.weights[0] / 5, np.where(B, rule.weights[1] / 2, rule.weights[2]))
    np.testing.assert_allclose(rule.probabilities(losses), expected)
    assert rule.robust_loss(losses) == pytest.approx(rule.weights @ [0.3, 2.0, 2.0])


def test_group_dro_finds_the_minimax_of_a_convex_problem():
    """Three groups pull a number to their own places; the worst group's loss is least in the middle of the extremes."""
    place = np.where(A, 0.0, np.where(B, 1.0, 4.0))
    table = HardnessTable([str(i) for i in range(8)], rule=GroupDRO(GROUPS, nu=0.01), exploration=0.0, replace=True)
    rng, theta, path = np.random.default_rng(0), 0.0, []
    for step in range(6000):
        indices = table.draw(2, rng=rng).indices
        losses = (theta - place[indices]) ** 2
        theta -= 0.01 * np.mean(2 * (theta - place[indices]))
        table.update(indices, losses)
        if step > 3000:
            path.append(theta)
    exact = minimize(lambda t: max((t[0] - p) ** 2 for p in (0, 1, 4)), x0=[0.0], method="Nelder-Mead").x[0]
    assert exact == pytest.approx(2, abs=1e-3)
    assert np.mean(path) == pytest.approx(exact, abs=0.05)


def test_a_group_that_is_absent_from_a_batch_keeps_its_loss():
    """The published code takes 0 for its loss, so with batches of 2 the weight of every absent group falls."""
    table = HardnessTable([str(i) for i in range(8)], rule=GroupDRO(GROUPS, nu=1.0), exploration=0.0, replace=True)
    table.update(np.arange(8), np.where(C, 2.0, 1.0))
    before = table.rule.weights
    table.update([1, 2], [1.0, 1.0])
    after = table.rule.weights
    assert after[2] > before[2]
    assert after[0] == pytest.approx(after[1])


def test_weights_do_not_move_before_every_case_was_seen_nor_in_a_warm_up():
    table = HardnessTable([str(i) for i in range(8)], rule=GroupDRO(GROUPS, nu=1.0), replace=True)
    table.update(np.arange(7), np.arange(7.0))
    np.testing.assert_allclose(table.rule.weights, 1 / 3)
    assert table.draw(3, rng=np.random.default_rng(0)).indices.tolist() == [7, 7, 7], "first visits come first"
    table.warming_up = True
    table.update([7], [9.0])
    table.update([7], [9.0])
    np.testing.assert_allclose(table.rule.weights, 1 / 3)
    table.warming_up = False
    table.update([7], [9.0])
    # a: 1, 2, 3, 5 and 9; b: 0 and 6; c: 4
    np.testing.assert_allclose(table.rule.weights, softmax([4.0, 3.0, 4.0]))


def test_a_group_whose_losses_were_all_refused_moves_with_the_others():
    rule = GroupDRO(GROUPS, nu=1.0)
    losses = np.where(C, np.nan, np.where(A, 1.0, 3.0))
    rule.learn(losses, 1)
    np.testing.assert_allclose(rule.weights, softmax([1.0, 3.0, 2.0]))
    rule.learn(np.full(8, np.nan), 5)
    np.testing.assert_allclose(rule.weights, softmax([1.0, 3.0, 2.0]))
    assert np.isnan(rule.robust_loss(np.full(8, np.nan)))
    assert rule.robust_loss(losses) == pytest.approx((1 * np.e + 3 * np.e**3) / (np.e + np.e**3))


def test_weights_survive_a_checkpoint_and_a_million_steps():
    rule = GroupDRO(GROUPS, nu=0.01)
    rule.learn(np.where(C, 1.0, 0.0), 10**6)
    assert rule.weights.tolist() == [0, 0, 1]
    table = HardnessTable([str(i) for i in range(8)], rule=rule)
    table.update(np.arange(8), np.zeros(8))
    again = HardnessTable(table.cases, rule=GroupDRO(GROUPS, nu=0.01), replace=True)
    again.load_state_dict(pickle.loads(pickle.dumps(table.state_dict())))
    np.testing.assert_array_equal(again.rule._log_weights, rule._log_weights)
    np.testing.assert_array_equal(again.probabilities(), table.probabilities())
    assert counts_of(again, 1000)[4] > 990


def test_weights_are_restored_by_the_name_of_the_group():
    old = GroupDRO(["x", "y", "y", "gone"], nu=1.0)
    old.learn(np.array([0.0, 1.0, 1.0, 5.0]), 1)
    new = GroupDRO(["y", "new", "x"], nu=1.0)
    new.load_state_dict(old.state_dict())
    weights = dict(zip(new.names.tolist(), new.weights, strict=True))
    assert weights["y"] / weights["x"] == pytest.approx(np.e)
    assert weights["new"] == pytest.approx((weights["x"] + weights["y"]) / 2)


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=30),
    st.integers(0, 2**32 - 1),
    st.floats(1e-3, 100),
)
def test_probabilities_sum_to_one_and_are_equal_within_a_group(groups, seed, nu):
    rule = GroupDRO(groups, nu=nu)
    losses = np.random.default_rng(seed).normal(size=len(groups)) * 100
    rule.learn(losses, 3)
    probabilities = rule.probabilities(losses)
    assert probabilities.sum() == pytest.approx(1)
    for name in set(groups):
        mine = probabilities[np.array(groups) == name]
        assert (mine == mine[0]).all()
    permutation = np.random.default_rng(seed).permutation(len(groups))
    other = GroupDRO(np.array(groups)[permutation].tolist(), nu=nu)
    other.learn(losses[permutation], 3)
    np.testing.assert_allclose(other.probabilities(losses), probabilities[permutation], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": []}, "`groups`"),
        ({"groups": ["a"], "nu": 0.0}, "`nu`"),
        ({"groups": ["a"], "nu": np.nan}, "`nu`"),
        ({"groups": ["a"], "adjustment": -1.0}, "`adjustment`"),
    ],
)
def test_rules_refuse_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        GroupDRO(**arguments)


def test_rules_say_what_they_do():
    assert str(Balanced(GROUPS)) == "each of 3 groups equally often"
    assert str(GroupDRO(GROUPS, nu=0.1, adjustment=2.0)) == "Group DRO over 3 groups, step size 0.1, adjustment 2"
