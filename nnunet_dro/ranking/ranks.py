"""Ranking schemes: from the scores of teams to ranks, for all cases, strata and resamples of them alike.

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

LEVEL = 0.05  # Family-wise error rate of the tests of one task.
_DECIMALS = 10  # Scores that differ by less are equal: sums in another order differ by rounding.

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
    RankingScheme.MEAN: "Aggregate-then-rank: teams are ranked by the mean of their scores over the cases.",
    RankingScheme.MEDIAN: "Aggregate-then-rank with the median in place of the mean.",
    RankingScheme.RANK_MEAN: "Rank-then-aggregate: teams are ranked in every case, then by the mean of these ranks.",
    RankingScheme.RANK_MEDIAN: "Rank-then-aggregate with the median in place of the mean.",
    RankingScheme.TEST: "Test-based: teams are ranked by the number of teams over which they are significantly better "
    f"(one-sided Wilcoxon signed-rank tests of all pairs in one task, Holm's correction, {100 * LEVEL:g} %).",
}


def ranks_of(scores: FloatArray) -> FloatArray:
    """Ranks over the last axis: one plus the number of teams that are better.

    NaN where the score is.
    """
    ranks = rankdata(-np.round(scores, _DECIMALS), method="min", axis=-1, nan_policy="omit")
    return np.asarray(ranks, dtype=np.float64)


def task_scores(
    contest: Contest, scheme: RankingScheme, counts: IntArray | None = None
) -> FloatArray:
    """What a scheme ranks the teams by in each task, larger is better (ranks have a minus).

    NaN where no case counts.

    Shape (n_resamples, n_tasks, n_teams). ``counts`` is how often each unit is in each resample,
    shape (n_resamples, n_units); None takes every case once, and then tests are exact where they
    can be.
    """
    if scheme is RankingScheme.TEST:
        return _wins(contest, counts)
    values = (
        -contest.case_ranks
        if scheme in (RankingScheme.RANK_MEAN, RankingScheme.RANK_MEDIAN)
        else contest.filled
    )
    weights = (
        np.ones((1, len(contest.units)), dtype=np.int64)
        if counts is None
        else counts[:, contest.units]
    )
    if scheme in (RankingScheme.MEAN, RankingScheme.RANK_MEAN):
        return _means(values, contest, weights)
    return _medians(values, contest, weights)


def consensus(task_ranks: FloatArray) -> FloatArray:
    """Minus the mean of the ranks (..., n_tasks, n_teams) over the tasks that have any.

    NaN where none has.
    """
    counted = ~np.isnan(task_ranks)
    n = counted.sum(axis=-2)
    with np.errstate(invalid="ignore"):
        return -np.where(counted, task_ranks, 0.0).sum(axis=-2) / np.where(n, n, np.nan)


def overall_ranks(scores: FloatArray) -> FloatArray:
    """The ranks (..., n_teams) over all tasks.

    Those of the mean of the ranks per task, from `task_scores`.
    """
    return ranks_of(consensus(ranks_of(scores)))


def worst_scores(of_strata: FloatArray) -> FloatArray:
    """The score of each team in its worst stratum, from shape (n_strata, n_tasks, n_teams).

    NaN where none has one.
    """
    return np.asarray(np.fmin.reduce(of_strata, axis=0))


def _means(values: FloatArray, contest: Contest, weights: IntArray) -> FloatArray:
    n_tasks, n_teams, n_cases = values.shape
    counted = np.where(contest.defined[:, None], values, 0.0).reshape(n_tasks * n_teams, n_cases)
    sums = (weights.astype(np.float64) @ counted.T).reshape(len(weights), n_tasks, n_teams)
    n = weights @ contest.defined.T.astype(np.int64)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / np.where(n, n, np.nan)[..., None])


def _medians(values: FloatArray, contest: Contest, weights: IntArray) -> FloatArray:
    n_tasks, n_teams, _ = values.shape
    medians = np.full((len(weights), n_tasks, n_teams), np.nan)
    by_case = np.ascontiguousarray(weights.T)
    for task in range(n_tasks):
        inside = np.flatnonzero(contest.defined[task])
        for team in range(n_teams):
            order = inside[np.argsort(values[task, team, inside], kind="stable")]
            if not len(order):
                continue
            last = np.cumsum(by_case[order], axis=0)
            n = last[-1]
            # The two middle ones, which are the same for an odd number.
            lower, upper = ((last < k).sum(axis=0) for k in ((n + 1) // 2, n // 2 + 1))
            some = n > 0
            ordered = values[task, team, order]
            medians[some, task, team] = (ordered[lower[some]] + ordered[upper[some]]) / 2
    return medians


def pairwise_p(contest: Contest) -> FloatArray:
    """The p value of each team (row) being better than each other one (column), by task, not corrected."""
    differences, first, second = contest.unit_differences
    n_tasks, n_teams = contest.goodness.shape[:2]
    p = np.full((n_tasks, n_teams, n_teams), np.nan)
    for task in range(n_tasks):
        p[task, first, second], p[task, second, first] = one_sided_p(differences[task])
    return p


def _wins(contest: Contest, counts: IntArray | None) -> FloatArray:
    differences, first, second = contest.unit_differences
    n_tasks, n_teams = contest.goodness.shape[:2]
    rows = differences.reshape(n_tasks * len(first), -1)
    directions = one_sided_p(rows) if counts is None else resampled_p(rows, counts)
    p = np.concatenate([d.reshape(-1, n_tasks, len(first)) for d in directions], axis=2)
    of_team = np.equal.outer(np.concatenate([first, second]), np.arange(n_teams)).astype(np.float64)
    wins = (np.apply_along_axis(holm, 2, p) <= LEVEL) @ of_team
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
    """How often each unit is in each bootstrap sample of as many units, shape (n_samples, n_units)."""
    return rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=n_samples).astype(np.int64)


def bootstrap_ranks(contest: Contest, scheme: RankingScheme, counts: IntArray) -> Stability:
    """Rank every bootstrap sample.

    One in which no case counts has no ranks and is left out, if others have.
    """
    full = overall_ranks(task_scores(contest, scheme))[0]
    sampled = overall_ranks(task_scores(contest, scheme, counts))
    ranked = sampled[~np.isnan(sampled).any(axis=1)]
    sampled = ranked if len(ranked) else sampled[:1]
    shares = (sampled[:, :, None] == np.arange(1, len(full) + 1)).mean(axis=0)
    # Ranks, not numbers between ranks.
    low, median, high = np.quantile(sampled, (0.025, 0.5, 0.975), axis=0, method="inverted_cdf")
    return Stability(shares, low, median, high, kendall_tau(sampled, full))


def kendall_tau(rankings: FloatArray, reference: FloatArray) -> FloatArray:
    """Kendall's tau-b of each ranking and a reference.

    tau = (concordant - discordant) / sqrt((pairs not tied in one) (pairs not tied in the other)),

    0 for a ranking that has only ties, and NaN where the reference has, or one of the two has no
    ranks. From shapes (n, n_teams) and (n_teams,), shape (n,).
    """
    first, second = np.triu_indices(len(reference), 1)
    signs = np.sign(rankings[:, first] - rankings[:, second])
    expected = np.sign(reference[first] - reference[second])
    scale = np.sqrt((signs**2).sum(axis=1) * (expected**2).sum())
    with np.errstate(invalid="ignore"):
        taus = (signs @ expected) / np.where(scale, scale, np.nan)
    return np.where((scale == 0) & expected.any(), 0.0, taus)
