"""The rules: from a table of numbers per case to one of six findings.

They are explained in docs/doctor.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pandas as pd

BoolArray = npt.NDArray[np.bool_]

BEHIND = 0.1  # A group is behind if its mean Dice of a label is lower than that of the others by this or more.
LEVEL = 0.01  # Largest probability of a difference between groups that are alike, divided by the number of comparisons.
SUSPICION = 0.05  # Below this probability, without that division, a difference is a suspicion.
LOWER = 0.01  # A group is lower, if not behind, if its mean Dice of a label is so much lower, and that is a suspicion.

#: A case is an outlier if its Dice of a label is below the median by this, and by so many standard
#: deviations.
OUTLIER = 0.2
OUTLIER_SD = 4.0

#: Outliers are the finding if they are at least so many, and this share of the training cases.
FEWEST_OUTLIERS = 2
OUTLIER_SHARE = 0.01

FEWEST_CASES = 10  # With fewer training cases nothing can be told.

#: A label whose median Dice on the training cases is below this has been learnt on no case, and
#: ranks none behind.
LEARNT = 0.1

#: Where the median Dice of a label on the training cases is below this, or the training had fewer
#: iterations, it is too early to say that nothing fails.
LOW = 0.6
FEWEST_ITERATIONS = 5_000

#: Size and contrast of a label explain what is hard if they explain this share of the variance of
#: the ranks of the Dice of so many training cases.
EXPLAINED = 0.5
FEWEST_EXPLAINED = 30

TRAINING = "training"
VALIDATION = "validation"

#: What the columns of the cases begin with, before the number of a patch or the name of a label.
LOSS = "loss_"
DICE = "dice_"
VOXELS = "voxels_"
CONTRAST = "contrast_"


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
    """A group of cases against others, in the label in which the group is worst."""

    label: str
    n: int  # cases of the group that have the label
    mean: float  # Dice of the group
    others: float  # mean Dice of the others
    probability: float  # of ranks as low as these by chance (Mann-Whitney, one-sided)
    evidence: int  # 4 that it is behind, 3 perhaps, 2 of too few cases to tell, 1 lower by less than that, 0 nothing

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
    training: Comparison | None  # of its training cases with the other training cases
    validation: Comparison | None  # of its validation cases with all training cases


@dataclass(frozen=True)
class Outlier:
    """A training case whose Dice is far below the others, in the label in which it is furthest below the limit."""

    case: str
    label: str
    dice: float
    limit: float


@dataclass(frozen=True)
class Explanation:
    """How much of the Dice of a label is explained by its size and its contrast."""

    label: str
    share: float  # of the variance of the ranks of the Dice, in [0, 1]
    low: float  # mean Dice of the half of the training cases that size and contrast predict to be low
    high: float  # mean Dice of the other half


@dataclass(frozen=True)
class Diagnosis:
    """What the rules say; the outliers are those that no stratum explains, worst first."""

    finding: Finding
    strata: tuple[Stratum, ...]  # of every column, and all cases last
    explanation: (
        Explanation | None
    )  # of the label that size and contrast explain best, if these explain what is hard
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
    """Apply the rules to the cases, with the Dice of each label (NaN without one), and to strata of the same rows."""
    is_training = (cases["set"] == TRAINING).to_numpy()
    training = cases[is_training]
    n = int(is_training.sum())
    if not n:
        raise ValueError(
            "`cases` must have training cases, got none. Measure the cases of the training."
        )
    labels = [str(name).removeprefix(DICE) for name in cases.columns if str(name).startswith(DICE)]
    medians = {label: float(training[DICE + label].median()) for label in labels}
    learnt = [label for label in labels if medians[label] >= LEARNT]
    groups = list(_groups(strata))
    n_comparisons = max(1, len(learnt) * (2 * (len(groups) - 1) + 1))

    def compared(dice: pd.DataFrame) -> list[Stratum]:
        return [_stratum(dice, *group, learnt, LEVEL / n_comparisons) for group in groups]

    found = compared(cases)
    states = {stratum.state for stratum in found}
    low = _outliers(training, learnt)
    is_low = training["case"].isin([one.case for one in low]).to_numpy()
    is_explained, is_behind = np.zeros((2, n), dtype=bool)
    for stratum, (_, _, members) in zip(found, groups, strict=True):
        of_stratum = members[is_training]
        is_behind |= of_stratum & (stratum.state == State.BEHIND)
        # A stratum explains its cases if it is behind, or may be, and at least half of them are far
        # below.
        if (
            stratum.state in (State.BEHIND, State.SUSPICION)
            and 2 * is_low[of_stratum].sum() >= of_stratum.sum()
        ):
            is_explained |= of_stratum
    outliers = tuple(one for one in low if one.case not in set(training["case"][is_explained]))
    adjusted, explanation = _without_size_and_contrast(cases, learnt, is_training)
    # Size and contrast must explain every stratum that is behind.
    if (
        explanation
        and State.BEHIND in states
        and any(one.state == State.BEHIND for one in compared(adjusted))
    ):
        explanation = None
    is_short = n_iterations < FEWEST_ITERATIONS
    is_unfinished = is_short or any(dice < LOW for dice in medians.values())
    # The first that holds decides.
    rules = [
        (n < FEWEST_CASES or not learnt, Finding.CANNOT_TELL),
        (
            len(outliers) >= max(FEWEST_OUTLIERS, OUTLIER_SHARE * n, is_behind.sum()),
            Finding.OUTLIERS,
        ),
        (explanation is not None, Finding.SMALL_OR_FAINT),
        (State.BEHIND in states, Finding.HARD),
        (State.NOT_CARRIED_OVER in states, Finding.NOT_CARRIED_OVER),
        (is_unfinished or State.SUSPICION in states, Finding.CANNOT_TELL),
        (True, Finding.NOTHING_FAILS),
    ]
    finding = next(finding for holds, finding in rules if holds)
    return Diagnosis(
        finding, tuple(found), explanation, outliers, medians, is_short, n_comparisons, n
    )


def _groups(strata: pd.DataFrame) -> Iterator[tuple[str, str, BoolArray]]:
    for column in strata:
        values = strata[column].astype(str)
        for name in sorted(values.unique()):
            yield str(column), name, (values == name).to_numpy()
    yield "", "all cases", np.ones(len(strata), dtype=bool)


def _stratum(
    cases: pd.DataFrame,
    column: str,
    name: str,
    members: BoolArray,
    labels: Sequence[str],
    limit: float,
) -> Stratum:
    is_training = (cases["set"] == TRAINING).to_numpy()
    mine = cases[members & is_training]
    unseen = cases[members & ~is_training]
    training = _worst(mine, cases[~members & is_training], labels, limit)
    validation = _worst(unseen, cases[is_training], labels, limit)
    evidence = [
        0 if comparison is None else comparison.evidence for comparison in (training, validation)
    ]
    if 4 in evidence:
        state = State.BEHIND if evidence[0] == 4 else State.NOT_CARRIED_OVER
    else:
        state = (State.LEVEL, State.LOWER, State.TOO_FEW, State.SUSPICION)[max(evidence)]
    return Stratum(column, name, len(mine), len(unseen), state, training, validation)


def _worst(
    group: pd.DataFrame, others: pd.DataFrame, labels: Sequence[str], limit: float
) -> Comparison | None:
    """The comparison with the most evidence, of several the one furthest below."""
    found = [
        comparison for label in labels if (comparison := _compare(group, others, label, limit))
    ]
    return max(
        found, key=lambda comparison: (comparison.evidence, comparison.difference), default=None
    )


def _compare(
    group: pd.DataFrame, others: pd.DataFrame, label: str, limit: float
) -> Comparison | None:
    from scipy.stats import mannwhitneyu

    mine, theirs = (part[DICE + label].dropna().to_numpy(dtype=float) for part in (group, others))
    if not (len(mine) and len(theirs)):
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        probability = float(mannwhitneyu(mine, theirs, alternative="less").pvalue)
        lowest = np.arange(len(mine)) - float(len(mine))
        smallest = float(
            mannwhitneyu(lowest, np.arange(float(len(theirs))), alternative="less").pvalue
        )
    probability = probability if np.isfinite(probability) else 1.0  # all values are equal
    mean = float(mine.mean())
    of_others = float(theirs.mean())
    difference = of_others - mean
    is_suspicious = probability < SUSPICION
    if difference >= BEHIND and is_suspicious:
        evidence = 4 if probability < limit else 3
    elif difference >= BEHIND and smallest >= SUSPICION:
        evidence = 2  # however low such a group is, chance would explain it
    else:
        evidence = int(difference >= LOWER and is_suspicious)
    return Comparison(label, len(mine), mean, of_others, probability, evidence)


def _outliers(training: pd.DataFrame, labels: Sequence[str]) -> tuple[Outlier, ...]:
    found = []
    for label in labels:
        dice = training.set_index("case")[DICE + label]
        median = float(dice.median())
        limit = median - max(OUTLIER, OUTLIER_SD * 1.4826 * float((dice - median).abs().median()))
        found += [
            Outlier(str(case), label, float(value), limit)
            for case, value in dice[dice < limit].items()
        ]
    by_case: dict[str, Outlier] = {}
    for outlier in sorted(found, key=lambda one: one.dice - one.limit):
        by_case.setdefault(outlier.case, outlier)
    return tuple(by_case.values())


def _without_size_and_contrast(
    cases: pd.DataFrame, labels: Sequence[str], is_training: BoolArray
) -> tuple[pd.DataFrame, Explanation | None]:
    """The cases with a Dice from which what size and contrast predict is taken, and how much that is.

    The prediction is linear in the ranks of both. Labels of which they explain little keep their
    Dice, and validation cases theirs. Of several labels, the explanation is that of the one that is
    explained best.
    """
    adjusted = cases.copy()
    found = []
    for label in labels:
        columns = [f"{what}{label}" for what in (DICE, VOXELS, CONTRAST)]
        if not set(columns) <= set(cases.columns):
            continue
        complete = is_training & cases[columns].notna().all(axis=1).to_numpy()
        if (n := int(complete.sum())) < FEWEST_EXPLAINED:
            continue
        ranks = cases.loc[complete, columns].rank().to_numpy()
        dice = ranks[:, 0]
        predictors = np.column_stack([ranks[:, 1:], np.ones(n)])
        predicted = predictors @ np.linalg.lstsq(predictors, dice, rcond=None)[0]
        # As of any two numbers, some of it is chance.
        share = 1 - float(np.var(dice - predicted) / max(float(np.var(dice)), 1e-12)) * (n - 1) / (
            n - 3
        )
        values = cases.loc[complete, columns[0]].to_numpy(dtype=float)
        is_low = predicted <= np.median(predicted)
        low = float(values[is_low].mean())
        high = float(values[~is_low].mean()) if not is_low.all() else float("nan")
        if share >= EXPLAINED and high - low >= BEHIND:
            found.append(Explanation(label, share, low, high))
            slope = np.polyfit(predicted, values, 1)[0]
            adjusted.loc[complete, columns[0]] = values - slope * (predicted - predicted.mean())
    return adjusted, max(found, key=lambda explanation: explanation.share, default=None)
