"""The cross-entropy of each case, without the Dice."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nnunet_dro.losses.dice_ce import DiceCELoss


def cross_entropies(loss: DiceCELoss, outputs: Tensor | Sequence[Tensor], targets: Tensor | Sequence[Tensor]) -> Tensor:
    """What the cross-entropy contributes to the loss of each case alone.

    Unlike the Dice it is a mean over voxels: the gradient at a voxel, times their number, depends on what the network
    says there, and not on how many other voxels the patch has.

    Args:
        loss: The loss whose cross-entropy, factors of the resolutions and ignored label are meant.
        outputs: As `DiceCELoss.forward`.
        targets: As `DiceCELoss.forward`.

    Returns:
        Shape (b,), with gradient.
    """
    if isinstance(outputs, Tensor):
        outputs, targets = [outputs], [targets]  # type: ignore[list-item]
    means = []
    for logits, target, factor in zip(outputs, targets, loss.scale_weights, strict=True):
        if factor == 0:
            continue
        voxelwise = loss.voxel_loss(logits, target, loss.ignore_label).flatten(1)
        sums = voxelwise.sum(1, dtype=torch.promote_types(voxelwise.dtype, torch.float32))
        means.append(factor * loss.weight_ce * sums / _n_voxels(loss, logits, target))
    return torch.stack(means).sum(0)


def _n_voxels(loss: DiceCELoss, logits: Tensor, target: Tensor) -> Tensor | int:
    """Number of terms that the cross-entropy of a case is a mean of, as nnU-Net counts them."""
    if loss.ignore_label is None:
        return logits[0, 0].numel() * (logits.shape[1] if loss.regions else 1)
    counts = ~target[:, -1:].to(torch.bool) if loss.regions else target != loss.ignore_label
    return counts.flatten(1).sum(1).clamp_min(1)
