"""The stale losses of the cases: stored, averaged and dated."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.sampling.blocks import Blocks
from nnunet_dro.sampling.changed_cases import restore
from nnunet_dro.sampling.spread import Spread


class StaleLosses:
    """Stores the losses that come back from the training.

    The losses themselves are in the memory that the processes share; what is known of them besides
    is valid in the training process alone.

    Args:
        blocks: The blocks with the losses of the cases.
        momentum: Weight of the past in a stored loss, in [0, 1).
        auto_beta: Whether to keep what `deviation` needs.

    Attributes:
        refused: Number of losses that were not finite and therefore not stored.
        spread: How much the cases differ; None without ``auto_beta``.
        stored_in: Number of the update in which each loss was stored, shape (n,).
    """

    def __init__(self, blocks: Blocks, *, momentum: float, auto_beta: bool) -> None:
        self.momentum = momentum
        self.refused = 0
        self.spread = Spread(blocks.n) if auto_beta else None
        self.stored_in = np.zeros(blocks.n, dtype=np.int32)
        self._blocks = blocks
        self._n_updates = 0

    def ages(self) -> FloatArray:
        """Age of each stale loss in updates, shape (n,); NaN for a case without one."""
        losses = self._blocks.shared.losses
        ages = self._n_updates - self.stored_in
        return np.where(np.isnan(losses), np.nan, ages)

    def deviation(self) -> float | None:
        """Standard deviation between the cases, see `Spread.between_cases`.

        Returns:
            The deviation, or None if there are no losses, or all of them are equal.

        Raises:
            ValueError: If the table was made without ``auto_beta``.
        """
        if self.spread is None:
            raise ValueError(
                "`auto_beta` must be True to estimate beta, got False. Set it when you make the "
                "table."
            )

        losses = self._blocks.shared.losses
        stored = losses[~np.isnan(losses)]
        if not len(stored):
            return None

        deviation = math.sqrt(self.spread.between_cases())
        # Equal losses differ by rounding errors, which must not decide beta.
        if deviation <= 1e-9 * max(1.0, float(np.abs(stored).max())):
            return None
        return deviation

    def store(self, positions: list[int], losses: list[float]) -> None:
        """Store the finite losses of a batch, and mark all of its cases as seen.

        L <- l at a first visit, and L <- momentum L + (1 - momentum) l later.
        """
        shared = self._blocks.shared
        self._n_updates += 1

        for i, loss in zip(positions, losses, strict=True):
            if math.isfinite(loss):
                # The first loss of a case has no past.
                old = shared.losses[i]
                new = loss
                if not math.isnan(old):
                    new = self.momentum * old + (1 - self.momentum) * loss
                shared.losses[i] = new
                self.stored_in[i] = self._n_updates
                if self.spread is not None:
                    self.spread.record(i, loss)
            else:
                self.refused += 1
            shared.seen[i] = True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries, one entry per case."""
        shared = self._blocks.shared
        state = {
            "losses": shared.losses.copy(),
            "seen": shared.seen.copy(),
            "staleness": self.ages(),
            "refused": self.refused,
        }
        if self.spread is not None:
            state["spread"] = self.spread.state_dict()
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], here: NDArray[np.int64], there: NDArray[np.int64]
    ) -> None:
        """Restore the losses of the cases that the state has; others start unseen.

        Args:
            state: An earlier `state_dict`.
            here: Positions of the cases in common among the cases now.
            there: Their positions in the state.
        """
        shared = self._blocks.shared
        restore(shared.losses, np.nan, state["losses"], here, there)
        restore(shared.seen, False, state["seen"], here, there)
        self.refused = int(state["refused"])

        # Updates are counted from 0 again: those of the state come before.
        self._n_updates = 0
        restore(self.stored_in, 0, -np.nan_to_num(state["staleness"]), here, there)

        if self.spread is not None:
            self.spread.load_state_dict(state["spread"], here, there)
