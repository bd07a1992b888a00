"""Combinations that are found in one half of the cases, and what the other half says of them.

It also says what could have been found.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.exploration import rank_sums
from nnunet_dro.exploration.inputs import LabelScores
from nnunet_dro.exploration.search import CodedAttribute, Combination, Limits, Search
from nnunet_dro.naming import count, group_name

#: A combination is carried over if its z in the half that was searched is at most this: one-sided
#: 5 %.
LEAST_Z = -1.645

#: The family-wise error rate of the claims.
LEVEL = 0.05

#: The most sets of attributes, times labels, that are looked at: minutes.
_MOST_SETS = 500_000

#: The most other names of the same cases that are told.
_MOST_TWINS = 3

#: How much worse random groups are made to say what could be found (fractions, or mm), and the
#: number of groups.
_SHIFT = 0.1
_SHIFT_MM = 10.0
_GROUPS = 500


@dataclass(frozen=True, eq=False)
class Candidate:
    """A combination that is carried over, with the scores of its label.

    Cases of the combinations of its label that were found before it do not count.
    """

    scores: LabelScores
    combination: Combination
    goodness: FloatArray  # of the scores, NaN for a case that does not count

    @property
    def counted(self) -> BoolArray:
        """The cases that count, those of the combination and others."""
        return ~np.isnan(self.goodness)

    @property
    def members(self) -> BoolArray:
        """The cases of the combination that count."""
        return self.combination.members & self.counted


@dataclass(frozen=True, eq=False)
class SearchOutcome:
    """What was found, the lowest first."""

    candidates: list[Candidate]
    rows: list[dict[str, Any]]  # of each as from `_result`, with ``holm_p`` and ``confirmed``
    n_combinations: int  # of those that were looked at
    search: Search  # in which they were found


def search_and_test(
    attributes: Sequence[CodedAttribute],
    labels: Sequence[LabelScores],
    patients: IndexArray,
    limits: Limits,
    *,
    seed: int,
    n_permutations: int = rank_sums.N_PERMUTATIONS,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> SearchOutcome:
    """Search one half of the cases, and test what is found in the other."""
    searched = halve(patients, np.random.default_rng([seed, 0]))
    search = Search(attributes, patients, searched, limits)
    n_all = search.n_sets * len(labels)
    if n_all > _MOST_SETS:
        raise InputError(
            "by",
            must="be of fewer attributes",
            got=f"{len(attributes)} attributes, which make {n_all:,} sets (times labels)",
            cure=(
                f"At most {_MOST_SETS:,} are looked at: name fewer with --by, or lower "
                "--max-attributes."
            ),
        )

    # Each combination that is found begins a search for the next one.
    n_steps = search.n_sets * (len(labels) + limits.n_candidates - 1)
    steps = itertools.count(1)
    candidates, n_combinations = _find(search, labels, lambda: progress(next(steps), n_steps))
    if not n_combinations:
        raise InputError(
            "min_cases",
            must=(
                f"leave a combination with at least {limits.min_cases} cases, and as many "
                "beside it, in each half"
            ),
            got=f"none among {count(len(patients), 'case')}",
            cure="Give a smaller number, more cases, or attributes with fewer strata.",
        )

    rng = np.random.default_rng([seed, 1])
    rows = [_result(candidate, search, rng, n_permutations) for candidate in candidates]
    p_values = np.array([row["p"] for row in rows], dtype=np.float64)
    for row, holm_p in zip(rows, holm(p_values), strict=True):
        row["holm_p"] = float(holm_p)
        row["confirmed"] = bool(holm_p <= LEVEL)

    return SearchOutcome(candidates, rows, n_combinations, search)


def halve(patients: IndexArray, rng: np.random.Generator) -> BoolArray:
    """Half of the cases: patients in random order, each to the half that has fewer cases so far."""
    sizes = np.bincount(patients)
    is_first = np.zeros(len(sizes), dtype=bool)
    n_cases = [0, 0]

    for patient in rng.permutation(len(sizes)):
        half = int(n_cases[1] < n_cases[0])
        is_first[patient] = half == 0
        n_cases[half] += int(sizes[patient])

    return np.asarray(is_first[patients])


def _find(
    search: Search, labels: Sequence[LabelScores], progress: Callable[[], None]
) -> tuple[list[Candidate], int]:
    """The combinations that score lowest, one after the other, and how many were looked at.

    Each is searched among the cases that those of its label before it do not have.
    """
    # The scores that are left of each label, and its combination that is lowest among these.
    left = [scores.goodness for scores in labels]
    lowest = []
    n_looked_at = 0
    for goodness in left:
        combination, n = search.lowest(goodness, progress=progress)
        lowest.append(combination)
        n_looked_at += n

    n_candidates = search.limits.n_candidates
    candidates: list[Candidate] = []
    while len(candidates) < n_candidates:
        z = [np.inf if combination is None else combination.z for combination in lowest]
        place = int(np.argmin(z))
        combination = lowest[place]
        if combination is None or combination.z > LEAST_Z:
            break

        candidates.append(Candidate(labels[place], combination, left[place]))
        if len(candidates) < n_candidates:
            left[place] = np.where(combination.members, np.nan, left[place])
            lowest[place], _ = search.lowest(left[place], progress=progress)

    return candidates, n_looked_at


def _result(
    candidate: Candidate, search: Search, rng: np.random.Generator, n_permutations: int
) -> dict[str, Any]:
    """What both halves say of a combination: a row of the table, without Holm's correction."""
    combination = candidate.combination
    row: dict[str, Any] = {
        "combination": combination_name(combination.parts),
        "label": candidate.scores.label,
    }
    numbers = range(1, search.limits.max_attributes + 1)
    parts = itertools.zip_longest(numbers, combination.parts, fillvalue=("", ""))
    for number, (attribute, stratum) in parts:
        row[f"attribute_{number}"] = attribute
        row[f"stratum_{number}"] = stratum

    for half, name in ((search.searched, "search"), (~search.searched, "test")):
        row |= _described(candidate, half, search.patients, name)
    row["z_search"] = combination.z

    # Only cases of the half that was not searched tell whether chance explains the combination.
    tested = candidate.counted & ~search.searched
    inside = combination.members[tested]
    ranks = rankdata(candidate.goodness[tested])
    blocks = rank_sums.patients_by_size(search.patients[tested])
    row["share_lower"] = rank_sums.share_lower(inside, ranks)
    row["p"] = rank_sums.p_lower(
        inside,
        ranks,
        blocks,
        rng=rng,
        n_permutations=n_permutations,
    )

    twins = search.same_cases(combination, candidate.counted)[:_MOST_TWINS]
    row["same_cases"] = "; ".join(map(combination_name, twins))
    return row


