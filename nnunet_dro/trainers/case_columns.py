"""Columns with one entry per case of a batch: from its draw, and from the training step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as dist

from nnunet_dro.sampling import Draws

#: Name of the batch's entry that carries the columns of its draws.
_ENTRY = "case_draws"


@dataclass(frozen=True)
class DrawColumns:
    """The draws of the b cases of a batch, as tensors (b,): `Draws` on their way through nnU-Net's queues.

    A batch may wait in a queue while the table changes, so the importance weights need the numbers of the draw.

    Attributes:
        indices: Positions in the hardness table, int64.
        stale_losses: Stale losses at the moment of the draw, float32, NaN at a first visit.
        probabilities: Probabilities of the draws, float32.
        shares: Probabilities by the rule alone, float32.
        explored: Parts of the probabilities that are due to exploration, float32.
        betas: Robustness of each draw, float32.
    """

    indices: Tensor
    stale_losses: Tensor
    probabilities: Tensor
    shares: Tensor
    explored: Tensor
    betas: Tensor

    @classmethod
    def of(cls, draws: Draws) -> "DrawColumns":
        """The columns of the draws of a table."""
        columns = {column.name: torch.from_numpy(getattr(draws, column.name)).float() for column in fields(cls)}
        return cls(**{**columns, "indices": torch.from_numpy(draws.indices)})

    @classmethod
    def in_batch(cls, batch: Mapping[str, Any], *, device: torch.device | None = None) -> "DrawColumns":
        """The columns that a batch carries, moved to a device (if any is given) without waiting for it."""
        rows = batch[_ENTRY]
        if device is not None:
            rows = rows.to(device, non_blocking=True)
        columns = dict(zip((column.name for column in fields(cls)), rows.unbind(1), strict=True))
        return cls(**{**columns, "indices": columns["indices"].long()})

    def entries(self) -> dict[str, Tensor]:
        """The columns as one entry of a batch, shape (b, columns): each tensor costs a queue its own memory."""
        return {_ENTRY: _stacked(self, torch.float32)}


@dataclass(frozen=True)
class CaseColumns:
    """The results of a training step for its b cases, as tensors (b,) on the device of the step.

    Attributes:
        indices: Positions in the hardness table.
        losses: Loss of each case alone.
        stale_losses: Loss at the draw, NaN at a first visit.
        clipped: Whether the importance weight was clipped.
        weights: Weights, as in `Step`.
    """

    indices: Tensor
    losses: Tensor
    stale_losses: Tensor
    clipped: Tensor
    weights: Tensor

    def packed(self) -> Tensor:
        """One row per case, shape (b, columns), in the type of the losses."""
        return _stacked(self, self.losses.dtype)

    @staticmethod
    def exchanged(rows: Tensor, max_cases: int) -> Tensor:
        """The packed rows of all ranks, in the same order on every rank; rows without a case have the index -1.

        Args:
            rows: The packed rows of this rank.
            max_cases: The largest number of cases that a rank has.
        """
        padded = rows.new_full((max_cases, rows.shape[1]), -1)
        padded[: len(rows)] = rows
        gathered = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, padded)
        return torch.cat(gathered)

    @classmethod
    def unpacked(cls, rows: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """Values of the cases by column, from packed rows in any shape; rows without a case are left out."""
        names = [column.name for column in fields(cls)]
        rows = rows.reshape(-1, len(names))
        rows = rows[rows[:, names.index("indices")] >= 0]
        return {name: rows[:, position].astype(np.float64) for position, name in enumerate(names)}


@dataclass(frozen=True)
class Step:
    """The results of one training iteration for its b cases, over all ranks.

    Attributes:
        indices: Positions of the cases in the hardness table, (b,).
        losses: Loss of each case alone, (b,).
        stale_losses: Loss at the draw, (b,), NaN at a first visit.
        mean_loss: nnU-Net's loss of this rank's batch, with all weights 1.
        n_clipped: Number of importance weights that were clipped.
        mean_weight: Mean of the importance weights, clipped and not normalised.
        weights: The importance weights, clipped and not normalised, or other weights that a trainer sent, (b,).
    """

    indices: NDArray[np.int64]
    losses: NDArray[np.float64]
    stale_losses: NDArray[np.float64]
    mean_loss: float
    n_clipped: int = 0
    mean_weight: float = 1.0
    weights: NDArray[np.float64] = field(default_factory=lambda: np.ones(0))

    @classmethod
    def of(cls, rows: NDArray[Any], mean_loss: float) -> "Step":
        """The step with these packed rows of `CaseColumns` of all ranks."""
        columns = CaseColumns.unpacked(rows)
        return cls(
            indices=columns["indices"].astype(np.int64),
            losses=columns["losses"],
            stale_losses=columns["stale_losses"],
            mean_loss=mean_loss,
            n_clipped=int(columns["clipped"].sum()),
            mean_weight=float(columns["weights"].mean()),
            weights=columns["weights"],
        )


def _stacked(columns: DrawColumns | CaseColumns, dtype: torch.dtype) -> Tensor:
    """One row per case, shape (b, columns); float32 is exact for 16 million indices."""
    return torch.stack([getattr(columns, column.name).to(dtype) for column in fields(columns)], 1)
