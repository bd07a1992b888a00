"""The columns of training.csv.

What each means, how it follows from an epoch, and what they warn of.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro import sampling
from nnunet_dro.naming import name_some
from nnunet_dro.trainers.log.epoch_log import Row, entry, write_rows

#: Below this share of effective cases a training is warned of.
_SMALL_SHARE = 0.1
#: So many epochs in a row in which the mean loss rises are no chance.
_N_RISING = 10
#: A group with at most this share of the cases is small; with less than this part of its share of
#: the draws it is drawn too rarely; and it takes a difference of so many standard deviations of
#: uniform draws to be no chance.
_SMALL_GROUP = 0.2
_DRAWN_TOO_RARELY = 0.75
_NO_CHANCE = 4.0
#: The cases that are drawn more often than others get nowhere if their loss falls by less than this
#: part of the fall of the others, and the loss of these falls by at least this much.
_NOWHERE = 0.25
_FALLS = 0.05
#: From this share of effective cases on, which cases are drawn more often is chance.
_UNIFORM = 0.95
#: Epochs over which a loss is averaged before it is compared.
_N_AVERAGED = 3
_CURE = (
    "Draw less by hardness: a larger `earned<s>` or `share<s>`, or a smaller `beta<x>`, in the trainer's name, or "
    "a larger `explore<e>`."
)
#: What to do instead where the rule has other numbers.
_CURES: dict[type[sampling.Rule], str] = {
    sampling.Balanced: "Draw less by group or hardness: a smaller `power<x>`, or a larger `share<s>`, in the trainer's "
    "name.",
    sampling.GroupDRO: "Put small groups of the column together, or train nnUNetTrainerIW_<column> with a `power<x>` "
    "below 1.",
    sampling.ByWeight: "Draw less by weight: take the square roots of the weights, for example.",
}


#: What each column means, in their order; those of groups come after them.
COLUMNS = {
    "epoch": "Number of the epoch, from 0 as in nnU-Net.",
    "effective_cases": "exp(entropy) of the probabilities of the draws at the end of the epoch.",
    "clipped_share": "Share of the epoch's importance weights that hit the clip; empty without such weights.",
    "refused_losses": "Number of losses that were not finite and not stored.",
    "mean_loss": "Mean of the stale losses; empty while no case has one.",
    "robust_loss": "What the method minimises, of the stale losses: for KL R = log(mean(exp(beta L))) / beta, between "
    "their mean and their maximum.",
    "worst_5_percent_bound": "At most 5 % of the cases have a stale loss above it: R + log(20) / beta (Fidon et al. "
    "2022, eq. 15); `inf` for beta 0 and for other rules than KL.",
    "beta": "Robustness at the end of the epoch; empty for a rule without one.",
    "mean_weight": "Mean importance weight; empty without such weights.",
    "mean_staleness": "Mean age of the stale losses at the end of the epoch, in iterations since they were stored; "
    "empty until every case was seen.",
    "largest_staleness": "Age of the oldest of them.",
    "fall_of_drawn": "By how much the stale loss of the cases that are drawn more often than others has fallen since "
    "the first epochs; empty where no draw depends on losses.",
    "fall_of_others": "The same of the other cases.",
}


def row_of(
    epoch: int,
    table: sampling.HardnessTable,
    *,
    n_refused: int,
    clipped_share: float,
    mean_weight: float,
    falls: Mapping[str, float],
) -> Row:
    """All `COLUMNS` of an epoch, from the table at its end and from what was counted in it.

    NaN for an empty entry.
    """
    rule = table.rule
    losses = table.losses
    ages = table.staleness
    known = losses[~np.isnan(losses)]
    ages = ages[:0] if table.n_unseen else ages[~np.isnan(ages)]
    return {
        "epoch": epoch,
        "effective_cases": sampling.effective_cases(table.probabilities()),
        "clipped_share": clipped_share,
        "refused_losses": n_refused,
        "mean_loss": float(known.mean()) if len(known) else math.nan,
        "robust_loss": rule.robust_loss(losses),
        "worst_5_percent_bound": rule.percentile_bound(losses, share=0.05)
        if len(known)
        else math.nan,
        "beta": rule.beta if isinstance(rule, sampling.RuleWithBeta) else math.nan,
        "mean_weight": mean_weight,
        "mean_staleness": float(ages.mean()) if len(ages) else math.nan,
        "largest_staleness": float(ages.max()) if len(ages) else math.nan,
        "fall_of_drawn": falls.get("fall_of_drawn", math.nan),
        "fall_of_others": falls.get("fall_of_others", math.nan),
    }


def row_of_groups(
    groups: Mapping[str, Sequence[str]],
    rule: sampling.Rule,
    draws: NDArray[np.int32],
    losses: NDArray[np.float64],
) -> Row:
    """Share of the draws and mean stale loss of each group, and its weight if the rule has group weights."""
    row: Row = {}
    for column, of_case in groups.items():
        names = np.asarray(of_case, dtype=str)
        for group in np.unique(names):
            mine = names == group
            known = losses[mine][~np.isnan(losses[mine])]
            row[group_column("draws", column, group)] = float(
                draws[mine].sum() / max(1, draws.sum())
            )
            row[group_column("loss", column, group)] = (
                float(known.mean()) if len(known) else math.nan
            )
    if isinstance(rule, sampling.GroupRule):
        row |= {
            f"weight[{name}]": float(weight)
            for name, weight in zip(rule.names, rule.weights, strict=True)
        }
    return row


def group_column(what: str, column: str, group: str) -> str:
    """The column of training.csv that has a number of a group: ``draws[centre=A]``."""
    return f"{what}[{column}={group}]"


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write training.csv with a row per epoch; unknown numbers are empty entries."""
    # A training that is resumed may have other groups, and older versions had fewer columns.
    names = list(dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)]))
    write_rows(path, names, ([entry(row.get(name, math.nan)) for name in names] for row in rows))


