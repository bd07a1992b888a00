"""How sure the ranks are by each metric, by each label and in each stratum, as over all tasks.

Source: Wiesenfarth et al. 2021, Methods and open-source toolkit for analyzing and visualizing
challenge results, Scientific Reports 11:2369, whose stability is that of one task at a time.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.ranking.from_evaluations import Entries
from nnunet_dro.ranking.ranks import (
    OVERALL,
    Stability,
    draw_units,
    overall_ranks,
    stability,
    task_scores,
)

#: The columns of `stability_table`.
STABILITY_COLUMNS = (
    "kind",
    "attribute",
    "stratum",
    "metric",
    "label",
    "n",
    "n_valued",
    "kendall_tau",
    "kendall_tau_low",
    "kendall_tau_high",
    "team",
    "rank",
    "rank_low",
    "rank_median",
    "rank_high",
    "share_1",
)


class RankedPart(NamedTuple):
    """A part of what is ranked: a ``metric``, a ``label``, a ``task`` (both), or a ``stratum``."""

    kind: str
    attribute: str = ALL
    stratum: str = ALL
    metric: str = OVERALL
    label: str = OVERALL
    n: int = 0  # number of cases
    n_valued: int = 0  # number of patients, or cases, in which some team has a value


def ranks_of_parts(entries: Entries, scores: FloatArray) -> dict[RankedPart, FloatArray]:
    """The ranks (..., n_teams) by each metric, label and task, from `task_scores`."""
    return {
        part: overall_ranks(scores[..., places, :], entries.weights[places])
        for part, places in _parts_of_tasks(entries).items()
    }


def _parts_of_tasks(entries: Entries) -> dict[RankedPart, list[int]]:
    """The metrics, the labels and the tasks, where there are several of each, with their tasks."""
    metrics: dict[RankedPart, list[int]] = defaultdict(list)
    labels: dict[RankedPart, list[int]] = defaultdict(list)
    both: dict[RankedPart, list[int]] = {}
    for place, task in enumerate(entries.tasks):
        metrics[RankedPart("metric", metric=task.metric)].append(place)
        labels[RankedPart("label", label=task.label)].append(place)
        both[RankedPart("task", metric=task.metric, label=task.label)] = [place]

    parts: dict[RankedPart, list[int]] = {}
    if len(metrics) > 1:
        parts |= metrics
    if len(labels) > 1:
        parts |= labels
    if len(metrics) > 1 and len(labels) > 1:
        parts |= both
    return {
        part._replace(n=len(entries.cases), n_valued=entries.contest.n_valued(places)): places
        for part, places in parts.items()
    }


def consensus_shares(task_ranks: FloatArray, weights: FloatArray) -> FloatArray:
    """The share of the tasks, by weight, in which each team has each rank, (n_teams, n_teams).

    From ranks of shape (n_tasks, n_teams); tasks without ranks are left out.
    """
    has_ranks = ~np.isnan(task_ranks).any(axis=1)
    shares_of_tasks = weights[has_ranks] / weights[has_ranks].sum()
    places = np.arange(1, task_ranks.shape[1] + 1)
    is_rank = task_ranks[has_ranks][:, :, None] == places
    return np.tensordot(shares_of_tasks, is_rank, axes=1)


def stability_of_tasks(
    entries: Entries, full: FloatArray, sampled: FloatArray
) -> dict[RankedPart, tuple[FloatArray, Stability]]:
    """The ranks by each metric, label and task, and how they vary in samples of the cases.

    From what `task_scores` has of all cases, shape (n_tasks, n_teams), and of the samples.
    """
    in_samples = ranks_of_parts(entries, sampled)
    return {
        part: (ranks, stability(ranks, in_samples[part]))
        for part, ranks in ranks_of_parts(entries, full).items()
    }


def stability_of_strata(
    entries: Entries, scheme: RankingScheme, n_samples: int, rng: np.random.Generator
) -> dict[RankedPart, tuple[FloatArray, Stability]]:
    """The ranks in each stratum, and how they vary in samples of its cases."""
    result = {}
    for attribute, strata in entries.strata.items():
        for stratum, inside in strata:
            contest = entries.contest_of(inside)
            counts = draw_units(contest.n_units, n_samples, rng)
            part = RankedPart(
                "stratum",
                attribute,
                stratum,
                n=int(inside.sum()),
                n_valued=contest.n_valued(),
            )
            (ranks,) = overall_ranks(task_scores(contest, scheme), contest.weights)
            sampled = task_scores(contest, scheme, counts)
            result[part] = (ranks, stability(ranks, overall_ranks(sampled, contest.weights)))
    return result


def stability_table(
    entries: Entries,
    parts: Mapping[RankedPart, tuple[FloatArray, Stability]],
    order: Sequence[int],
) -> pd.DataFrame:
    """A row per part and team, with `STABILITY_COLUMNS`."""
    rows = []
    for part, (ranks, samples) in parts.items():
        mean, _, low, high = samples.tau
        for team in order:
            numbers = (
                ranks[team],
                samples.low[team],
                samples.median[team],
                samples.high[team],
                samples.shares[team, 0],
            )
            rows.append((*part, mean, low, high, entries.teams[team], *numbers))
    return pd.DataFrame(rows, columns=list(STABILITY_COLUMNS))
