"""The scalars of an epoch, and training.csv."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.atomic import replacing
from nnunet_dro.sampling import GroupRule, HardnessTable, RuleWithBeta


@dataclass(frozen=True)
class EpochSummary:
    """Scalars of one epoch.

    Attributes:
        epoch: Counted from 0, as nnU-Net does.
        effective_cases: exp(entropy) of the sampling probabilities at the end of the epoch.
        clipped_share: Share of the epoch's importance weights that hit the clip, in [0, 1]; NaN without such weights.
        refused_losses: Losses of the epoch that were not finite and not stored.
        mean_loss: Mean of the stale losses; NaN while no case has one.
        robust_loss: What the table's rule makes small, of the stale losses (`Rule.robust_loss`).
        worst_5_percent_bound: Bound on the loss that 5 % of the cases exceed (`Rule.percentile_bound`); infinite where
            the rule gives none.
        beta: Robustness at the end of the epoch; NaN for a rule without one.
        mean_weight: Mean importance weight of the epoch; NaN without such weights.
        groups: What is known of the groups of the case table, by what is written above the column.
    """

    epoch: int
    effective_cases: float
    clipped_share: float
    refused_losses: int
    mean_loss: float = math.nan
    robust_loss: float = math.nan
    worst_5_percent_bound: float = math.nan
    beta: float = math.nan
    mean_weight: float = math.nan
    groups: dict[str, float] = field(default_factory=dict)

    def scalars(self) -> dict[str, float]:
        """Everything by its name, the groups last."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "groups"}
        return {**own, **self.groups}


def robustness_of(table: HardnessTable) -> dict[str, Any]:
    """What an epoch's summary says of the losses in a table."""
    losses, rule = table.losses, table.rule
    beta = rule.beta if isinstance(rule, RuleWithBeta) else math.nan
    known = losses[~np.isnan(losses)]
    if not len(known):
        return {"beta": beta}
    return {
        "mean_loss": float(known.mean()),
        "robust_loss": rule.robust_loss(losses),
        "worst_5_percent_bound": rule.percentile_bound(losses, share=0.05),
        "beta": beta,
    }


def group_scalars(
    groups: Mapping[str, Sequence[str]], table: HardnessTable, draws: NDArray[Any], losses: NDArray[np.float64]
) -> dict[str, float]:
    """Share of the draws and mean stale loss of each group, and its weight where a rule weighs groups.

    Args:
        groups: Column to the group of each case.
        table: The table of stale losses.
        draws: How often each case was drawn, shape (n,).
        losses: Stale loss of each case, shape (n,), NaN without one.
    """
    scalars: dict[str, float] = {}
    for column, of_case in groups.items():
        names = np.asarray(of_case, dtype=str)
        for group in np.unique(names):
            mine = names == group
            known = losses[mine][~np.isnan(losses[mine])]
            scalars[f"draws[{column}={group}]"] = float(draws[mine].sum() / max(1, draws.sum()))
            scalars[f"loss[{column}={group}]"] = float(known.mean()) if len(known) else math.nan
    if isinstance(table.rule, GroupRule):
        for name, weight in zip(table.rule.names, table.rule.weights, strict=True):
            scalars[f"weight[{name}]"] = float(weight)
    return scalars


def write_summaries(path: Path, summaries: Sequence[EpochSummary]) -> None:
    """Write training.csv: a row per epoch; a number that is not known is an empty entry."""
    rows = [summary.scalars() for summary in summaries]
    # A training that is resumed with another case table has other groups.
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow(_entry(row.get(name, math.nan)) for name in columns)


def _entry(value: float) -> str:
    return "" if isinstance(value, float) and math.isnan(value) else f"{value:.6g}"
