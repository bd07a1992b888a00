"""The loss of a trainer, weighted by hardness where the batch was drawn by hardness."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch import distributed as dist

from nnunet_dro.losses import CaseByCaseLoss, DiceCELoss, ImportanceWeights


@dataclass(frozen=True)
class Step:
    """What one training iteration said about its cases, over all ranks; b cases.

    Attributes:
        indices: Positions of the cases in the hardness table, (b,).
        losses: Loss of each case alone, (b,).
        stale_losses: Loss at the draw, (b,), NaN at a first visit.
        mean_loss: nnU-Net's loss of this rank's batch, all weights 1.
        n_clipped: How many importance weights hit the clip.
        mean_weight: Mean of the importance weights, clipped and not normalised.
        weights: The importance weights, clipped and not normalised, or the weights a trainer sent, (b,).
    """

    indices: NDArray[np.int64]
    losses: NDArray[np.float64]
    stale_losses: NDArray[np.float64]
    mean_loss: float
    n_clipped: int = 0
    mean_weight: float = 1.0
    weights: NDArray[np.float64] = field(default_factory=lambda: np.ones(0))


#: Weight of the past in the running mean of the importance weights, per iteration.
_MEAN_WEIGHT_MEMORY = 0.99


class HardnessWeightedLoss(nn.Module):
    """A loss that weighs its cases while `drawn` is active, and is nnU-Net's own otherwise (validation).

    Args:
        plain: The loss as nnU-Net built it.
        per_case: The same loss case by case.
        importance: Importance weights, or None for weights of 1.
        normalised: Whether importance weights are divided by their running mean, over all ranks.
        max_cases: The most cases a rank has in its batch.
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
        self.max_cases = max_cases
        self.is_ddp = is_ddp
        self._draws: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
        self._readback: Tensor | None = None

    @contextmanager
    def drawn(self, batch: dict[str, Any]) -> Iterator[None]:
        """Within this context the loss belongs to ``batch`` and weighs its cases."""
        names = ("case_indices", "stale_losses", "draw_probabilities", "draw_betas")
        self._draws = tuple(batch[name] for name in names)  # type: ignore[assignment]
        try:
            yield
        finally:
            self._draws = None

    def forward(self, output: Any, target: Any) -> Tensor:
        """The training loss, a scalar."""
        if self._draws is None:
            loss: Tensor = self.plain(output, target)
            return loss
        cases = self.per_case(output, target)
        hardness = cases.hardness
        device = hardness.device
        indices, stale_losses, *at_draw = (values.to(device, non_blocking=True) for values in self._draws)
        ones = torch.ones_like(hardness)
        weights, clipped = ones, torch.zeros_like(hardness)
        if self.importance is not None:
            ratios = self.importance.ratios(hardness, stale_losses, *at_draw)
            weights = ratios.clamp(self.importance.low, self.importance.high)
            clipped = (weights != ratios).to(hardness.dtype)
        with torch.no_grad():
            mean_loss = cases.weighted(ones)
        # float32 holds indices up to 16 million exactly.
        columns = (indices.to(hardness.dtype), hardness, stale_losses.to(hardness.dtype), clipped, weights)
        self.send(torch.stack(columns), mean_loss)
        return cases.weighted(weights / self.mean_weight if self.normalised else weights)

    def step(self) -> Step:
        """What the last weighted call said of its cases; call it after the device was waited for."""
        if self._readback is None:
            raise RuntimeError(
                "The training step did not call `self.loss`, so the losses of its cases are unknown. A trainer mixed "
                "with HardnessWeighted must compute its loss as `self.loss(output, target)`."
            )
        values = self._readback.numpy()
        self._readback = None
        cases = values[1:].reshape(-1, 5)
        cases = cases[cases[:, 0] >= 0]
        indices = cases[:, 0].astype(np.int64)
        losses, stale_losses, weights = (cases[:, column].astype(np.float64) for column in (1, 2, 4))
        mean_weight = float(weights.mean())
        if math.isfinite(mean_weight):
            self.mean_weight += (1 - _MEAN_WEIGHT_MEMORY) * (mean_weight - self.mean_weight)
        return Step(indices, losses, stale_losses, float(values[0]), int(cases[:, 3].sum()), mean_weight, weights)

    def send(self, cases: Tensor, mean_loss: Tensor) -> None:
        """Start moving the losses to the CPU, those of all ranks; `step` reads them.

        Args:
            cases: Shape (5, b): position in the table, loss, stale loss, whether the weight was clipped, and weight.
            mean_loss: Of this rank's batch, a scalar.

        nnU-Net's step ends with a wait for the device, when it reads its loss: this copy was queued before and is done
        by then, so the losses cost no wait of their own.
        """
        cases = cases.T
        if self.is_ddp:
            cases = self._gather(cases)
        values = torch.cat([mean_loss.detach().reshape(1).to(cases.dtype), cases.reshape(-1)])
        if values.device.type == "cuda":
            self._readback = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._readback.copy_(values, non_blocking=True)
        else:
            self._readback = values.cpu()

    def _gather(self, cases: Tensor) -> Tensor:
        """The cases of all ranks, in the same order on each; missing ones have the index -1."""
        padded = cases.new_full((self.max_cases, cases.shape[1]), -1)
        padded[: len(cases)] = cases
        gathered = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, padded)
        return torch.cat(gathered)
