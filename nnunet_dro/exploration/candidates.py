"""Combinations that are found in one half of the cases, what the other half says of them, and what could be found."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.exploration import rank_sums
from nnunet_dro.exploration.inputs import LabelScores
from nnunet_dro.exploration.rank_sums import BoolArray, CodeArray, FloatArray
from nnunet_dro.exploration.search import Attribute, Found, Limits, Search

LEAST_Z = -1.645  # A combination is carried over if it is at least so low in the half that was searched: one-sided 5 %.
LEVEL = 0.05  # The family-wise error rate of the claims.
_MOST_SETS = 500_000  # The most sets of attributes, times labels, that are looked at: minutes.
_MOST_TWINS = 3  # Other names of the same cases that are told.

#: How much worse random groups are made to say what could be found (fractions, or mm), and the
#: number of groups.
_SHIFT = 0.1
_SHIFT_MM = 10.0
_GROUPS = 500


@dataclass(frozen=True, eq=False)
class Candidate:
    """A combination that is carried over, with the scores of its label.

    Cases of those found before it do not count.
    """

    scores: LabelScores
    found: Found
    goodness: FloatArray  # of the scores, NaN for a case that does not count

    @property
    def members(self) -> BoolArray:
        """The cases of the combination that count and are in none of those before."""
        return self.found.members & ~np.isnan(self.goodness)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was found, the lowest first, with a row for each as from `_result`, ``holm_p`` and ``confirmed``."""

    candidates: list[Candidate]
    rows: list[dict[str, Any]]
    n_combinations: int  # of those that were looked at
    search: Search  # in which they were found


