"""Losses and weights of many cases, in shared memory.

They are kept in blocks, so that a draw and an update stay cheap.
"""

import ctypes
import math
from collections.abc import Callable, Collection, Iterable
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray

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
        state = {}
        for name, (n, kind) in arrays.items():
            state[name] = RawArray(_C_TYPES[kind], n)
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


#: Below this many cases one block is faster than two levels.
_SMALLEST_BLOCK = 512


class Blocks:
    """Losses, weights and visits of n cases, in blocks of about sqrt(n).

    If ``weigh`` is None, a block stores the weights w_i = exp(beta (L_i - m)), where m is its
    largest loss, and their sum: a softmax in which a new loss changes the weights of its own block
    only. The sums are recomputed, so they do not drift, and no power of e can overflow. Otherwise
    the blocks store the weights that ``weigh`` gives to all cases together, from their losses, NaN
    for a case without one. ``weigh_block`` gives those of one block, from its losses and its
    positions, where a weight depends on the case's own loss alone.
    """

    def __init__(
        self,
        n: int,
        weigh: Callable[[FloatArray], FloatArray] | None,
        weigh_block: Callable[[FloatArray, slice], FloatArray] | None = None,
    ) -> None:
        self.n = n
        self.weigh = weigh
        self.weigh_block = weigh_block
        #: Whether a case that was seen may lack a loss.
        self.has_gaps = False

        #: Number of cases of each block but the last, which may be smaller.
        self.size = max(_SMALLEST_BLOCK, math.isqrt(n))
        self.n_blocks = math.ceil(n / self.size)
        #: Number of cases of each block, shape (n_blocks,).
        first = self.size * np.arange(self.n_blocks)
        self.n_cases = np.minimum(self.size, n - first)

        #: What the processes share, by case and then by block.
        self.shared = SharedArrays(
            losses=(n, "float64"),  # NaN for a case without one
            weights=(n, "float64"),
            seen=(n, "bool"),  # whether a loss of the case came back
            claimed=(n, "bool"),  # whether the case was drawn before
            block_max=(self.n_blocks, "float64"),  # the largest loss
            block_sum=(self.n_blocks, "float64"),  # the sum of the weights
            unseen=(self.n_blocks, "int64"),
            unclaimed=(self.n_blocks, "int64"),
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
            seen = shared.seen[self._slice(block)]
            n_seen = np.count_nonzero(seen)
            shared.unseen[block] = len(seen) - n_seen
            self._count_unclaimed(block)

    def refresh(self, blocks: Iterable[int]) -> None:
        """Recompute the weights of these blocks.

        If the weights of the cases depend on each other, those of all blocks are recomputed.
        """
        if self.weigh is not None:
            weights = self.weigh(self.shared.losses)
            for block in self.all():
                self._put(block, weights[self._slice(block)])
            return

        for block in blocks:
            if self.weigh_block is None:
                self._refresh_softmax(block)
                continue
            here = self._slice(block)
            self._put(block, self.weigh_block(self.shared.losses[here], here))

    def _put(self, block: int, weights: FloatArray) -> None:
        self.shared.weights[self._slice(block)] = weights
        self.shared.block_sum[block] = np.add.reduce(weights)

    def _refresh_softmax(self, block: int) -> None:
        """Recompute w_i = exp(beta (L_i - m)) of a block, with its largest loss m."""
        shared = self.shared
        beta = shared.beta[0]
        here = self._slice(block)
        losses = shared.losses[here]
        largest = np.fmax.reduce(losses)  # ignores NaN unless there is nothing else

        # In place: the arrays may be long.
        weights = losses - largest
        weights *= beta
        np.exp(weights, out=weights)

        # A case without a loss has no weight, unless all count the same.
        if shared.unseen[block] or self.has_gaps:
            np.nan_to_num(weights, copy=False, nan=0.0)
        if not beta:
            weights = shared.seen[here].astype(np.float64)

        shared.weights[here] = weights
        shared.block_max[block] = -np.inf if math.isnan(largest) else largest
        shared.block_sum[block] = np.add.reduce(weights)

    def weights(self, block: int) -> FloatArray:
        """The weights of a block's cases, a view."""
        return self.shared.weights[self._slice(block)]

    def scaled(self) -> tuple[FloatArray, FloatArray]:
        """Factors that make the weights of the blocks comparable, and their sums times these.

        The weights of a block are relative to its own largest loss m_b, so its factor is
        exp(beta (m_b - max m)). The sums are all 0 if no case has a weight. Both are copies, which
        a change by another process cannot make contradict each other.
        """
        shared = self.shared
        beta = shared.beta[0]
        sums = shared.block_sum.copy()
        is_softmax = self.weigh is None and self.weigh_block is None
        if not is_softmax or not beta:
            return np.ones(self.n_blocks), sums

        scale: FloatArray = shared.block_max.copy()
        largest = np.maximum.reduce(scale)
        if largest == -np.inf:
            return np.ones(self.n_blocks), np.zeros(self.n_blocks)

        scale -= largest
        scale *= beta
        np.exp(scale, out=scale)
        return scale, scale * sums

    def shares(self, positions: NDArray[np.int64]) -> FloatArray:
        """Probabilities of the cases at some positions in a draw by weight, shape (b,).

        They are 1/n if no case has a weight.
        """
        scale, masses = self.scaled()
        total = np.add.reduce(masses)
        if not total > 0:
            return np.full(len(positions), 1 / self.n)

        blocks = positions // self.size
        weights = self.shared.weights[positions] * scale[blocks]
        return np.asarray(weights / total)

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

        scale, masses = self.scaled()
        cumulative = np.add.accumulate(masses)
        total = cumulative[-1]
        if not total > 0:  # all losses so far were refused, or the table is being filled
            return (to_block * n).astype(np.int64), np.full(size, 1 / n)

        # First along the sums of the blocks, then along the weights of a block.
        blocks = cumulative.searchsorted(to_block * total, side="right")
        blocks = np.minimum(blocks, self.n_blocks - 1)
        indices = self._at(inside_block, blocks)
        # Rounding can move a draw one position past the end.
        np.minimum(indices, n - 1, out=indices)

        # The others are drawn again.
        is_uniform = to_explore < exploration
        n_uniform = int(is_uniform.sum())
        if n_uniform:
            indices[is_uniform] = rng.integers(n, size=n_uniform)

        blocks = indices // self.size

        weights = self.shared.weights[indices] * scale[blocks]
        shares = weights / total
        probabilities = (1 - exploration) * shares + exploration / n
        return indices, probabilities

    def _at(self, places: FloatArray, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of the cases at places along the weights of blocks, given as shares of each."""
        indices = np.empty(len(blocks), dtype=np.int64)
        for block in set(blocks.tolist()):
            is_here = blocks == block

            ends = np.add.accumulate(self.weights(block))
            places_here = places[is_here] * ends[-1]
            cases = ends.searchsorted(places_here, side="right")

            indices[is_here] = cases + block * self.size
        return indices

    def draw_unclaimed(self, rng: np.random.Generator) -> tuple[int, float] | None:
        """Draw and claim a case that was neither seen nor drawn before.

        Returns:
            Its position and probability, or None if there is no such case.
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
                return index, 1 / n_left

            # Another worker claimed the last one first.
            self._count_unclaimed(block)

    def draw_unseen(
        self, rng: np.random.Generator, without: Collection[int] = ()
    ) -> tuple[int, float] | None:
        """Draw one of the other cases that were never seen, although its loss may be on its way.

        Returns:
            Its position and probability, or None if there is no such case.
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
            candidates = unseen + block * self.size
            if without:
                candidates = np.setdiff1d(candidates, list(without))
            if len(candidates):
                return int(rng.choice(candidates)), 1 / n_left

    def _count_unclaimed(self, block: int) -> None:
        shared = self.shared
        n_unclaimed = 0
        if shared.unseen[block]:
            n_unclaimed = int(np.count_nonzero(self._is_unclaimed(block)))
        shared.unclaimed[block] = n_unclaimed

    def _is_unclaimed(self, block: int) -> NDArray[np.bool_]:
        """Whether each case of a block was neither seen nor drawn."""
        shared = self.shared
        here = self._slice(block)
        return ~(shared.seen[here] | shared.claimed[here])

    def _slice(self, block: int) -> slice:
        """Positions of the cases of a block."""
        first = block * self.size
        return slice(first, first + self.size)
