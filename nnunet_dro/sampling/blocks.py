"""Losses and weights of many cases, in shared memory.

They are kept in blocks, so that a draw and an update stay cheap.
"""

import ctypes
import math
from collections.abc import Iterable, Sequence
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.sampling.rules import Rule

_C_TYPES: dict[str, Any] = {
    "float64": ctypes.c_double,
    "int64": ctypes.c_int64,
    "bool": ctypes.c_bool,
}


class SharedArrays:
    """Named vectors, filled with zeros, in memory that processes share.

    These are all processes that inherit or receive this object.

    No lock is taken. When the object is pickled for a worker, the memory itself is handed over, and
    the worker makes its own views of it.

    Example:
        >>> shared = SharedArrays(losses=(3, "float64"), seen=(3, "bool"))
        >>> shared.losses[1] = 0.5
        >>> shared.losses.tolist()
        [0.0, 0.5, 0.0]
    """

    def __init__(self, **arrays: tuple[int, str]) -> None:
        state = {name: RawArray(_C_TYPES[kind], n) for name, (n, kind) in arrays.items()}
        self.__setstate__(state)

    @property
    def nbytes(self) -> int:
        """Size of the memory in bytes."""
        return sum(getattr(self, name).nbytes for name in self._memory)

    def __getattr__(self, name: str) -> NDArray[Any]:
        raise AttributeError(f"`{name}` is not one of the shared arrays.")

    def __getstate__(self) -> dict[str, Any]:
        return self._memory

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._memory = state
        for name, memory in state.items():
            self.__dict__[name] = np.frombuffer(memory, dtype=memory._type_)


#: Up to this many cases are in one block.
_ONLY_BLOCK = 512
#: More cases are in blocks of at least so many.
_SMALLEST_BLOCK = 256
#: The sum of the weights should stay in this range, far from where floats end.
_SMALLEST_TOTAL = 1e-100
_LARGEST_TOTAL = 1e100


