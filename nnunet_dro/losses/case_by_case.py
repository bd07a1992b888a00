"""Any loss, evaluated case by case."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class CaseByCaseLoss(nn.Module):
    """Any loss of a batch, evaluated on each case alone.

    The training loss is (1/b) sum_i w_i l_i. It costs one call per case, and it differs from the
    loss of the batch if that is no mean over cases (a batch Dice, the hardest voxels of a batch).
    Prefer `DiceCELoss` where it applies.

    Args:
        loss: Called as ``loss(output, target)``, with tensors or, in deep supervision, lists;
            returns a scalar.

    Example:
        >>> loss = CaseByCaseLoss(nn.MSELoss())
        >>> cases = loss(torch.zeros(2, 1), torch.tensor([[1.0], [3.0]]))
        >>> cases.hardness.tolist(), cases.weighted(torch.tensor([1.0, 0.0])).item()
        ([1.0, 9.0], 0.5)
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        #: What would gather from the other ranks, which may have another number of cases than this
        #: one.
        self._gathering: list[Any] = [
            module
            for module in loss.modules()
            if getattr(module, "ddp", False) is True
            and getattr(module, "batch_dice", False) is True
        ]

    def forward(
        self, outputs: Tensor | Sequence[Tensor], targets: Tensor | Sequence[Tensor]
    ) -> "SingleCaseLosses":
        """Evaluate a batch; any shapes that the loss accepts, with the cases along the first axis."""
        n_cases = len(outputs) if isinstance(outputs, Tensor) else len(outputs[0])
        for module in self._gathering:
            module.ddp = False
        try:
            losses = [self.loss(case_of(outputs, i), case_of(targets, i)) for i in range(n_cases)]
        finally:  # nnU-Net computes its validation loss with the same modules
            for module in self._gathering:
                module.ddp = True
        found = torch.stack([loss.reshape(()).float() for loss in losses])
        full = outputs if isinstance(outputs, Tensor) else outputs[0]
        return SingleCaseLosses(found, found.isnan() & full.isfinite().reshape(n_cases, -1).all(1))


@dataclass(frozen=True)
class SingleCaseLosses:
    """The losses of the cases of one batch, shape (b,), with gradient."""

    losses: Tensor
    is_void: Tensor  # Undefined though the output is finite: nothing is annotated (at a resolution). It counts as 0.

    @property
    def hardness(self) -> Tensor:
        """The loss of each case alone, shape (b,), detached."""
        return self.losses.detach()

    def weighted(self, weights: Tensor) -> Tensor:
        """(1/b) sum_i w_i l_i, a scalar."""
        weights, losses = (values.masked_fill(self.is_void, 0) for values in (weights, self.losses))
        return (weights * losses).mean()


def case_of(values: Tensor | Sequence[Tensor], i: int) -> Tensor | list[Tensor]:
    """Case ``i`` as a batch of its own, from a tensor or from each tensor of a list."""
    return (
        values[i : i + 1] if isinstance(values, Tensor) else [value[i : i + 1] for value in values]
    )
