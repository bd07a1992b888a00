"""The table of stale losses. Draws are tested many at a time, so with replacement;
`test_systematic` has the others."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import chisquare

from nnunet_dro.sampling import KL, Chi2, CVaR, EarnedBall, HardnessTable, KLBall
from tests.sampling import made_losses
from tests.sampling.made_losses import draw_counts

table_with = partial(made_losses.table_with, replace=True)


@pytest.mark.parametrize("n", [1, 2, 20, 700, 3000])
@pytest.mark.parametrize("rule", [KL(5.0), KL(0.0), Chi2(4.0), CVaR(0.2), CVaR(0.2, 0.1)], ids=str)
def test_draw_follows_the_rule_and_says_what_it_was_made_with(n, rule):
    losses = np.random.default_rng(1).normal(0, 0.4, size=n)
    table = table_with(losses, rule=rule, exploration=0.1)

    expected = 0.9 * rule.probabilities(losses) + 0.1 / n

    np.testing.assert_allclose(table.probabilities(), expected, rtol=1e-12)

    draws = table.draw(50, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(draws.stale_losses, losses[draws.indices])
    np.testing.assert_allclose(draws.probabilities, expected[draws.indices], rtol=1e-9)

    if n > 1:
        counts = draw_counts(table, 100_000)
        assert chisquare(counts, expected * counts.sum()).pvalue > 1e-3


def test_a_rule_looks_at_the_cases_that_have_a_loss():
    table = HardnessTable(list("abcd"), rule=CVaR(0.5), exploration=0.0, replace=True)
    table.update([0, 1, 2, 3], [0.1, np.nan, 0.3, 0.2])

    np.testing.assert_allclose(table.probabilities(), [0, 0, 2 / 3, 1 / 3])
    assert set(table.draw(200, rng=np.random.default_rng(0)).indices.tolist()) == {2, 3}


@pytest.mark.parametrize("rule", [KL(5.0), Chi2(4.0), CVaR(0.1), KLBall(0.0, 0.5)], ids=str)
def test_a_table_is_restored_silently_whatever_its_rule(rule):
    old = table_with(np.arange(30) / 10, rule=rule)
    new = HardnessTable(old.cases, rule=rule, exploration=1e-4)

    assert new.load_state_dict(pickle.loads(pickle.dumps(old.state_dict()))) is None
    np.testing.assert_array_equal(new.losses, old.losses)
    np.testing.assert_allclose(new.probabilities(), old.probabilities(), rtol=1e-9)
    assert str(rule) in repr(new)


def test_unseen_cases_come_first_once_each_until_their_loss_is_back():
    table = HardnessTable([f"{i}" for i in range(1500)], beta=100.0)
    rng = np.random.default_rng(0)

    drawn = np.concatenate([table.draw(4, rng=rng).indices for _ in range(375)])

    assert sorted(drawn) == list(range(1500)), (
        "cases drawn but not yet seen are not drawn again while others wait"
    )
    assert np.isnan(table.draw(3, rng=rng).stale_losses).all(), (
        "all are on their way: one of them again"
    )

    first = [
        HardnessTable(list("abcde"), beta=1.0).draw(1, rng=np.random.default_rng(seed)).indices[0]
        for seed in range(2000)
    ]
    assert chisquare(np.bincount(first, minlength=5)).pvalue > 1e-3

    table = HardnessTable(list("abcd"), beta=1.0, exploration=1e-4, replace=True)
    table.update([0, 1, 3], [9.0, 9.0, 9.0])

    assert [table.draw(1, rng=rng).indices.tolist() for _ in range(5)] == [[2]] * 5
    assert table.n_unseen == 1

    table.update([2], [0.0])
    assert table.n_unseen == 0
    assert set(table.draw(200, rng=rng).indices) == {0, 1, 3}

    table = HardnessTable(list("abcd"), beta=5.0)
    table.warming_up = True

    assert sorted(np.concatenate([table.draw(2, rng=rng).indices for _ in range(2)])) == [
        0,
        1,
        2,
        3,
    ]


def test_update_keeps_block_sums_exact_after_many_updates():
    rng = np.random.default_rng(0)
    table = table_with(rng.normal(size=5000), beta=100.0)
    for _ in range(3000):
        table.update(rng.integers(5000, size=2), rng.normal(size=2))

    draws = table.draw(1000, rng=rng)

    np.testing.assert_allclose(draws.probabilities, table.probabilities()[draws.indices], rtol=1e-9)


@pytest.mark.parametrize("beta", [1e-6, 1e4])
def test_update_survives_losses_that_move_far(beta):
    table = table_with(np.zeros(1000), beta=beta)
    for loss in (1e3, -1e3, 1e6, 0.0):
        table.update([7], [loss])
        draws = table.draw(20, rng=np.random.default_rng(0))
        assert np.isfinite(draws.probabilities).all()
        assert table.probabilities().sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "indices", "losses", "after"),
    [
        ({"momentum": 0.75}, [0], [3.0], [0.75 * 1 + 0.25 * 3, 2.0]),
        ({}, [0, 0], [5.0, 7.0], [7.0, 2.0]),  # in the order of the batch
        *(({}, [0], [bad], [1.0, 2.0]) for bad in (np.nan, np.inf, -np.inf)),
    ],
)
def test_update_keeps_what_it_is_to_keep(options, indices, losses, after):
    table = table_with([1.0, 2.0], **options)
    table.update(indices, losses)

    assert table.losses.tolist() == pytest.approx(after)
    assert table.refused == (not np.isfinite(losses).all())


def test_a_case_whose_losses_are_all_refused_keeps_the_exploration_floor():
    table = HardnessTable(list("abc"), beta=1.0, exploration=0.03, replace=True)
    table.update([0, 1, 2], [np.nan, 1.0, 1.0])

    assert table.n_unseen == 0
    np.testing.assert_allclose(table.probabilities(), [0.01, 0.495, 0.495])

    counts = draw_counts(table, 20_000)
    assert chisquare(counts, table.probabilities() * counts.sum()).pvalue > 1e-3

    table = HardnessTable(list("abc"), beta=1.0, replace=True)
    table.update([0, 1, 2], [np.nan] * 3)

    assert chisquare(draw_counts(table, 3000)).pvalue > 1e-3
    np.testing.assert_allclose(table.probabilities(), 1 / 3)

    table = HardnessTable(list("abc"), beta=0.0, replace=True)
    table.update([0, 1, 2], [np.nan, 1.0, 2.0])

    assert chisquare(draw_counts(table, 3000)).pvalue > 1e-3, "plain draws need no loss"
    np.testing.assert_allclose(table.probabilities(), 1 / 3)


@pytest.mark.parametrize("rule", [KLBall(0.0, 0.5), EarnedBall(0.0, 0.5)], ids=str)
def test_a_case_without_a_loss_is_no_more_drawn_where_all_others_are_equal(rule):
    table = HardnessTable(list("abc"), rule=rule, exploration=0.03, replace=True)
    table.update([0, 1, 2], [np.nan, 1.0, 1.0])

    assert table.rule.beta == 0
    np.testing.assert_allclose(table.probabilities(), [0.01, 0.495, 0.495])
    draws = table.draw(500, rng=np.random.default_rng(0))
    np.testing.assert_allclose(draws.probabilities, table.probabilities()[draws.indices])


def test_state_is_restored_by_case_name():
    old = HardnessTable(["a", "b", "gone"], beta=1.0)
    old.update([0, 2, 1], [0.1, 0.3, np.nan])
    new = HardnessTable(["new", "b", "a"], beta=1.0, replace=True)

    line = new.load_state_dict(pickle.loads(pickle.dumps(old.state_dict())))

    np.testing.assert_array_equal(new.losses, [np.nan, np.nan, 0.1])
    assert new.n_unseen == 1, "b was seen, although its loss was refused"
    assert new.refused == 1
    assert new.draw(1, rng=np.random.default_rng(0)).indices.tolist() == [0]

    changed = "1 new (start unseen: new), 1 gone (dropped: gone)"
    assert line == f"The training cases changed since the checkpoint: {changed}."


def test_table_uses_at_most_four_numbers_per_case():
    n = 100_000
    table = HardnessTable([str(i) for i in range(n)], beta=1.0)

    draws_in_the_log = 4 * n

    assert table._shared.nbytes + table._stale.stored_in.nbytes + draws_in_the_log < 4 * 8 * n


def test_a_table_that_warms_up_draws_uniformly_and_says_so():
    table = table_with(np.arange(20) / 4)
    assert table.draw(4, rng=np.random.default_rng(0)).betas.tolist() == [5.0] * 4

    table.warming_up = True
    np.testing.assert_allclose(table.probabilities(), 1 / 20)
    assert chisquare(draw_counts(table, 20_000)).pvalue > 1e-3

    draws = table.draw(8, rng=np.random.default_rng(0))
    assert np.isnan(draws.stale_losses).all()
    assert not draws.betas.any()
    np.testing.assert_array_equal(draws.probabilities, 1 / 20)

    table.update([0], [0.5])
    table.warming_up = False

    assert table.losses[0] == 0.5, "losses were collected meanwhile"
    np.testing.assert_allclose(table.probabilities().argmax(), 19)
    assert not np.isnan(table.draw(8, rng=np.random.default_rng(0)).stale_losses).any()


def test_estimated_beta_is_one_over_the_standard_deviation_of_the_losses():
    table = HardnessTable(list("abcd"), beta=0.0, exploration=0.0, replace=True, auto_beta=True)
    table.update([0, 1, 2], [0.0, 1.0, 5.0])

    assert table.estimate_beta() is None, "d is unseen"

    table.update([3], [np.nan])
    assert table.estimate_beta() == pytest.approx(1 / np.std([0.0, 1.0, 5.0]))
    assert table.rule == KL(1 / np.std([0.0, 1.0, 5.0]))
    np.testing.assert_allclose(
        table.probabilities()[:3], softmax(np.array([0, 1, 5]) / np.std([0, 1, 5]))
    )

    draws = table.draw(50, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(draws.betas, table.rule.beta)
    np.testing.assert_allclose(draws.probabilities, table.probabilities()[draws.indices])


@pytest.mark.parametrize(
    "losses", [[0.3, 0.3], [0.3, np.nextafter(0.3, 1)], [np.nan, np.nan], [1.0, np.nan]]
)
def test_estimated_beta_stays_where_losses_say_nothing(losses):
    table = HardnessTable(list("ab"), beta=7.0, auto_beta=True)
    table.update([0, 1], losses)

    assert table.estimate_beta() is None
    assert table.rule == KL(7.0)


def test_estimated_beta_of_the_pearson_divergence_and_of_no_divergence():
    losses = np.arange(30) / 10
    table = table_with(losses, rule=Chi2(0.0), auto_beta=True)
    table.estimate_beta()

    expected = (1 - 1e-4) * Chi2(1 / losses.std()).probabilities(losses) + 1e-4 / 30

    np.testing.assert_allclose(table.probabilities(), expected)
    assert (table.draw(5, rng=np.random.default_rng(0)).betas == 0).all(), (
        "only a softmax has importance weights"
    )
    with pytest.raises(TypeError, match="must have a beta to estimate, got the hardest 10 %"):
        table_with(losses, rule=CVaR(0.1), auto_beta=True).estimate_beta()
    with pytest.raises(ValueError, match="`auto_beta` must be True"):
        table_with(losses).estimate_beta()


def test_a_rule_over_very_many_cases_looks_again_after_a_few_updates():
    n = 3 * 4096
    table = HardnessTable([str(i) for i in range(n)], rule=CVaR(0.5), exploration=0.0)
    table.update(np.arange(n - 1), np.arange(n - 1) / n)

    table.update([n - 1], [1.0])

    np.testing.assert_array_equal(table._shared.weights, table.rule.probabilities(table.losses))
    assert table.draw(5, rng=np.random.default_rng(0)).indices.min() >= n // 2, (
        "ready once the last one was seen"
    )

    table.update([0], [9.0])
    table.update([1], [9.0])
    weights = table._shared.weights

    assert weights[0] == weights[1] == 0, "not yet"

    table.update([n - 1], [0.0])
    np.testing.assert_array_equal(weights, table.rule.probabilities(table.losses))
    assert weights[0] > 0 == weights[n - 1]


def test_staleness_counts_the_updates_and_survives_a_checkpoint():
    old = HardnessTable(list("abcd"), beta=1.0)
    for indices, losses in (([0, 1], [0.1, 0.2]), ([1, 2], [0.3, np.nan]), ([3], [0.4])):
        old.update(indices, losses)

    np.testing.assert_array_equal(old.staleness, [2, 1, np.nan, 0])

    new = HardnessTable(list("dxa"), beta=1.0)
    new.load_state_dict(pickle.loads(pickle.dumps(old.state_dict())))

    np.testing.assert_array_equal(new.staleness, [0, np.nan, 2])

    new.update([1], [0.5])
    np.testing.assert_array_equal(new.staleness, [1, 0, 3])


@pytest.mark.parametrize("rule", [CVaR(0.1), CVaR(0.1, 0.05), Chi2(100.0), KL(100.0)], ids=str)
def test_exploration_keeps_every_loss_fresh_whatever_the_rule(rule):
    """With the default share each case waits for 20 passes on average, the longest of 50 for some
    90."""
    n = 50
    size = 2
    n_updates = 8_000
    table = HardnessTable([str(i) for i in range(n)], rule=rule)
    losses = np.linspace(0, 1, n)
    rng = np.random.default_rng(0)
    table.update(np.arange(n), losses)
    largest = []
    for step in range(n_updates):
        indices = table.draw(size, rng=rng).indices
        table.update(indices, losses[indices])
        if step % 500 == 499:
            largest.append(table.staleness.max())

    passes = np.array(largest[4:]) / (n / size)

    assert passes.max() < 260
    assert passes.mean() < 150
    assert table.staleness.mean() / (n / size) < 30
