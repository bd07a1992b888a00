"""training.csv: the scalars of every epoch, computed from the table of stale losses."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.files.atomic import replacing
from nnunet_dro.sampling import GroupRule, HardnessTable, RuleWithBeta
from nnunet_dro.trainers.logs.epoch_summary import HardnessSummary


def robustness_of(table: HardnessTable) -> dict[str, Any]:
    """Fields of a `HardnessSummary` that follow from the losses in a table."""
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


def staleness_of(table: HardnessTable) -> dict[str, float]:
    """What an epoch's summary says of the age of the losses in a table; nothing before all cases were seen."""
    ages = table.staleness
    ages = ages[~np.isnan(ages)]
    if table.n_unseen or not len(ages):
        return {}
    return {"mean_staleness": float(ages.mean()), "largest_staleness": float(ages.max())}


def group_scalars(
    groups: Mapping[str, Sequence[str]], table: HardnessTable, draws: NDArray[Any], losses: NDArray[np.float64]
) -> dict[str, float]:
    """Share of the draws and mean stale loss of each group, and its weight if the rule has group weights.

    Args:
        groups: The group of each case, by column of the case table.
        table: The table of stale losses.
        draws: Number of draws of each case, shape (n,).
        losses: Stale loss of each case, shape (n,), NaN for a case without one.
    """
    scalars: dict[str, float] = {}
    for column, of_case in groups.items():
        names = np.asarray(of_case, dtype=str)
        for group in np.unique(names):
            mine = names == group
            known = losses[mine][~np.isnan(losses[mine])]
            scalars[group_column("draws", column, group)] = float(draws[mine].sum() / max(1, draws.sum()))
            scalars[group_column("loss", column, group)] = float(known.mean()) if len(known) else math.nan
    if isinstance(table.rule, GroupRule):
        for name, weight in zip(table.rule.names, table.rule.weights, strict=True):
            scalars[f"weight[{name}]"] = float(weight)
    return scalars


def group_column(what: str, column: str, group: str) -> str:
    """The column of training.csv that has a number of a group: ``draws[centre=A]``."""
    return f"{what}[{column}={group}]"


def write_summaries(path: Path, summaries: Sequence[HardnessSummary]) -> None:
    """Write training.csv with a row per epoch; unknown numbers are empty entries."""
    rows = [summary.scalars() for summary in summaries]
    # A training that is resumed with another case table may have other groups.
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow(_entry(row.get(name, math.nan)) for name in columns)


def _entry(value: float) -> str:
    return "" if isinstance(value, float) and math.isnan(value) else f"{value:.6g}"
