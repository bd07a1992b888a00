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
        self._gathering: list[Any] = []
        for module in loss.modules():
            has_batch_dice = getattr(module, "batch_dice", False) is True
            if has_batch_dice and getattr(module, "ddp", False) is True:
                self._gathering.append(module)

    def forward(
        self, outputs: Tensor | Sequence[Tensor], targets: Tensor | Sequence[Tensor]
    ) -> "SingleCaseLosses":
        """Evaluate a batch of any shapes that the loss accepts.

        The cases are along the first axis.
        """
        finest = outputs if isinstance(outputs, Tensor) else outputs[0]
        n_cases = len(finest)

        for module in self._gathering:
            module.ddp = False
        try:
            values = []
            for i in range(n_cases):
                value = self.loss(case_of(outputs, i), case_of(targets, i))
                values.append(value.reshape(()).float())
        finally:  # nnU-Net computes its validation loss with the same modules
            for module in self._gathering:
                module.ddp = True

        # A loss that is NaN for a finite output has nothing to look at.
        losses = torch.stack(values)
        is_finite = finest.isfinite().reshape(n_cases, -1).all(1)
        return SingleCaseLosses(losses, is_void=losses.isnan() & is_finite)


@dataclass(frozen=True)
class SingleCaseLosses:
    """The losses of the cases of one batch, shape (b,), with gradient."""

    losses: Tensor
    #: Where a loss is undefined though the output is finite: nothing is annotated, at some
    #: resolution. Such a loss counts as 0.
    is_void: Tensor

    @property
    def hardness(self) -> Tensor:
        """The loss of each case alone, shape (b,), detached."""
        return self.losses.detach()

    def weighted(self, weights: Tensor) -> Tensor:
        """(1/b) sum_i w_i l_i, a scalar."""
        return (weights * self.losses.masked_fill(self.is_void, 0)).mean()


def case_of(values: Tensor | Sequence[Tensor], i: int) -> Tensor | list[Tensor]:
    """Case ``i`` as a batch of its own, from a tensor or from each tensor of a list."""
    if isinstance(values, Tensor):
        return values[i : i + 1]
    return [value[i : i + 1] for value in values]
