"""The rules: from a table of numbers per case to one of six findings. They are explained in docs/doctor.md."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.doctor.size_and_contrast import Explanation, without_size_and_contrast

#: A group is behind if its mean Dice of a label is lower than that of the others by this or more.
BEHIND = 0.1

#: Largest probability of a difference between groups that are alike, divided by the number of comparisons.
LEVEL = 0.01

#: Below this probability, without that division, a difference is a suspicion.
SUSPICION = 0.05

#: A group is lower, if not behind, if its mean Dice of a label is so much lower, and that is a suspicion.
LOWER = 0.01

#: A case is an outlier if its Dice of a label is below the median by this, and by so many standard deviations.
OUTLIER, OUTLIER_SD = 0.2, 4.0

#: Outliers are the finding if they are at least so many, and this share of the training cases.
FEWEST_OUTLIERS, OUTLIER_SHARE = 2, 0.01

#: With fewer training cases nothing can be told.
FEWEST_CASES = 10

#: A label whose median Dice on the training cases is below this has been learnt on no case, and ranks none behind.
LEARNT = 0.1

#: Where the median Dice of a label on the training cases is below this, or the training had fewer iterations, it is too
#: early to say that nothing fails.
LOW, FEWEST_ITERATIONS = 0.6, 5_000

TRAINING, VALIDATION = "training", "validation"


class Finding(str, Enum):
    """What the rules find."""

    NOTHING_FAILS = "nothing fails"
    HARD = "hard to learn"
    SMALL_OR_FAINT = "small or faint"
    NOT_CARRIED_OVER = "learnt but not carried over"
    OUTLIERS = "a few outliers"
    CANNOT_TELL = "cannot tell"


class State(str, Enum):
    """How a stratum compares with the other cases."""

    LEVEL = "no worse"
    LOWER = f"lower, by less than {100 * BEHIND:.0f} points"
    BEHIND = "behind in training"
    NOT_CARRIED_OVER = "behind in validation only"
    SUSPICION = "uncertain"
    TOO_FEW = "too few"


@dataclass(frozen=True)
class Comparison:
    """A group of cases against others, in the label in which the group is worst.

    Attributes:
        label: The label.
        n: Number of cases of the group that have it.
        mean: Mean Dice of the group.
        others: Mean Dice of the others.
        probability: Probability of ranks as low as these by chance (Mann-Whitney, one-sided).
        smallest: The smallest such probability that groups of this size can have.
    """

    label: str
    n: int
    mean: float
    others: float
    probability: float
    smallest: float

    @property
    def difference(self) -> float:
        """How far the group is below the others, Dice."""
        return self.others - self.mean


@dataclass(frozen=True)
class Stratum:
    """A stratum of a column, or all cases.

    Attributes:
        column: The column; empty for all cases.
        name: Its value.
        n_training: Number of training cases.
        n_validation: Number of validation cases.
        state: How it compares with the others.
        training: Its training cases against the other training cases; None if there are no such cases.
        validation: Its validation cases against the training cases of all strata; None if there is none.
    """

    column: str
    name: str
    n_training: int
    n_validation: int
    state: State
    training: Comparison | None
    validation: Comparison | None


@dataclass(frozen=True)
class Outlier:
    """A training case far below the others.

    Attributes:
        case: The case.
        label: The label in which it is furthest below its limit.
        dice: Its Dice.
        limit: Dice below which a case is an outlier.
    """

    case: str
    label: str
    dice: float
    limit: float


@dataclass(frozen=True)
class Diagnosis:
    """What the rules say.

    Attributes:
        finding: The finding.
        strata: Every stratum of every column, and all cases last.
        explanation: The label whose Dice is explained best by size and contrast, if these explain what is hard.
        outliers: Training cases far below the others that no stratum explains, worst first. A stratum explains its
            cases if it is behind, or may be, and half of its training cases or more are that far below.
        medians: Median Dice of each label over the training cases.
        is_short: Whether the training had fewer iterations than `FEWEST_ITERATIONS`.
        n_comparisons: Number of comparisons of groups, by which `LEVEL` is divided.
        n_training: Number of training cases.
    """

    finding: Finding
    strata: tuple[Stratum, ...]
    explanation: Explanation | None
    outliers: tuple[Outlier, ...]
    medians: dict[str, float]
    is_short: bool
    n_comparisons: int
    n_training: int

    @property
    def low(self) -> dict[str, float]:
        """The labels with a low median, and the median."""
        return {label: dice for label, dice in self.medians.items() if dice < LOW}

    def those(self, state: State) -> tuple[Stratum, ...]:
        """The strata in a state."""
        return tuple(stratum for stratum in self.strata if stratum.state == state)


def diagnose(cases: pd.DataFrame, strata: pd.DataFrame | None = None, *, n_iterations: int) -> Diagnosis:
    """Apply the rules.

    Args:
        cases: A row per case: ``case``, ``set`` (training or validation), and the Dice of each label in columns named
            ``dice_<label>`` (NaN where the case does not have it); ``voxels_<label>`` and ``contrast_<label>``, if they
            were measured.
        strata: The same rows: columns with the strata, of any names; None without strata.
        n_iterations: Number of iterations of the training.

    Returns:
        The finding, with everything it rests on. Without any Dice it is that nothing can be told.

    Raises:
        ValueError: If there is no training case.
    """
    labels = [str(name) for name in cases.columns if str(name).startswith("dice_")]
    training = cases[cases["set"] == TRAINING]
    if training.empty:
        raise ValueError("`cases` must have training cases, got none. Measure the cases of the training.")
    medians = {label.removeprefix("dice_"): float(training[label].median()) for label in labels}
    learnt = [label for label in labels if medians[label.removeprefix("dice_")] >= LEARNT]
    groups = list(_groups(cases[[]] if strata is None else strata))
    n_comparisons = max(1, len(learnt) * (2 * (len(groups) - 1) + 1))
    limit = LEVEL / n_comparisons
    compared = [_stratum(cases, members, column, name, learnt, limit) for column, name, members in groups]
    low = _outliers(training, learnt)
    is_low, explained, behind = training["case"].isin([outlier.case for outlier in low]).to_numpy(), set(), set()
    for stratum, (_, _, members) in zip(compared, groups, strict=True):
        of_stratum = members[(cases["set"] == TRAINING).to_numpy()]
        names = set(training["case"][of_stratum])
        if stratum.state == State.BEHIND:
            behind |= names
        if stratum.state in (State.BEHIND, State.SUSPICION) and 2 * is_low[of_stratum].sum() >= of_stratum.sum():
            explained |= names
    outliers = tuple(outlier for outlier in low if outlier.case not in explained)
    is_short = n_iterations < FEWEST_ITERATIONS
    is_unfinished = is_short or any(dice < LOW for dice in medians.values())
    states = {stratum.state for stratum in compared}
    is_training = (cases["set"] == TRAINING).to_numpy()
    adjusted, explanation = without_size_and_contrast(cases, learnt, is_training, difference=BEHIND)
    if explanation is not None and State.BEHIND in states:
        again = [_stratum(adjusted, members, column, name, learnt, limit) for column, name, members in groups]
        if any(stratum.state == State.BEHIND for stratum in again):
            explanation = None
    finding = _finding(
        len(training),
        states,
        len(outliers),
        len(behind),
        len(learnt),
        is_explained=explanation is not None,
        is_unfinished=is_unfinished,
    )
    return Diagnosis(finding, tuple(compared), explanation, outliers, medians, is_short, n_comparisons, len(training))


def _finding(
    n: int,
    states: Collection[State],
    n_outliers: int,
    n_behind: int,
    n_labels: int,
    *,
    is_explained: bool,
    is_unfinished: bool,
) -> Finding:
    """The rules in their order; the first that holds decides."""
    if n < FEWEST_CASES or not n_labels:
        return Finding.CANNOT_TELL
    if n_outliers >= max(FEWEST_OUTLIERS, OUTLIER_SHARE * n, n_behind):
        return Finding.OUTLIERS
    if is_explained:
        return Finding.SMALL_OR_FAINT
    if State.BEHIND in states:
        return Finding.HARD
    if State.NOT_CARRIED_OVER in states:
        return Finding.NOT_CARRIED_OVER
    return Finding.CANNOT_TELL if is_unfinished or State.SUSPICION in states else Finding.NOTHING_FAILS


def _groups(strata: pd.DataFrame) -> Iterator[tuple[str, str, npt.NDArray[np.bool_]]]:
    for column in strata:
        values = strata[column].astype(str)
        for name in sorted(values.unique()):
            yield str(column), name, (values == name).to_numpy()
    yield "", "all cases", np.ones(len(strata), dtype=bool)


def _stratum(
    cases: pd.DataFrame, members: npt.NDArray[np.bool_], column: str, name: str, labels: Sequence[str], limit: float
) -> Stratum:
    is_training = (cases["set"] == TRAINING).to_numpy()
    mine, others = cases[members & is_training], cases[~members & is_training]
    unseen = cases[members & ~is_training]
    in_training = [found for label in labels if (found := _compare(mine, others, label))]
    in_validation = [found for label in labels if (found := _compare(unseen, cases[is_training], label))]
    return Stratum(
        column,
        name,
        len(mine),
        len(unseen),
        _state(in_training, in_validation, limit),
        _shown(in_training, limit),
        _shown(in_validation, limit),
    )


def _state(in_training: Sequence[Comparison], in_validation: Sequence[Comparison], limit: float) -> State:
    training, validation = (
        max((_evidence(c, limit) for c in part), default=0) for part in (in_training, in_validation)
    )
    if training == 4:
        return State.BEHIND
    if validation == 4:
        return State.NOT_CARRIED_OVER
    return (State.LEVEL, State.LOWER, State.TOO_FEW, State.SUSPICION)[max(training, validation)]


def _evidence(c: Comparison, limit: float) -> int:
    """What a comparison says: 4 behind, 3 perhaps, 2 of too few cases to tell, 1 lower by less than that, 0 nothing."""
    if c.difference >= BEHIND and c.probability < SUSPICION:
        return 4 if c.probability < limit else 3
    # However low such a group is, chance would explain it.
    if c.difference >= BEHIND and c.smallest >= SUSPICION:
        return 2
    return int(c.difference >= LOWER and c.probability < SUSPICION)


def _compare(group: pd.DataFrame, others: pd.DataFrame, label: str) -> Comparison | None:
    from scipy.stats import mannwhitneyu

    mine, theirs = group[label].dropna().to_numpy(dtype=float), others[label].dropna().to_numpy(dtype=float)
    if not (len(mine) and len(theirs)):
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        probability = float(mannwhitneyu(mine, theirs, alternative="less").pvalue)
        lowest = np.arange(len(mine)) - float(len(mine))
        smallest = float(mannwhitneyu(lowest, np.arange(float(len(theirs))), alternative="less").pvalue)
    probability = probability if np.isfinite(probability) else 1.0  # all values are equal
    return Comparison(
        label.removeprefix("dice_"), len(mine), float(mine.mean()), float(theirs.mean()), probability, smallest
    )


def _shown(comparisons: Sequence[Comparison], limit: float) -> Comparison | None:
    """The comparison that the state rests on, of several the one furthest below."""
    return max(comparisons, key=lambda c: (_evidence(c, limit), c.difference), default=None)


def _outliers(training: pd.DataFrame, labels: Sequence[str]) -> tuple[Outlier, ...]:
    found: dict[str, Outlier] = {}
    for label in labels:
        dice = training[label]
        median = float(dice.median())
        deviation = 1.4826 * float((dice - median).abs().median())
        limit = median - max(OUTLIER, OUTLIER_SD * deviation)
        for case, value in zip(training["case"], dice, strict=True):
            outlier = Outlier(str(case), label.removeprefix("dice_"), float(value), limit)
            before = found.get(outlier.case)
            if value < limit and (before is None or value - limit < before.dice - before.limit):
                found[outlier.case] = outlier
    return tuple(sorted(found.values(), key=lambda outlier: outlier.dice - outlier.limit))
