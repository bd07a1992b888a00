"""Draws without replacement: how often each case comes, which cases come together, and in which
order."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from nnunet_dro.sampling import KL, Chi2, CVaR, HardnessTable, expected_draws
from tests.sampling.made_losses import table_with


def losses_of(n, spread=0.2):
    return np.random.default_rng(n).normal(0.5, spread, size=n)


def batches_of(table, size, n_batches, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([table.draw(size, rng=rng).indices for _ in range(n_batches)])


# Expected draws


@pytest.mark.parametrize(
    ("probabilities", "size", "expected"),
    [
        ([0.1, 0.2, 0.3, 0.4], 2, [0.2, 0.4, 0.6, 0.8]),
        ([0.6, 0.2, 0.2], 2, [1, 0.5, 0.5]),
        (
            [0.6, 0.25, 0.1, 0.05],
            3,
            [1, 1, 2 / 3, 1 / 3],
        ),  # 3 p = 1.8, 0.75: of the two places left 1.25, so certain
        ([1.0, 0.0, 0.0], 2, [1, 0.5, 0.5]),
        ([0.5, 0.5, 0.0, 0.0], 2, [1, 1, 0, 0]),
        ([0.25] * 4, 4, [1] * 4),
        ([0.9, 0.1, 0.0], 8, [3, 3, 2]),
        ([0.5, 0.3, 0.2], 7, [2.5, 2.3, 2.2]),
        ([0.7, 0.3], 1, [0.7, 0.3]),
    ],
)
def test_expected_draws_match_values_computed_by_hand(probabilities, size, expected):
    np.testing.assert_allclose(
        expected_draws(np.array(probabilities), size=size), expected, atol=1e-12
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 40))
def test_expected_draws_fill_the_places_and_give_harder_cases_no_less(weights, size):
    weights = np.array(weights) + 1e-9
    expected = expected_draws(weights / weights.sum(), size=size)

    assert expected.sum() == pytest.approx(size)
    assert (expected >= size // len(weights)).all()
    assert (expected <= -(-size // len(weights)) + 1e-9).all()
    assert (np.diff(expected[np.argsort(weights)]) >= -1e-9).all()


# How often each case comes


@pytest.mark.parametrize(
    ("n", "size", "beta"),
    [
        *((5, 2, 2.0), (5, 3, 4.0), (20, 4, 10.0), (20, 19, 10.0), (3, 8, 5.0), (40, 1, 8.0)),
        *(
            (8, 2, 100.0),
            (60, 12, 20.0),
        ),  # one case takes one of two places in every batch; several do
        *((700, 49, 3.0), (1500, 6, 20.0), (3000, 2, 10.0)),
        *((40, 4, 0.0), (1100, 7, 0.0)),  # uniformly
    ],
)
def test_cases_come_as_often_as_expected(n, size, beta):
    table = table_with(losses_of(n), beta=beta)
    n_batches = 3_000
    counts = np.bincount(batches_of(table, size, n_batches).ravel(), minlength=n)
    expected = expected_draws(table.probabilities(), size=size)
    variable = expected % 1

    sure = np.isclose(variable, 0, atol=1e-9) | np.isclose(variable, 1, atol=1e-9)

    np.testing.assert_array_equal(counts[sure], np.round(expected[sure] * n_batches))

    # Cases that are rarely drawn are counted together: systematic draws of them hardly depend on
    # each other.
    order = np.argsort(expected[~sure])
    cells = np.minimum(np.cumsum(expected[~sure][order]) * n_batches // 25, 40).astype(int)
    found = np.bincount(cells, counts[~sure][order])
    meant = np.bincount(cells, expected[~sure][order] * n_batches)
    used = meant > 0

    # The counts of distinct cases spread no more than those of independent draws.
    assert ((found - meant)[used] ** 2 / meant[used]).sum() < used.sum() + 4 * np.sqrt(
        2 * used.sum()
    )


@pytest.mark.parametrize("n", [7, 600, 2000])
@pytest.mark.parametrize("rule", [KL(5.0), KL(1e4), Chi2(4.0), CVaR(0.2), CVaR(0.2, 0.1)], ids=str)
def test_draws_say_the_share_that_was_expected(n, rule):
    table = table_with(losses_of(n), rule=rule, exploration=0.1)
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 9):
        expected = expected_draws(table.probabilities(), size=size) / size
        for _ in range(20):
            draws = table.draw(size, rng=rng)
            np.testing.assert_allclose(draws.probabilities, expected[draws.indices], rtol=1e-9)


@pytest.mark.parametrize("rule", [KL(1e4), CVaR(0.05)], ids=str)
def test_places_that_the_rule_leaves_empty_are_shared_by_the_other_cases(rule):
    table = table_with(np.arange(20) / 4, rule=rule, exploration=0.0)
    batches = batches_of(table, 3, 2000)

    assert (batches == 19).any(1).all()

    others = np.bincount(batches.ravel(), minlength=20)[:19]
    # With KL the next hardest cases have some 1e-1000 of the probability: nothing, in numbers.
    assert chisquare(others).pvalue > 1e-3


def test_a_case_with_nearly_all_probability_does_not_drown_the_rest():
    """1 - p would be 0 in numbers; the others still come by their own probabilities."""
    table = table_with([0.0, 0.1, 0.2, 50.0], beta=1.0, exploration=0.0)
    table.update([3], [100.0])
    counts = np.bincount(batches_of(table, 2, 6000).ravel(), minlength=4)

    weights = np.exp([0.0, 0.1, 0.2])

    assert counts[3] == 6000
    assert chisquare(counts[:3], 6000 * weights / weights.sum()).pvalue > 1e-3


def test_draws_estimate_a_weighted_mean_without_bias():
    """The mean over batches of sum(value / expected) is the sum of the values: Horvitz and
    Thompson."""
    n = 25
    size = 4
    table = table_with(losses_of(n), beta=6.0, exploration=0.1)
    values = np.random.default_rng(1).normal(3, 1, size=n)
    rng = np.random.default_rng(2)
    draws = [table.draw(size, rng=rng) for _ in range(6000)]
    estimates = np.array(
        [(values[drawn.indices] / (size * drawn.probabilities)).sum() for drawn in draws]
    )

    error = estimates.std() / np.sqrt(len(estimates))

    assert abs(estimates.mean() - values.sum()) < 4 * error


# Which cases come together


@pytest.mark.parametrize(
    ("n", "size", "beta"), [(2, 2, 9.0), (6, 4, 100.0), (100, 49, 30.0), (600, 12, 100.0)]
)
def test_cases_of_a_batch_are_distinct(n, size, beta):
    for batch in batches_of(table_with(losses_of(n), beta=beta), size, 500):
        assert len(set(batch.tolist())) == size


@pytest.mark.parametrize(("n", "size"), [(3, 7), (5, 12), (4, 4), (1, 3)])
def test_with_fewer_cases_than_places_each_comes_as_often_or_once_more(n, size):
    for table in (
        table_with(losses_of(n), beta=30.0),
        HardnessTable([str(i) for i in range(n)], beta=30.0),
    ):
        for batch in batches_of(table, size, 50):
            assert set(np.bincount(batch, minlength=n)) <= {size // n, -(-size // n)}


@pytest.mark.parametrize("spread", [0.2, 0])
def test_all_pairs_come_together_and_those_of_equal_cases_equally_often(spread):
    batches = batches_of(table_with(losses_of(8, spread)), 2, 6000)
    pairs = Counter(tuple(sorted(batch)) for batch in batches.tolist())

    assert set(pairs) == set(combinations(range(8), 2))
    assert spread or chisquare(list(pairs.values())).pvalue > 1e-3


@pytest.mark.parametrize(("n", "beta"), [(6, 8.0), (6, 100.0), (3, 5.0), (1500, 20.0)])
def test_every_case_is_equally_often_at_each_place_of_the_batch(n, beta):
    """nnU-Net oversamples the foreground of the last places."""
    size = 4
    batches = batches_of(table_with(losses_of(n), beta=beta), size, 2500)

    common = np.bincount(batches.ravel()).argsort()[-3:]

    for case in common:
        assert chisquare((batches == case).sum(0)).pvalue > 1e-3


# First visits and the warm-up


@pytest.mark.parametrize("size", [2, 4, 7])
def test_first_visits_are_distinct_and_once_each(size):
    table = HardnessTable([str(i) for i in range(50)], beta=100.0)
    rng = np.random.default_rng(0)
    batches = []

    while table.n_unseen:
        batches.append(table.draw(size, rng=rng).indices)
        table.update(batches[-1], np.arange(size))

    assert all(len(set(batch.tolist())) == size for batch in batches)
    assert len(batches) == -(-50 // size)

    whole = np.concatenate(batches[: 50 // size])
    assert len(set(whole.tolist())) == len(whole), "no second visit before all had one"


@pytest.mark.parametrize("replace", [False, True])
def test_cases_whose_loss_is_on_its_way_fill_a_batch_only_once_each(replace):
    table = HardnessTable(list("abcde"), beta=100.0, replace=replace)
    rng = np.random.default_rng(0)
    for _ in range(30):
        batch = table.draw(4, rng=rng).indices
        assert len(set(batch.tolist())) == 4


@pytest.mark.parametrize(
    ("warming_up", "expected"), [(False, [1000, 1000, 2000]), (True, [4000 / 3] * 3)]
)
def test_seen_cases_fill_the_batch_of_the_last_first_visit(warming_up, expected):
    table = HardnessTable(list("abcd"), beta=1.0, exploration=0.0)
    table.update([0, 1, 3], [0.0, 0.0, np.log(2)])
    table.warming_up = warming_up
    rng = np.random.default_rng(0)
    draws = [table.draw(2, rng=rng) for _ in range(4000)]

    batches = np.array([drawn.indices for drawn in draws])

    assert (batches == 2).any(1).all(), "the one that was never seen is in every batch"

    counts = np.bincount(batches.ravel(), minlength=4)
    assert chisquare(counts[[0, 1, 3]], expected).pvalue > 1e-3


@pytest.mark.parametrize(("n", "size"), [(10, 3), (10, 10), (3, 8)])
def test_a_warm_up_draws_uniformly_and_distinct_cases_if_it_can(n, size):
    table = table_with(np.arange(n) / 4)
    table.warming_up = True

    batches = batches_of(table, size, 3000)

    for batch in batches[:100]:
        assert set(np.bincount(batch, minlength=n)) <= {size // n, -(-size // n)}
    for place in range(size):
        assert chisquare(np.bincount(batches[:, place], minlength=n)).pvalue > 1e-4


def test_a_table_with_replacement_fills_its_batches_with_the_hardest_case():
    losses = [0.0, 0.0, 0.0, 1.0]
    assert batches_of(table_with(losses, beta=100.0, replace=True), 4, 50).min() == 3
    assert len(set(batches_of(table_with(losses, beta=100.0), 4, 1)[0].tolist())) == 4
