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

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.exploration.rank_sums import patients_by_size, standardised

#: Differences of z that are smaller come from rounding: of two combinations of the same cases the
#: first one counts.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class CodedAttribute:
    """What divides the cases.

    ``codes`` holds the place of each case's stratum in ``strata``, shape (n_cases,).
    """

    name: str
    codes: IndexArray
    strata: tuple[str, ...]

    @property
    def n_cases(self) -> dict[str, int]:
        """The number of cases of every stratum."""
        counts = np.bincount(self.codes, minlength=len(self.strata)).tolist()
        return dict(zip(self.strata, counts, strict=True))


@dataclass(frozen=True)
class Limits:
    """Which combinations are looked at, and how many of them are tested."""

    max_attributes: int = 2  # the most attributes of a combination, 1 to 3
    min_cases: int = 5  # the fewest cases of a combination, and of the rest, in each half, >= 2
    n_candidates: int = 3  # the most combinations of one half that are tested on the other, >= 1

    def __post_init__(self) -> None:
        if not 1 <= self.max_attributes <= 3:
            raise InputError(
                "max_attributes",
                must="be 1, 2 or 3",
                got=repr(self.max_attributes),
                cure="Combinations of more have too few cases to say anything.",
            )
        if self.min_cases < 2:
            raise InputError(
                "min_cases",
                must="be at least 2",
                got=repr(self.min_cases),
                cure="One case is no group.",
            )
        if self.n_candidates < 1:
            raise InputError(
                "candidates",
                must="be at least 1",
                got=repr(self.n_candidates),
                cure="Try 3.",
            )


@dataclass(frozen=True, eq=False)
class Combination:
    """Cases that have the same strata of some attributes."""

    parts: tuple[tuple[str, str], ...]  # attribute and stratum of each
    members: BoolArray  # its cases, shape (n_cases,)
    z: float  # how low they score in the half that was searched, from `standardised`


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched: cases with their attributes and patients, half of which is looked at."""

    attributes: Sequence[CodedAttribute]
    patients: IndexArray  # the number of each case's patient, shape (n_cases,)
    searched: BoolArray  # whether a case is in the half that is looked at, shape (n_cases,)
    limits: Limits

    @property
    def n_sets(self) -> int:
        """How many sets of attributes there are."""
        sizes = range(1, self.limits.max_attributes + 1)
        return sum(comb(len(self.attributes), size) for size in sizes)

    def lowest(
        self,
        goodness: FloatArray,
        *,
        progress: Callable[[], None] = lambda: None,
    ) -> tuple[Combination | None, int]:
        """Find the combination with the least z in the half that is searched.

        Of the other half only the attributes are looked at, and which scores there are. Of equal
        combinations the one with the fewest attributes counts.

        Args:
            goodness: Scores, larger where better, shape (n_cases,). -inf is the worst, and a case
                with NaN does not count.
            progress: Called after every set of attributes.

        Returns:
            The combination, None if none is large enough, and the number of those that were looked
            at.
        """
        counted = ~np.isnan(goodness)
        searched = counted & self.searched
        halves = (searched, counted & ~self.searched)
        min_cases = self.limits.min_cases
        large = [_large_strata(attribute, halves, min_cases) for attribute in self.attributes]

        # Ranks do not depend on the combination.
        ranks = rankdata(goodness[searched])
        blocks = patients_by_size(self.patients[searched])

        lowest = None
        n_looked_at = 0
        for chosen in self._sets(self.limits.max_attributes):
            groups, n_groups = _joint([large[n] for n in chosen])
            progress()

            is_large = _have_enough_cases(
                groups,
                n_groups,
                halves,
                min_cases,
            )
            n_looked_at += int(is_large.sum())
            if not is_large.any():
                continue

            z = standardised(
                groups[searched],
                n_groups,
                ranks,
                blocks,
            )
            z[~is_large] = np.inf
            # Within rounding, the first one counts.
            if lowest is None or z.min() < lowest.z - _ROUNDING:
                members = groups == int(z.argmin())
                lowest = Combination(self._parts(chosen, members), members, float(z.min()))
        return lowest, n_looked_at

    def same_cases(
        self, combination: Combination, counted: BoolArray
    ) -> list[tuple[tuple[str, str], ...]]:
        """The parts of other combinations of exactly the same cases, and of no more attributes.

        Only the cases that count are compared.
        """
        members = combination.members & counted
        first = int(members.argmax())

        others = []
        for chosen in self._sets(len(combination.parts)):
            theirs = np.ones(len(counted), dtype=bool)
            for n in chosen:
                codes = self.attributes[n].codes
                theirs &= codes == codes[first]

            parts = self._parts(chosen, members)
            if np.array_equal(theirs & counted, members) and parts != combination.parts:
                others.append(parts)
        return others

    def _sets(self, max_attributes: int) -> Iterator[tuple[int, ...]]:
        """The places of the attributes of every set, small sets first."""
        for size in range(1, max_attributes + 1):
            yield from itertools.combinations(range(len(self.attributes)), size)

    def _parts(self, chosen: tuple[int, ...], members: BoolArray) -> tuple[tuple[str, str], ...]:
        """The chosen attributes with the stratum that all members have in common."""
        first = int(members.argmax())

        parts = []
        for n in chosen:
            attribute = self.attributes[n]
            parts.append((attribute.name, attribute.strata[attribute.codes[first]]))
        return tuple(parts)


def _large_strata(
    attribute: CodedAttribute, halves: Sequence[BoolArray], min_cases: int
) -> tuple[IndexArray, int]:
    """The strata that have enough cases in each half, numbered anew, -1 for the others.

    No combination needs the others, because it has no more cases than its smallest stratum.
    """
    is_large = np.ones(len(attribute.strata), dtype=bool)
    for half in halves:
        counts = np.bincount(attribute.codes[half], minlength=len(is_large))
        is_large &= counts >= min_cases

    # The number of a large stratum is how many large ones come before it.
    number = np.where(is_large, np.cumsum(is_large) - 1, -1)
    return number[attribute.codes], int(is_large.sum())


def _have_enough_cases(
    groups: IndexArray, n_groups: int, halves: Sequence[BoolArray], min_cases: int
) -> BoolArray:
    """Whether each group, and the rest beside it, has enough cases in each half."""
    enough = np.ones(n_groups, dtype=bool)
    for half in halves:
        n_inside = np.bincount(groups[half & (groups >= 0)], minlength=n_groups)
        n_outside = half.sum() - n_inside
        enough &= (n_inside >= min_cases) & (n_outside >= min_cases)
    return enough


def _joint(parts: Sequence[tuple[IndexArray, int]]) -> tuple[IndexArray, int]:
    """The number of each case's combination of strata, -1 where a part is -1.

    Numbers are packed as soon as there are more of them than cases, so that arrays of groups stay
    as short as those of cases.
    """
    groups, n_groups = parts[0]
    for codes, n_strata in parts[1:]:
        is_inside = (groups >= 0) & (codes >= 0)
        groups = np.where(is_inside, groups * n_strata + codes, -1)
        n_groups *= n_strata

        if n_groups > len(groups):
            present, inverse = np.unique(groups, return_inverse=True)
            n_absent = int(present[0] < 0)
            groups = inverse.reshape(-1) - n_absent
            n_groups = len(present) - n_absent
    return groups, n_groups
