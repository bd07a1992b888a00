"""Ranking schemes: from the scores of teams to ranks, for all cases, strata and resamples alike.

Source: Wiesenfarth et al. 2021, Methods and open-source toolkit for analyzing and visualizing
challenge results, Scientific Reports 11:2369; Maier-Hein et al. 2018, Why rankings of biomedical
image analysis competitions should be interpreted with care, Nature Communications 9:5217.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.ranking.from_evaluations import Contest, FloatArray
from nnunet_dro.ranking.signed_rank import IntArray, one_sided_p, resampled_p

#: Family-wise error rate of the tests of one task.
LEVEL = 0.05

#: Scores that differ by less are equal: sums in another order differ by rounding.
_DECIMALS = 10

#: What each scheme is called.
TITLES = {
    RankingScheme.MEAN: "mean, then rank",
    RankingScheme.MEDIAN: "median, then rank",
    RankingScheme.RANK_MEAN: "rank, then mean",
    RankingScheme.RANK_MEDIAN: "rank, then median",
    RankingScheme.TEST: "significant wins",
}

#: What each scheme does.
DEFINITIONS = {
    RankingScheme.MEAN: (
        "Aggregate-then-rank: teams are ranked by the mean of their scores over the cases."
    ),
    RankingScheme.MEDIAN: "Aggregate-then-rank with the median in place of the mean.",
    RankingScheme.RANK_MEAN: (
        "Rank-then-aggregate: teams are ranked in every case, then by the mean of these ranks."
    ),
    RankingScheme.RANK_MEDIAN: "Rank-then-aggregate with the median in place of the mean.",
    RankingScheme.TEST: (
        "Test-based: teams are ranked by the number of teams over which they are significantly "
        "better (one-sided Wilcoxon signed-rank tests of all pairs in one task, Holm's correction, "
        f"{100 * LEVEL:g} %)."
    ),
}


def ranks_of(scores: FloatArray) -> FloatArray:
    """Ranks over the last axis: one plus the number of teams that are better.

    NaN where the score is.
    """
    ranks = rankdata(
        -np.round(scores, _DECIMALS),
        method="min",
        axis=-1,
        nan_policy="omit",
    )
    return np.asarray(ranks, dtype=np.float64)


def task_scores(
    contest: Contest, scheme: RankingScheme, counts: IntArray | None = None
) -> FloatArray:
    """What a scheme ranks the teams by in each task, larger is better (ranks have a minus).

    Shape (n_resamples, n_tasks, n_teams); NaN where no case counts. ``counts`` is how often each
    unit is in each resample, shape (n_resamples, n_units); None takes every case once, and then
    tests are exact where they can be.
    """
    if scheme is RankingScheme.TEST:
        return _wins(contest, counts)

    values = contest.filled
    if scheme in (RankingScheme.RANK_MEAN, RankingScheme.RANK_MEDIAN):
        values = -contest.case_ranks
    weights = np.ones((1, len(contest.units)), dtype=np.int64)
    if counts is not None:
        weights = counts[:, contest.units]

    if scheme in (RankingScheme.MEAN, RankingScheme.RANK_MEAN):
        return _means(values, contest, weights)
    return _medians(values, contest, weights)


def consensus(task_ranks: FloatArray) -> FloatArray:
    """Minus the mean of the ranks (..., n_tasks, n_teams) over the tasks that have any.

    NaN where none has.
    """
    counted = ~np.isnan(task_ranks)
    n = counted.sum(axis=-2)
    sums = np.where(counted, task_ranks, 0.0).sum(axis=-2)
    with np.errstate(invalid="ignore"):
        return -sums / np.where(n, n, np.nan)


def overall_ranks(scores: FloatArray) -> FloatArray:
    """The ranks (..., n_teams) over all tasks: by the mean of the ranks per task.

    From `task_scores`.
    """
    return ranks_of(consensus(ranks_of(scores)))


def worst_scores(scores: FloatArray) -> FloatArray:
    """The score of each team in its worst stratum, from shape (n_strata, n_tasks, n_teams).

    NaN where none has one.
    """
    return np.asarray(np.fmin.reduce(scores, axis=0))


def _means(values: FloatArray, contest: Contest, weights: IntArray) -> FloatArray:
    """Weighted means over the cases that count, shape (n_resamples, n_tasks, n_teams)."""
    n_tasks, n_teams, n_cases = values.shape
    counted = np.where(contest.defined[:, None], values, 0.0)
    sums = weights.astype(np.float64) @ counted.reshape(n_tasks * n_teams, n_cases).T
    sums = sums.reshape(len(weights), n_tasks, n_teams)
    n = weights @ contest.defined.T.astype(np.int64)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.where(n, n, np.nan)[..., None])


def _medians(values: FloatArray, contest: Contest, weights: IntArray) -> FloatArray:
    """Weighted medians over the cases that count, shape (n_resamples, n_tasks, n_teams)."""
    n_tasks, n_teams, _ = values.shape
    medians = np.full((len(weights), n_tasks, n_teams), np.nan)
    by_case = np.ascontiguousarray(weights.T)

    for task in range(n_tasks):
        inside = np.flatnonzero(contest.defined[task])
        if not len(inside):
            continue
        for team in range(n_teams):
            scores = values[task, team, inside]
            order = np.argsort(scores, kind="stable")
            weights_in_order = by_case[inside[order]]
            medians[:, task, team] = _weighted_medians(scores[order], weights_in_order)

    return medians


def _weighted_medians(ascending: FloatArray, weights: IntArray) -> FloatArray:
    """The median of values, of shape (n,), for each column of weights (n, n_resamples).

    NaN where nothing has a weight.
    """
    last = np.cumsum(weights, axis=0)
    n = last[-1]
    # The two middle ones, which are the same for an odd number.
    lower = (last < (n + 1) // 2).sum(axis=0)
    upper = (last < n // 2 + 1).sum(axis=0)

    medians = np.full(len(n), np.nan)
    some = n > 0
    sums = ascending[lower[some]] + ascending[upper[some]]
    medians[some] = sums / 2
    return medians


def pairwise_p(contest: Contest) -> FloatArray:
    """The p value of each team (row) being better than each other one (column), by task.

    Not corrected for their number.
    """
    differences, first, second = contest.unit_differences
    n_tasks, n_teams = contest.goodness.shape[:2]
    p = np.full((n_tasks, n_teams, n_teams), np.nan)
    for task in range(n_tasks):
        greater, less = one_sided_p(differences[task])
        p[task, first, second] = greater
        p[task, second, first] = less
    return p


def _wins(contest: Contest, counts: IntArray | None) -> FloatArray:
    """The number of teams over which each team is significantly better."""
    differences, first, second = contest.unit_differences
    n_tasks, n_teams = contest.goodness.shape[:2]
    n_pairs = len(first)
    rows = differences.reshape(n_tasks * n_pairs, -1)
    if counts is None:
        greater, less = one_sided_p(rows)
    else:
        greater, less = resampled_p(rows, counts)

    # Both directions of every pair, and the team that is the better one in each.
    p = np.concatenate(
        [
            greater.reshape(-1, n_tasks, n_pairs),
            less.reshape(-1, n_tasks, n_pairs),
        ],
        axis=2,
    )
    is_significant = np.apply_along_axis(holm, 2, p) <= LEVEL
    better = np.concatenate([first, second])
    is_team = np.equal.outer(better, np.arange(n_teams)).astype(np.float64)
    wins = is_significant @ is_team
    return np.where(np.any(contest.defined, axis=1, keepdims=True), wins, np.nan)


@dataclass(frozen=True, eq=False)
class Stability:
    """The distribution of the ranks of one scheme."""

    #: How often each team has each rank, shape (n_teams, n_teams): row team, column rank - 1. Rows
    #: sum to 1.
    shares: FloatArray
    low: FloatArray  # the 2.5th percentile of the rank of each team, shape (n_teams,)
    median: FloatArray  # its median
    high: FloatArray  # its 97.5th percentile
    taus: FloatArray  # `kendall_tau` of each sample's ranking and the full one, shape (n_samples,)


def draw_units(n_units: int, n_samples: int, rng: np.random.Generator) -> IntArray:
    """How often each unit is in each bootstrap sample of as many, shape (n_samples, n_units)."""
    chances = np.full(n_units, 1 / n_units)
    return rng.multinomial(n_units, chances, size=n_samples).astype(np.int64)


def bootstrap_ranks(contest: Contest, scheme: RankingScheme, counts: IntArray) -> Stability:
    """Rank every bootstrap sample.

    A sample in which no case counts has no ranks and is left out, if others have.
    """
    full = overall_ranks(task_scores(contest, scheme))[0]
    sampled = overall_ranks(task_scores(contest, scheme, counts))
    has_ranks = ~np.isnan(sampled).any(axis=1)
    sampled = sampled[has_ranks] if has_ranks.any() else sampled[:1]

    places = np.arange(1, len(full) + 1)
    shares = (sampled[:, :, None] == places).mean(axis=0)
    # Ranks, not numbers between ranks.
    low, median, high = np.quantile(
        sampled,
        (0.025, 0.5, 0.975),
        axis=0,
        method="inverted_cdf",
    )
    return Stability(
        shares=shares,
        low=low,
        median=median,
        high=high,
        taus=kendall_tau(sampled, full),
    )


def kendall_tau(rankings: FloatArray, reference: FloatArray) -> FloatArray:
    """Kendall's tau-b of each ranking and a reference.

    tau = (concordant - discordant) / sqrt((pairs not tied in one) (pairs not tied in the other));
    0 for a ranking that has only ties, and NaN where the reference has only ties or one of the two
    has no ranks. From shapes (n, n_teams) and (n_teams,), shape (n,).
    """
    first, second = np.triu_indices(len(reference), 1)
    signs = np.sign(rankings[:, first] - rankings[:, second])
    expected = np.sign(reference[first] - reference[second])
    n_untied = (signs**2).sum(axis=1)
    n_untied_expected = (expected**2).sum()
    scale = np.sqrt(n_untied * n_untied_expected)
    with np.errstate(invalid="ignore"):
        taus = (signs @ expected) / np.where(scale, scale, np.nan)
    return np.where((scale == 0) & expected.any(), 0.0, taus)
