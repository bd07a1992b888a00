"""The numbers of the cases of a batch, from their draw in a worker to the end of the step."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from nnunet_dro.sampling import Draws

#: Name of the entry of a batch that carries the rows of its cases. They are a single tensor,
#: because a queue of batches takes shared memory for each tensor.
ENTRY = "case_draws"


@dataclass(frozen=True)
class CaseColumns:
    """What the cases of a batch were drawn with (`Draws`), and what its training step adds.

    All are tensors of shape (b,). A batch may wait in a queue while the table changes, so that the
    importance weights need the numbers of the draw.
    """

    indices: Tensor  # positions in the hardness table, int64
    stale_losses: Tensor  # stale losses at the moment of the draw, NaN at a first visit
    probabilities: Tensor  # probabilities of the draws
    shares: Tensor  # probabilities by the rule alone
    explored: Tensor  # parts of the probabilities that are due to exploration
    betas: Tensor  # robustness of each draw
    losses: Tensor  # loss of each case alone; NaN before the step
    #: The importance weights, clipped and not normalised, or other weights that a trainer sent; 1
    #: before.
    weights: Tensor
    clipped: Tensor  # 1 where the importance weight was clipped, otherwise 0

    @classmethod
    def in_batch(
        cls, batch: Mapping[str, Any], *, device: torch.device | None = None
    ) -> "CaseColumns":
        """The columns that a batch carries, moved to a device, if any, without waiting for it."""
        rows = batch[ENTRY]
        if device is not None:
            rows = rows.to(device, non_blocking=True)
        return cls.of_rows(rows)

    @classmethod
    def of_rows(cls, rows: Tensor) -> "CaseColumns":
        """The columns of a tensor with one row per case, shape (b, columns)."""
        indices, *others = rows.unbind(1)
        return cls(indices.long(), *others)

    def rows(self) -> Tensor:
        """One row per case, shape (b, columns).

        Single precision holds the indices of up to 16 million cases exactly.
        """
        columns = [getattr(self, column.name).float() for column in fields(self)]
        return torch.stack(columns, 1)


N_COLUMNS = len(fields(CaseColumns))


def entry_of(draws: Draws) -> dict[str, Tensor]:
    """The entry of a batch for the draws of its cases, before any step."""
    n_cases = len(draws.indices)
    columns = [getattr(draws, column.name) for column in fields(draws)]
    losses = np.full(n_cases, np.nan)
    weights = np.ones(n_cases)
    clipped = np.zeros(n_cases)

    rows = np.stack([*columns, losses, weights, clipped], 1)
    return {ENTRY: torch.from_numpy(rows.astype(np.float32))}


def rows_of_all_ranks(rows: Tensor, max_cases: int) -> Tensor:
    """The rows of all ranks, in the same order on every rank.

    Every rank sends ``max_cases`` rows; those beyond its cases have the index -1.
    """
    padded = rows.new_full((max_cases, rows.shape[1]), -1)
    padded[: len(rows)] = rows

    gathered = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, padded)
    return torch.cat(gathered)
