"""How stable ranks are: their distribution over bootstrap samples, and the agreement of rankings."""

from dataclasses import dataclass

import numpy as np

from nnunet_dro.choices import RankingScheme
from nnunet_dro.ranking.contest import Contest, FloatArray
from nnunet_dro.ranking.ranks import IntArray, overall_ranks, task_scores


@dataclass(frozen=True, eq=False)
class Stability:
    """The distribution of the ranks of one scheme.

    Attributes:
        shares: How often each team has each rank, shape (n_teams, n_teams): row team, column rank - 1. Rows sum to 1.
        low: The 2.5th percentile of the rank of each team, shape (n_teams,).
        median: Its median.
        high: Its 97.5th percentile.
        taus: Kendall's tau of each sample's ranking and the full one, shape (n_samples,); NaN where one of the two has
            only ties.
    """

    shares: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray
    taus: FloatArray


def draw_units(n_units: int, n_samples: int, rng: np.random.Generator) -> IntArray:
    """How often each unit is in each bootstrap sample of as many units, shape (n_samples, n_units)."""
    return rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=n_samples).astype(np.int64)


def bootstrap_ranks(contest: Contest, scheme: RankingScheme, counts: IntArray) -> Stability:
    """Rank every bootstrap sample; one in which no case counts has no ranks and is left out."""
    full = overall_ranks(task_scores(contest, scheme))[0]
    sampled = overall_ranks(task_scores(contest, scheme, counts))
    sampled = sampled[~np.isnan(sampled).any(axis=1)]
    n_teams = len(full)
    places = np.arange(1, n_teams + 1)
    shares = (sampled[:, :, None] == places).mean(axis=0)
    # Ranks, not numbers between ranks.
    low, median, high = np.quantile(sampled, (0.025, 0.5, 0.975), axis=0, method="inverted_cdf")
    return Stability(shares, low, median, high, kendall_tau(sampled, full))


def kendall_tau(rankings: FloatArray, reference: FloatArray) -> FloatArray:
    """Kendall's tau-b of each ranking and a reference.

    tau = (concordant - discordant) / sqrt((pairs not tied in one) (pairs not tied in the other)),

    NaN where one of the two has only ties or no ranks. From shapes (n, n_teams) and (n_teams,), shape (n,).
    """
    first, second = np.triu_indices(len(reference), 1)
    signs = np.sign(rankings[:, first] - rankings[:, second])
    expected = np.sign(reference[first] - reference[second])
    scale = np.sqrt((signs**2).sum(axis=1) * (expected**2).sum())
    with np.errstate(invalid="ignore"):
        return np.asarray((signs @ expected) / np.where(scale, scale, np.nan))
