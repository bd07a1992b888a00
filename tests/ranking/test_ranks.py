"""Ranking schemes: hand-computed examples of the published definitions, brute force, bootstrapped
ranks."""

import warnings
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from nnunet_dro.choices import RankingScheme
from nnunet_dro.ranking.contest import Contest, competition_ranks
from nnunet_dro.ranking.ranks import (
    draw_units,
    kendall_tau,
    overall_ranks,
    pairwise_p,
    stability,
    task_scores,
    worst_scores,
)
from tests.ranking.test_signed_rank import scipys

MEAN, MEDIAN, RANK_MEAN, RANK_MEDIAN, TEST = RankingScheme


def bootstrapped(contest, scheme, counts):
    """How the ranks over all tasks vary in samples of the units."""
    full = overall_ranks(task_scores(contest, scheme), contest.weights)[0]
    return stability(full, overall_ranks(task_scores(contest, scheme, counts), contest.weights))


def contest_of(values, units=None, weights=None):
    """Scores of shape (n_teams, n_cases), or (n_tasks, n_teams, n_cases); inf stands for a label
    that was rightly left out."""
    goodness = np.array(values, dtype=float)
    goodness = goodness if goodness.ndim == 3 else goodness[None]
    scores = np.where(np.isposinf(goodness), np.nan, goodness)
    goodness = np.where(np.isposinf(goodness), 1.0, goodness)
    units = np.arange(goodness.shape[2]) if units is None else np.array(units)
    weights = np.ones(len(goodness)) if weights is None else np.array(weights)
    return Contest.of_cases(scores, goodness, units, weights)


def ranks(values, scheme, counts=None, weights=None):
    contest = contest_of(values, weights=weights)
    return overall_ranks(task_scores(contest, scheme, counts), contest.weights)[0].tolist()


# Team A wins three of four cases by a little and loses one by a lot.
A_WINS_CASES = [[0.90, 0.80, 0.70, 0.10], [0.89, 0.79, 0.69, 0.60], [0.50, 0.40, 0.30, 0.50]]


def test_aggregate_then_rank_and_rank_then_aggregate_differ_as_published():
    # Means 0.625, 0.7425, 0.425; case ranks of A 1, 1, 1, 3 and of B 2, 2, 2, 1: means 1.5 and
    # 1.75.
    assert ranks(A_WINS_CASES, MEAN) == [2, 1, 3]
    assert ranks(A_WINS_CASES, RANK_MEAN) == [1, 2, 3]
    assert task_scores(contest_of(A_WINS_CASES), RANK_MEAN)[0, 0].tolist() == [-1.5, -1.75, -2.75]
    # Medians 0.75, 0.74, 0.45; median ranks 1, 2, 3.
    assert ranks(A_WINS_CASES, MEDIAN) == [1, 2, 3]
    assert ranks(A_WINS_CASES, RANK_MEDIAN) == [1, 2, 3]


def test_test_based_ranking_counts_significant_wins():
    # With 5 cases, one-sided p is at best 1/32: times 6 pairs it is not significant. With 8, 1/256
    # * 6 = 0.023 is.
    steps = np.arange(8) / 100
    values = [0.8 + steps**2, 0.6 + steps / 7, 0.6 + steps / 7]

    assert task_scores(contest_of(values), TEST)[0, 0].tolist() == [2, 0, 0]
    assert ranks(values, TEST) == [1, 2, 2]
    assert ranks([v[:5] for v in values], TEST) == [1, 1, 1]