def saved_row(saved: Mapping[str, Any]) -> Row:
    """A row from a checkpoint; those of version 0.2 have the numbers of groups apart."""
    own = {name: value for name, value in saved.items() if name not in ("groups", "n_draws")}
    return {**dict.fromkeys(COLUMNS, math.nan), **own, **saved.get("groups", {})}


def concentration_warnings(
    rows: Sequence[Row],
    n_items: int,
    *,
    rule: sampling.Rule = sampling.UNIFORM,
    items: str = "cases",
    shares: Mapping[str, float] | None = None,
    n_draws: Mapping[int, int] | None = None,
) -> list[str]:
    """Warnings that became true in the last epoch.

    ``shares`` are of the draws of groups, by column.
    """
    warnings = []
    cure = next((text for kind, text in _CURES.items() if isinstance(rule, kind)), _CURE)

    def few(so_far: Sequence[Row]) -> bool:
        # Until every case was seen, the effective cases are those still to be seen, if the rule
        # needs losses.
        is_waiting = not so_far or (rule.needs_losses and math.isnan(so_far[-1]["mean_staleness"]))
        return not is_waiting and so_far[-1]["effective_cases"] < _SMALL_SHARE * n_items

    if _began(rows, few):
        effective = f"{rows[-1]['effective_cases']:.1f} of {n_items}"
        warnings.append(
            f"WARNING: {effective} {items} are effective, which is less than a tenth. {cure}"
        )
    if _began(rows, _rises_while_concentrating):
        warnings.append(
            f"WARNING: the mean loss of the {items} has risen for {_N_RISING} epochs while the draws went to fewer of "
            f"them: what is learnt of the hardest is forgotten of the others. {cure}"
        )
    if _began(rows, lambda so_far: _gets_nowhere(so_far, n_items)):
        warnings.append(
            f"WARNING: the {items} that are drawn more often than others do not get better: since the "
            f"first epochs their loss has fallen by {rows[-1]['fall_of_drawn']:.3f}, that of the others by "
            f"{rows[-1]['fall_of_others']:.3f}. What is hard here may be too faint to be learnt, or wrongly labelled. "
            "Look at the cases with `nnunet-dro suspects`; if a group of cases matters to you, name it with "
            f"nnUNetTrainerIW_<column>. {cure}"
        )
    shares = shares or {}
    n_draws = n_draws or {}
    before = _neglected(rows[:-1], shares, n_draws)
    if new := [name for name in _neglected(rows, shares, n_draws) if name not in before]:
        groups = {name: name.removeprefix("draws[").removesuffix("]") for name in new}
        of_group = [
            f"{group} ({100 * shares[name]:.1f} % of the cases, {100 * _recent(rows, name):.1f} % of the draws)"
            for name, group in groups.items()
        ]
        columns = sorted({group.partition("=")[0] for group in groups.values()})
        warnings.append(
            f"WARNING: the hard cases are not the rare ones. In the last {_N_RISING} epochs draws were taken from "
            f"{name_some(of_group)}. To look at small groups more often, train with "
            f"{' or '.join(f'nnUNetTrainerIW_{column}' for column in columns)}."
        )
    return warnings


