"""The losses and weights of many cases, in blocks, so that a draw and an update stay cheap; in shared memory."""

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray
from nnunet_dro.sampling.shared import SharedArrays

#: Below this many cases one block is faster than two levels.
_SMALLEST_BLOCK = 512


class Blocks:
    """Losses, weights and visits of n cases, in blocks of about sqrt(n).

    With ``weigh`` None a block stores w_i = exp(beta (L_i - m)) with m its largest loss, and their sum: a softmax in
    which a loss changes the weights of its own block alone. The sums are exact (no drift) and no power of e can
    overflow. Otherwise the blocks store the weights that ``weigh`` gives all cases together.

    Args:
        n: Number of cases.
        weigh: Weights of all cases, (n,), from their losses, (n,) with NaN where there is none; or None.

    Attributes:
        shared: What the processes share. ``losses`` (n,), NaN without one; ``weights`` (n,); ``seen`` (n,), whether a
            loss came back; ``claimed`` (n,), whether a case was drawn before; ``beta`` and ``warming_up``, (1,); and of
            each block its largest loss, the sum of its weights, and how many of its cases are unseen and unclaimed.
        has_gaps: Whether a case that was seen may lack a loss.
    """

    def __init__(self, n: int, weigh: Callable[[FloatArray], FloatArray] | None) -> None:
        self.n = n
        self.weigh = weigh
        self.has_gaps = False
        self.size = max(_SMALLEST_BLOCK, math.isqrt(n))
        self.n_blocks = -(-n // self.size)
        self.shared = SharedArrays(
            losses=(n, "float64"),
            weights=(n, "float64"),
            seen=(n, "bool"),
            claimed=(n, "bool"),
            block_max=(self.n_blocks, "float64"),
            block_sum=(self.n_blocks, "float64"),
            unseen=(self.n_blocks, "int64"),
            unclaimed=(self.n_blocks, "int64"),
            beta=(1, "float64"),
            warming_up=(1, "bool"),
        )
        self.shared.losses[:] = np.nan

    def all(self) -> range:
        """The blocks."""
        return range(self.n_blocks)

    def of(self, positions: Iterable[int]) -> set[int]:
        """The blocks that cases are in."""
        return {i // self.size for i in positions}

    def count(self, blocks: Iterable[int]) -> None:
        """Count anew which of the blocks' cases were never seen."""
        shared = self.shared
        for block in blocks:
            seen = shared.seen[self._slice(block)]
            shared.unseen[block] = len(seen) - np.count_nonzero(seen)
            self._count_unclaimed(block)

    def refresh(self, blocks: Iterable[int]) -> None:
        """Recompute the weights of the blocks, exactly; all blocks where the cases' weights depend on each other."""
        if self.weigh is None:
            for block in blocks:
                self._refresh_softmax(block)
            return
        shared = self.shared
        weights = self.weigh(shared.losses)
        for block in self.all():
            here = self._slice(block)
            shared.weights[here] = weights[here]
            shared.block_sum[block] = np.add.reduce(weights[here])

    def _refresh_softmax(self, block: int) -> None:
        shared = self.shared
        here = self._slice(block)
        losses = shared.losses[here]
        largest = np.fmax.reduce(losses)  # ignores NaN; NaN if there is nothing else
        weights = losses - largest
        weights *= shared.beta[0]
        np.exp(weights, out=weights)
        if shared.unseen[block] or self.has_gaps:
            np.nan_to_num(weights, copy=False, nan=0.0)
        shared.weights[here] = weights
        shared.block_max[block] = -np.inf if math.isnan(largest) else largest
        shared.block_sum[block] = np.add.reduce(weights)

    def draw_by_weight(
        self, size: int, rng: np.random.Generator, *, exploration: float
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Draw cases by their weights, a share ``exploration`` uniformly; (size,) positions and probabilities."""
        n, shared = self.n, self.shared
        uniform = rng.random((3, size))
        # Copies: what another process changes meanwhile must not disagree with itself.
        scale = np.ones(self.n_blocks)
        if self.weigh is None:
            scale = shared.block_max.copy()
            largest = np.maximum.reduce(scale)
            if largest == -np.inf:  # every loss so far was refused
                return (uniform[0] * n).astype(np.int64), np.full(size, 1 / n)
            scale -= largest
            scale *= shared.beta[0]
            np.exp(scale, out=scale)
        cumulative = np.add.accumulate(scale * shared.block_sum)
        total = cumulative[-1]
        if not total > 0:  # likewise, or the table is being filled
            return (uniform[0] * n).astype(np.int64), np.full(size, 1 / n)
        blocks = np.minimum(cumulative.searchsorted(uniform[0] * total, side="right"), self.n_blocks - 1)
        indices = np.empty(size, dtype=np.int64)
        for block in set(blocks.tolist()):
            mine = blocks == block
            inside = np.add.accumulate(shared.weights[self._slice(block)])
            chosen = inside.searchsorted(uniform[1, mine] * inside[-1], side="right")
            indices[mine] = chosen + block * self.size
        explore = uniform[2] < exploration
        if explore.any():
            indices[explore] = rng.integers(n, size=int(explore.sum()))
        # Rounding can push a draw one past the end.
        np.minimum(indices, n - 1, out=indices)
        share = shared.weights[indices] * scale[indices // self.size] / total
        return indices, (1 - exploration) * share + exploration / n

    def draw_unclaimed(self, rng: np.random.Generator) -> tuple[int, float] | None:
        """Draw among the unseen cases that nobody has drawn yet, and claim the case; None if there is none."""
        shared = self.shared
        while (cumulative := shared.unclaimed.cumsum())[-1]:
            n_left = int(cumulative[-1])
            block = int(cumulative.searchsorted(rng.integers(n_left), side="right"))
            here = self._slice(block)
            candidates = np.flatnonzero(~(shared.seen[here] | shared.claimed[here]))
            if len(candidates):
                index = block * self.size + int(rng.choice(candidates))
                shared.claimed[index] = True
                self._count_unclaimed(block)
                return index, 1 / n_left
            self._count_unclaimed(block)  # another worker was faster
        return None

    def draw_unseen(self, rng: np.random.Generator) -> tuple[int, float] | None:
        """Draw among the unseen cases, all of which are on their way; None if there is none."""
        shared = self.shared
        while (cumulative := shared.unseen.cumsum())[-1]:
            n_left = int(cumulative[-1])
            block = int(cumulative.searchsorted(rng.integers(n_left), side="right"))
            candidates = np.flatnonzero(~shared.seen[self._slice(block)])
            if len(candidates):
                return block * self.size + int(rng.choice(candidates)), 1 / n_left
        return None

    def _count_unclaimed(self, block: int) -> None:
        shared = self.shared
        here = self._slice(block)
        n_unclaimed = np.count_nonzero(~(shared.seen[here] | shared.claimed[here])) if shared.unseen[block] else 0
        shared.unclaimed[block] = n_unclaimed

    def _slice(self, block: int) -> slice:
        return slice(block * self.size, (block + 1) * self.size)
