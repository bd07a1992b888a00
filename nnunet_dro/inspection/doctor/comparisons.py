"""How strata compare: the Dice of a group of cases against that of others, label by label."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.arrays import BoolArray
from nnunet_dro.evaluation.stratifying.stratify import members_by_stratum
from nnunet_dro.inspection.doctor.columns import DICE, TRAINING, VALIDATION

#: A group is behind if its mean Dice of a label is lower than that of the others by this or more.
BEHIND = 0.1

#: Largest probability of a difference between groups that are alike, divided by the number of
#: comparisons.
LEVEL = 0.01

#: Below this probability, without that division, a difference is a suspicion.
SUSPICION = 0.05

#: A group is lower, if not behind, if its mean Dice of a label is so much lower, and that is a
#: suspicion.
LOWER = 0.01


class State(str, Enum):
    """How a group compares with other cases, in the order of what weighs more."""

    LEVEL = "no worse"
    LOWER = f"lower, by less than {100 * BEHIND:.0f} points"
    TOO_FEW = "too few"  # so few cases that chance would explain any difference
    SUSPICION = "uncertain"
    NOT_CARRIED_OVER = "behind in validation only"
    BEHIND = "behind in training"


_ORDER = list(State)


@dataclass(frozen=True)
class GroupComparison:
    """A group of cases against others, in the label in which the group is worst."""

    label: str
    n: int  # cases of the group that have the label
    mean: float  # Dice of the group
    others: float  # mean Dice of the others
    probability: float  # of ranks as low as these by chance (Mann-Whitney, one-sided)
    state: State  # as of training cases

    @property
    def difference(self) -> float:
        """How far the group is below the others, Dice."""
        return self.others - self.mean


@dataclass(frozen=True)
class Stratum:
    """A stratum of a column, or all cases.

    A comparison is None where it or what it is compared with has no case.
    """

    column: str  # empty for all cases
    name: str
    n_training: int
    n_validation: int
    state: State
    training: GroupComparison | None  # of its training cases with the other training cases
    validation: GroupComparison | None  # of its validation cases with all training cases
    members: BoolArray = field(compare=False, repr=False)  # its cases among all, shape (n_cases,)

    @property
    def title(self) -> str:
        """Its name with its column."""
        return f"{self.name} ({self.column})" if self.column else "all cases"

    def clearest(self, difference: float) -> tuple[GroupComparison, str]:
        """The comparison of at least this difference that chance explains least.

        Returned with it is of which cases it is, ``training`` or ``validation``.
        """
        both = ((self.training, TRAINING), (self.validation, VALIDATION))
        large = [
            (compared, kind)
            for compared, kind in both
            if compared is not None and compared.difference >= difference
        ]
        return min(large, key=lambda pair: pair[0].probability)


class Group(NamedTuple):
    """The cases of a stratum of a column, or all cases."""

    column: str  # empty for all cases
    name: str
    members: BoolArray  # shape (n_cases,)


def groups_in(strata: pd.DataFrame) -> Iterator[Group]:
    """The strata of every column in their natural order, and all cases last."""
    for attribute in map(str, strata):
        members = members_by_stratum(strata[attribute], strata.index.tolist(), attribute=attribute)
        for name, inside in members.items():
            yield Group(attribute, name, inside)
    yield Group("", "all cases", np.ones(len(strata), dtype=bool))


def compare_groups(
    cases: pd.DataFrame, groups: Sequence[Group], labels: Sequence[str], limit: float
) -> list[Stratum]:
    """How every group compares: training cases with the others, validation cases with training."""
    is_training = (cases["set"] == TRAINING).to_numpy()
    training = cases[is_training]

    strata = []
    for group in groups:
        mine = cases[group.members & is_training]
        others = cases[~group.members & is_training]
        unseen = cases[group.members & ~is_training]
        on_training = _worst(mine, others, labels, limit)
        on_validation = _worst(unseen, training, labels, limit)

        strata.append(
            Stratum(
                column=group.column,
                name=group.name,
                n_training=len(mine),
                n_validation=len(unseen),
                state=_state(on_training, on_validation),
                training=on_training,
                validation=on_validation,
                members=group.members,
            )
        )
    return strata


def _state(training: GroupComparison | None, validation: GroupComparison | None) -> State:
    """The state of a stratum with these comparisons."""
    states = [State.LEVEL]
    if training is not None:
        states.append(training.state)
    if validation is not None:
        is_behind = validation.state == State.BEHIND
        states.append(State.NOT_CARRIED_OVER if is_behind else validation.state)
    return max(states, key=_ORDER.index)


def _worst(
    group: pd.DataFrame, others: pd.DataFrame, labels: Sequence[str], limit: float
) -> GroupComparison | None:
    """The comparison with the weightiest state, of several the one furthest below."""
    comparisons = []
    for label in labels:
        comparison = _compare(group, others, label, limit)
        if comparison is not None:
            comparisons.append(comparison)

    return max(
        comparisons,
        key=lambda comparison: (_ORDER.index(comparison.state), comparison.difference),
        default=None,
    )


def _compare(
    group: pd.DataFrame, others: pd.DataFrame, label: str, limit: float
) -> GroupComparison | None:
    """Compare the Dice of a label; None where a group has none."""
    mine = group[DICE + label].dropna().to_numpy(dtype=float)
    theirs = others[DICE + label].dropna().to_numpy(dtype=float)
    if not (len(mine) and len(theirs)):
        return None

    mean = float(mine.mean())
    mean_of_others = float(theirs.mean())
    difference = mean_of_others - mean
    probability = _p_lower(mine, theirs)
    # The least probability that groups of these sizes can have.
    least_probability = _p_lower(np.arange(-len(mine), 0), np.arange(len(theirs)))

    state = State.LEVEL
    if difference >= BEHIND and probability < limit:
        state = State.BEHIND
    elif difference >= BEHIND and probability < SUSPICION:
        state = State.SUSPICION
    elif difference >= BEHIND and least_probability >= SUSPICION:
        state = State.TOO_FEW
    elif difference >= LOWER and probability < SUSPICION:
        state = State.LOWER
    return GroupComparison(
        label=label,
        n=len(mine),
        mean=mean,
        others=mean_of_others,
        probability=probability,
        state=state,
    )


def _p_lower(values: npt.NDArray[np.number], others: npt.NDArray[np.number]) -> float:
    """One-sided p value of Mann and Whitney's test, 1 if all values are equal."""
    from scipy.stats import mannwhitneyu

    with np.errstate(invalid="ignore", divide="ignore"):
        p = float(mannwhitneyu(values, others, alternative="less").pvalue)
    return p if np.isfinite(p) else 1.0
