"""A trial within the training tells what can be learnt from what cannot.

The training is a model of one: the loss of a case depends on how often it, and how often cases like
it, were drawn.
"""

import numpy as np
import pytest

from nnunet_dro.sampling import HardnessTable, TriedBall
from nnunet_dro.sampling.trial import answer_of, random_halves

N_CASES = 200
N_UPDATES = 4000
BATCH = 4


class Training:
    """Losses of common cases at -0.85, and of some hard ones as their draws let them fall.

    Args:
        n_hard: Number of hard cases, the first ones.
        carries_over: By how much a draw of any hard case lowers the loss of each, at most to -0.7.
        by_heart: By how much a draw of a hard case beyond those by chance lowers its own loss, at
            most to -0.7.
        price: By how much a draw of a hard case raises the losses of the others while it lasts.
        start: Loss of the hard cases at first.
        noise: Standard deviation of what is measured.
    """

    def __init__(
        self, n_hard, *, carries_over=0.0, by_heart=0.0, price=0.0, start=-0.02, noise=0.03
    ):
        self.n_hard = n_hard
        self.carries_over = carries_over
        self.by_heart = by_heart
        self.price = price
        self.start = start
        self.noise = noise
        self.n_drawn = np.zeros(N_CASES)
        self.share = n_hard / N_CASES
        self.rng = np.random.default_rng(0)

    def losses_of(self, indices):
        n_of_hard = self.n_drawn[: self.n_hard].sum()
        losses = np.full(N_CASES, -0.85 + self.price * max(0.0, self.share - self.n_hard / N_CASES))
        fallen = self.start - self.carries_over * n_of_hard
        beyond = np.maximum(self.n_drawn[: self.n_hard] - 1.2 * self.n_drawn.mean(), 0)
        fallen = fallen - self.by_heart * beyond
        losses[: self.n_hard] = np.maximum(fallen, -0.7)
        return losses[indices] + self.rng.normal(0, self.noise, len(indices))

    def run(self, rule):
        """Train; the share of the draws of hard cases in the last tenth."""
        table = HardnessTable([f"case_{i}" for i in range(N_CASES)], rule=rule)
        rng = np.random.default_rng(1)
        n_late = 0
        for step in range(N_UPDATES):
            indices = table.draw(BATCH, rng=rng).indices
            self.n_drawn[indices] += 1
            self.share = 0.99 * self.share + 0.01 * float((indices < self.n_hard).mean())
            table.update(indices, self.losses_of(indices))
            if step >= 0.9 * N_UPDATES:
                n_late += int((indices < self.n_hard).sum())
        return n_late / (0.1 * N_UPDATES * BATCH)


def tried(**options):
    return TriedBall([f"case_{i}" for i in range(N_CASES)], N_UPDATES, **options)


def test_what_carries_over_to_cases_that_are_not_drawn_earns_draws():
    rule = tried()

    share = Training(20, carries_over=5e-4).run(rule)

    assert share > 0.3  # 0.1 by chance
    assert "have answered" in " ".join(rule.take_news())


@pytest.mark.parametrize(
    "training",
    [
        {"n_hard": 20},
        {"n_hard": 20, "by_heart": 0.02},
        {"n_hard": 20, "by_heart": 0.02, "start": -0.5},
        {"n_hard": 2},
        {"n_hard": 0},
    ],
    ids=["hopeless", "learnt by heart", "partly wrong", "two hopeless", "none"],
)
def test_what_does_not_carry_over_is_drawn_as_by_chance(training):
    share = Training(**training).run(tried())

    assert share == pytest.approx(training["n_hard"] / N_CASES, abs=0.03)


def test_what_costs_the_others_too_much_is_not_drawn():
    share = Training(20, carries_over=2e-4, price=3.0).run(tried())

    assert share == pytest.approx(0.1, abs=0.03)


