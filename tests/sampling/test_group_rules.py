import math
import pickle
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import chisquare

from nnunet_dro.sampling import (
    Balanced,
    BalancedBall,
    ByWeight,
    GroupDRO,
    HardnessTable,
    KLBall,
    effective_cases,
)
from tests.sampling.made_losses import draw_counts

GROUPS = ["b", "a", "a", "a", "c", "a", "b", "a"]
A, B, C = (np.array([group == name for group in GROUPS]) for name in "abc")


@pytest.mark.parametrize("power", [0, 0.3, 0.5, 1])
def test_groups_are_drawn_by_a_power_of_their_size_whatever_the_losses(power):
    rule = Balanced(GROUPS, power=power)
    shares = np.array([5, 2, 1.0]) ** (1 - power)

    shares /= shares.sum()

    np.testing.assert_allclose(rule.shares, shares)

    expected = np.where(A, shares[0] / 5, np.where(B, shares[1] / 2, shares[2]))
    table = HardnessTable([str(i) for i in range(8)], rule=rule, exploration=0.0, replace=True)
    for seed in range(2):  # from the first draw, and when there are losses
        np.testing.assert_allclose(table.probabilities(), expected)
        counts = draw_counts(table, 30_000, seed=seed)
        assert chisquare(counts, expected * counts.sum()).pvalue > 1e-3
        table.update(np.arange(8), np.linspace(-5, 5, 8))

    assert power != 1 or (rule.shares == Balanced(GROUPS).shares).all(), "it is the default"


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("power", [0.5, 1])
def test_inside_of_a_group_the_effective_cases_are_the_share(share, power):
    """Each group is the KL ball of its own losses, however different these are from those of the
    others."""
    rng = np.random.default_rng(3)
    groups = np.array(["a"] * 40 + ["b"] * 9 + ["c"])
    losses = rng.normal(np.where(groups == "a", 0, 5), np.where(groups == "a", 0.1, 2))
    rule = BalancedBall(groups, power=power, share=share, exploration=0.0)

    table = HardnessTable([str(i) for i in range(50)], rule=rule, exploration=0.0, replace=True)

    assert table.probabilities() == pytest.approx(1 / 50), "first visits come first"

    for _ in range(50 // 16):  # beta follows the losses after so many updates
        table.update(np.arange(50), losses)
    probabilities = table.probabilities()
    for name, of_group in zip("abc", Balanced(groups, power=power).shares, strict=True):
        mine = groups == name
        assert probabilities[mine].sum() == pytest.approx(of_group)
        ball = KLBall(0.0, share).following(losses[mine])
        np.testing.assert_allclose(
            probabilities[mine] / of_group, ball.probabilities(losses[mine]), rtol=1e-6
        )
        if name != "c":
            assert effective_cases(probabilities[mine] / of_group) == pytest.approx(
                share * mine.sum(), rel=1e-6
            )
    counts = draw_counts(table, 30_000)
    likely = probabilities > 3e-4
    expected = probabilities[likely] / probabilities[likely].sum()

    assert chisquare(counts[likely], expected * counts[likely].sum()).pvalue > 1e-3
    assert table.rule.robust_loss(losses) == pytest.approx(probabilities @ losses)


def test_exploration_inside_of_a_group_leaves_its_share_as_it_is():
    losses = np.arange(8.0)
    rule = BalancedBall(GROUPS, share=0.5, exploration=0.2).following(losses)
    without = BalancedBall(GROUPS, share=0.5, exploration=0.0).following(losses)

    balanced = Balanced(GROUPS).probabilities(losses)

    np.testing.assert_allclose(
        rule.probabilities(losses), 0.8 * without.probabilities(losses) + 0.2 * balanced
    )
    for mine in (A, B, C):
        assert rule.probabilities(losses)[mine].sum() == pytest.approx(1 / 3)
    np.testing.assert_allclose(
        BalancedBall(GROUPS, share=1).following(losses).probabilities(losses), balanced
    )
    np.testing.assert_allclose(
        BalancedBall(GROUPS).following(np.ones(8)).probabilities(np.ones(8)), balanced
    )


def test_refused_losses_and_groups_without_losses_are_drawn_uniformly():
    losses = np.where(B, np.nan, np.where(np.arange(8) == 1, np.nan, np.arange(8.0)))
    rule = BalancedBall(GROUPS, share=0.5, exploration=0.1).following(losses)

    probabilities = rule.probabilities(losses)

    assert probabilities.sum() == pytest.approx(1)
    assert probabilities[1] == pytest.approx(0.1 / 5 / 3)
    np.testing.assert_allclose(probabilities[B], 1 / 6)
    np.testing.assert_array_equal(np.isnan(rule.group_losses(losses)), [False, True, False])

    nothing = np.full(8, np.nan)
    np.testing.assert_allclose(
        rule.following(nothing).probabilities(nothing), Balanced(GROUPS).probabilities(nothing)
    )
    assert np.isnan(rule.robust_loss(nothing))


def test_hardness_inside_of_groups_is_resumed_from_the_losses():
    table = HardnessTable([str(i) for i in range(8)], rule=BalancedBall(GROUPS), exploration=0.0)
    table.update(np.arange(8), np.arange(8.0))
    again = HardnessTable(table.cases, rule=BalancedBall(GROUPS), exploration=0.0)

    again.load_state_dict(pickle.loads(pickle.dumps(table.state_dict())))

    np.testing.assert_array_equal(again.probabilities(), table.probabilities())


@pytest.mark.parametrize("scale", [1e-300, 1, 1e307])
def test_own_weights_are_the_frequencies_of_the_draws_from_the_first_draw(scale):
    weights = np.array([1, 2, 3, 4, 0.5])
    table = HardnessTable(
        list("abcde"), rule=ByWeight(scale * weights), exploration=0.0, replace=True
    )
    expected = weights / 10.5

    for seed in range(2):
        np.testing.assert_allclose(table.probabilities(), expected)
        counts = draw_counts(table, 30_000, seed=seed)
        assert chisquare(counts, expected * counts.sum()).pvalue > 1e-3
        table.update(np.arange(5), [5.0, -1.0, np.nan, 0.0, 2.0])

    assert table.rule.robust_loss(np.array([1.0, np.nan, 3.0, np.nan, np.nan])) == pytest.approx(
        (1 + 9) / 4
    )
    assert np.isnan(table.rule.robust_loss(np.full(5, np.nan)))
    assert table.rule.loss_weights(np.arange(5), expected) is None, "the loss stays as it is"


def test_group_weights_follow_the_exponentiated_gradient():
    """Sagawa et al. 2020, Algorithm 1, with the mean loss of each group in the batch."""
    rule = GroupDRO(GROUPS, nu=0.1, adjustment=0.5)
    losses = np.array([1.0, 0.1, 0.2, 0.3, 2.0, 0.4, 3.0, 0.5])

    gains = np.array([0.3 + 0.5 / np.sqrt(5), 2.0 + 0.5 / np.sqrt(2), 2.0 + 0.5])

    np.testing.assert_allclose(rule.weights, 1 / 3)

    for step in range(1, 5):
        rule.learn(np.arange(8), losses)
        np.testing.assert_allclose(rule.weights, softmax(0.1 * step * gains))
    assert rule.robust_loss(losses) == pytest.approx(rule.weights @ [0.3, 2.0, 2.0])


def test_group_dro_draws_every_group_equally_often_and_weighs_the_losses():
    rule = GroupDRO(GROUPS, nu=0.5)
    table = HardnessTable([str(i) for i in range(8)], rule=rule, exploration=0.0)
    expected = Balanced(GROUPS).probabilities(np.zeros(8))

    for _ in range(3):
        np.testing.assert_allclose(table.probabilities(), expected)
        weights = rule.loss_weights(np.arange(8), table.probabilities())
        np.testing.assert_allclose(
            weights, np.where(A, *3 * rule.weights[:2]) * ~C + C * 3 * rule.weights[2]
        )
        assert weights @ expected == pytest.approx(1), "1 in the mean over the draws"
        table.update(np.arange(8), np.where(A, 0.0, np.where(B, 1.0, 2.0)))

    np.testing.assert_allclose(rule.weights, softmax([0.0, 1.5, 3.0]))
    assert Balanced(GROUPS).loss_weights(np.arange(8), expected) is None


def test_group_dro_finds_the_minimax_of_a_convex_problem():
    """Three groups pull a number to their own places; the worst group's loss is least in the middle
    of the extremes."""
    place = np.where(A, 0.0, np.where(B, 1.0, 4.0))
    table = HardnessTable(
        [str(i) for i in range(8)], rule=GroupDRO(GROUPS, nu=0.01), exploration=0.0, replace=True
    )
    rng = np.random.default_rng(0)
    theta = 0.0
    path = []
    for step in range(6000):
        draws = table.draw(2, rng=rng)
        indices = draws.indices
        losses = (theta - place[indices]) ** 2
        weights = table.rule.loss_weights(indices, draws.probabilities)
        theta -= 0.01 * np.mean(weights * 2 * (theta - place[indices]))
        table.update(indices, losses)
        if step > 3000:
            path.append(theta)

    exact = minimize(
        lambda t: max((t[0] - p) ** 2 for p in (0, 1, 4)), x0=[0.0], method="Nelder-Mead"
    ).x[0]

    assert exact == pytest.approx(2, abs=1e-3)
    assert np.mean(path) == pytest.approx(exact, abs=0.05)


def test_a_group_smaller_than_its_share_of_the_batch_counts_as_it_should():
    """Of distinct cases, a group of one case can take one place in four, and not two."""
    rule = GroupDRO(["rare"] + 9 * ["common"], nu=0.5)
    table = HardnessTable([str(i) for i in range(10)], rule=rule, exploration=0.0)
    table.update([0, 1], [0.0, 1.0])
    rng = np.random.default_rng(0)
    received = np.zeros(2)

    for _ in range(500):
        draws = table.draw(4, rng=rng)
        weights = rule.loss_weights(draws.indices, draws.probabilities)
        received += np.bincount(
            np.where(draws.indices == 0, 1, 0), weights=weights, minlength=2
        ) / (500 * 4)

    np.testing.assert_allclose(received, rule.weights, rtol=1e-6)
    assert rule.names.tolist() == ["common", "rare"]


@dataclass
class TwoGroups:
    """Training for two groups whose loss falls with the share s_g of the recent weight: a_g - b_g
    s_g.

    Both losses are equal where s = ((a_0 - a_1 + b_1) / (b_0 + b_1), 1 - ...), the equilibrium of
    Group DRO.
    """

    start: tuple[float, float]
    gain: tuple[float, float]
    sizes: tuple[int, int]

    @property
    def equilibrium(self):
        (a0, a1), (b0, b1) = self.start, self.gain
        return (a0 - a1 + b1) / (b0 + b1)

    def train(self, nu, *, seed=0, iterations=5000, lag=12, batch_size=2, noise=0.2, memory=0.98):
        """The weight of group 0 and the true losses of both after each iteration, shape
        (iterations, 3)."""
        group = np.repeat([0, 1], self.sizes)
        rule = GroupDRO([f"g{g}" for g in group], nu=nu)
        table = HardnessTable([str(i) for i in range(len(group))], rule=rule)
        rng = np.random.default_rng(seed)
        shares = np.array([0.5, 0.5])
        queue = deque()
        path = []
        for _ in range(iterations):
            while len(queue) <= lag:  # batches that workers drew ahead
                queue.append(table.draw(batch_size, rng=rng))
            draws = queue.popleft()
            indices = draws.indices
            weights = rule.loss_weights(draws.indices, draws.probabilities)
            losses = np.array(self.start) - np.array(self.gain) * shares
            received = np.bincount(group[indices], weights=weights, minlength=2) / batch_size
            shares = memory * shares + (1 - memory) * received
            table.update(indices, losses[group[indices]] + rng.normal(0, noise, size=batch_size))
            path.append([rule.weights[0], *losses])
        return np.array(path)


@pytest.mark.parametrize("nu", [0.01, 0.05, 0.1])
@pytest.mark.parametrize(
    "sizes", [(600, 60), (10, 90)], ids=["easy group large", "easy group small"]
)
def test_group_dro_reaches_the_equilibrium_with_batches_drawn_ahead(nu, sizes):
    training = TwoGroups(start=(0.9, 1.2), gain=(0.7, 0.5), sizes=sizes)
    path = training.train(nu)
    late = path[2000:]
    equilibrium = training.equilibrium

    loss = training.start[0] - training.gain[0] * equilibrium

    assert late[:, 0].mean() == pytest.approx(equilibrium, abs=0.03)
    np.testing.assert_allclose(late[:, 1:].mean(0), loss, atol=0.03)
    assert late[:, 1:].max(1).mean() < loss + 0.05, "nor does the worst loss swing"
    assert path[500:, 0].min() > equilibrium / 4
    assert path[500:, 0].max() < equilibrium + 0.35


def test_a_group_that_was_easy_for_long_returns():
    """Its weight has a lower bound; without one it would need as many iterations to come back as it
    was easy for."""
    rule = GroupDRO(["easy", "hard"], nu=0.1)
    for _ in range(10_000):
        rule.learn(np.arange(2), np.array([0.0, 1.0]))

    assert rule.weights[0] == pytest.approx(1 / 1001)

    for _ in range(math.ceil(np.log(1000) / 0.1)):
        rule.learn(np.arange(2), np.array([1.0, 0.0]))
    assert rule.weights[0] >= 0.5


def test_a_group_that_is_absent_from_a_batch_keeps_its_loss():
    """The published code takes 0 for its loss, so with batches of 2 the weight of every absent
    group falls."""
    table = HardnessTable(
        [str(i) for i in range(8)], rule=GroupDRO(GROUPS, nu=1.0), exploration=0.0, replace=True
    )
    table.update(np.arange(8), np.where(C, 2.0, 1.0))
    before = table.rule.weights
    table.update([1, 2], [1.0, 1.0])

    after = table.rule.weights

    assert after[2] > before[2]
    assert after[0] == pytest.approx(after[1])


def test_weights_move_from_the_first_batch_but_not_in_a_warm_up():
    table = HardnessTable([str(i) for i in range(8)], rule=GroupDRO(GROUPS, nu=1.0))
    table.warming_up = True

    table.update(np.arange(8), np.arange(8.0))

    np.testing.assert_allclose(table.rule.weights, 1 / 3)

    table.warming_up = False
    table.update([0, 1, 2], [3.0, 1.0, 5.0])

    # a: 1 and 5; b: 3; c: as the mean of the others
    np.testing.assert_allclose(table.rule.weights, 1 / 3)

    table.update([1, 4], [2.0, 4.0])
    np.testing.assert_allclose(table.rule.weights, softmax([2.0, 3.0, 4.0]))


def test_momentum_is_that_of_the_group_losses():
    rule = GroupDRO(GROUPS, nu=1.0, momentum=0.75)
    rule.learn(np.arange(8), np.where(A, 2.0, 0.0))

    rule.learn(np.array([1]), np.array([0.0]))

    np.testing.assert_allclose(rule.weights, softmax([2.0 + 1.5, 0.0, 0.0]))

    rule = GroupDRO(["x", "y"], nu=0.1)
    for log_weight, weights in ((-69.0, [1 / 1001, 1000 / 1001]), (-1.0, softmax([-1.0, 0.0]))):
        state = {
            "groups": ["x", "y"],
            "losses": np.full(2, np.nan),
            "log_weights": np.array([log_weight, 0.0]),
        }
        rule.load_state_dict(state)
        np.testing.assert_allclose(rule.weights, weights)
    rule.learn(np.array([0]), np.array([3.0]))

    np.testing.assert_allclose(
        rule.weights, softmax([-1.0, 0.0]), err_msg="nothing is known of y yet"
    )


def test_losses_that_were_refused_do_not_move_the_weights():
    table = HardnessTable([str(i) for i in range(8)], rule=GroupDRO(GROUPS, nu=1.0))
    table.update(np.arange(8), np.where(C, np.nan, np.where(A, 1.0, 3.0)))

    np.testing.assert_allclose(
        table.rule.weights, softmax([1.0, 3.0, 2.0]), err_msg="c moves with the others"
    )

    table.update([0, 4], [np.inf, np.nan])
    np.testing.assert_allclose(table.rule.weights, softmax([1.0, 3.0, 2.0]))
    assert np.isnan(table.rule.robust_loss(np.full(8, np.nan)))

    losses = np.where(C, np.nan, np.where(A, 1.0, 3.0))
    assert table.rule.robust_loss(losses) == pytest.approx(
        (1 * np.e + 3 * np.e**3) / (np.e + np.e**3)
    )


def test_weights_survive_a_checkpoint_and_a_million_steps():
    rule = GroupDRO(GROUPS, nu=1e4, momentum=0.5)
    rule.learn(np.arange(8), np.where(C, 1.0, 0.0))

    np.testing.assert_allclose(rule.weights, np.array([1, 1, 1000]) / 1002)

    table = HardnessTable([str(i) for i in range(8)], rule=rule)
    again = HardnessTable(table.cases, rule=GroupDRO(GROUPS, nu=1e4, momentum=0.5))
    again.load_state_dict(pickle.loads(pickle.dumps(table.state_dict())))
    for updated in (table, again):
        np.testing.assert_array_equal(updated.rule._log_weights, rule._log_weights)
        np.testing.assert_array_equal(updated.probabilities(), table.probabilities())
        updated.update([0, 1], [0.0, 1e-4])

    np.testing.assert_array_equal(again.rule.weights, rule.weights)


def test_weights_are_restored_by_the_name_of_the_group():
    old = GroupDRO(["x", "y", "y", "gone"], nu=1.0)
    old.learn(np.arange(4), np.array([0.0, 1.0, 1.0, 5.0]))
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
    rule.learn(np.arange(len(groups)), losses)

    probabilities = rule.probabilities(losses)

    assert probabilities.sum() == pytest.approx(1)

    for name in set(groups):
        mine = probabilities[np.array(groups) == name]
        assert (mine == mine[0]).all()
    weights = rule.loss_weights(np.arange(len(groups)), probabilities)

    assert weights @ probabilities == pytest.approx(1)

    permutation = np.random.default_rng(seed).permutation(len(groups))
    other = GroupDRO(np.array(groups)[permutation].tolist(), nu=nu)
    other.learn(np.arange(len(groups)), losses[permutation])
    others = other.loss_weights(np.arange(len(groups)), probabilities[permutation])

    np.testing.assert_allclose(others, weights[permutation], rtol=1e-6)
    np.testing.assert_allclose(
        other.probabilities(losses), probabilities[permutation], rtol=1e-6, atol=1e-12
    )
