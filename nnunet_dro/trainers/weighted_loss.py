"""The loss of a trainer, with weights for batches that were drawn by hardness."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nnunet_dro.losses import CaseByCaseLoss, DiceCELoss, ImportanceWeights, PooledHardness
from nnunet_dro.sampling import Rule
from nnunet_dro.trainers.case_columns import N_COLUMNS, CaseColumns, rows_of_all_ranks

#: Weight of the past in the running mean of the importance weights, per iteration.
_MEAN_WEIGHT_MEMORY = 0.99


class HardnessWeightedLoss(nn.Module):
    """A loss that weights its cases while `drawn` is active; otherwise, as in validation, it is nnU-Net's own loss.

    Args:
        plain: The loss as nnU-Net built it.
        per_case: The same loss, case by case.
        importance: The importance weights, or None if all weights are 1.
        normalised: Whether importance weights are divided by their running mean, over all ranks.
        max_cases: The largest number of cases that a rank has in its batch.
        is_ddp: Whether to exchange the losses with the other ranks.
    """

    def __init__(
        self,
        plain: nn.Module,
        per_case: DiceCELoss | CaseByCaseLoss,
        *,
        importance: ImportanceWeights | None,
        max_cases: int,
        is_ddp: bool,
        normalised: bool = False,
    ) -> None:
        super().__init__()
        self.plain = plain
        self.per_case = per_case
        self.importance = importance
        self.normalised = normalised
        self.mean_weight = 1.0
        #: Computes the hardness of the cases instead of the loss, if it is set.
        self.pooled: PooledHardness | None = None
        self.max_cases = max_cases
        self.is_ddp = is_ddp
        self._batch: dict[str, Any] | None = None
        self._rule_weights: Tensor | None = None
        self._readback: Tensor | None = None
        self._is_copied: torch.cuda.Event | None = None

    @contextmanager
    def drawn(self, batch: dict[str, Any], rule: Rule | None = None) -> Iterator[None]:
        """Within this context the loss belongs to ``batch`` and weights its cases.

        Args:
            batch: With the draws of its cases.
            rule: Its loss weights multiply the importance weights. They are those of now, not of the draw, because they
                are part of what is minimised, whereas importance weights correct the draw.
        """
        self._batch = batch
        self._rule_weights = None if rule is None else _loss_weights(rule, CaseColumns.in_batch(batch))
        try:
            yield
        finally:
            self._batch = self._rule_weights = None

    def forward(self, output: Any, target: Any) -> Tensor:
        """The training loss, a scalar."""
        if self._batch is None:
            loss: Tensor = self.plain(output, target)
            return loss
        cases = self.per_case(output, target)
        drawn = CaseColumns.in_batch(self._batch, device=_device_of(output))
        hardness = cases.hardness if self.pooled is None else self.pooled(drawn.indices, cases)
        weights, clipped = drawn.weights, drawn.clipped
        if self.importance is not None:
            weights, clipped = self.importance(
                hardness, drawn.stale_losses, shares=drawn.shares, explored=drawn.explored, betas=drawn.betas
            )
        with torch.no_grad():
            mean_loss = cases.weighted(torch.ones_like(hardness))
        self.send(replace(drawn, losses=hardness, weights=weights, clipped=clipped), mean_loss)
        if self.normalised:
            weights = weights / self.mean_weight
        if self._rule_weights is not None:
            weights = weights * self._rule_weights.to(hardness.device, non_blocking=True)
        return cases.weighted(weights)

    def step(self) -> tuple[CaseColumns, float]:
        """The cases of the last weighted call on all ranks, in double precision on the CPU, and nnU-Net's loss.

        The loss is that of this rank's batch, with all weights 1. If the cases are on their way from a GPU, this waits
        for them.
        """
        if self._readback is None:
            raise RuntimeError(
                "The training step did not call `self.loss`, so the losses of its cases are unknown. A trainer with "
                "the mixin HardnessWeighted must compute its loss as `self.loss(output, target)`."
            )
        if self._is_copied is not None:
            self._is_copied.synchronize()
        values = self._readback.double()
        self._readback = self._is_copied = None
        rows = values[1:].view(-1, N_COLUMNS)
        cases = CaseColumns.of_rows(rows[rows[:, 0] >= 0])
        mean_weight = float(cases.weights.numpy().mean())
        if math.isfinite(mean_weight):
            self.mean_weight += (1 - _MEAN_WEIGHT_MEMORY) * (mean_weight - self.mean_weight)
        return cases, float(values[0])

    def send(self, cases: CaseColumns, mean_loss: Tensor) -> None:
        """Start moving the losses of all ranks to the CPU, where `step` waits for them and reads them.

        nnU-Net's step ends by waiting for the device, when it reads its loss. This copy is queued earlier and is done
        by then, so it adds no wait; where a step ends without that, `step` waits for the copy alone.

        Args:
            cases: The cases of this rank's batch.
            mean_loss: The loss of this rank's batch, a scalar.
        """
        rows = cases.rows()
        if self.is_ddp:
            rows = rows_of_all_ranks(rows, self.max_cases)
        values = torch.cat([mean_loss.detach().reshape(1).to(rows.dtype), rows.reshape(-1)])
        if values.device.type == "cuda":
            self._readback = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._readback.copy_(values, non_blocking=True)
            self._is_copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._is_copied.record(torch.cuda.current_stream(values.device))
        else:
            self._readback = values.cpu()


def _device_of(output: Any) -> torch.device:
    device: torch.device = (output if isinstance(output, Tensor) else output[0]).device
    return device


def _loss_weights(rule: Rule, drawn: CaseColumns) -> Tensor | None:
    weights = rule.loss_weights(drawn.indices.numpy(), drawn.probabilities.numpy())
    return None if weights is None else torch.from_numpy(weights).float()