def test_equal_teams_share_a_rank_and_those_that_failed_nowhere_are_first():
    assert competition_ranks(np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [2, 1, 2, 4]
    assert competition_ranks(np.array([0.1 + 0.2, 0.3])).tolist() == [1, 1]
    # Volumes of cells are this small.
    assert competition_ranks(np.array([1e-11, 2e-11, 3e-11])).tolist() == [3, 2, 1]
    # Without a score where others have one, a team was right in every case.
    assert competition_ranks(np.array([0.5, np.nan, np.nan])).tolist() == [3, 1, 1]
    assert np.isnan(competition_ranks(np.full(2, np.nan))).all()
    # Two teams are right to find nothing in the first case; the other one invents it.
    contest = contest_of([[np.inf, 0.9], [0.0, 0.1], [np.inf, 0.5]])
    assert contest.unit_ranks[0].T.tolist() == [[1, 3, 1], [1, 3, 2]]
    assert task_scores(contest, MEAN)[0, 0].tolist() == [0.9, 0.05, 0.5]

    values = [[0.1, np.nan, 0.5], [0.2, np.nan, 0.3]]
    for scheme in RankingScheme:
        expected = task_scores(contest_of([[0.1, 0.5], [0.2, 0.3]]), scheme)
        assert task_scores(contest_of(values), scheme).tolist() == expected.tolist()


@pytest.mark.parametrize("scheme", RankingScheme)
def test_a_task_without_any_value_has_no_ranks(scheme):
    values = np.full((2, 2, 3), np.nan)
    values[1] = [[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]]

    scores = task_scores(contest_of(values), scheme)

    assert np.isnan(scores[0, 0]).all()
    both = overall_ranks(scores, np.ones(2))
    assert both.tolist() == overall_ranks(scores[:, 1:], np.ones(1)).tolist()


def test_tasks_count_by_weight_and_the_worst_stratum_is_each_teams_own():
    # Ranks 1, 2, 3 and 3, 1, 2 and 3, 2, 1 have the means 7/3, 5/3 and 2, whatever the size of the
    # differences.
    tasks = [[[0.9], [0.1], [0.0]], [[0.1], [0.3], [0.2]], [[0.1], [0.2], [0.3]]]
    assert ranks(tasks, MEAN) == [3, 1, 2]
    # With weights 3, 1 and 1: 9/5, 9/5 and 12/5.
    assert ranks(tasks, MEAN, weights=[3, 1, 1]) == [1, 1, 3]
    # The worst stratum is each team's own.
    assert worst_scores(np.array([[[0.9, 0.6]], [[0.2, 0.5]], [[np.nan, np.nan]]])).tolist() == [
        [0.2, 0.5]
    ]
    assert np.isnan(worst_scores(np.full((2, 1, 2), np.nan))).all()


def brute_force(values, scheme):
    """Scores by the words of the definitions, case by case and pair by pair."""
    n_teams = len(values)
    goodness = np.where(np.isinf(values), 1.0, values)
    case_ranks = np.array([rankdata(-column, method="min") for column in goodness.T]).T
    own = [row[~np.isinf(row)] for row in values]
    if scheme in (MEAN, MEDIAN):
        return [{MEAN: np.mean, MEDIAN: np.median}[scheme](row) for row in own]
    if scheme in (RANK_MEAN, RANK_MEDIAN):
        return [-{RANK_MEAN: np.mean, RANK_MEDIAN: np.median}[scheme](row) for row in case_ranks]
    p = {
        (i, j): scipys(goodness[i] - goodness[j], "greater")
        for i, j in permutations(range(n_teams), 2)
    }
    wins = [0] * n_teams
    for place, (i, j) in enumerate(sorted(p, key=p.get)):
        if p[i, j] * (len(p) - place) > 0.05:
            break
        wins[i] += 1
    return wins


def random_values(seed, n_teams=5, n_cases=30, decimals=2):
    rng = np.random.default_rng(seed)
    values = np.clip(
        0.8 + np.linspace(0.1, 0, n_teams)[:, None] + rng.normal(0, 0.1, (n_teams, n_cases)), 0, 1
    )
    values = np.round(values, decimals)
    # Labels that the reference lacks: rightly left out, or invented.
    is_absent = rng.random(n_cases) < 0.2
    values[:, is_absent] = np.where(rng.random(values[:, is_absent].shape) < 0.7, np.inf, 0.0)
    return values


@pytest.mark.parametrize("scheme", RankingScheme)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_cases", "decimals"), [(7, 6), (30, 2), (70, 6)])
def test_scores_are_those_of_a_brute_force_recomputation(scheme, seed, n_cases, decimals):
    values = random_values(seed, n_cases=n_cases, decimals=decimals)
    np.testing.assert_allclose(
        task_scores(contest_of(values), scheme)[0, 0], brute_force(values, scheme), rtol=1e-12
    )


@pytest.mark.parametrize("scheme", RankingScheme)
def test_a_resample_is_ranked_like_cases_that_are_repeated(scheme):
    values = random_values(3, n_teams=4, n_cases=60, decimals=6)
    counts = draw_units(60, 5, np.random.default_rng(0))

    for counted, scores in zip(
        counts, task_scores(contest_of(values), scheme, counts), strict=True
    ):
        np.testing.assert_allclose(
            scores[0], brute_force(np.repeat(values, counted, axis=1), scheme), rtol=1e-12
        )


def test_of_a_patient_with_several_cases_the_mean_difference_is_tested():
    values = np.random.default_rng(4).random((3, 24))
    units = np.arange(24) // 2
    by_patient = values.reshape(3, 12, 2).mean(axis=2)
    found = pairwise_p(contest_of(values, units))

    expected = pairwise_p(contest_of(by_patient))

    np.testing.assert_allclose(found, expected)


def test_tests_take_differences_for_equal_that_are_so_but_for_rounding():
    thirds = np.array([[2, 3, 2, 1, 1, 3], [1, 2, 3, 2, 0, 1]]) / 3
    # Quarters of the same order have exact differences.
    exact = thirds * 3 / 4

    np.testing.assert_array_equal(pairwise_p(contest_of(thirds)), pairwise_p(contest_of(exact)))


grids = st.integers(2, 5).flatmap(
    lambda n_teams: st.lists(
        st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=n_teams, max_size=n_teams),
        min_size=1,
        max_size=8,
    ).map(lambda rows: np.array(rows).T)
)


