"""The table of stale losses: draw by hardness, update, save, restore; in shared memory."""

import ctypes
import math
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.sampling.divergences import FloatArray, with_exploration
from nnunet_dro.sampling.draws import Draws
from nnunet_dro.sampling.rules import KL, Rule

#: Share of the uniform distribution in every draw, so that no case is ever out of reach (the published code's floor).
EXPLORATION = 1e-4
#: Below this many cases one block is faster than two levels.
_SMALLEST_BLOCK = 512


class HardnessTable:
    """One stale loss per case, shared by the process that trains and the processes that draw.

    The training process calls `update`; any process, also a worker that was forked or spawned, calls `draw` and sees
    every update. No lock is taken: all numbers of a case are written by the training process alone, and a draw that
    meets a half-written block still returns a valid case, at worst with the probability of a moment ago.

    Cases are kept in blocks of about sqrt(n). A block stores w_i = exp(beta (L_i - m)) with m its largest loss, and
    their sum. A draw walks the block sums, then one block; an update recomputes one block. Cost per draw and update is
    therefore O(sqrt(n)) with a small constant, the sums are exact (no drift), and no power of e can overflow. Of any
    other rule than KL the blocks store the probabilities themselves, and an update recomputes all: O(n log n).

    Cases that were never seen come first, drawn uniformly (the warm-start epoch of Fidon et al. 2020): those not drawn
    yet before those whose loss is still on its way. A case whose losses were all refused (not finite) counts as seen
    and keeps only the exploration floor.

    Args:
        cases: Names of the cases, unique.
        beta: Robustness, 1/loss units, >= 0: p = softmax(beta * stale losses). 0 is uniform sampling.
        rule: What decides in place of `KL` with ``beta``.
        momentum: Weight of the past in the history, in [0, 1): L <- momentum L + (1 - momentum) l. 0: the last loss.
        exploration: Share of the uniform distribution in every draw, in [0, 1].

    Raises:
        ValueError: If there is no case, a name is there twice, or a number is out of range.

    Source: Fidon et al. 2022 (MELBA), Algorithm 1.
    """

    def __init__(
        self,
        cases: Sequence[str],
        *,
        beta: float = 0.0,
        rule: Rule | None = None,
        momentum: float = 0.0,
        exploration: float = EXPLORATION,
    ) -> None:
        if len(cases) == 0:
            raise ValueError("`cases` must name at least one training case, got none. Check the fold's split.")
        self._position = {str(case): i for i, case in enumerate(cases)}
        if len(self._position) != len(cases):
            twice = sorted({str(case) for i, case in enumerate(cases) if self._position[str(case)] != i})
            raise ValueError(f"`cases` must be unique, got {', '.join(twice[:5])} twice. Check the fold's split.")
        if not 0 <= momentum < 1:
            raise ValueError(f"`momentum` must be in [0, 1), got {momentum!r}.")
        if not 0 <= exploration <= 1:
            raise ValueError(f"`exploration` must be in [0, 1], got {exploration!r}.")
        self.rule = KL(beta) if rule is None else rule
        # Whether a loss changes the weights of its own block alone.
        self._is_local = isinstance(self.rule, KL)
        #: Of the weights in the blocks: 0 where they are probabilities.
        self._beta = self.rule.beta if isinstance(self.rule, KL) else 0.0
        self.momentum = momentum
        self.exploration = exploration
        #: Losses that were not finite and therefore not stored.
        self.refused = 0

        self._cases = tuple(self._position)
        n = len(cases)
        self._block = max(_SMALLEST_BLOCK, math.isqrt(n))
        n_blocks = -(-n // self._block)
        self._memory: dict[str, Any] = {
            "losses": RawArray(ctypes.c_double, n),
            "weights": RawArray(ctypes.c_double, n),
            "seen": RawArray(ctypes.c_bool, n),
            "claimed": RawArray(ctypes.c_bool, n),
            "block_max": RawArray(ctypes.c_double, n_blocks),
            "block_sum": RawArray(ctypes.c_double, n_blocks),
            "unseen": RawArray(ctypes.c_int64, n_blocks),
            "unclaimed": RawArray(ctypes.c_int64, n_blocks),
            "warming_up": RawArray(ctypes.c_bool, 1),
        }
        self._view_memory()
        self._losses[:] = np.nan
        self._refresh(range(n_blocks))

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of the cases, in the order of the indices."""
        return self._cases

    @property
    def losses(self) -> FloatArray:
        """Stale losses, shape (n,), a copy; NaN where a case has none yet."""
        return self._losses.copy()

    @property
    def n_unseen(self) -> int:
        """Number of cases that were never seen."""
        return int(self._unseen.sum())

    @property
    def warming_up(self) -> bool:
        """Whether every case is as likely as any other, while losses are collected; the training process sets it."""
        return bool(self._warming_up[0])

    @warming_up.setter
    def warming_up(self, value: bool) -> None:
        self._warming_up[0] = value

    def probabilities(self) -> FloatArray:
        """The probability of each case in the next draw, shape (n,), summing to 1."""
        if self.n_unseen:
            candidates = ~self._seen & ~self._claimed
            if not candidates.any():
                candidates = ~self._seen
            return candidates / candidates.sum()
        has_loss = ~np.isnan(self._losses)
        probabilities = np.full(len(self), 1 / len(self))
        if has_loss.any() and not self.warming_up:
            probabilities = np.zeros(len(self))
            probabilities[has_loss] = self.rule.probabilities(self._losses[has_loss])
        return with_exploration(probabilities, epsilon=self.exploration)

    def draw(self, size: int, *, rng: np.random.Generator) -> Draws:
        """Draw cases with replacement, each draw independent of the others.

        Args:
            size: Number of cases.
            rng: Source of randomness; a worker needs its own.

        Returns:
            The draws, with the stale losses and probabilities they were made with.
        """
        if self._unseen.any():
            indices, probabilities = self._draw_unseen(size, rng)
        elif self._warming_up[0]:
            # No loss decided these draws, so none corrects them, however long the batch waits in a queue.
            return Draws(rng.integers(len(self), size=size), np.full(size, np.nan), np.full(size, 1 / len(self)))
        else:
            indices, probabilities = self._draw_by_hardness(size, rng)
        return Draws(indices, self._losses[indices], probabilities)

    def update(self, indices: ArrayLike, losses: ArrayLike) -> None:
        """Store the losses that a batch had: L_i <- l_i, or the running mean with momentum.

        Args:
            indices: Positions of the cases, shape (b,). A case that is there twice takes its losses in order.
            losses: Their losses, shape (b,). One that is not finite is refused: counted, and the old value stays.

        Only the training process may call this.
        """
        positions = np.asarray(indices, dtype=np.int64).tolist()
        for i, loss in zip(positions, np.asarray(losses, dtype=np.float64).tolist(), strict=True):
            if math.isfinite(loss):
                old = self._losses[i]
                self._losses[i] = loss if math.isnan(old) else self.momentum * old + (1 - self.momentum) * loss
            else:
                self.refused += 1
            self._seen[i] = True
        self._refresh({i // self._block for i in positions} if self._is_local else range(len(self._block_sum)))

    def state_dict(self) -> dict[str, Any]:
        """Everything that a later training needs to go on, by case name."""
        return {
            "cases": list(self._position),
            "losses": self._losses.copy(),
            "seen": self._seen.copy(),
            "refused": self.refused,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> str | None:
        """Take over the losses of an earlier training, case by case, by name.

        Cases the state does not know start unseen; cases that are gone are dropped.

        Returns:
            One line for the log if the cases changed, else None.
        """
        known = {case: i for i, case in enumerate(state["cases"])}
        here = np.array([i for case, i in self._position.items() if case in known], dtype=np.int64)
        there = np.array([known[case] for case in self._position if case in known], dtype=np.int64)
        new = [case for case in self._position if case not in known]
        gone = [case for case in known if case not in self._position]
        self._losses[:] = np.nan
        self._seen[:] = False
        self._claimed[:] = False
        self._losses[here] = np.asarray(state["losses"], dtype=np.float64)[there]
        self._seen[here] = np.asarray(state["seen"], dtype=bool)[there]
        self.refused = int(state["refused"])
        self._refresh(range(len(self._block_sum)))
        if not new and not gone:
            return None
        return (
            f"The training cases changed since the checkpoint: {len(new)} new (start unseen{_examples(new)}), "
            f"{len(gone)} gone (dropped{_examples(gone)})."
        )

    def __len__(self) -> int:
        return len(self._position)

    def __repr__(self) -> str:
        return f"HardnessTable({len(self)} cases, {self.rule}, {self.n_unseen} unseen)"

    def __getstate__(self) -> dict[str, Any]:
        """Pickled for a worker: the shared memory travels as such, the views on it are made anew."""
        views = {f"_{name}" for name in self._memory}
        return {name: value for name, value in self.__dict__.items() if name not in views}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._view_memory()

    def _view_memory(self) -> None:
        view = {name: np.frombuffer(memory, dtype=memory._type_) for name, memory in self._memory.items()}  # type: ignore[attr-defined]
        self._losses: FloatArray = view["losses"]
        self._weights: FloatArray = view["weights"]
        self._seen: NDArray[np.bool_] = view["seen"]
        self._claimed: NDArray[np.bool_] = view["claimed"]
        self._block_max: FloatArray = view["block_max"]
        self._block_sum: FloatArray = view["block_sum"]
        self._unseen: NDArray[np.int64] = view["unseen"]
        self._unclaimed: NDArray[np.int64] = view["unclaimed"]
        self._warming_up: NDArray[np.bool_] = view["warming_up"]

    def _slice(self, block: int) -> slice:
        return slice(block * self._block, (block + 1) * self._block)

    def _refresh(self, blocks: Iterable[int]) -> None:
        """Recompute what the blocks say of their cases, exactly."""
        ruled = None if self._is_local else self._ruled_weights()
        for block in blocks:
            here = self._slice(block)
            losses = self._losses[here]
            n_unseen = len(losses) - np.count_nonzero(self._seen[here])
            largest = np.fmax.reduce(losses)  # ignores NaN; NaN if there is nothing else
            if ruled is None:
                weights = losses - largest
                weights *= self._beta
                np.exp(weights, out=weights)
                if n_unseen or self.refused:
                    np.nan_to_num(weights, copy=False, nan=0.0)
            else:
                weights = ruled[here]
            largest = -np.inf if math.isnan(largest) else largest
            self._weights[here] = weights
            self._block_max[block] = largest
            self._block_sum[block] = np.add.reduce(weights)
            self._unseen[block] = n_unseen
            self._count_unclaimed(block)

    def _ruled_weights(self) -> FloatArray:
        """Probabilities of the cases that have a loss, 0 for the others."""
        weights = np.zeros(len(self))
        has_loss = ~np.isnan(self._losses)
        if has_loss.any():
            weights[has_loss] = self.rule.probabilities(self._losses[has_loss])
        return weights

    def _count_unclaimed(self, block: int) -> None:
        here = self._slice(block)
        if self._unseen[block]:
            self._unclaimed[block] = np.count_nonzero(~(self._seen[here] | self._claimed[here]))
        else:
            self._unclaimed[block] = 0

    def _draw_by_hardness(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], FloatArray]:
        n = len(self)
        uniform = rng.random((3, size))
        # Copies: what another process changes meanwhile must not disagree with itself.
        scale = self._block_max.copy()
        largest = np.maximum.reduce(scale)
        if largest > -np.inf:
            if self._is_local:
                scale -= largest
                scale *= self._beta
                np.exp(scale, out=scale)
            else:
                scale.fill(1.0)
            cumulative = np.add.accumulate(scale * self._block_sum)
            total = cumulative[-1]
        if largest == -np.inf or not total > 0:  # every loss so far was refused, or the table is being filled
            return (uniform[0] * n).astype(np.int64), np.full(size, 1 / n)
        blocks = np.minimum(cumulative.searchsorted(uniform[0] * total, side="right"), len(cumulative) - 1)
        indices = np.empty(size, dtype=np.int64)
        for block in set(blocks.tolist()):
            mine = blocks == block
            inside = np.add.accumulate(self._weights[self._slice(block)])
            chosen = inside.searchsorted(uniform[1, mine] * inside[-1], side="right")
            indices[mine] = chosen + block * self._block
        explore = uniform[2] < self.exploration
        if explore.any():
            indices[explore] = rng.integers(n, size=int(explore.sum()))
        # Rounding can push a draw one past the end.
        np.minimum(indices, n - 1, out=indices)
        share = self._weights[indices] * scale[indices // self._block] / total
        return indices, (1 - self.exploration) * share + self.exploration / n

    def _draw_unseen(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], FloatArray]:
        indices = np.empty(size, dtype=np.int64)
        probabilities = np.empty(size)
        for k in range(size):
            indices[k], probabilities[k] = self._draw_unclaimed(rng) or self._draw_claimed(rng)
        return indices, probabilities

    def _draw_unclaimed(self, rng: np.random.Generator) -> tuple[int, float] | None:
        """Draw among the unseen cases that no worker has drawn yet, and claim the case."""
        while (cumulative := self._unclaimed.cumsum())[-1]:
            n_left = int(cumulative[-1])
            block = int(cumulative.searchsorted(rng.integers(n_left), side="right"))
            here = self._slice(block)
            candidates = np.flatnonzero(~(self._seen[here] | self._claimed[here]))
            if len(candidates):
                index = block * self._block + int(rng.choice(candidates))
                self._claimed[index] = True
                self._count_unclaimed(block)
                return index, 1 / n_left
            self._count_unclaimed(block)  # another worker was faster
        return None

    def _draw_claimed(self, rng: np.random.Generator) -> tuple[int, float]:
        """Draw among the unseen cases, all of which are on their way."""
        while (cumulative := self._unseen.cumsum())[-1]:
            n_left = int(cumulative[-1])
            block = int(cumulative.searchsorted(rng.integers(n_left), side="right"))
            candidates = np.flatnonzero(~self._seen[self._slice(block)])
            if len(candidates):
                return block * self._block + int(rng.choice(candidates)), 1 / n_left
        indices, probabilities = self._draw_by_hardness(1, rng)  # the last loss has just come back
        return int(indices[0]), float(probabilities[0])


def _examples(cases: Sequence[str]) -> str:
    if not cases:
        return ""
    return ": " + ", ".join(cases[:3]) + (", ..." if len(cases) > 3 else "")
