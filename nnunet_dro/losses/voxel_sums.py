"""Sums over the voxels of each case, which Dice and cross-entropy are computed from."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from nnunet_dro.losses.voxel_loss import VoxelLoss


class VoxelSums(nn.Module):
    """Sums over the voxels of each case.

    It is a module because only this part is worth compiling, all of it at once. ``finds_predicted``
    says at which resolutions it looks for the classes of the hard prediction.
    """

    def __init__(
        self,
        voxel_loss: VoxelLoss,
        *,
        regions: bool,
        do_bg: bool,
        ignore_label: int | None,
        finds_predicted: Literal["nowhere", "finest", "everywhere"],
    ) -> None:
        super().__init__()
        self.voxel_loss = voxel_loss
        self.regions = regions
        self.first = 0 if do_bg else 1
        self.ignore_label = ignore_label
        self.finds_predicted = finds_predicted

    def forward(
        self, outputs: Sequence[Tensor], targets: Sequence[Tensor]
    ) -> tuple[Tensor | None, ...]:
        """The first fields of `DiceCECaseLosses`, in order.

        There is one output and one target per resolution.
        """
        sums_of_scales = [
            self._sums(logits, target) for logits, target in zip(outputs, targets, strict=True)
        ]

        # One tensor per field, with the resolutions along its first axis.
        fields = zip(*sums_of_scales, strict=True)
        sums = [torch.stack(field) for field in fields]
        return (*sums, self._predicted_classes(outputs, targets))

    def _predicted_classes(
        self, outputs: Sequence[Tensor], targets: Sequence[Tensor]
    ) -> Tensor | None:
        """Whether each class is in the hard prediction, shape (s, b, c); None if nobody asks."""
        n_scales = {"nowhere": 0, "finest": 1, "everywhere": len(outputs)}[self.finds_predicted]
        if n_scales == 0:
            return None

        scales = zip(outputs[:n_scales], targets[:n_scales], strict=True)
        return torch.stack([self._is_predicted(logits, target) for logits, target in scales])

    def _sums(self, logits: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        """The sums of one resolution, each (b,) or (b, c)."""
        mask = self._taking_part(target)
        if self.regions:
            probabilities = torch.sigmoid(logits)
            regions = target if mask is None else target[:, :-1]
            reference = regions.to(torch.bool)
            if mask is not None:
                reference = reference & mask
        else:
            probabilities = torch.softmax(logits, 1)
            classes = torch.arange(
                logits.shape[1],
                device=target.device,
                dtype=target.dtype,
            )
            reference = target == classes.view(-1, *[1] * (target.ndim - 2))

        probabilities = probabilities[:, self.first :]
        reference = reference[:, self.first :]
        # The ignore label is no class, so the reference of a label map needs no mask.
        predicted = probabilities
        if mask is not None:
            predicted = probabilities * mask

        voxels = tuple(range(2, logits.ndim))
        return (
            (probabilities * reference).sum(voxels, dtype=torch.float32),
            predicted.sum(voxels, dtype=torch.float32),
            reference.sum(voxels, dtype=torch.float32),
            *self.cross_entropy(logits, target),
        )

    def _taking_part(self, target: Tensor) -> Tensor | None:
        """Which voxels take part, shape (b, 1, *spatial); None if all do."""
        if self.ignore_label is None:
            return None
        if self.regions:
            return ~target[:, -1:].to(torch.bool)
        return target != self.ignore_label

    def cross_entropy(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of each case, summed over its voxels, and the number of terms of the sum.

        Both have the shape (b,).
        """
        voxelwise = self.voxel_loss(logits, target, self.ignore_label).flatten(1)
        dtype = torch.promote_types(voxelwise.dtype, torch.float32)
        total = voxelwise.sum(1, dtype=dtype)

        mask = self._taking_part(target)
        if mask is None:
            n_terms = torch.full_like(total, voxelwise.shape[1], dtype=torch.float32)
        else:
            n_terms = mask.flatten(1).sum(1, dtype=torch.float32)
        return total, n_terms

    @torch.no_grad()
    def _is_predicted(self, logits: Tensor, target: Tensor) -> Tensor:
        """Whether each class of the Dice is the hard prediction of any voxel that takes part.

        Returns:
            Shape (b, c).
        """
        mask = self._taking_part(target)
        if self.regions:
            if mask is not None:
                logits = logits.masked_fill(~mask, -torch.inf)
            largest = logits[:, self.first :].flatten(2).amax(2)
            return largest > 0

        # Where the logit of a class misses the largest one by 0, the class is predicted. This is
        # several times as fast as an argmax. Background has all equal logits.
        largest = logits.amax(1, keepdim=True)
        if self.first == 1:
            largest = largest.masked_fill(logits[:, :1] == largest, torch.inf)
        if mask is not None:
            largest = largest.masked_fill(~mask, torch.inf)
        above = logits[:, self.first :] - largest
        return above.flatten(2).amax(2) >= 0
