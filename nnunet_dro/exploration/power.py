"""What an exploration could have found: the chance that a group which is 10 points worse is confirmed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.exploration.candidates import LEAST_Z
from nnunet_dro.exploration.rank_sums import BoolArray, CodeArray, FloatArray, patients_by_size, standardised
from nnunet_dro.exploration.scores import LabelScores
from nnunet_dro.exploration.search import Attribute, Limits

#: How much worse the groups are made: fractions, or mm.
SHIFT, SHIFT_MM = 0.1, 10.0

#: Number of groups that are drawn.
_GROUPS = 500


@dataclass(frozen=True)
class Power:
    """The chance that a group is confirmed.

    Attributes:
        label: The label.
        n_searched: Number of cases that count in the half that was searched.
        n_tested: Number of them in the other half.
        n_group: Number of cases of a group in each half: of the strata that are large enough, the median.
        share: Share of the groups that are confirmed if all their scores are 10 points (or 10 mm) worse.
    """

    label: str
    n_searched: int
    n_tested: int
    n_group: int
    share: float


def power_of(
    attributes: Sequence[Attribute],
    labels: Sequence[LabelScores],
    patients: CodeArray,
    searched: BoolArray,
    limits: Limits,
    metric: Metric,
    *,
    rng: np.random.Generator,
) -> Power:
    """The chance that a group of random patients is confirmed if their scores are 10 points worse than they are.

    It is an upper bound: the search has to prefer the group to all others, and Holm's correction may be for several.

    Args:
        attributes: What divides the cases.
        labels: The scores of every label; the one with the most cases is taken.
        patients: The number of each case's patient, shape (n_cases,).
        searched: Which cases were searched, shape (n_cases,).
        limits: Which combinations were looked at.
        metric: The metric.
        rng: Source of the groups.
    """
    scores = max(labels, key=lambda one: int((~np.isnan(one.goodness)).sum()))
    counted = ~np.isnan(scores.goodness)
    halves = [np.flatnonzero(counted & half) for half in (searched, ~searched)]
    counts = [[np.bincount(a.codes[half], minlength=len(a.strata)) for half in halves] for a in attributes]
    fewest = np.concatenate([np.minimum(*of_halves) for of_halves in counts])
    large = fewest[fewest >= limits.min_cases]
    n_group = int(np.median(large)) if len(large) else limits.min_cases
    worse = scores.goodness - (SHIFT if metric.unit == "fraction" else SHIFT_MM)
    if metric.more_is_better:
        # No score is below 0; a label that was missed stays the worst.
        worse = np.maximum(worse, np.minimum(scores.goodness, 0.0))
    found = [_are_low(scores.goodness[half], worse[half], patients[half], n_group, rng) for half in halves]
    return Power(scores.label, len(halves[0]), len(halves[1]), n_group, float(np.mean(found[0] & found[1])))


def _are_low(
    goodness: FloatArray, worse: FloatArray, patients: CodeArray, n_group: int, rng: np.random.Generator
) -> BoolArray:
    """Whether random groups whose cases get the worse scores are low enough to be carried over or confirmed."""
    blocks, found = patients_by_size(patients), np.zeros(_GROUPS, dtype=bool)
    _, numbers = np.unique(patients, return_inverse=True)
    for place in range(_GROUPS):
        # Whole patients, up to the first with which the group is as large as wanted.
        turn = rng.permutation(numbers.max() + 1)[numbers]
        last = np.sort(turn)[min(n_group, len(turn)) - 1]
        inside = turn <= last
        ranks = rankdata(np.where(inside, worse, goodness))
        found[place] = standardised(np.where(inside, 0, -1), 1, ranks, blocks)[0] <= LEAST_Z
    return found
