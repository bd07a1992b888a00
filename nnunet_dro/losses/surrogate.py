"""The terms of the surrogate that `nnUNetTrainerGILS` ascends.

Cross-entropy and distance of the features, by case.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nnunet_dro.losses.dice_ce import DiceCELoss

#: Features that are looked at at once, at most: 2^23 numbers are 32 MiB in float32, two channels of
#: 2 x 128^3 voxels.
_CHUNK = 2**23


def cross_entropies(
    loss: DiceCELoss, outputs: Tensor | Sequence[Tensor], targets: Tensor | Sequence[Tensor]
) -> Tensor:
    """What the cross-entropy contributes to the loss of each case alone.

    Unlike the Dice it is a mean over voxels: the gradient at a voxel, times their number, depends
    on what the network says there, and not on how many other voxels the patch has.

    The result is (b,), with gradient; outputs and targets are those of `DiceCELoss.forward`.
    """
    means = []
    for logits, target, factor in loss.resolutions(outputs, targets):
        total, n_terms = loss.voxel_sums.cross_entropy(logits, target)
        means.append(factor * loss.weight_ce * total / n_terms.clamp_min(1))
    return torch.stack(means).sum(0)


class _MeanSquaredDistance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, original: Tensor) -> Tensor:
        ctx.save_for_backward(features, original)
        total = features.new_zeros(len(features), dtype=torch.float32)
        for channels in _chunks(features):
            difference = features[:, channels].float() - original[:, channels].float()
            total += difference.square_().flatten(1).sum(1)
        return total / features[0, 0].numel()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        features, original = ctx.saved_tensors
        factor = (2 / features[0, 0].numel() * gradients[0]).view(-1, *[1] * (features.ndim - 1))
        result = torch.empty_like(features)
        for channels in _chunks(features):
            difference = features[:, channels].float() - original[:, channels].float()
            result[:, channels] = difference.mul_(factor)
        return result, None


def mean_squared_distance(features: Tensor, original: Tensor) -> Tensor:
    """Mean over voxels of ||z - z_0||^2 of each case.

    The features are those of full resolution, often the largest tensors of a training step, and in
    half precision on a GPU. They are subtracted, squared and summed in float32, a few channels at a
    time, so that no copy of them all in float32 is needed, neither here nor for the gradient.

    Args:
        features: z, shape (b, channels, *spatial).
        original: z_0, the same shape; no gradient flows to it.

    Returns:
        Shape (b,), float32, with gradient.

    Example:
        >>> mean_squared_distance(torch.tensor([[[3.0, 0.0], [4.0, 1.0]]]), torch.zeros(1, 2, 2))
        tensor([13.])
    """
    return _MeanSquaredDistance.apply(features, original)


def _chunks(features: Tensor) -> list[slice]:
    """Slices of the channels, each of at most `_CHUNK` numbers or one channel."""
    n_channels = features.shape[1]
    size = max(1, _CHUNK * n_channels // max(1, features.numel()))
    return [slice(start, start + size) for start in range(0, n_channels, size)]