def falls(
    losses: Mapping[int, NDArray[np.float32]], draws: Mapping[int, NDArray[Any]]
) -> dict[str, float]:
    """By how much the loss fell of the cases drawn more often than others, and of the others.

    Or nothing.
    """
    known = [epoch for epoch in sorted(losses) if not np.isnan(losses[epoch]).any()]
    if len(known) < _N_RISING:
        return {}
    first = known[:_N_AVERAGED]
    last = known[-_N_AVERAGED:]
    fall = np.mean([losses[epoch] for epoch in first], axis=0) - np.mean(
        [losses[epoch] for epoch in last], axis=0
    )
    since: NDArray[np.float64] = np.sum(
        [draws[epoch] for epoch in known[_N_AVERAGED:]], axis=0, dtype=np.float64
    )
    more = np.maximum(since / max(1.0, since.sum()) - 1 / len(since), 0)
    if not more.any() or more.all():
        return {}
    return {
        "fall_of_drawn": float(more @ fall / more.sum()),
        "fall_of_others": float(fall[more == 0].mean()),
    }


def _began(rows: Sequence[Row], holds: Callable[[Sequence[Row]], bool]) -> bool:
    return holds(rows) and not holds(rows[:-1])


def _rises_while_concentrating(rows: Sequence[Row]) -> bool:
    last = rows[-_N_RISING - 1 :]
    if len(last) <= _N_RISING or not last[-1]["effective_cases"] < last[0]["effective_cases"]:
        return False
    return all(later["mean_loss"] > earlier["mean_loss"] for earlier, later in pairwise(last))


def _gets_nowhere(rows: Sequence[Row], n_items: int) -> bool:
    """Whether it is so in every one of the last epochs, in none of which draws were as good as uniform."""
    last = rows[-_N_RISING:]
    return len(last) == _N_RISING and all(
        one["effective_cases"] < _UNIFORM * n_items
        and one["fall_of_others"] >= _FALLS
        and one["fall_of_drawn"] < _NOWHERE * one["fall_of_others"]
        for one in last
    )


def _neglected(
    rows: Sequence[Row], shares: Mapping[str, float], n_draws: Mapping[int, int]
) -> list[str]:
    """The small groups that are drawn too rarely, by the names of their columns in training.csv."""
    if len(rows) < _N_RISING:
        return []
    n_recent = sum(n_draws.get(int(row["epoch"]), 0) for row in rows[-_N_RISING:])
    found = []
    for name, share in shares.items():
        drawn = _recent(rows, name)
        chance = _NO_CHANCE * np.sqrt(share * (1 - share) / max(1, n_recent))
        if share <= _SMALL_GROUP and drawn < min(_DRAWN_TOO_RARELY * share, share - chance):
            found.append(name)
    return found


def _recent(rows: Sequence[Row], name: str) -> float:
    """A group's share of the draws in the last epochs; NaN if an epoch does not say."""
    return float(np.mean([row.get(name, np.nan) for row in rows[-_N_RISING:]]))
