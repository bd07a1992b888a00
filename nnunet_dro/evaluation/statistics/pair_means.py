"""Order statistics of the means of any two values of a sample, without a list of all pairs.

Of n values there are n (n + 1) / 2 such means. How many of them lie at or below a number is counted
in n log n steps, and grows with the number. A few counts, each where the last two let expect the
mean that is looked for, leave so few means in between that they can be listed.

Source: Johnson and Mizoguchi 1978, Selecting the Kth element in X + Y and X1 + X2 + ... + Xm
(selection among sums by counting them).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from nnunet_dro.arrays import FloatArray, IndexArray

#: Up to this number of values all their pairs are listed.
_MOST_LISTED = 200

#: Up to this number of values all their pairs are listed where many of the means are equal. Of more
#: values, their range is then halved about so often, and the mean nearest to what is left is taken:
#: it is off by less than matters.
_MOST_EXACT = 500
_N_HALVINGS = 40

#: So many values stand for all in the first guess, which may be wrong by this share of the pairs.
_N_IN_GUESS = 64
_ERROR_OF_GUESS = 0.0025

#: The most numbers that are tried to make a bracket small; where few values are equal it takes
#: three.
_MOST_TRIED = 12


@dataclass(frozen=True, eq=False)
class _Bracket:
    """Two numbers, and how many means lie at or below each.

    Every mean is counted with the smaller of its two values: ``ends`` are, for each value, one past
    the last value with which its mean is at most the number, or its own place.
    """

    ascending: FloatArray
    low: float
    high: float
    low_ends: IndexArray
    high_ends: IndexArray

    @classmethod
    def of_all(cls, ascending: FloatArray) -> "_Bracket":
        """The bracket of all means."""
        n = len(ascending)
        own = np.arange(n)
        return cls(ascending, float(ascending[0]) - 1, float(ascending[-1]), own, np.full(n, n))

    @cached_property
    def n_up_to_low(self) -> int:
        """How many means are at most the lower number."""
        return _n_means(self.low_ends)

    @cached_property
    def n_inside(self) -> int:
        """How many means are between the numbers, or at the upper one."""
        return _n_means(self.high_ends) - self.n_up_to_low

    @property
    def is_small(self) -> bool:
        """Whether the means inside are few enough to be listed."""
        return self.n_inside <= len(self.ascending)

    @cached_property
    def _means(self) -> FloatArray:
        """The means inside, in ascending order."""
        n_of_value = self.high_ends - self.low_ends
        smaller = np.repeat(np.arange(len(n_of_value)), n_of_value)
        begin = np.cumsum(n_of_value) - n_of_value
        larger = np.arange(len(smaller)) - (begin - self.low_ends)[smaller]
        return np.sort((self.ascending[smaller] + self.ascending[larger]) / 2)

    def mean(self, place: int) -> float:
        """The mean with a place, which is inside (1 is the smallest of all means)."""
        return float(self._means[place - self.n_up_to_low - 1])

    def holds(self, place: int) -> bool:
        """Whether the mean with a place is inside."""
        return 0 < place - self.n_up_to_low <= self.n_inside

    def narrowed(self, number: float, place: int) -> "_Bracket":
        """The bracket up to a number, or from it on: where the mean with a place is.

        It stays where the number is not inside.
        """
        if not self.low < number < self.high:
            return self
        n_up_to = np.searchsorted(self.ascending, number, side="right")
        larger = self.ascending[n_up_to:]
        # Ascending numbers are found faster.
        partners = (2 * number - self.ascending[:n_up_to])[::-1]
        ends = np.arange(len(self.ascending))
        ends[:n_up_to] = n_up_to + np.searchsorted(larger, partners, side="right")[::-1]
        if _n_means(ends) >= place:
            return _Bracket(self.ascending, self.low, number, self.low_ends, ends)
        return _Bracket(self.ascending, number, self.high, ends, self.high_ends)


def _n_means(ends: IndexArray) -> int:
    n = len(ends)
    return int(ends.sum()) - n * (n - 1) // 2


def ordered_pair_means(ascending: FloatArray, places: Sequence[int]) -> list[float]:
    """The k-th smallest (k = 1 ...) of the means of any two values, for each of the places.

    A value is paired with itself, too.

    Args:
        ascending: The values, shape (n,), n >= 1, finite, in ascending order.
        places: The places, each from 1 to n (n + 1) / 2.
    """
    if len(ascending) > _MOST_LISTED:
        brackets = list(_brackets(ascending, places))
        if len(ascending) > _MOST_EXACT or all(bracket.is_small for bracket in brackets):
            return [
                bracket.mean(place) if bracket.is_small else _halved(bracket, place)
                for bracket, place in zip(brackets, places, strict=True)
            ]

    means = _pair_means(ascending)
    indices = [place - 1 for place in places]
    ordered = np.partition(means, indices)
    return [float(ordered[index]) for index in indices]


def _pair_means(ascending: FloatArray) -> FloatArray:
    """The means of any two values."""
    smaller, larger = _all_pairs(len(ascending))
    return (ascending[smaller] + ascending[larger]) / 2


@lru_cache(maxsize=8)
def _all_pairs(n: int) -> tuple[IndexArray, IndexArray]:
    """The indices of every pair of n values, each with itself, too."""
    return np.triu_indices(n)


def _brackets(ascending: FloatArray, places: Sequence[int]) -> Iterator[_Bracket]:
    """A bracket for each of some places, as small as it gets."""
    middles = np.arange(1, 2 * _N_IN_GUESS, 2) * len(ascending) // (2 * _N_IN_GUESS)
    roughly = np.sort(_pair_means(ascending[middles]))
    every = _Bracket.of_all(ascending)

    bracket = every
    for place in places:
        # The two places of a median share one.
        if not (bracket.is_small and bracket.holds(place)):
            share = place / every.n_inside
            guesses = np.array([share - _ERROR_OF_GUESS, share + _ERROR_OF_GUESS]) * len(roughly)
            indices = guesses.clip(0, len(roughly) - 1).astype(np.intp)
            bracket = _narrowed(every, place, roughly[indices].tolist())
        yield bracket


def _narrowed(bracket: _Bracket, place: int, guesses: Sequence[float]) -> _Bracket:
    """A bracket that holds the mean with a place, and few others unless many values are equal."""
    for number in guesses:
        bracket = bracket.narrowed(number, place)

    for step in range(_MOST_TRIED):
        if bracket.is_small:
            break
        # Interpolated, and a little to one side, then to the other: the error of interpolation
        # falls faster than the width.
        share = (place - bracket.n_up_to_low) / bracket.n_inside
        aside = (-1) ** step / 2 ** (5 + step // 2 * 2)
        number = bracket.low + (share + aside) * (bracket.high - bracket.low)
        bracket = bracket.narrowed(number, place)
    return bracket


def _halved(bracket: _Bracket, place: int) -> float:
    """The mean with a place, which a bracket holds among too many to be listed."""
    ascending = bracket.ascending
    width = (ascending[-1] - ascending[0]) / 2**_N_HALVINGS
    for _ in range(_N_HALVINGS):
        if bracket.high - bracket.low <= width:
            break
        bracket = bracket.narrowed((bracket.low + bracket.high) / 2, place)
    return _nearest_pair_mean(ascending, bracket.high)


def _nearest_pair_mean(ascending: FloatArray, number: float) -> float:
    """The mean that is nearest to a number, not a number near it, so that 0 stays 0."""
    # With partners that are no smaller, every value above the number is farther from it than the
    # first of them.
    n_up_to = ascending.searchsorted(number, side="right")
    smaller = ascending[: n_up_to + 1]
    own = np.arange(len(smaller))
    # Ascending numbers are found faster.
    after = ascending.searchsorted((2 * number - smaller)[::-1])[::-1]
    before = np.maximum(after - 1, own)
    after = np.clip(after, own, len(ascending) - 1)

    means = np.concatenate([smaller + ascending[before], smaller + ascending[after]]) / 2
    return float(means[np.abs(means - number).argmin()])
