"""The tables of a ranking as data frames: one row per team, pair of teams, or case."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.ranking.from_evaluations import Contest, Entries, FloatArray
from nnunet_dro.ranking.ranks import (
    LEVEL,
    Stability,
    consensus,
    kendall_tau,
    overall_ranks,
    pairwise_p,
    ranks_of,
)
from nnunet_dro.ranking.signed_rank import IntArray

OVERALL = "all"  # The metric and the label of the rows over all tasks.

RANK_COLUMNS = (
    "kind",
    "attribute",
    "stratum",
    "n",
    "scheme",
    "metric",
    "label",
    "team",
    "score",
    "rank",
)
AGREEMENT_COLUMNS = ("kind", "attribute", "stratum", "n", "scheme", "kendall_tau")
BOOTSTRAP_COLUMNS = ("scheme", "team", "rank", "rank_low", "rank_median", "rank_high")

#: What gives scores their sign again, which schemes rank by such that larger is better. Without one
#: here it is the sign of the task.
_SIGNS = {
    RankingScheme.TEST.value: 1.0,
    RankingScheme.RANK_MEAN.value: -1.0,
    RankingScheme.RANK_MEDIAN.value: -1.0,
}


class About(NamedTuple):
    """What is ranked, and how, in the first columns of the tables."""

    kind: str
    attribute: str
    stratum: str
    n: int
    scheme: str


def rank_table(
    entries: Entries, rankings: Mapping[About, FloatArray], order: Sequence[int]
) -> pd.DataFrame:
    """The ranks of the teams in each of the rankings, over all tasks and in each task.

    Rankings have what the teams are ranked by, shape (n_tasks, n_teams).
    """
    rows: list[tuple[Any, ...]] = []
    for about, scores in rankings.items():
        task_ranks = ranks_of(scores)
        mean_ranks = -consensus(task_ranks)
        overall = overall_ranks(scores)

        for team in order:
            name = entries.teams[team]
            rows.append((*about, OVERALL, OVERALL, name, mean_ranks[team], overall[team]))

        for position, task in enumerate(entries.tasks):
            # + 0.0 turns -0.0 into 0.0.
            sign = _SIGNS.get(about.scheme, task.sign)
            shown = sign * scores[position] + 0.0
            ranks = task_ranks[position]
            for team in order:
                name = entries.teams[team]
                rows.append((*about, task.metric, task.label, name, shown[team], ranks[team]))
    return pd.DataFrame(rows, columns=list(RANK_COLUMNS))


def agreement_table(
    rankings: Mapping[About, FloatArray], full: Mapping[str, FloatArray]
) -> pd.DataFrame:
    """Kendall's tau of each ranking and that of all cases, whose ranks are ``full``, by scheme."""
    rows = []
    for about, scores in rankings.items():
        if about.kind != "all":
            ranks = overall_ranks(scores)
            tau = kendall_tau(ranks[None], full[about.scheme])[0]
            rows.append((*about, float(tau)))
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def bootstrap_table(
    entries: Entries,
    samples: Mapping[RankingScheme, Stability],
    full: Mapping[str, FloatArray],
    order: Sequence[int],
) -> pd.DataFrame:
    """The distribution of the rank of each team in the bootstrap samples."""
    rows = []
    for scheme, stability in samples.items():
        for team in order:
            interval = (stability.low[team], stability.median[team], stability.high[team])
            rank = full[scheme.value][team]
            row = (scheme.value, entries.teams[team], rank, *interval, *stability.shares[team])
            rows.append(row)

    shares = [f"share_{place + 1}" for place in range(len(entries.teams))]
    return pd.DataFrame(rows, columns=[*BOOTSTRAP_COLUMNS, *shares])


def tau_table(samples: Mapping[RankingScheme, Stability]) -> pd.DataFrame:
    """How much the rankings of the bootstrap samples agree with that of all cases."""
    rows = []
    for scheme, stability in samples.items():
        taus = stability.taus[~np.isnan(stability.taus)]
        numbers = [np.nan] * 4
        if len(taus):
            numbers = [taus.mean(), *np.quantile(taus, (0.5, 0.025, 0.975))]
        rows.append((scheme.value, *map(float, numbers)))
    return pd.DataFrame(rows, columns=["scheme", "mean", "median", "low", "high"])


def pairs_table(entries: Entries, order: Sequence[int]) -> pd.DataFrame:
    """The tests of all ordered pairs of teams in each task."""
    p = pairwise_p(entries.contest)
    n = _n_compared(entries.contest)
    teams = np.array(entries.teams, dtype=object)
    pairs = [(better, worse) for better in order for worse in order if better != worse]
    better, worse = np.transpose(pairs)

    parts = []
    for position, task in enumerate(entries.tasks):
        p_values = p[position, better, worse]
        part = pd.DataFrame(
            {
                "metric": task.metric,
                "label": task.label,
                "better": teams[better],
                "worse": teams[worse],
                "n": n[position, better, worse],
                "wilcoxon_p": p_values,
                "holm_p": holm(p_values),
            }
        )
        parts.append(part)

    table = pd.concat(parts, ignore_index=True)
    return table.assign(significant=table["holm_p"] <= LEVEL)


def _n_compared(contest: Contest) -> IntArray:
    """In how many units two teams are compared, shape (n_tasks, n_teams, n_teams)."""
    differences, first, second = contest.unit_differences
    n_tasks, n_teams, _ = contest.goodness.shape
    n_of_pairs = (~np.isnan(differences)).sum(axis=2)
    n = np.zeros((n_tasks, n_teams, n_teams), dtype=np.int64)
    n[:, first, second] = n_of_pairs
    n[:, second, first] = n_of_pairs
    return n


def case_table(entries: Entries) -> pd.DataFrame:
    """The best, median and worst value of the teams for each metric, a row per case and label."""
    parts = []
    for label in dict.fromkeys(task.label for task in entries.tasks):
        columns: dict[str, Any] = {"case": entries.cases, "label": label}
        for position, task in enumerate(entries.tasks):
            if task.label == label:
                columns |= _case_columns(entries, position)

        for attribute, strata in entries.strata.items():
            column = f"{attribute} (stratum)" if attribute in columns else attribute
            names = [name for name, _ in strata]
            members = [inside for _, inside in strata]
            columns[column] = np.select(members, names, "")

        parts.append(pd.DataFrame(columns))
    return pd.concat(parts).sort_values("case", kind="stable", ignore_index=True)


def _case_columns(entries: Entries, position: int) -> dict[str, FloatArray]:
    """The columns of one task."""
    task = entries.tasks[position]
    values = entries.contest.filled[position]
    is_undefined = np.isneginf(entries.contest.goodness[position])
    # + 0.0 turns -0.0 into 0.0.
    return {
        f"{task.metric}_best": task.sign * values.max(axis=0) + 0.0,
        f"{task.metric}_worst": task.sign * values.min(axis=0) + 0.0,
        f"{task.metric}_median": task.sign * np.median(values, axis=0) + 0.0,
        f"{task.metric}_undefined": is_undefined.sum(axis=0),
    }