@settings(max_examples=20)
@given(values=grids, data=st.data())
def test_order_and_scale_do_not_matter_and_identical_teams_tie(values, data):
    teams = data.draw(st.permutations(range(len(values))))
    cases = data.draw(st.permutations(range(values.shape[1])))
    doubled = np.concatenate([values, values[:1]])
    counts = draw_units(values.shape[1], 3, np.random.default_rng(0))
    for scheme in RankingScheme:
        expected = np.array(ranks(values, scheme))
        assert ranks(values[teams][:, cases], scheme) == expected[teams].tolist()
        if scheme in (RANK_MEAN, RANK_MEDIAN):
            assert ranks(np.exp(3 * values) - 7, scheme) == expected.tolist()
        for counted in (None, counts):
            found = overall_ranks(task_scores(contest_of(doubled), scheme, counted), np.ones(1))
            assert found[:, 0].tolist() == found[:, -1].tolist()


def test_tau_is_that_of_scipy():
    rng = np.random.default_rng(0)
    rankings = rng.integers(1, 6, (50, 7)).astype(float)
    reference = np.array([1, 2, 2, 4, 5, 6, 6.0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [kendalltau(ranking, reference).statistic for ranking in rankings]

    np.testing.assert_allclose(kendall_tau(rankings, reference), expected)
    assert kendall_tau(np.ones((1, 7)), reference) == 0, "a ranking without order agrees with none"
    assert np.isnan(kendall_tau(rankings, np.ones(7))).all()
    assert np.isnan(kendall_tau(np.full((1, 7), np.nan), reference)).all()


def test_samples_draw_as_many_units_and_patients_whole():
    counts = draw_units(7, 100, np.random.default_rng(0))
    assert counts.shape == (100, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert (counts == draw_units(7, 100, np.random.default_rng(0))).all()

    contest = contest_of(np.random.default_rng(0).random((2, 6)), units=[0, 0, 1, 1, 2, 2])
    assert contest.n_units == 3

    found = bootstrapped(contest, RankingScheme.MEAN, draw_units(3, 50, np.random.default_rng(0)))
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)


@pytest.mark.parametrize("n_units", [254, 255, 256, 66_000])
def test_medians_of_samples_are_right_for_any_number_of_units(n_units):
    values = np.random.default_rng(0).random((1, n_units))
    each_once = np.ones((1, n_units), dtype=np.int64)

    (found,) = task_scores(contest_of(values), MEDIAN, each_once)

    np.testing.assert_allclose(found, [[np.median(values)]])


def test_shares_are_the_exact_chances_of_two_cases():
    # Samples: both cases (half of them), the first one twice, the second one twice (a quarter
    # each).
    contest = contest_of([[0.9, 0.1], [0.3, 0.4]])
    found = bootstrapped(contest, RankingScheme.MEAN, np.array([[1, 1], [1, 1], [2, 0], [0, 2]]))

    assert found.shares.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert [ranks.tolist() for ranks in (found.low, found.median, found.high)] == [
        [1, 1],
        [1, 2],
        [2, 2],
    ]
    assert sorted(found.taus.tolist()) == [-1, 1, 1, 1]


def test_a_sample_without_any_value_is_left_out():
    found = bootstrapped(
        contest_of([[0.9, np.nan], [0.3, np.nan]]), RankingScheme.MEAN, np.array([[1, 1], [0, 2]])
    )
    assert found.shares.tolist() == [[1, 0], [0, 1]]
    assert len(found.taus) == 1

    nothing = bootstrapped(
        contest_of([[0.9, np.nan], [0.3, np.nan]]), RankingScheme.MEAN, np.array([[0, 2]])
    )
    assert np.isnan([*nothing.low, *nothing.high, *nothing.taus]).all()
    assert not nothing.shares.any()
