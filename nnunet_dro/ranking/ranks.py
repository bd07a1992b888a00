"""Ranking schemes: from the scores of teams to ranks, for all cases, strata and resamples alike.

Source: Wiesenfarth et al. 2021, Methods and open-source toolkit for analyzing and visualizing
challenge results, Scientific Reports 11:2369; Maier-Hein et al. 2018, Why rankings of biomedical
image analysis competitions should be interpreted with care, Nature Communications 9:5217.
"""

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray, Int64Array
from nnunet_dro.choices import RankingScheme
from nnunet_dro.ranking.contest import Contest, competition_ranks
from nnunet_dro.ranking.signed_rank import ROWS_AT_ONCE, resampled_z

#: The metric and the label of what is over all tasks.
OVERALL = "all"

#: Family-wise error rate of the tests of one task.
LEVEL = 0.05

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


def task_scores(
    contest: Contest, scheme: RankingScheme, counts: Int64Array | None = None
) -> FloatArray:
    """What a scheme ranks the teams by in each task, larger is better (ranks have a minus).

    Shape (n_resamples, n_tasks, n_teams); NaN where no unit of the team counts. ``counts`` is how
    often each unit is in each resample, shape (n_resamples, n_units); None takes every unit once,
    and then tests are exact where they can be.
    """
    if scheme is RankingScheme.TEST:
        return _wins(contest, counts)

    values = contest.scores
    if scheme in (RankingScheme.RANK_MEAN, RankingScheme.RANK_MEDIAN):
        values = -contest.unit_ranks
    if scheme in (RankingScheme.MEAN, RankingScheme.RANK_MEAN):
        return _means(values, counts)
    return _medians(values, counts)


def consensus(task_ranks: FloatArray, weights: FloatArray) -> FloatArray:
    """Minus the weighted mean of the ranks (..., n_tasks, n_teams) over the tasks that have any.

    The order of the mean ranks has the smallest sum of squared distances to the rankings of all
    tasks. NaN where no task has ranks.
    """
    counted = ~np.isnan(task_ranks)
    weights_of_ranks = np.where(counted, weights[:, None], 0.0)
    total = weights_of_ranks.sum(axis=-2)
    sums = (np.where(counted, task_ranks, 0.0) * weights_of_ranks).sum(axis=-2)
    return np.asarray(-sums / np.where(total, total, np.nan))


