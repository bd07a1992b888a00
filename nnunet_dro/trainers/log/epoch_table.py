"""The columns of training.csv: what they mean, and how they are computed."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro import sampling
from nnunet_dro.naming import group_name
from nnunet_dro.trainers.log.epoch_log import Row, entry, write_rows

#: What each column means, in their order; those of groups come after them.
COLUMNS = {
    "epoch": "Number of the epoch, from 0 as in nnU-Net.",
    "effective_cases": (
        "Effective number of cases: exp(entropy) of the probabilities of a single draw at the end "
        "of the epoch. Since the cases of a batch are distinct, more are effective than this if "
        "batches are large and cases few."
    ),
    "clipped_share": (
        "Share of the epoch's importance weights that reached a bound, lo or hi; empty without "
        "such weights."
    ),
    "refused_losses": "Number of losses that were not finite and not stored.",
    "mean_loss": "Mean of the stale losses; empty while no case has one.",
    "robust_loss": (
        "What the method minimises, computed from the stale losses L. For KL it is "
        "R = log(mean(exp(beta L))) / beta, which lies between their mean and their maximum."
    ),
    "worst_5_percent_bound": (
        "At most 5 % of the cases have a stale loss above this bound, R + log(20) / beta (Fidon et "
        "al. 2022, eq. 15). It is `inf` for beta 0 and for other rules than KL."
    ),
    "beta": "The beta at the end of the epoch; empty for a rule without one.",
    "mean_weight": "Mean importance weight; empty without such weights.",
    "mean_staleness": (
        "Mean age of the stale losses at the end of the epoch, in iterations since they were "
        "stored; empty until every case was drawn."
    ),
    "largest_staleness": "Age of the oldest stale loss, counted in the same way.",
    "fall_of_drawn": (
        "By how much the stale loss of the cases that are drawn more often than others has fallen "
        "since the first epochs; empty at first, and where no draw depends on losses."
    ),
    "fall_of_others": "The same for the other cases.",
}


def row_of(table: sampling.HardnessTable) -> Row:
    """All `COLUMNS` of an epoch, of which those that the table gives at its end have numbers.

    The others are NaN.
    """
    rule = table.rule
    losses = table.losses
    stored = losses[~np.isnan(losses)]
    row: Row = dict.fromkeys(COLUMNS, math.nan)
    row["effective_cases"] = sampling.effective_cases(table.probabilities())
    row["mean_loss"] = _mean(stored)
    row["robust_loss"] = rule.robust_loss(losses)
    if len(stored):
        row["worst_5_percent_bound"] = rule.percentile_bound(losses, share=0.05)
    if isinstance(rule, sampling.RuleWithBeta):
        row["beta"] = rule.beta

    ages = table.staleness
    ages = ages[~np.isnan(ages)]
    if len(ages) and not table.n_unseen:
        row["mean_staleness"] = float(ages.mean())
        row["largest_staleness"] = float(ages.max())
    return row


def row_of_groups(
    groups: Mapping[str, Sequence[str]],
    rule: sampling.Rule,
    draws: NDArray[np.int32],
    losses: NDArray[np.float64],
) -> Row:
    """Share of the draws and mean stale loss of each group.

    If the rule has a weight for each group, the weights follow.
    """
    row: Row = {}
    for column, group_of_case in groups.items():
        names = np.asarray(group_of_case, dtype=str)
        for group in np.unique(names):
            is_member = names == group
            n_draws = draws[is_member].sum()
            row[group_column("draws", column, group)] = float(n_draws / max(1, draws.sum()))

            stored = losses[is_member & ~np.isnan(losses)]
            row[group_column("loss", column, group)] = _mean(stored)

    if isinstance(rule, sampling.GroupRule):
        for name, weight in zip(rule.names, rule.weights, strict=True):
            row[f"weight[{name}]"] = float(weight)
    return row


def _mean(values: NDArray[np.float64]) -> float:
    """The mean of some numbers; NaN if there are none."""
    if not len(values):
        return math.nan
    return float(values.mean())


def group_column(what: str, column: str, group: str) -> str:
    """The column of training.csv that has a number of a group: ``draws[centre=A]``."""
    return f"{what}[{group_name(column, group)}]"


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write training.csv with a row per epoch; unknown numbers are empty entries."""
    # A training that is resumed may have other groups, and older versions had fewer columns.
    names = dict.fromkeys(COLUMNS)
    for row in rows:
        names |= dict.fromkeys(row)

    table = [[entry(row.get(name, math.nan)) for name in names] for row in rows]
    write_rows(path, list(names), table)


def saved_row(saved: Mapping[str, Any]) -> Row:
    """A row from a checkpoint; those of version 0.2 have the numbers of groups apart."""
    row = dict.fromkeys(COLUMNS, math.nan)
    row |= saved
    row |= saved.get("groups", {})
    for name in ("groups", "n_draws"):
        row.pop(name, None)
    return row
