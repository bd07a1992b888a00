"""The tables of a ranking as data frames: one row per team, pair of teams, or case."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.ranking.contest import competition_ranks
from nnunet_dro.ranking.from_evaluations import Entries
from nnunet_dro.ranking.ranks import (
    LEVEL,
    OVERALL,
    Stability,
    consensus,
    kendall_tau,
    overall_ranks,
    pairwise_p,
)
from nnunet_dro.ranking.stability import RankedPart, ranks_of_parts

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
AGREEMENT_COLUMNS = (*RankedPart._fields, "scheme", "kendall_tau")
BOOTSTRAP_COLUMNS = ("scheme", "team", "rank", "rank_low", "rank_median", "rank_high")

#: What gives scores their sign again, which schemes rank by such that larger is better. Without one
#: here it is the sign of the task.
_SIGNS = {
    RankingScheme.TEST: 1.0,
    RankingScheme.RANK_MEAN: -1.0,
    RankingScheme.RANK_MEDIAN: -1.0,
}


#: By scheme and part, what the teams are ranked by, shape (n_tasks, n_teams).
Rankings = Mapping[tuple[RankingScheme, RankedPart], FloatArray]


def rank_table(entries: Entries, rankings: Rankings, order: Sequence[int]) -> pd.DataFrame:
    """The ranks of the teams in each of the rankings, over all tasks and in each task.

    Columns of names are categories.
    """
    scores = np.stack(list(rankings.values()))  # (n_rankings, n_tasks, n_teams)
    task_ranks = competition_ranks(scores)
    mean_ranks = -consensus(task_ranks, entries.weights)
    overall = overall_ranks(scores, entries.weights)
    signs = np.array(
        [[_SIGNS.get(scheme, task.sign) for task in entries.tasks] for scheme, _ in rankings]
    )

    # Of each ranking the rows over all tasks come first.
    shown = np.concatenate([mean_ranks[:, None], signs[..., None] * scores], axis=1)
    ranks = np.concatenate([overall[:, None], task_ranks], axis=1)
    n_rankings, n_blocks, n_teams = ranks.shape

    keys = _keys(rankings)
    columns = {name: _repeated(keys[name], n_blocks * n_teams) for name in keys}
    for name in ("metric", "label"):
        names = pd.Series([OVERALL, *(getattr(task, name) for task in entries.tasks)])
        columns[name] = _repeated(names, n_teams, n_rankings)

    teams = pd.Series([entries.teams[team] for team in order])
    columns["team"] = _repeated(teams, 1, n_rankings * n_blocks)
    # + 0.0 turns -0.0 into 0.0.
    columns["score"] = shown[..., order].ravel() + 0.0
    columns["rank"] = ranks[..., order].ravel()
    return pd.DataFrame(columns)[list(RANK_COLUMNS)]


def _keys(rankings: Rankings) -> pd.DataFrame:
    """Part and scheme of each ranking, in the first of `RANK_COLUMNS`."""
    parts = pd.DataFrame([part for _, part in rankings])
    schemes = [scheme.value for scheme, _ in rankings]
    return parts[["kind", "attribute", "stratum", "n"]].assign(scheme=schemes)


def _repeated(entries: "pd.Series[Any]", n_each: int, n_times: int = 1) -> Any:
    """Each entry some times, and all of it some times; names as categories."""
    values = np.tile(np.repeat(np.arange(len(entries)), n_each), n_times)
    if pd.api.types.is_numeric_dtype(entries):
        return entries.to_numpy()[values]
    codes, names = pd.factorize(entries)
    return pd.Categorical.from_codes(codes[values], categories=pd.Index(names, dtype=object))


def agreement_table(
    entries: Entries, rankings: Rankings, full: Mapping[RankingScheme, FloatArray]
) -> pd.DataFrame:
    """Kendall's tau of rankings and that of all cases and tasks, by scheme.

    ``full`` has the ranks of the latter. First come those by each metric, label and task.
    """
    rows: list[tuple[Any, ...]] = []
    for (scheme, part), scores in rankings.items():
        ranks = {part: overall_ranks(scores, entries.weights)}
        if part.kind == "all":
            ranks = ranks_of_parts(entries, scores)
        for name, ranks_of_part in ranks.items():
            (tau,) = kendall_tau(ranks_of_part[None], full[scheme])
            rows.append((*name, scheme.value, float(tau)))

    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def bootstrap_table(
    entries: Entries,
    samples: Mapping[RankingScheme, Stability],
    full: Mapping[RankingScheme, FloatArray],
    order: Sequence[int],
) -> pd.DataFrame:
    """The distribution of the rank of each team in the bootstrap samples."""
    rows = []
    for scheme, stability in samples.items():
        for team in order:
            interval = (stability.low[team], stability.median[team], stability.high[team])
            rank = full[scheme][team]
            row = (scheme.value, entries.teams[team], rank, *interval, *stability.shares[team])
            rows.append(row)

    shares = [f"share_{place + 1}" for place in range(len(entries.teams))]
    return pd.DataFrame(rows, columns=[*BOOTSTRAP_COLUMNS, *shares])


def tau_table(samples: Mapping[RankingScheme, Stability]) -> pd.DataFrame:
    """How much the rankings of the bootstrap samples agree with that of all cases.

    ``n_samples`` is the number of samples that have ranks.
    """
    rows = [
        (scheme.value, *stability.tau, stability.n_samples) for scheme, stability in samples.items()
    ]
    return pd.DataFrame(rows, columns=["scheme", "mean", "median", "low", "high", "n_samples"])


def pairs_table(entries: Entries, order: Sequence[int]) -> pd.DataFrame:
    """The tests of all ordered pairs of teams in each task."""
    p = pairwise_p(entries.contest)
    n = entries.contest.defined.sum(axis=1)
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
                "n": n[position],
                "wilcoxon_p": p_values,
                "holm_p": holm(p_values),
            }
        )
        parts.append(part)

    table = pd.concat(parts, ignore_index=True)
    return table.assign(significant=table["holm_p"] <= LEVEL)


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
    """The columns of one task, of the teams that have a value."""
    task = entries.tasks[position]
    scores = entries.scores[position]
    medians = pd.DataFrame(scores).median().to_numpy()
    # + 0.0 turns -0.0 into 0.0.
    return {
        f"{task.metric}_best": task.sign * np.fmax.reduce(scores, axis=0) + 0.0,
        f"{task.metric}_worst": task.sign * np.fmin.reduce(scores, axis=0) + 0.0,
        f"{task.metric}_median": task.sign * medians + 0.0,
        f"{task.metric}_undefined": np.isnan(scores).sum(axis=0),
    }
