"""The table of stale losses: draw by hardness, update, save, restore; in shared memory."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.sampling.blocks import Blocks
from nnunet_dro.sampling.divergences import FloatArray, with_exploration
from nnunet_dro.sampling.draws import Draws
from nnunet_dro.sampling.rules import KL, Rule, RuleWithBeta

#: Share of the uniform distribution in every draw, so that no case is ever out of reach (the published code's floor).
EXPLORATION = 1e-4
#: Of rules that look at all cases: above this many, they look again after one update per so many cases.
_CASES_PER_LOOK = 4096


class HardnessTable:
    """One stale loss per case, shared by the process that trains and the processes that draw.

    The training process calls `update`; any process, also a worker that was forked or spawned, calls `draw` and sees
    every update. No lock is taken: all numbers of a case are written by the training process alone, and a draw that
    meets a half-written block still returns a valid case, at worst with the probability of a moment ago.

    Cases are kept in blocks of about sqrt(n). A draw walks the sums of the blocks' weights, then one block; an update
    recomputes one block. Cost per draw and update is therefore O(sqrt(n)) with a small constant. Rules other than KL
    look at all cases, in O(n log n). To keep their cost per update flat, too, they look after n // 4096 updates where
    that is more than one, and the probabilities are at most that many updates old.

    Cases that were never seen come first, drawn uniformly (the warm-start epoch of Fidon et al. 2020): those not drawn
    yet before those whose loss is still on its way; unless the rule needs no losses. A case whose losses were all
    refused (not finite) counts as seen and keeps only the exploration floor.

    Args:
        cases: Names of the cases, unique.
        beta: Robustness, 1/loss units, >= 0: p = softmax(beta * stale losses). 0 is uniform sampling.
        rule: What decides in place of `KL` with ``beta``. What it learns belongs to this table.
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
        self._rule: Rule = KL(beta) if rule is None else rule
        self.momentum = momentum
        self.exploration = exploration
        #: Losses that were not finite and therefore not stored.
        self.refused = 0

        self._cases = tuple(self._position)
        # Since the rule looked at the losses.
        self._n_updates = 0
        self._blocks = Blocks(len(cases), None if isinstance(self._rule, KL) else self._weigh)
        self._shared = self._blocks.shared
        self._adopt_rule()
        self._blocks.count(self._blocks.all())
        self._blocks.refresh(self._blocks.all())

    @property
    def cases(self) -> tuple[str, ...]:
        """Names of the cases, in the order of the indices."""
        return self._cases

    @property
    def losses(self) -> FloatArray:
        """Stale losses, shape (n,), a copy; NaN where a case has none yet."""
        return self._shared.losses.copy()

    @property
    def rule(self) -> Rule:
        """What decides how likely each case is; in the training process."""
        return self._rule

    @property
    def n_unseen(self) -> int:
        """Number of cases that were never seen."""
        return int(self._shared.unseen.sum())

    @property
    def warming_up(self) -> bool:
        """Whether every case is as likely as any other, while losses are collected; the training process sets it."""
        return bool(self._shared.warming_up[0])

    @warming_up.setter
    def warming_up(self, value: bool) -> None:
        self._shared.warming_up[0] = value

    def estimate_beta(self) -> float | None:
        """Set beta to 1 / standard deviation of the stale losses, once every case was seen.

        Only the training process may call this. Workers see the new beta with their next draw.

        Returns:
            The new beta, or None if it stays what it was: cases are unseen, or all losses are equal.

        Raises:
            TypeError: If the rule has no beta.

        Source: Fidon et al. 2022 (MELBA), on the choice of beta.
        """
        if not isinstance(self._rule, RuleWithBeta):
            raise TypeError(f"`rule` must have a beta to be estimated, got {self._rule}.")
        losses = self._shared.losses[~np.isnan(self._shared.losses)]
        if self.n_unseen or not len(losses):
            return None
        deviation = float(losses.std())
        # Equal losses differ by rounding; a beta from that would blow rounding up.
        if deviation <= 1e-9 * max(1.0, float(np.abs(losses).max())):
            return None
        self._rule = self._rule.with_beta(1 / deviation)
        self._adopt_rule()
        self._blocks.refresh(self._blocks.all())
        return 1 / deviation

    def probabilities(self) -> FloatArray:
        """The probability of each case in the next draw, shape (n,), summing to 1; in the training process."""
        shared = self._shared
        if self.n_unseen and self._rule.needs_losses:
            candidates = ~shared.seen & ~shared.claimed
            if not candidates.any():
                candidates = ~shared.seen
            return np.asarray(candidates / candidates.sum())
        probabilities = np.full(len(self), 1 / len(self))
        if not self.warming_up and (ruled := self._rule.probabilities(shared.losses)).any():
            probabilities = ruled
        return with_exploration(probabilities, epsilon=self.exploration)

    def draw(self, size: int, *, rng: np.random.Generator) -> Draws:
        """Draw cases with replacement, each draw independent of the others.

        Args:
            size: Number of cases.
            rng: Source of randomness; a worker needs its own.

        Returns:
            The draws, with the stale losses, probabilities and beta they were made with.
        """
        shared = self._shared
        beta = float(shared.beta[0])
        if self._rule.needs_losses and shared.unseen.any():
            indices, probabilities = self._draw_unseen(size, rng)
        elif shared.warming_up[0]:
            # No loss decided these draws, so none corrects them, however long the batch waits in a queue.
            nothing = np.full(size, np.nan)
            return Draws(rng.integers(len(self), size=size), nothing, np.full(size, 1 / len(self)), np.zeros(size))
        else:
            indices, probabilities = self._blocks.draw_by_weight(size, rng, exploration=self.exploration)
        return Draws(indices, shared.losses[indices], probabilities, np.full(size, beta))

    def update(self, indices: ArrayLike, losses: ArrayLike) -> None:
        """Store the losses that a batch had: L_i <- l_i, or the running mean with momentum.

        Args:
            indices: Positions of the cases, shape (b,). A case that is there twice takes its losses in order.
            losses: Their losses, shape (b,). One that is not finite is refused: counted, and the old value stays.

        Only the training process may call this.
        """
        shared, blocks = self._shared, self._blocks
        positions = np.asarray(indices, dtype=np.int64).tolist()
        any_unseen = shared.unseen.any()
        for i, loss in zip(positions, np.asarray(losses, dtype=np.float64).tolist(), strict=True):
            if math.isfinite(loss):
                old = shared.losses[i]
                shared.losses[i] = loss if math.isnan(old) else self.momentum * old + (1 - self.momentum) * loss
            else:
                self.refused += 1
                blocks.has_gaps = True
            shared.seen[i] = True
        touched = blocks.of(positions)
        if blocks.weigh is None:
            # Weights before counts: who sees that all were seen draws by weights that are there.
            blocks.refresh(touched)
            blocks.count(touched)
            return
        self._n_updates += 1
        all_seen_now = any_unseen and shared.seen.all()
        if all_seen_now or self._n_updates >= len(self) // _CASES_PER_LOOK:
            if not (any_unseen or self.warming_up):
                self._rule.learn(shared.losses, self._n_updates)
            self._n_updates = 0
            blocks.refresh(blocks.all())
        blocks.count(touched)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a later training needs to go on, by case name."""
        return {
            "cases": list(self._position),
            "losses": self.losses,
            "seen": self._shared.seen.copy(),
            "refused": self.refused,
            "rule": self._rule.state_dict(),
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
        shared = self._shared
        shared.losses[:] = np.nan
        shared.seen[:] = False
        shared.claimed[:] = False
        shared.losses[here] = np.asarray(state["losses"], dtype=np.float64)[there]
        shared.seen[here] = np.asarray(state["seen"], dtype=bool)[there]
        self.refused = int(state["refused"])
        self._blocks.has_gaps = bool((shared.seen & np.isnan(shared.losses)).any())
        if learnt := state.get("rule"):  # checkpoints of the first version have none
            self._rule.load_state_dict(learnt)
        self._blocks.count(self._blocks.all())
        self._blocks.refresh(self._blocks.all())
        if not new and not gone:
            return None
        return (
            f"The training cases changed since the checkpoint: {len(new)} new (start unseen{_examples(new)}), "
            f"{len(gone)} gone (dropped{_examples(gone)})."
        )

    def __len__(self) -> int:
        return len(self._position)

    def __repr__(self) -> str:
        return f"HardnessTable({len(self)} cases, {self._rule}, {self.n_unseen} unseen)"

    def _adopt_rule(self) -> None:
        # Only a softmax has a beta by which its draws can be corrected.
        self._shared.beta[0] = self._rule.beta if isinstance(self._rule, KL) else 0.0

    def _weigh(self, losses: FloatArray) -> FloatArray:
        return self._rule.probabilities(losses)

    def _draw_unseen(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], FloatArray]:
        indices, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
        for k in range(size):
            drawn = self._blocks.draw_unclaimed(rng) or self._blocks.draw_unseen(rng)
            if drawn is None:  # the last loss has just come back
                (index,), (probability,) = self._blocks.draw_by_weight(1, rng, exploration=self.exploration)
                drawn = int(index), float(probability)
            indices[k], probabilities[k] = drawn
        return indices, probabilities


def _examples(cases: Sequence[str]) -> str:
    if not cases:
        return ""
    return ": " + ", ".join(cases[:3]) + (", ..." if len(cases) > 3 else "")