def search_and_test(
    attributes: Sequence[Attribute],
    labels: Sequence[LabelScores],
    patients: CodeArray,
    limits: Limits,
    *,
    n_candidates: int,
    seed: int,
    n_permutations: int = rank_sums.N_PERMUTATIONS,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> Outcome:
    """Search one half of the cases, and test what is found in the other."""
    search = Search(attributes, patients, halve(patients, np.random.default_rng([seed, 0])), limits)
    if (n_all := search.n_sets * len(labels)) > _MOST_SETS:
        got = f"{len(attributes)} attributes, which make {n_all:,} sets (times labels)"
        cure = f"At most {_MOST_SETS:,} are looked at: name fewer with --by, or lower --max-attributes."
        raise ValueError(f"`by` must be of fewer attributes, got {got}. {cure}")
    # Each combination that is found begins a search for the next one.
    n_steps = search.n_sets * (len(labels) + n_candidates - 1)
    steps = itertools.count(1)
    candidates, n_combinations = _find(
        search, labels, n_candidates, lambda: progress(next(steps), n_steps)
    )
    if not n_combinations:
        rule = f"leave a combination with at least {limits.min_cases} cases, and as many beside it, in each half"
        cure = "Give a smaller number, more cases, or attributes with fewer strata."
        raise ValueError(f"`min_cases` must {rule}, got none among {len(patients)} cases. {cure}")
    rng = np.random.default_rng([seed, 1])
    rows = [_result(one, search, rng, n_permutations) for one in candidates]
    for row, p in zip(
        rows, holm(np.array([row["p"] for row in rows], dtype=np.float64)), strict=True
    ):
        row |= {"holm_p": float(p), "confirmed": bool(p <= LEVEL)}
    return Outcome(candidates, rows, n_combinations, search)


def halve(patients: CodeArray, rng: np.random.Generator) -> BoolArray:
    """Half of the cases: patients in random order, each to the half that has fewer cases so far."""
    sizes = np.bincount(patients)
    first = np.zeros(len(sizes), dtype=bool)
    n_cases = [0, 0]
    for patient in rng.permutation(len(sizes)):
        half = int(n_cases[1] < n_cases[0])
        first[patient] = half == 0
        n_cases[half] += int(sizes[patient])
    return np.asarray(first[patients])


def _find(
    search: Search, labels: Sequence[LabelScores], n_candidates: int, progress: Callable[[], None]
) -> tuple[list[Candidate], int]:
    """The combinations that score lowest, one after the other, each among the cases that those before do not have."""
    left = [of_label.goodness for of_label in labels]
    looked = [search.lowest(goodness, progress=progress) for goodness in left]
    best = [found for found, _ in looked]
    candidates = list[Candidate]()
    while len(candidates) < n_candidates:
        place = int(np.argmin([np.inf if found is None else found.z for found in best]))
        found = best[place]
        if found is None or found.z > LEAST_Z:
            break
        candidates.append(Candidate(labels[place], found, left[place]))
        if len(candidates) < n_candidates:
            left[place] = np.where(found.members, np.nan, left[place])
            best[place], _ = search.lowest(left[place], progress=progress)
    return candidates, sum(n for _, n in looked)


def _result(
    candidate: Candidate, search: Search, rng: np.random.Generator, n_permutations: int
) -> dict[str, Any]:
    """What both halves say of a combination: a row of the table, without Holm's correction."""
    found = candidate.found
    scores = candidate.scores
    searched = search.searched
    patients = search.patients
    counted = ~np.isnan(candidate.goodness)
    row: dict[str, Any] = {"combination": written(found.parts), "label": scores.label}
    for number, (attribute, stratum) in enumerate(found.parts, start=1):
        row |= {f"attribute_{number}": attribute, f"stratum_{number}": stratum}
    for half, name in ((searched, "search"), (~searched, "test")):
        inside = found.members & counted & half
        outside = ~found.members & counted & half
        row |= {
            f"n_{name}": int(inside.sum()),
            f"n_rest_{name}": int(outside.sum()),
            f"n_patients_{name}": len(np.unique(patients[inside])),
            f"n_worst_{name}": int((inside & scores.failed).sum()),
            f"mean_{name}": float(scores.filled[inside].mean()),
            f"mean_rest_{name}": float(scores.filled[outside].mean()),
        }
    row["z_search"] = found.z
    half = counted & ~searched
    inside = found.members[half]
    ranks = rankdata(candidate.goodness[half])
    row["share_lower"] = rank_sums.share_lower(inside, ranks)
    blocks = rank_sums.patients_by_size(patients[half])
    row["p"] = rank_sums.p_lower(inside, ranks, blocks, rng=rng, n_permutations=n_permutations)
    row["same_cases"] = "; ".join(map(written, search.same_cases(found, counted)[:_MOST_TWINS]))
    return row


def written(parts: Sequence[tuple[str, str]]) -> str:
    """The name of a combination: ``centre=A, scanner=B``."""
    return ", ".join(f"{attribute}={stratum}" for attribute, stratum in parts)


@dataclass(frozen=True)
class Power:
    """The chance that a group is confirmed.

    The share of random groups that are if their scores are 10 points worse.
    """

    label: str
    n_searched: int  # cases that count in the half that was searched
    n_tested: int
    n_group: int  # cases of a group in each half: of the strata that are large enough, the median
    share: float


def power_of(
    search: Search, labels: Sequence[LabelScores], metric: Metric, *, rng: np.random.Generator
) -> Power:
    """The chance, at most, that a group of random patients is confirmed if their scores are 10 points worse."""
    scores = max(labels, key=lambda one: int((~np.isnan(one.goodness)).sum()))
    counted = ~np.isnan(scores.goodness)
    halves = [np.flatnonzero(counted & half) for half in (search.searched, ~search.searched)]
    counts = [
        [np.bincount(a.codes[half], minlength=len(a.strata)) for half in halves]
        for a in search.attributes
    ]
    fewest = np.concatenate([np.minimum(*of_halves) for of_halves in counts])
    large = fewest[fewest >= search.limits.min_cases]
    n_group = int(np.median(large)) if len(large) else search.limits.min_cases
    worse = scores.goodness - (_SHIFT if metric.unit == "fraction" else _SHIFT_MM)
    if metric.more_is_better:
        # No score is below 0; a label that was missed stays the worst.
        worse = np.maximum(worse, np.minimum(scores.goodness, 0.0))
    found = [
        _are_low(scores.goodness[half], worse[half], search.patients[half], n_group, rng)
        for half in halves
    ]
    return Power(
        scores.label, len(halves[0]), len(halves[1]), n_group, float(np.mean(found[0] & found[1]))
    )


def _are_low(
    goodness: FloatArray,
    worse: FloatArray,
    patients: CodeArray,
    n_group: int,
    rng: np.random.Generator,
) -> BoolArray:
    """Whether random groups whose cases get the worse scores are low enough to be carried over or confirmed."""
    blocks = rank_sums.patients_by_size(patients)
    found = np.zeros(_GROUPS, dtype=bool)
    _, numbers = np.unique(patients, return_inverse=True)
    for place in range(_GROUPS):
        # Whole patients, up to the first with which the group is as large as wanted.
        turn = rng.permutation(numbers.max() + 1)[numbers]
        last = np.sort(turn)[min(n_group, len(turn)) - 1]
        inside = turn <= last
        ranks = rankdata(np.where(inside, worse, goodness))
        found[place] = (
            rank_sums.standardised(np.where(inside, 0, -1), 1, ranks, blocks)[0] <= LEAST_Z
        )
    return found
