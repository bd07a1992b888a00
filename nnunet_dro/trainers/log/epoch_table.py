"""The columns of training.csv, each said once: its name, its meaning, and where its number comes from."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.files.atomic import replacing
from nnunet_dro.sampling import GroupRule, HardnessTable, RuleWithBeta, effective_cases
from nnunet_dro.trainers.log.epoch_log import Row, entry


@dataclass(frozen=True)
class EndedEpoch:
    """What the columns of an epoch are computed from.

    Attributes:
        number: Number of the epoch, from 0 as in nnU-Net.
        table: The table of stale losses at its end.
        draws: Number of draws of each case in it, shape (n,).
        losses: Stale loss of each case at its end, shape (n,), NaN for a case without one.
        n_refused: Number of losses in it that were not finite.
        clipped_share: Share of its importance weights that were clipped, in [0, 1]; NaN without such weights.
        mean_weight: Their mean; NaN without such weights.
        falls: By how much losses have fallen, see `concentration.falls`.
        groups: The group of each case, by column of the case table.
    """

    number: int
    table: HardnessTable
    draws: NDArray[np.int32]
    losses: NDArray[np.float64]
    n_refused: int
    clipped_share: float = math.nan
    mean_weight: float = math.nan
    falls: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def known(self) -> NDArray[np.float64]:
        """The stale losses of the table's items that have one."""
        losses = self.table.losses
        return losses[~np.isnan(losses)]

    @property
    def ages(self) -> NDArray[np.float64]:
        """The ages of the losses in iterations; none before every item was seen."""
        ages = self.table.staleness
        return ages[:0] if self.table.n_unseen else ages[~np.isnan(ages)]


@dataclass(frozen=True)
class Column:
    """A column of training.csv: its name, what it means, and how it follows from an epoch."""

    name: str
    meaning: str
    of: Callable[[EndedEpoch], float]


def _beta(epoch: EndedEpoch) -> float:
    return epoch.table.rule.beta if isinstance(epoch.table.rule, RuleWithBeta) else math.nan


def _bound(epoch: EndedEpoch) -> float:
    losses = epoch.table.losses
    return epoch.table.rule.percentile_bound(losses, share=0.05) if len(epoch.known) else math.nan


#: All columns, in their order; those of groups come after them.
COLUMNS = (
    Column("epoch", "Number of the epoch, from 0 as in nnU-Net.", lambda epoch: epoch.number),
    Column(
        "effective_cases",
        "exp(entropy) of the probabilities of the draws at the end of the epoch.",
        lambda epoch: effective_cases(epoch.table.probabilities()),
    ),
    Column(
        "clipped_share",
        "Share of the epoch's importance weights that hit the clip; empty without such weights.",
        lambda epoch: epoch.clipped_share,
    ),
    Column("refused_losses", "Number of losses that were not finite and not stored.", lambda epoch: epoch.n_refused),
    Column(
        "mean_loss",
        "Mean of the stale losses; empty while no case has one.",
        lambda epoch: float(epoch.known.mean()) if len(epoch.known) else math.nan,
    ),
    Column(
        "robust_loss",
        "What the method minimises, of the stale losses: for KL R = log(mean(exp(beta L))) / beta, between their mean "
        "and their maximum.",
        lambda epoch: epoch.table.rule.robust_loss(epoch.table.losses),
    ),
    Column(
        "worst_5_percent_bound",
        "At most 5 % of the cases have a stale loss above it: R + log(20) / beta (Fidon et al. 2022, eq. 15); `inf` "
        "for beta 0 and for other rules than KL.",
        _bound,
    ),
    Column("beta", "Robustness at the end of the epoch; empty for a rule without one.", _beta),
    Column("mean_weight", "Mean importance weight; empty without such weights.", lambda epoch: epoch.mean_weight),
    Column(
        "mean_staleness",
        "Mean age of the stale losses at the end of the epoch, in iterations since they were stored; empty until every "
        "case was seen.",
        lambda epoch: float(epoch.ages.mean()) if len(epoch.ages) else math.nan,
    ),
    Column(
        "largest_staleness",
        "Age of the oldest of them.",
        lambda epoch: float(epoch.ages.max()) if len(epoch.ages) else math.nan,
    ),
    Column(
        "fall_of_drawn",
        "By how much the stale loss of the cases that are drawn more often than others has fallen since the first "
        "epochs; empty where no draw depends on losses.",
        lambda epoch: epoch.falls.get("fall_of_drawn", math.nan),
    ),
    Column(
        "fall_of_others",
        "The same of the other cases.",
        lambda epoch: epoch.falls.get("fall_of_others", math.nan),
    ),
)


def row_of(epoch: EndedEpoch) -> Row:
    """All scalars of an epoch by their names, those of the groups last."""
    return {column.name: column.of(epoch) for column in COLUMNS} | _of_groups(epoch)


def _of_groups(epoch: EndedEpoch) -> Row:
    """Share of the draws and mean stale loss of each group, and its weight if the rule has group weights."""
    row: Row = {}
    for column, of_case in epoch.groups.items():
        names = np.asarray(of_case, dtype=str)
        for group in np.unique(names):
            mine = names == group
            known = epoch.losses[mine][~np.isnan(epoch.losses[mine])]
            row[group_column("draws", column, group)] = float(epoch.draws[mine].sum() / max(1, epoch.draws.sum()))
            row[group_column("loss", column, group)] = float(known.mean()) if len(known) else math.nan
    rule = epoch.table.rule
    if isinstance(rule, GroupRule):
        row |= {f"weight[{name}]": float(weight) for name, weight in zip(rule.names, rule.weights, strict=True)}
    return row


def group_column(what: str, column: str, group: str) -> str:
    """The column of training.csv that has a number of a group: ``draws[centre=A]``."""
    return f"{what}[{column}={group}]"


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write training.csv with a row per epoch; unknown numbers are empty entries."""
    # A training that is resumed may have other groups, and older versions had fewer columns.
    names = list(dict.fromkeys([column.name for column in COLUMNS] + [name for row in rows for name in row]))
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([entry(row.get(name, math.nan)) for name in names] for row in rows)


def saved_row(saved: Mapping[str, Any]) -> Row:
    """A row from a checkpoint; those of version 0.2 have the numbers of groups apart."""
    missing = dict.fromkeys((column.name for column in COLUMNS), math.nan)
    own = {name: value for name, value in saved.items() if name not in ("groups", "n_draws")}
    return {**missing, **own, **saved.get("groups", {})}
