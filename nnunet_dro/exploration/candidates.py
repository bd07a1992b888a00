"""Combinations that are found in one half of the cases, and what the other half says of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from nnunet_dro.evaluation.statistics.significance import holm
from nnunet_dro.exploration.rank_sums import (
    N_PERMUTATIONS,
    BoolArray,
    CodeArray,
    FloatArray,
    p_lower,
    patients_by_size,
    share_lower,
)
from nnunet_dro.exploration.scores import LabelScores
from nnunet_dro.exploration.search import Attribute, Found, Limits, lowest, same_cases

#: A combination is carried over if it is at least so low in the half that was searched: one-sided 5 %.
LEAST_Z = -1.645

#: The family-wise error rate of the claims.
LEVEL = 0.05

#: Other names of the same cases that are told.
_MOST_TWINS = 3


@dataclass(frozen=True, eq=False)
class Candidate:
    """A combination that is carried over.

    Attributes:
        scores: The scores of its label.
        found: The combination.
        goodness: As in ``scores``, NaN also for the cases of the combinations of this label that were found before.
    """

    scores: LabelScores
    found: Found
    goodness: FloatArray

    @property
    def members(self) -> BoolArray:
        """The cases of the combination that count and are in none of those before, shape (n_cases,)."""
        return self.found.members & ~np.isnan(self.goodness)

    @property
    def rest(self) -> BoolArray:
        """The other cases that count and are in none of those before, shape (n_cases,)."""
        return ~self.found.members & ~np.isnan(self.goodness)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was found and confirmed.

    Attributes:
        candidates: The combinations that were carried over, the lowest first.
        rows: What both halves say of each; see `result_of`, with ``holm_p`` and ``confirmed``.
        n_combinations: Number of combinations that were looked at.
        searched: The half in which they were found, shape (n_cases,).
    """

    candidates: tuple[Candidate, ...]
    rows: tuple[dict[str, Any], ...]
    n_combinations: int
    searched: BoolArray


def search_and_test(
    attributes: Sequence[Attribute],
    labels: Sequence[LabelScores],
    patients: CodeArray,
    limits: Limits,
    *,
    n_candidates: int,
    seed: int,
    n_permutations: int = N_PERMUTATIONS,
    progress: Callable[[], None] = lambda: None,
) -> Outcome:
    """Search one half of the cases, and test what is found in the other.

    Args:
        attributes: What divides the cases.
        labels: The scores of every label.
        patients: The number of each case's patient, shape (n_cases,).
        limits: Which combinations are looked at.
        n_candidates: The most combinations that are carried over, over all labels.
        seed: Random seed of the halves and the permutations.
        n_permutations: Number of permutations per test.
        progress: Called once per set of attributes.
    """
    searched = halve(patients, np.random.default_rng([seed, 0]))
    candidates, n_combinations = find_candidates(
        attributes, labels, patients, searched, limits, n_candidates=n_candidates, progress=progress
    )
    rng = np.random.default_rng([seed, 1])
    rows = [
        result_of(one, attributes, patients, searched, limits, rng=rng, n_permutations=n_permutations)
        for one in candidates
    ]
    adjusted = holm(np.array([row["p"] for row in rows], dtype=np.float64))
    with_holm = [
        row | {"holm_p": float(p), "confirmed": bool(p <= LEVEL)} for row, p in zip(rows, adjusted, strict=True)
    ]
    return Outcome(tuple(candidates), tuple(with_holm), n_combinations, searched)


def halve(patients: CodeArray, rng: np.random.Generator) -> BoolArray:
    """Half of the cases: patients in random order, each to the half that has fewer cases so far.

    Args:
        patients: The number of each case's patient, 0 to n_patients - 1.
        rng: Source of the order.

    Returns:
        Whether a case is in the first half, shape (n_cases,).
    """
    sizes = np.bincount(patients)
    first, n_cases = np.zeros(len(sizes), dtype=bool), [0, 0]
    for patient in rng.permutation(len(sizes)):
        half = int(n_cases[1] < n_cases[0])
        first[patient] = half == 0
        n_cases[half] += int(sizes[patient])
    return np.asarray(first[patients])


def find_candidates(
    attributes: Sequence[Attribute],
    labels: Sequence[LabelScores],
    patients: CodeArray,
    searched: BoolArray,
    limits: Limits,
    *,
    n_candidates: int,
    progress: Callable[[], None] = lambda: None,
) -> tuple[list[Candidate], int]:
    """The combinations that score lowest, one after the other, each among the cases that those before do not have.

    Args:
        attributes: What divides the cases.
        labels: The scores of every label.
        patients: The number of each case's patient, shape (n_cases,).
        searched: The half in which to search, shape (n_cases,).
        limits: Which combinations are looked at.
        n_candidates: The most combinations, over all labels.
        progress: Called once per set of attributes.

    Returns:
        The combinations, the lowest first, and how many were looked at.
    """
    left = [of_label.goodness for of_label in labels]
    best: list[Found | None] = []
    n_looked = 0
    for goodness in left:
        found, n_of_label = lowest(attributes, goodness, patients, searched, limits, progress=progress)
        best.append(found)
        n_looked += n_of_label
    candidates: list[Candidate] = []
    while len(candidates) < n_candidates:
        z = [np.inf if found is None else found.z for found in best]
        place = int(np.argmin(z))
        found = best[place]
        if found is None or found.z > LEAST_Z:
            break
        candidates.append(Candidate(labels[place], found, left[place]))
        if len(candidates) < n_candidates:
            left[place] = np.where(found.members, np.nan, left[place])
            best[place], _ = lowest(attributes, left[place], patients, searched, limits, progress=progress)
    return candidates, n_looked


def result_of(
    candidate: Candidate,
    attributes: Sequence[Attribute],
    patients: CodeArray,
    searched: BoolArray,
    limits: Limits,
    *,
    rng: np.random.Generator,
    n_permutations: int,
) -> dict[str, Any]:
    """What both halves say of a combination: a row of the table, without Holm's correction.

    Args:
        candidate: The combination.
        attributes: What divides the cases.
        patients: The number of each case's patient, shape (n_cases,).
        searched: The half in which it was found, shape (n_cases,).
        limits: Which combinations were looked at.
        rng: Source of the permutations.
        n_permutations: Their number.
    """
    found, scores = candidate.found, candidate.scores
    counted = ~np.isnan(candidate.goodness)
    row: dict[str, Any] = {"combination": written(found.parts), "label": scores.label}
    for number, (attribute, stratum) in enumerate(found.parts, start=1):
        row |= {f"attribute_{number}": attribute, f"stratum_{number}": stratum}
    for half, name in ((searched, "search"), (~searched, "test")):
        inside, outside = candidate.members & half, candidate.rest & half
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
    inside, ranks = found.members[half], rankdata(candidate.goodness[half])
    row["share_lower"] = share_lower(inside, ranks)
    row["p"] = p_lower(inside, ranks, patients_by_size(patients[half]), rng=rng, n_permutations=n_permutations)
    twins = same_cases(attributes, found, counted, limits.max_attributes)
    row["same_cases"] = "; ".join(written(parts) for parts in twins[:_MOST_TWINS])
    return row


def written(parts: Sequence[tuple[str, str]]) -> str:
    """The name of a combination: ``centre=A, scanner=B``."""
    return ", ".join(f"{attribute}={stratum}" for attribute, stratum in parts)
