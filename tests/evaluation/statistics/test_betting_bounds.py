"""The bounds of means that are proven: what the proof says of every factor, and what follows."""

import itertools
import math

import numpy as np
import pytest

from nnunet_dro.evaluation.statistics.betting_bounds import (
    SHARES,
    STAKES,
    bounded_mean,
    bounded_share,
)

TAIL = 0.025


def money(values, mean):
    """K(m) of the module, one value after the other."""
    total = 0.0
    for stake, share in zip(STAKES, SHARES, strict=True):
        total += share * math.prod(1 + stake * (value / mean - 1) for value in values)
    return total


def lower(values, *, low=0.0, high=1.0, tail=TAIL):
    ascending = np.sort(np.asarray(values, dtype=float))[None]
    return bounded_mean(ascending, low=low, high=high, tail=tail)[0, 0]


def test_all_money_is_bet_once():
    assert SHARES.sum() == pytest.approx(1)
    assert len(STAKES) == len(SHARES)
    assert STAKES.min() > 0
    assert STAKES.max() == 1


@pytest.mark.parametrize(
    "values", [[0.3], [0.9, 0.2], [0.0, 0.7, 0.7], [1.0, 1.0], np.linspace(0.1, 0.95, 23)]
)
@pytest.mark.parametrize("tail", [0.025, 0.05, 0.4])
def test_the_bound_is_where_the_money_is_1_over_the_tail(values, tail):
    bound = lower(values, tail=tail)
    assert money(values, bound) == pytest.approx(1 / tail, rel=1e-8)
    # Every smaller mean is rejected, too.
    assert money(values, bound / 2) > 1 / tail
    assert money(values, np.mean(values)) <= 1


def test_the_bound_holds_for_every_distribution_on_three_values():
    # Exactly: all samples of four values with their probabilities, among many distributions.
    support = np.array([0.0, 0.35, 1.0])
    samples = np.array(list(itertools.product(range(3), repeat=4)))
    bounds = np.array([lower(support[sample], tail=0.1) for sample in samples])

    rng = np.random.default_rng(0)
    for alpha in (0.2, 1.0, 5.0):
        for shares in rng.dirichlet([alpha] * 3, size=100):
            is_wrong = bounds > shares @ support
            assert shares[samples].prod(axis=1)[is_wrong].sum() <= 0.1


def test_the_bound_of_failures_seen_and_unseen_holds():
    rng = np.random.default_rng(1)
    for share, n in ((0.01, 30), (0.03, 60), (0.1, 100)):
        samples = np.where(rng.random((4000, n)) < share, 0.0, 0.9)
        found = bounded_mean(np.sort(samples, axis=1), low=0.0, high=1.0, tail=TAIL)
        assert (found[:, 0] > 0.9 * (1 - share)).mean() <= TAIL
        assert (found[:, 1] < 0.9 * (1 - share)).mean() <= TAIL


def test_equal_values_leave_the_failures_that_half_the_money_excludes():
    for n in (1, 8, 44, 400, 5000):
        bound = lower(np.full(n, 0.8))
        by_half = 0.8 * (TAIL / 2) ** (1 / n)
        assert by_half <= bound <= 0.8 * TAIL ** (1 / n)

    assert lower(np.zeros(20)) == 0
    assert bounded_mean(np.ones((1, 20)), low=0.0, high=1.0, tail=TAIL)[0, 1] == 1


@pytest.mark.parametrize("gain", [0.9, 1e-30])
def test_a_label_that_is_found_once_in_20_000_cases_has_bounds(gain):
    # A mean that the bets exclude is so small that its inverse has no double.
    values = np.zeros((1, 20_000))
    values[0, -1] = gain
    (bounds,) = bounded_mean(values, low=0.0, high=1.0, tail=TAIL)
    assert bounds[0] == 0
    assert 0.9 / 20_000 < bounds[1] < 0.001


def test_the_bounds_are_symmetric_and_know_no_order_or_scale():
    values = np.sort(np.random.default_rng(2).beta(8, 2, 50))
    (found,) = bounded_mean(values[None], low=0.0, high=1.0, tail=TAIL)
    (mirrored,) = bounded_mean(1 - values[None], low=0.0, high=1.0, tail=TAIL)
    (scaled,) = bounded_mean(4 * values[None] - 1, low=-1.0, high=3.0, tail=TAIL)
    (shuffled,) = bounded_mean(values[None, ::-1], low=0.0, high=1.0, tail=TAIL)

    np.testing.assert_allclose(1 - mirrored[::-1], found, rtol=1e-9)
    np.testing.assert_allclose((scaled + 1) / 4, found, rtol=1e-9)
    np.testing.assert_allclose(shuffled, found, rtol=1e-9)


def test_the_bound_is_outside_that_of_gaffke():
    # Its p value, by draws: the share of E with sum E_i (x_i / m - 1) <= E_0.
    rng = np.random.default_rng(3)
    for values in (rng.beta(8, 2, 30), np.where(rng.random(40) < 0.1, 0, 0.9), np.full(9, 0.7)):
        weights = rng.standard_exponential((20_000, len(values) + 1))
        drawn = (weights[:, 1:] @ values) / weights.sum(axis=1)
        conjectured = np.quantile(drawn, TAIL)
        assert lower(values) < conjectured
        assert np.mean(values) - lower(values) < 1.8 * (np.mean(values) - conjectured)


def test_a_share_of_clusters_of_one_is_the_mean_of_hits():
    hits = np.r_[np.ones(25), np.zeros(5)]
    (alone,) = bounded_mean(np.sort(hits)[None], low=0.0, high=1.0, tail=TAIL)
    np.testing.assert_allclose(bounded_share(hits, np.ones(30), tail=TAIL), alone, rtol=1e-9)
    np.testing.assert_allclose(bounded_share(3 * hits, np.full(30, 3.0), tail=TAIL), alone)


def test_the_share_among_clusters_holds():
    rng = np.random.default_rng(4)
    sizes = np.tile([1.0, 2.0, 4.0], 10)
    n_wrong = 0
    for _ in range(300):
        hits = rng.binomial(sizes.astype(int), rng.beta(8, 2, 30)).astype(float)
        low, high = bounded_share(hits, sizes, tail=TAIL)
        assert 0 <= low < hits.sum() / sizes.sum() < high <= 1
        n_wrong += not low <= 0.8 <= high
    assert n_wrong <= 15
