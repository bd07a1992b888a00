"""The combination of attributes whose cases have the lowest scores: every combination is looked at.

The combinations of some attributes are looked at together, as groups of cases, so that the cost
does not depend on how many strata there are: with d attributes, n cases and combinations of up to k
attributes it is O(d^k n).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.stats import rankdata

from nnunet_dro.exploration.rank_sums import (
    BoolArray,
    CodeArray,
    FloatArray,
    patients_by_size,
    standardised,
)

#: Differences of z that are smaller come from rounding: of two combinations of the same cases the
#: first one counts.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Attribute:
    """What divides the cases.

    ``codes`` holds the place of each case's stratum in ``strata``, shape (n_cases,).
    """

    name: str
    codes: CodeArray
    strata: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """Which combinations are looked at."""

    max_attributes: int = 2  # the most attributes of a combination, 1 to 3
    min_cases: int = 5  # the fewest cases of a combination, and of the rest, in each half, >= 2

    def __post_init__(self) -> None:
        if not 1 <= self.max_attributes <= 3:
            cure = "Combinations of more have too few cases to say anything."
            raise ValueError(
                f"`max_attributes` must be 1, 2 or 3, got {self.max_attributes!r}. {cure}"
            )
        if self.min_cases < 2:
            raise ValueError(
                f"`min_cases` must be at least 2, got {self.min_cases!r}. One case is no group."
            )


@dataclass(frozen=True, eq=False)
class Found:
    """A combination."""

    parts: tuple[tuple[str, str], ...]  # attribute and stratum of each
    members: BoolArray  # its cases, shape (n_cases,)
    z: float  # how low they score in the half that was searched, from `standardised`


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched: cases with their attributes and patients, half of which is looked at."""

    attributes: Sequence[Attribute]
    patients: CodeArray  # the number of each case's patient, shape (n_cases,)
    searched: BoolArray  # whether a case is in the half that is looked at, shape (n_cases,)
    limits: Limits

    @property
    def n_sets(self) -> int:
        """How many sets of attributes there are."""
        return sum(
            comb(len(self.attributes), size) for size in range(1, self.limits.max_attributes + 1)
        )

    def lowest(
        self, goodness: FloatArray, *, progress: Callable[[], None] = lambda: None
    ) -> tuple[Found | None, int]:
        """The combination with the least z in the half that is searched, and the number of those that were looked at.

        The scores are larger where better, -inf is the worst, NaN does not count. Of the other half
        only the attributes are looked at, and which scores there are. Of equal combinations the one
        with the fewest attributes counts.
        """
        counted = ~np.isnan(goodness)
        min_cases = self.limits.min_cases
        halves = (counted & self.searched, counted & ~self.searched)
        ranks = rankdata(goodness[halves[0]])
        blocks = patients_by_size(self.patients[halves[0]])
        large = [_large_strata(attribute, halves, min_cases) for attribute in self.attributes]
        best = None
        best_z = np.inf
        n_looked = 0
        for chosen in self._sets(self.limits.max_attributes):
            groups, n_groups = _joint([large[n] for n in chosen])
            progress()
            if not n_groups:
                continue
            enough = np.ones(n_groups, dtype=bool)
            for half in halves:
                counts = np.bincount(groups[half & (groups >= 0)], minlength=n_groups)
                enough &= (counts >= min_cases) & (half.sum() - counts >= min_cases)
            n_looked += int(enough.sum())
            if not enough.any():
                continue
            z = np.where(enough, standardised(groups[halves[0]], n_groups, ranks, blocks), np.inf)
            if z.min() < best_z - _ROUNDING:
                best_z = float(z.min())
                members = groups == int(z.argmin())
                best = Found(self._parts(chosen, members), members, best_z)
        return best, n_looked

    def same_cases(self, found: Found, counted: BoolArray) -> list[tuple[tuple[str, str], ...]]:
        """The other combinations that have exactly the same of the cases that count, and no more attributes."""
        others = []
        members = found.members & counted
        for chosen in self._sets(len(found.parts)):
            theirs = np.ones(len(counted), dtype=bool)
            for n in chosen:
                codes = self.attributes[n].codes
                theirs &= codes == codes[members.argmax()]
            if np.array_equal(theirs & counted, members):
                others.append(self._parts(chosen, members))
        return [parts for parts in others if parts != found.parts]

    def _sets(self, max_attributes: int) -> Iterator[tuple[int, ...]]:
        for size in range(1, max_attributes + 1):
            yield from itertools.combinations(range(len(self.attributes)), size)

    def _parts(self, chosen: tuple[int, ...], members: BoolArray) -> tuple[tuple[str, str], ...]:
        first = int(members.argmax())
        attributes = [self.attributes[n] for n in chosen]
        return tuple(
            (attribute.name, attribute.strata[attribute.codes[first]]) for attribute in attributes
        )


def _large_strata(
    attribute: Attribute, halves: Sequence[BoolArray], min_cases: int
) -> tuple[CodeArray, int]:
    """The strata that have enough cases in each half, numbered anew, -1 for the others.

    No combination needs them.
    """
    enough = np.ones(len(attribute.strata), dtype=bool)
    for half in halves:
        enough &= np.bincount(attribute.codes[half], minlength=len(enough)) >= min_cases
    number = np.where(enough, np.cumsum(enough) - 1, -1)
    return number[attribute.codes], int(enough.sum())


def _joint(parts: Sequence[tuple[CodeArray, int]]) -> tuple[CodeArray, int]:
    """The number of each case's combination of strata, -1 where a part is."""
    groups, n_groups = parts[0]
    for codes, n_strata in parts[1:]:
        groups = np.where((groups >= 0) & (codes >= 0), groups * n_strata + codes, -1)
        n_groups *= n_strata
        if n_groups > len(groups):
            present, inverse = np.unique(groups, return_inverse=True)
            n_absent = int(present[0] < 0)
            groups = inverse.reshape(-1) - n_absent
            n_groups = len(present) - n_absent
    return groups, n_groups
