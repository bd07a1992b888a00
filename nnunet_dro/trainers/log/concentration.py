"""Warnings of draws that concentrate on too few cases, or on those that do not get better."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro import sampling
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import group_name, name_some
from nnunet_dro.trainers.log.epoch_log import Row
from nnunet_dro.trainers.log.epoch_table import group_column
from nnunet_dro.trainers.options import trainer_told_by

#: A column of the case table, and the entry of a group in it.
Group = tuple[str, str]

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
#: What to do against draws that are too concentrated; the first kind that a rule is of counts.
_CURES: dict[type[sampling.Rule], str] = {
    sampling.Hardest: (
        "Draw less by hardness and by images: a smaller `hardest<d>` or `rare<c>`, or a larger "
        "`explore<e>`, in the trainer's name."
    ),
    sampling.EarnedBall: (
        "Draw less by hardness: a larger `earned<s>` or `explore<e>` in the trainer's name."
    ),
    sampling.KLBall: (
        "Draw less by hardness: a larger `share<s>` or `explore<e>` in the trainer's name."
    ),
    sampling.RuleWithBeta: (
        "Draw less by hardness: a smaller `beta<x>`, or a larger `explore<e>`, in the trainer's "
        "name."
    ),
    sampling.CVaR: (
        "Draw less by hardness: a larger `cvar<a>` or `explore<e>` in the trainer's name."
    ),
    sampling.Balanced: (
        "Draw less by group or hardness: a smaller `power<x>`, or a larger `share<s>`, in the "
        "trainer's name."
    ),
    sampling.GroupDRO: (
        "Put small groups of the column together, or train nnUNetTrainerIW_<column> with a "
        "`power<x>` below 1."
    ),
    sampling.ByWeight: (
        "Draw less by weight: take the square roots of the weights, for example, or after "
        "`hardest0` a smaller `rare<c>`."
    ),
    sampling.Rule: "Draw less by hardness: a larger `exploration`, for example.",
}


def concentration_warnings(
    rows: Sequence[Row],
    n_items: int,
    *,
    rule: sampling.Rule = sampling.UNIFORM,
    items: str = "cases",
    shares: Mapping[Group, float] | None = None,
    n_draws: float = 0,
) -> list[str]:
    """Warnings that became true in the last epoch.

    Args:
        rows: The scalars of all epochs so far.
        n_items: Number of cases or sub-volumes that are drawn.
        rule: What the draws depend on.
        items: What is drawn, for the messages.
        shares: Each group's share of the cases.
        n_draws: Number of draws of an epoch.
    """
    warnings = []
    cure = next(cure for kind, cure in _CURES.items() if isinstance(rule, kind))

    if _began(rows, lambda so_far: _is_concentrated(so_far, n_items, rule)):
        n_effective = rows[-1]["effective_cases"]
        warnings.append(
            f"WARNING: {n_effective:.1f} of {n_items} {items} are effective, which is less than a "
            f"tenth. {cure}"
        )

    if _began(rows, _rises_while_concentrating):
        warnings.append(
            f"WARNING: the mean loss of the {items} has risen for {_N_RISING} epochs while the "
            "draws went to fewer of them: what is learnt of the hardest is forgotten of the "
            f"others. {cure}"
        )

    if _began(rows, lambda so_far: _gets_nowhere(so_far, n_items)):
        last = rows[-1]
        warnings.append(
            f"WARNING: the {items} that are drawn more often than others do not get better: since "
            f"the first epochs their loss has fallen by {last['fall_of_drawn']:.3f}, that of the "
            f"others by {last['fall_of_others']:.3f}. What is hard here may be too faint to be "
            "learnt, or wrongly labelled. Look at the cases with `nnunet-dro suspects`; if a group "
            f"of cases matters to you, name it with nnUNetTrainerIW_<column>. {cure}"
        )

    shares = shares or {}
    before = _neglected(rows[:-1], shares, n_draws)
    neglected = [group for group in _neglected(rows, shares, n_draws) if group not in before]
    if neglected:
        warnings.append(_warning_of_neglected(neglected, rows, shares))
    return warnings


def _warning_of_neglected(
    neglected: Sequence[Group], rows: Sequence[Row], shares: Mapping[Group, float]
) -> str:
    """The warning of groups that are drawn too rarely."""
    descriptions = []
    trainers = set()

    for column, group in neglected:
        share_of_cases = f"{100 * shares[column, group]:.1f} % of the cases"
        share_of_draws = f"{100 * _recent(rows, column, group):.1f} % of the draws"
        descriptions.append(f"{group_name(column, group)} ({share_of_cases}, {share_of_draws})")
        is_complete = (column, MISSING) not in shares
        trainers.add(trainer_told_by(column, is_complete=is_complete))

    return (
        f"WARNING: the hard cases are not the rare ones. In the last {_N_RISING} epochs draws were "
        f"taken from {name_some(descriptions)}. To look at small groups more often, train with "
        f"{' or '.join(sorted(trainers))}."
    )


def falls(
    losses: Mapping[int, NDArray[np.float32]], draws: Mapping[int, NDArray[Any]]
) -> dict[str, float]:
    """By how much the loss fell of the cases drawn more often than others, and of the others.

    The fall is that from the mean of the first epochs to the mean of the last ones. A case with
    more than an equal share of the draws counts by how much more it had.

    Args:
        losses: Stale losses of all cases by epoch, arrays (n,).
        draws: How often each case was drawn, likewise.

    Returns:
        ``fall_of_drawn`` and ``fall_of_others``, or nothing while there is nothing to compare.
    """
    epochs = sorted(epoch for epoch in losses if not np.isnan(losses[epoch]).any())
    if len(epochs) < _N_RISING:
        return {}

    first_losses = [losses[epoch] for epoch in epochs[:_N_AVERAGED]]
    last_losses = [losses[epoch] for epoch in epochs[-_N_AVERAGED:]]
    fall = np.mean(first_losses, axis=0) - np.mean(last_losses, axis=0)

    draws_since = [draws[epoch] for epoch in epochs[_N_AVERAGED:]]
    times = np.asarray(np.sum(draws_since, axis=0, dtype=np.float64))
    share_of_draws = times / max(1.0, times.sum())
    more = np.maximum(share_of_draws - 1 / len(times), 0)
    if not more.any() or more.all():
        return {}
    return {
        "fall_of_drawn": float(more @ fall / more.sum()),
        "fall_of_others": float(fall[more == 0].mean()),
    }


def _began(rows: Sequence[Row], holds: Callable[[Sequence[Row]], bool]) -> bool:
    """Whether something holds after the last epoch that did not hold before it."""
    return holds(rows) and not holds(rows[:-1])


def _is_concentrated(rows: Sequence[Row], n_items: int, rule: sampling.Rule) -> bool:
    """Whether few items have next to all of the probability."""
    if not rows:
        return False

    last = rows[-1]
    # Until every case was seen, the effective cases are those still to be seen, if the rule needs
    # losses.
    is_waiting = rule.needs_losses and math.isnan(last["mean_staleness"])
    return not is_waiting and last["effective_cases"] < _SMALL_SHARE * n_items


def _rises_while_concentrating(rows: Sequence[Row]) -> bool:
    """Whether the mean loss rose in each of the last epochs, and fewer cases were effective."""
    last = rows[-_N_RISING - 1 :]
    if len(last) <= _N_RISING:
        return False

    n_before = last[0]["effective_cases"]
    n_now = last[-1]["effective_cases"]
    if not n_now < n_before:
        return False

    losses = [row["mean_loss"] for row in last]
    return all(later > earlier for earlier, later in pairwise(losses))


def _gets_nowhere(rows: Sequence[Row], n_items: int) -> bool:
    """Whether in each of the last epochs the cases drawn more often fell behind the others.

    Epochs with draws that are as good as uniform do not count: which cases had more is chance.
    """
    last = rows[-_N_RISING:]
    if len(last) < _N_RISING:
        return False

    for row in last:
        is_chosen = row["effective_cases"] < _UNIFORM * n_items
        others_fall = row["fall_of_others"] >= _FALLS
        drawn_fall_behind = row["fall_of_drawn"] < _NOWHERE * row["fall_of_others"]
        if not (is_chosen and others_fall and drawn_fall_behind):
            return False
    return True


def _neglected(rows: Sequence[Row], shares: Mapping[Group, float], n_draws: float) -> list[Group]:
    """The small groups that are drawn too rarely.

    With a share s of the cases, a group has s +- sqrt(s (1 - s) / n) of n uniform draws.
    """
    if len(rows) < _N_RISING:
        return []

    n_recent = _N_RISING * n_draws
    groups = []
    for (column, group), share in shares.items():
        deviation = np.sqrt(share * (1 - share) / max(1, n_recent))
        too_rarely = _DRAWN_TOO_RARELY * share
        no_chance = share - _NO_CHANCE * deviation
        recent = _recent(rows, column, group)
        if share <= _SMALL_GROUP and recent < min(too_rarely, no_chance):
            groups.append((column, group))
    return groups


def _recent(rows: Sequence[Row], column: str, group: str) -> float:
    """A group's share of the draws in the last epochs; NaN if an epoch does not say."""
    name = group_column("draws", column, group)
    shares = [row.get(name, np.nan) for row in rows[-_N_RISING:]]
    return float(np.mean(shares))