def overall_ranks(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """The ranks (..., n_teams) over all tasks: by the mean of the ranks per task.

    From `task_scores`.
    """
    return competition_ranks(consensus(competition_ranks(scores), weights))


def worst_scores(scores: FloatArray) -> FloatArray:
    """The score of each team in its worst stratum, from shape (n_strata, n_tasks, n_teams).

    NaN where none has one.
    """
    return np.asarray(np.fmin.reduce(scores, axis=0))


def _means(values: FloatArray, counts: Int64Array | None) -> FloatArray:
    """Weighted means of the values that there are, shape (n_resamples, n_tasks, n_teams)."""
    n_tasks, n_teams, n_units = values.shape
    rows = values.reshape(n_tasks * n_teams, n_units)
    counted = ~np.isnan(rows)
    weights = np.ones((1, n_units)) if counts is None else counts.astype(np.float64)
    sums = weights @ np.where(counted, rows, 0.0).T
    n = weights @ counted.T.astype(np.float64)
    means = sums / np.where(n, n, np.nan)
    return np.asarray(means.reshape(len(weights), n_tasks, n_teams))


def _medians(values: FloatArray, counts: Int64Array | None) -> FloatArray:
    """Weighted medians of the values that there are, shape (n_resamples, n_tasks, n_teams)."""
    n_tasks, n_teams, n_units = values.shape
    rows = values.reshape(n_tasks * n_teams, n_units)
    order = np.argsort(rows, axis=1, kind="stable")
    ascending = np.take_along_axis(rows, order, axis=1)
    # Where there is nothing, the places of the two middle values lead to NaN.
    ascending = np.pad(ascending, ((0, 0), (0, 1)), constant_values=np.nan)
    is_value = ~np.isnan(rows)

    if counts is None:
        n = is_value.sum(axis=1, keepdims=True)
        lower = np.where(n, (n - 1) // 2, n_units)
        upper = np.where(n, n // 2, n_units)
    else:
        lower, upper = _middle_places(order, is_value, counts)

    middle = np.take_along_axis(ascending, lower, axis=1)
    sums = middle + np.take_along_axis(ascending, upper, axis=1)
    return np.asarray((sums / 2).T.reshape(-1, n_tasks, n_teams))


def _middle_places(
    order: Int64Array, is_value: BoolArray, counts: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """The places of the two middle ones of the values that are drawn of each row.

    Args:
        order: The units of each row in the ascending order of their values, (n_rows, n_units).
        is_value: Whether each unit of each row has a value, (n_rows, n_units).
        counts: How often each unit is drawn in each resample, (n_resamples, n_units).

    Returns:
        The places of the lower and of the upper one in ``order``, both (n_rows, n_resamples). They
        are the same for an odd number of values, and n_units where no value is drawn.
    """
    n_units = order.shape[1]
    n_drawn = is_value.astype(np.float64) @ counts.T.astype(np.float64)
    # Numbers and places take as few bytes as hold them all: then they stay in the cache.
    kind = np.min_scalar_type(int(n_drawn.max(initial=n_units)) + 1)
    n = n_drawn.astype(kind)
    n_below_lower = (n + 1) // 2
    n_below_upper = n // 2 + 1

    # A unit more, which is drawn nowhere, stands for those without a value.
    units = np.where(np.take_along_axis(is_value, order, axis=1), order, n_units)
    drawn = np.pad(counts.T.astype(kind, order="C"), ((0, 1), (0, 0)))

    lower = np.zeros_like(n)
    upper = np.zeros_like(n)
    for start in range(0, len(n), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        n_up_to = np.zeros_like(n[part])
        for units_of_place in units[part].T:
            n_up_to += drawn[units_of_place]
            lower[part] += n_up_to < n_below_lower[part]
            upper[part] += n_up_to < n_below_upper[part]

    return np.where(n, lower, n_units), np.where(n, upper, n_units)


def pairwise_p(contest: Contest) -> FloatArray:
    """The p value of each team (row) being better than each other one (column), by task.

    Not corrected for their number.
    """
    _, first, second = contest.unit_differences
    n_tasks, n_teams = contest.goodness.shape[:2]
    p = np.full((n_tasks, n_teams, n_teams), np.nan)
    p[:, first, second], p[:, second, first] = contest.unit_tests
    return p


def _wins(contest: Contest, counts: Int64Array | None) -> FloatArray:
    """The number of teams over which each team is significantly better."""
    _, first, second = contest.unit_differences
    n_tasks, n_teams = contest.goodness.shape[:2]
    n_resamples = 1 if counts is None else len(counts)
    # Of each pair, which team is the first one and which the second one.
    is_first = np.equal.outer(first, np.arange(n_teams)).astype(np.float32)
    is_second = np.equal.outer(second, np.arange(n_teams)).astype(np.float32)

    wins = np.full((n_resamples, n_tasks, n_teams), np.nan)
    for task in np.flatnonzero(contest.defined.any(axis=1)).tolist():
        is_greater, is_significant = _tested(contest, task, counts)
        wins[:, task] = (is_significant & is_greater).astype(np.float32) @ is_first
        wins[:, task] += (is_significant & ~is_greater).astype(np.float32) @ is_second
    return wins


def _tested(contest: Contest, task: int, counts: Int64Array | None) -> tuple[BoolArray, BoolArray]:
    """Whether the first team of each pair is the better one, and whether that is significant.

    Both have the shape (n_resamples, n_pairs).
    """
    n_pairs = contest.unit_differences[0].shape[1]
    # Each pair is tested in both directions.
    n_left = 2 * n_pairs - np.arange(n_pairs)
    if counts is None:
        greater, less = contest.unit_tests[:, task, None]
        return greater < less, _significant(-np.minimum(greater, less), -LEVEL / n_left)

    z = resampled_z(contest.unit_differences[0][task], counts)
    return z > 0, _significant(np.abs(z), _normal_limits(n_pairs))


@cache
def _normal_limits(n_pairs: int) -> FloatArray:
    """The deviations whose one-sided p values are those that Holm's correction compares with."""
    normal = NormalDist()
    return np.array([-normal.inv_cdf(LEVEL / (2 * n_pairs - place)) for place in range(n_pairs)])


def _significant(evidence: FloatArray, limits: FloatArray) -> BoolArray:
    """Which tests of each row are significant by Holm's correction.

    Evidence is a number that is larger for a smaller p value; ``limits`` has that of the p values
    `LEVEL` / (n_tests - i + 1). The i-th smallest p value is compared with the i-th of them, and
    none after the first one that fails is significant. The tests that are not in ``evidence`` have
    larger p values than 0.5: of the two directions of a pair only one can be significant.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    clearest_first = -np.sort(-evidence, axis=-1)
    fails = clearest_first < limits
    first_failure = fails.argmax(axis=-1)[..., None]
    limit = np.take_along_axis(clearest_first, first_failure, axis=-1)
    limit = np.where(fails.any(axis=-1, keepdims=True), limit, -np.inf)
    return np.asarray(evidence > limit)


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
    n_samples: int  # number of samples that have ranks

    @property
    def tau(self) -> tuple[float, float, float, float]:
        """The mean, the median and the ends of the 95 % interval of ``taus``; NaN without any."""
        taus = self.taus[~np.isnan(self.taus)]
        if not len(taus):
            return (np.nan,) * 4
        median, low, high = np.quantile(taus, (0.5, 0.025, 0.975)).tolist()
        return float(taus.mean()), median, low, high


def draw_units(n_units: int, n_samples: int, rng: np.random.Generator) -> Int64Array:
    """How often each unit is in each bootstrap sample of as many, shape (n_samples, n_units)."""
    chances = np.full(n_units, 1 / n_units)
    return rng.multinomial(n_units, chances, size=n_samples).astype(np.int64)


def stability(full: FloatArray, sampled: FloatArray) -> Stability:
    """How the ranks of samples (n_samples, n_teams) vary around the full ones (n_teams,).

    A sample in which no unit counts has no ranks and is left out, if others have.
    """
    has_ranks = ~np.isnan(sampled).any(axis=1)
    sampled = sampled[has_ranks] if has_ranks.any() else sampled[:1]

    places = np.arange(1, len(full) + 1)
    shares = np.stack([(sampled == place).mean(axis=0) for place in places], axis=1)
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
        n_samples=int(has_ranks.sum()),
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
    scale = np.sqrt(n_untied * (expected**2).sum())
    taus = (signs @ expected) / np.where(scale, scale, np.nan)
    return np.where((scale == 0) & expected.any(), 0.0, taus)
