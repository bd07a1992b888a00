"""The terms of the surrogate that `nnUNetTrainerGILS` ascends.

They are the cross-entropy and the distance of the features, each by case.
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

    Args:
        loss: The loss that the cross-entropy is part of.
        outputs: As in `DiceCELoss.forward`.
        targets: As in `DiceCELoss.forward`.

    Returns:
        Shape (b,), with gradient.
    """
    means = []
    for logits, target, factor in loss.resolutions(outputs, targets):
        total, n_terms = loss.voxel_sums.cross_entropy(logits, target)
        n_terms = n_terms.clamp_min(1)
        means.append(factor * loss.weight_ce * total / n_terms)

    # The sum over the resolutions.
    return torch.stack(means).sum(0)


class _MeanSquaredDistance(torch.autograd.Function):
    """`mean_squared_distance`, which autograd would compute with copies in float32."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, original: Tensor) -> Tensor:
        ctx.save_for_backward(features, original)
        n_voxels = features[0, 0].numel()
        total = features.new_zeros(len(features), dtype=torch.float32)

        for channels in _chunks(features):
            difference = _difference(features, original, channels)
            squares = difference.square_()
            total += squares.flatten(1).sum(1)
        return total / n_voxels

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # The derivative of mean ||z - z_0||^2 is 2 (z - z_0) / n_voxels.
        (gradient,) = gradients
        features, original = ctx.saved_tensors
        n_voxels = features[0, 0].numel()
        factor = 2 / n_voxels * gradient
        factor = factor.view(-1, *[1] * (features.ndim - 1))

        result = torch.empty_like(features)
        for channels in _chunks(features):
            difference = _difference(features, original, channels)
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


def _difference(features: Tensor, original: Tensor, channels: slice) -> Tensor:
    """Some channels of z - z_0, in float32."""
    return features[:, channels].float() - original[:, channels].float()


def _chunks(features: Tensor) -> list[slice]:
    """Slices of the channels, each of at most `_CHUNK` numbers or one channel."""
    n_channels = features.shape[1]
    n_numbers = max(1, features.numel())
    size = max(1, _CHUNK * n_channels // n_numbers)

    starts = range(0, n_channels, size)
    return [slice(start, start + size) for start in starts]
