"""Bootstrapped ranks and the agreement of rankings."""

import warnings

import numpy as np
import pytest
from scipy.stats import kendalltau

from nnunet_dro.choices import RankingScheme
from nnunet_dro.ranking.ranks import bootstrap_ranks, draw_units, kendall_tau
from tests.ranking.test_ranks import contest_of


def test_tau_is_that_of_scipy():
    rng = np.random.default_rng(0)
    rankings, reference = rng.integers(1, 6, (50, 7)).astype(float), np.array([1, 2, 2, 4, 5, 6, 6.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [kendalltau(ranking, reference).statistic for ranking in rankings]
    np.testing.assert_allclose(kendall_tau(rankings, reference), expected)
    assert np.isnan(kendall_tau(np.ones((1, 7)), reference)).all()


def test_samples_draw_as_many_units_and_patients_whole():
    counts = draw_units(7, 100, np.random.default_rng(0))
    assert counts.shape == (100, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert (counts == draw_units(7, 100, np.random.default_rng(0))).all()
    contest = contest_of(np.random.default_rng(0).random((2, 6)), units=[0, 0, 1, 1, 2, 2])
    assert contest.n_units == 3
    found = bootstrap_ranks(contest, RankingScheme.MEAN, draw_units(3, 50, np.random.default_rng(0)))
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)


def test_shares_are_the_exact_chances_of_two_cases():
    # Samples: both cases (half of them), the first one twice, the second one twice (a quarter each).
    contest = contest_of([[0.9, 0.1], [0.3, 0.4]])
    counts = np.array([[1, 1], [1, 1], [2, 0], [0, 2]])
    found = bootstrap_ranks(contest, RankingScheme.MEAN, counts)
    assert found.shares.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert found.median.tolist() == [1, 2]
    assert sorted(found.taus.tolist()) == [-1, 1, 1, 1]


@pytest.mark.parametrize("scheme", RankingScheme)
def test_a_clear_ranking_is_stable(scheme):
    values = np.array([[0.9], [0.8], [0.7]]) + np.random.default_rng(0).normal(0, 0.01, (3, 40))
    found = bootstrap_ranks(contest_of(values), scheme, draw_units(40, 100, np.random.default_rng(0)))
    assert found.shares.tolist() == np.eye(3).tolist()
    assert (found.low.tolist(), found.high.tolist()) == ([1, 2, 3], [1, 2, 3])


def test_a_sample_without_any_value_is_left_out():
    contest = contest_of([[0.9, np.nan], [0.3, np.nan]])
    found = bootstrap_ranks(contest, RankingScheme.MEAN, np.array([[1, 1], [0, 2]]))
    assert found.shares.tolist() == [[1, 0], [0, 1]]
    assert len(found.taus) == 1