def _described(
    candidate: Candidate, half: BoolArray, patients: IndexArray, name: str
) -> dict[str, Any]:
    """How many cases of a combination and of the rest are in a half, and how they score."""
    scores = candidate.scores
    inside = candidate.members & half
    outside = candidate.counted & ~candidate.members & half

    return {
        f"n_{name}": int(inside.sum()),
        f"n_rest_{name}": int(outside.sum()),
        f"n_patients_{name}": len(np.unique(patients[inside])),
        f"n_worst_{name}": int((inside & scores.failed).sum()),
        f"mean_{name}": float(scores.filled[inside].mean()),
        f"mean_rest_{name}": float(scores.filled[outside].mean()),
    }


def combination_name(parts: Sequence[tuple[str, str]]) -> str:
    """The name of a combination: ``centre=A, scanner=B``."""
    return ", ".join(itertools.starmap(group_name, parts))


@dataclass(frozen=True)
class Power:
    """The chance that a group is confirmed.

    It is the share of random groups that are confirmed if their scores are 10 points worse.
    """

    label: str
    n_searched: int  # cases that count in the half that was searched
    n_tested: int
    n_group: int  # cases of a group in each half: of the strata that are large enough, the median
    share: float


def power_of(
    search: Search, labels: Sequence[LabelScores], metric: Metric, *, rng: np.random.Generator
) -> Power:
    """The chance, at most, that a group is confirmed if its scores are 10 points worse.

    Groups consist of random patients. The label is the one with the most scores.
    """
    scores = max(labels, key=lambda scores: np.count_nonzero(~np.isnan(scores.goodness)))
    goodness = scores.goodness
    worse = goodness - (_SHIFT if metric.unit == "fraction" else _SHIFT_MM)
    if metric.more_is_better:
        # No score is below 0; a label that was missed stays the worst.
        worse = np.maximum(worse, np.minimum(goodness, 0.0))

    counted = ~np.isnan(goodness)
    searched = np.flatnonzero(counted & search.searched)
    tested = np.flatnonzero(counted & ~search.searched)

    n_group = _usual_size(search, (searched, tested))
    is_low = []
    for half in (searched, tested):
        patients = search.patients[half]
        is_low.append(_are_low(goodness[half], worse[half], patients, n_group, rng))

    return Power(
        label=scores.label,
        n_searched=len(searched),
        n_tested=len(tested),
        n_group=n_group,
        share=float(np.mean(is_low[0] & is_low[1])),
    )


def _usual_size(search: Search, halves: Sequence[IndexArray]) -> int:
    """The median number of cases of the strata that are large enough.

    The number of a stratum is that of the half in which it has fewer.
    """
    fewest = []
    for attribute in search.attributes:
        n_strata = len(attribute.strata)
        counts = [np.bincount(attribute.codes[half], minlength=n_strata) for half in halves]
        fewest.append(np.minimum(*counts))

    # Strata of all attributes together.
    sizes = np.concatenate(fewest)
    large = sizes[sizes >= search.limits.min_cases]
    return int(np.median(large)) if len(large) else search.limits.min_cases


def _are_low(
    goodness: FloatArray,
    worse: FloatArray,
    patients: IndexArray,
    n_group: int,
    rng: np.random.Generator,
) -> BoolArray:
    """Whether random groups are low enough, if their cases get the worse scores.

    Low enough is what carries a combination over, and about what confirms it.
    """
    blocks = rank_sums.patients_by_size(patients)
    _, numbers = np.unique(patients, return_inverse=True)
    is_low = np.zeros(_GROUPS, dtype=bool)

    for n in range(_GROUPS):
        # Whole patients, up to the first with which the group is as large as wanted.
        turn = rng.permutation(numbers.max() + 1)[numbers]
        last = np.sort(turn)[min(n_group, len(turn)) - 1]
        inside = turn <= last

        ranks = rankdata(np.where(inside, worse, goodness))
        z = rank_sums.standardised(np.where(inside, 0, -1), 1, ranks, blocks)
        is_low[n] = z[0] <= LEAST_Z

    return is_low