def test_a_hopeless_case_among_those_that_answer_is_left_alone():
    class Mixed(Training):
        def losses_of(self, indices):
            losses = super().losses_of(indices)
            return np.where(indices == 0, 0.0, losses)

    training = Mixed(20, carries_over=5e-4, noise=0.01)
    rule = tried()
    assert training.run(rule) > 0.25

    weights = rule.weigh(np.full(N_CASES, -0.5), slice(0, N_CASES))
    assert weights[0] == pytest.approx(1.0)
    assert weights[1:20].mean() > 2


def test_halves_hold_cases_that_are_about_as_hard():
    rng = np.random.default_rng(0)
    losses = rng.normal(size=101)
    is_hard = losses > 0
    first, second = random_halves(losses, is_hard, np.random.default_rng(3))

    np.testing.assert_array_equal(first | second, is_hard)
    assert not (first & second).any()
    assert abs(int(first.sum()) - int(second.sum())) <= 1
    assert losses[first].mean() == pytest.approx(losses[second].mean(), abs=0.1)


def test_an_answer_weighs_cases_by_how_much_more_they_would_be_drawn():
    improvements = np.array([0.4, 0.4, 0.0, 0.0, 0.01, -0.01, 0.0])
    weights = np.array([3.0, 3.0, 1.0, 1.0, 0.0, 0.0, 0.0])

    answer = answer_of(improvements, weights)

    assert answer.hard == pytest.approx(0.3)
    assert answer.others == pytest.approx(0.0)
    assert answer.answered.tolist() == [True, True, False, False, False, False, False]
    assert answer_of(improvements[2:], weights[2:]) is None  # two hard cases


def test_what_all_cases_gain_by_going_on_is_no_answer():
    improvements = np.array([0.05, 0.06, 0.05, 0.04, 0.05, 0.06, 0.04])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])

    assert not answer_of(improvements, weights).is_yes


@pytest.mark.parametrize("stopped_at", [500, 700, 2000])
def test_a_resumed_training_goes_on_with_its_trial(stopped_at):
    training = Training(20, carries_over=5e-4)
    cases = [f"case_{i}" for i in range(N_CASES)]
    table = HardnessTable(cases, rule=tried())
    rng = np.random.default_rng(1)
    for _ in range(stopped_at):
        indices = table.draw(BATCH, rng=rng).indices
        training.n_drawn[indices] += 1
        table.update(indices, training.losses_of(indices))

    other = HardnessTable(cases, rule=tried())
    other.load_state_dict(table.state_dict())
    table.load_state_dict(table.state_dict())  # both look at the losses now

    np.testing.assert_allclose(other.probabilities(), table.probabilities())
    np.testing.assert_array_equal(other.rule._halves, table.rule._halves)


def test_a_case_that_came_after_the_checkpoint_takes_no_part_in_the_trial():
    cases = [f"case_{i}" for i in range(N_CASES)]
    training = Training(20, carries_over=5e-4)
    table = HardnessTable(cases, rule=tried())
    rng = np.random.default_rng(1)
    for _ in range(500):
        indices = table.draw(BATCH, rng=rng).indices
        table.update(indices, training.losses_of(indices))

    changed = ["new", *cases[1:]]
    rule = TriedBall(changed, N_UPDATES)
    rule.load_state_dict(table.rule.state_dict())

    assert rule._halves[0] == 0
    np.testing.assert_array_equal(rule._halves[1:], table.rule._halves[1:])


@pytest.mark.parametrize("bad_luck", [0.02, 0.03, 0.05])
def test_hard_cases_that_were_only_unlucky_are_no_answer(bad_luck):
    class Unlucky(Training):
        """All cases are equal, and what is measured of them changes slowly, as pooled losses do."""

        def __init__(self):
            super().__init__(0)
            self.luck = np.zeros(N_CASES)

        def losses_of(self, indices):
            is_unlucky = self.rng.random(len(indices)) < bad_luck
            self.luck[indices] = 0.6 * self.luck[indices] + 0.4 * is_unlucky
            return -0.85 + self.luck[indices] + self.rng.normal(0, 0.01, len(indices))

    rule = tried()
    Unlucky().run(rule)

    assert not rule._is_earned
