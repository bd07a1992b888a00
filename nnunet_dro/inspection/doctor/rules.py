"""The rules: from a table of numbers per case to one of six findings.

They are explained in docs/doctor.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd

from nnunet_dro.arrays import BoolArray
from nnunet_dro.inspection.doctor.columns import DICE, TRAINING
from nnunet_dro.inspection.doctor.comparisons import (
    LEVEL,
    Group,
    State,
    Stratum,
    compare_groups,
    groups_in,
)
from nnunet_dro.inspection.doctor.explanation import Explanation, without_size_and_contrast

#: A case is an outlier if its Dice of a label is below the median by this, and by so many standard
#: deviations.
OUTLIER = 0.2
OUTLIER_SD = 4.0

#: Outliers are the finding if they are at least so many, and this share of the training cases.
FEWEST_OUTLIERS = 2
OUTLIER_SHARE = 0.01

#: With fewer training cases nothing can be told.
FEWEST_CASES = 10

#: A label whose median Dice on the training cases is below this has been learnt on no case, and
#: ranks none behind.
LEARNT = 0.1

#: Where the median Dice of a label on the training cases is below this, or the training had fewer
#: iterations, it is too early to say that nothing fails.
LOW = 0.6
FEWEST_ITERATIONS = 5_000

#: Ratio of the standard deviation to the median absolute deviation of a normal distribution.
_MAD_TO_SD = 1.4826


class Finding(str, Enum):
    """What the rules find."""

    NOTHING_FAILS = "nothing fails"
    HARD = "hard to learn"
    SMALL_OR_FAINT = "small or faint"
    NOT_CARRIED_OVER = "learnt but not carried over"
    OUTLIERS = "a few outliers"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Outlier:
    """A training case whose Dice is far below the others.

    The label is the one in which it is furthest below the limit.
    """

    case: str
    label: str
    dice: float
    limit: float


@dataclass(frozen=True)
class Diagnosis:
    """What the rules say; the outliers are those that no stratum explains, worst first."""

    finding: Finding
    strata: tuple[Stratum, ...]  # of every column, and all cases last
    #: Of the label that size and contrast explain best, if these explain what is hard.
    explanation: Explanation | None
    outliers: tuple[Outlier, ...]
    medians: dict[str, float]  # Dice of each label over the training cases
    is_short: bool  # whether the training had fewer iterations than `FEWEST_ITERATIONS`
    n_comparisons: int  # of groups, by which `LEVEL` is divided
    n_training: int

    @property
    def low(self) -> dict[str, float]:
        """The labels with a low median, and the median."""
        return {label: dice for label, dice in self.medians.items() if dice < LOW}

    @property
    def is_untrained(self) -> bool:
        """Whether no label has been learnt."""
        return not any(dice >= LEARNT for dice in self.medians.values())

    def those(self, state: State) -> tuple[Stratum, ...]:
        """The strata in a state."""
        return tuple(stratum for stratum in self.strata if stratum.state == state)


def diagnose(cases: pd.DataFrame, strata: pd.DataFrame, *, n_iterations: int) -> Diagnosis:
    """Apply the rules to the cases of a training and to their strata.

    Args:
        cases: A row per case with its ``set`` and the Dice of each label, NaN where it has none;
            with voxels and contrast of a label, these may explain its Dice.
        strata: The columns with strata, with the same rows.
        n_iterations: How long the training was.

    Raises:
        ValueError: If there is no training case.
    """
    is_training = (cases["set"] == TRAINING).to_numpy()
    n_training = int(is_training.sum())
    if not n_training:
        raise ValueError(
            "`cases` must have training cases, got none. Measure the cases of the training."
        )

    medians = _medians(cases[is_training])
    learnt = [label for label, median in medians.items() if median >= LEARNT]
    groups = list(groups_in(strata))
    n_comparisons = max(1, len(learnt) * (2 * (len(groups) - 1) + 1))
    limit = LEVEL / n_comparisons
    compared = compare_groups(cases, groups, learnt, limit)
    states = {stratum.state for stratum in compared}

    # Outliers compete with the strata that are behind, and so does what is small or faint.
    outliers = _unexplained_outliers(cases, compared, learnt)
    explanation = _explanation(
        cases,
        groups,
        learnt,
        limit,
        is_behind=State.BEHIND in states,
    )

    is_short = n_iterations < FEWEST_ITERATIONS
    is_low = any(median < LOW for median in medians.values())
    fewest_outliers = _fewest_outliers(compared, is_training)
    # The first that holds decides.
    rules = (
        (n_training < FEWEST_CASES or not learnt, Finding.CANNOT_TELL),
        (len(outliers) >= fewest_outliers, Finding.OUTLIERS),
        (explanation is not None, Finding.SMALL_OR_FAINT),
        (State.BEHIND in states, Finding.HARD),
        (State.NOT_CARRIED_OVER in states, Finding.NOT_CARRIED_OVER),
        (is_short or is_low or State.SUSPICION in states, Finding.CANNOT_TELL),
        (True, Finding.NOTHING_FAILS),
    )
    return Diagnosis(
        finding=next(finding for holds, finding in rules if holds),
        strata=tuple(compared),
        explanation=explanation,
        outliers=outliers,
        medians=medians,
        is_short=is_short,
        n_comparisons=n_comparisons,
        n_training=n_training,
    )


def _medians(training: pd.DataFrame) -> dict[str, float]:
    """The median Dice of each label."""
    dice = training.filter(regex=f"^{DICE}").median()
    return {str(name).removeprefix(DICE): float(median) for name, median in dice.items()}


def _unexplained_outliers(
    cases: pd.DataFrame,
    strata: Sequence[Stratum],
    labels: Sequence[str],
) -> tuple[Outlier, ...]:
    """The outliers that no stratum explains, the furthest below the limit first.

    A stratum explains its cases if it is behind, or may be, and at least half of them are far
    below.
    """
    is_training = (cases["set"] == TRAINING).to_numpy()
    outliers = _outliers(cases[is_training], labels)
    names = [outlier.case for outlier in outliers]
    is_outlier = cases["case"].isin(names).to_numpy()

    is_explained = np.zeros(len(cases), dtype=bool)
    for stratum in strata:
        members = stratum.members & is_training
        are_half_outliers = 2 * is_outlier[members].sum() >= members.sum()
        if stratum.state in (State.BEHIND, State.SUSPICION) and are_half_outliers:
            is_explained |= members

    # A case that one stratum explains is no outlier, whatever other strata it is in.
    explained = set(cases["case"][is_explained])
    return tuple(outlier for outlier in outliers if outlier.case not in explained)


def _outliers(training: pd.DataFrame, labels: Sequence[str]) -> list[Outlier]:
    """The cases that are far below the median of a label, each in its worst label."""
    outliers = []
    for label in labels:
        dice = training.set_index("case")[DICE + label]
        median = float(dice.median())
        deviation = _MAD_TO_SD * float((dice - median).abs().median())
        limit = median - max(OUTLIER, OUTLIER_SD * deviation)
        outliers += [
            Outlier(str(case), label, float(value), limit)
            for case, value in dice[dice < limit].items()
        ]

    by_case: dict[str, Outlier] = {}
    for outlier in sorted(outliers, key=lambda outlier: outlier.dice - outlier.limit):
        by_case.setdefault(outlier.case, outlier)
    return list(by_case.values())


def _fewest_outliers(strata: Sequence[Stratum], is_training: BoolArray) -> float:
    """The fewest outliers that are the finding: as many as there are cases in strata behind."""
    behind = [stratum.members for stratum in strata if stratum.state == State.BEHIND]
    is_behind = np.any(behind, axis=0)
    n_behind = int((is_behind & is_training).sum())
    return max(FEWEST_OUTLIERS, OUTLIER_SHARE * is_training.sum(), n_behind)


def _explanation(
    cases: pd.DataFrame,
    groups: Sequence[Group],
    labels: Sequence[str],
    limit: float,
    *,
    is_behind: bool,
) -> Explanation | None:
    """The best explanation by size and contrast, None if a stratum is behind beyond it."""
    adjusted, explanations = without_size_and_contrast(cases, labels)
    best = max(explanations, key=lambda explanation: explanation.share, default=None)
    if best is None or not is_behind:
        return best

    remaining = compare_groups(adjusted, groups, labels, limit)
    if any(stratum.state == State.BEHIND for stratum in remaining):
        return None
    return best