class Blocks:
    """Losses, weights and visits of n cases, in blocks of about sqrt(n).

    The sum of a block's weights is recomputed whenever one of them changes, so it does not drift.
    """

    def __init__(self, n: int) -> None:
        self.n = n

        #: Number of cases of each block but the last, which may be smaller.
        self.size = n if n <= _ONLY_BLOCK else max(_SMALLEST_BLOCK, math.isqrt(n))
        self.n_blocks = math.ceil(n / self.size)
        self._first = self.size * np.arange(self.n_blocks)
        #: Number of cases of each block, shape (n_blocks,).
        self.n_cases = np.minimum(self.size, n - self._first)

        #: What the processes share, by case and then by block.
        self.shared = SharedArrays(
            losses=(n, "float64"),  # NaN for a case without one
            weights=(n, "float64"),
            seen=(n, "bool"),  # whether a loss of the case came back
            claimed=(n, "bool"),  # whether the case was drawn before
            block_sum=(self.n_blocks, "float64"),  # the sum of the weights
            total=(1, "float64"),  # the sum of all weights
            unseen=(self.n_blocks, "int64"),
            unclaimed=(self.n_blocks, "int64"),
            any_unseen=(1, "bool"),
            beta=(1, "float64"),
            warming_up=(1, "bool"),
        )
        self.shared.losses[:] = np.nan

    def all(self) -> range:
        """The blocks."""
        return range(self.n_blocks)

    def containing(self, positions: Iterable[int]) -> set[int]:
        """The blocks that contain the cases at these positions."""
        return {i // self.size for i in positions}

    def count(self, blocks: Iterable[int]) -> None:
        """Count again how many cases of each block are unseen and unclaimed."""
        shared = self.shared
        for block in blocks:
            shared.unseen[block] = np.count_nonzero(~shared.seen[self._slice(block)])
            self._count_unclaimed(block)
        shared.any_unseen[0] = shared.unseen.any()

    def weigh_all(self, rule: Rule) -> None:
        """Recompute the weights of all cases."""
        shared = self.shared
        weights = rule.weigh(shared.losses, slice(0, self.n))
        shared.weights[:] = weights
        shared.block_sum[:] = np.add.reduceat(weights, self._first)
        shared.total[0] = np.add.reduce(shared.block_sum)

    def weigh(self, rule: Rule, positions: NDArray[np.int64]) -> bool:
        """Recompute the weights of some cases by a separable rule.

        Returns:
            Whether that is enough. If not, the weights have become so small or large that all
            should be weighed anew.
        """
        shared = self.shared
        shared.weights[positions] = rule.weigh(shared.losses[positions], positions)
        for block in self.containing(positions.tolist()):
            shared.block_sum[block] = np.add.reduce(self.weights(block))

        total = float(np.add.reduce(shared.block_sum))
        is_enough = _SMALLEST_TOTAL < total < _LARGEST_TOTAL
        if is_enough:
            shared.total[0] = total
        return is_enough

    def weights(self, block: int) -> FloatArray:
        """The weights of a block's cases, a view."""
        return self.shared.weights[self._slice(block)]

    def shares(self, positions: NDArray[np.int64]) -> FloatArray:
        """Probabilities of the cases at some positions in a draw by weight, shape (b,).

        They are 1/n if no case has a weight.
        """
        total = self.shared.total[0]
        if not total > 0:
            return np.full(len(positions), 1 / self.n)
        return np.asarray(self.shared.weights[positions] / total)

    def draw_by_weight(
        self, size: int, rng: np.random.Generator, *, exploration: float
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Draw cases by weight with replacement, a share ``exploration`` of them uniformly.

        Returns:
            Positions of the cases, and the probability of each in one draw, both (size,).
        """
        # Three numbers for each draw, the last of which says whether it is a uniform one.
        n = self.n
        to_block, inside_block, to_explore = rng.random((3, size))

        cumulative = np.add.accumulate(self.shared.block_sum)
        total = cumulative[-1]
        if not total > 0:  # all losses so far were refused, or the table is being filled
            return (to_block * n).astype(np.int64), np.full(size, 1 / n)

        # First along the sums of the blocks, then along the weights of a block.
        blocks = cumulative.searchsorted(to_block * total, side="right")
        blocks = np.minimum(blocks, self.n_blocks - 1)
        indices = self._at(inside_block, blocks)

        # The others are drawn again.
        is_uniform = to_explore < exploration
        n_uniform = int(is_uniform.sum())
        if n_uniform:
            indices[is_uniform] = rng.integers(n, size=n_uniform)

        probabilities = (1 - exploration) * self.shares(indices) + exploration / n
        return indices, probabilities

    def _at(self, places: FloatArray, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of the cases at places along the weights of blocks, given as shares of each."""
        indices = np.empty(len(blocks), dtype=np.int64)
        for block in set(blocks.tolist()):
            is_here = blocks == block
            cases = cases_at(places[is_here], self.weights(block))
            indices[is_here] = cases + block * self.size
        return indices

    def draw_unclaimed(self, rng: np.random.Generator) -> int | None:
        """The position of a case that was neither seen nor drawn before, and is claimed now.

        None if there is no such case.
        """
        shared = self.shared
        while True:
            cumulative = shared.unclaimed.cumsum()
            n_left = int(cumulative[-1])
            if n_left == 0:
                return None

            place = rng.integers(n_left)
            block = int(cumulative.searchsorted(place, side="right"))
            candidates = np.flatnonzero(self._is_unclaimed(block))
            if len(candidates):
                index = block * self.size + int(rng.choice(candidates))
                shared.claimed[index] = True
                self._count_unclaimed(block)
                return index

            # Another worker claimed the last one first.
            self._count_unclaimed(block)

    def draw_unseen(self, rng: np.random.Generator, without: Sequence[int]) -> int | None:
        """The position of another case that was never seen, although its loss may be on its way.

        None if there is no such case.
        """
        shared = self.shared
        while True:
            counts = shared.unseen.copy()
            for i in without:
                if not shared.seen[i]:
                    counts[i // self.size] -= 1

            cumulative = counts.cumsum()
            n_left = int(cumulative[-1])
            if n_left <= 0:
                return None

            place = rng.integers(n_left)
            block = int(cumulative.searchsorted(place, side="right"))
            unseen = np.flatnonzero(~shared.seen[self._slice(block)])
            candidates = np.setdiff1d(unseen + block * self.size, without)
            if len(candidates):
                return int(rng.choice(candidates))

    def _count_unclaimed(self, block: int) -> None:
        self.shared.unclaimed[block] = np.count_nonzero(self._is_unclaimed(block))

    def _is_unclaimed(self, block: int) -> NDArray[np.bool_]:
        """Whether each case of a block was neither seen nor drawn."""
        shared = self.shared
        here = self._slice(block)
        return ~(shared.seen[here] | shared.claimed[here])

    def _slice(self, block: int) -> slice:
        """Positions of the cases of a block."""
        first = block * self.size
        return slice(first, first + self.size)


def cases_at(places: ArrayLike, lengths: FloatArray) -> NDArray[np.int64]:
    """The cases at places along a line of cases, given as shares of its length."""
    ends = np.add.accumulate(lengths)
    points = np.multiply(places, ends[-1])
    cases = ends.searchsorted(points, side="right")
    # Rounding can move a point past the last case.
    return np.minimum(cases, len(lengths) - 1)
