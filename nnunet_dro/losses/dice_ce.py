"""Dice + cross-entropy of each case and of the weighted batch, from one pass over the voxels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from nnunet_dro.losses.voxel_loss import VoxelLoss
from nnunet_dro.losses.voxel_sums import VoxelSums

#: Sums a tensor over the processes of a distributed training; the gradient flows back through it.
SumOverRanks = Callable[[Tensor], Tensor]

#: What counts as the hardness of a case: the whole loss, its cross-entropy, the loss with the Dice
#: of those classes only that are in the patch or in its prediction, or what `PooledHardness` makes
#: of the last patches.
Hardness = Literal["loss", "ce", "present", "pooled"]

#: At which resolutions a hardness needs the hard prediction, if it does.
_FINDS_PREDICTED: dict[Hardness, Literal["finest", "everywhere"]] = {
    "present": "everywhere",
    "pooled": "finest",
}


class DiceCELoss(nn.Module):
    """nnU-Net's Dice + cross-entropy, with a weight per case.

    For regions, the cross-entropy is the binary one. The *hardness* of a case is this loss on the
    case alone, unless ``hardness`` says otherwise. The *training loss* is the loss of the batch
    with the weights inside. If all weights are 1, it is nnU-Net's loss; weights c times as large
    make the loss and its gradient c times as large:

    - Dice per case: the weighted mean (1/b) sum_i w_i Dice_i.
    - ``batch_dice``: mean(w) times the one Dice of the batch, in which w_i / mean(w) multiplies the
      intersection and the volumes of each case. A weight of 2 has the effect of the case twice in
      the batch and a weight of 0 that of its absence, up to the factor 1/b, as in the other parts.
      (Without the factor mean(w) a common weight would cancel in the Dice and change its balance
      with the cross-entropy. ``batch_dice`` exists to avoid the Dice of single slices without a
      class.)
    - Cross-entropy: sum_i w_i CE_i / sum_i n_i over the voxels that take part. This is the (1/b)
      sum_i w_i mean(CE_i) of the paper if all cases have equally many such voxels, which is always
      so without an ignore label.

    Args:
        regions: Whether labels are (overlapping) regions, one sigmoid channel each.
        batch_dice: Whether there is one Dice for the whole batch instead of one per case.
        do_bg: Whether the Dice counts the first channel.
        smooth: Number that is added to the numerator and the denominator of the Dice.
        ignore_label: Label of voxels without annotation, or None. With regions, any value says that
            the target's last channel marks the voxels to ignore.
        weight_ce: Factor of the cross-entropy.
        weight_dice: Factor of the Dice.
        scale_weights: Factor of each output of deep supervision, highest resolution first. Outputs
            with factor 0 are not evaluated.
        sum_over_ranks: Needed by ``batch_dice`` in distributed training, where the batch has the
            cases of all ranks.
        voxel_loss: Cross-entropy of each voxel; None for the plain one. The Dice uses the logits as
            they are.
        hardness: What counts as the hardness of a case; the training loss does not depend on it.

            - ``"loss"``: this loss on the case alone. A patch without a class gets a soft Dice of
              about 0 for this class, however good the network is, so this hardness largely reflects
              where the patch fell.
            - ``"ce"``: the cross-entropy alone, times ``weight_ce``.
            - ``"present"``: this loss, with the Dice averaged over the classes that are in the
              patch's reference or in its hard prediction (the largest logit, or a probability above
              0.5 for regions), among the voxels that take part; the Dice is 1 if there is no such
              class.
            - ``"pooled"``: as ``"loss"``, with the classes of the hard prediction at full
              resolution, which `PooledHardness` needs.

    Raises:
        ValueError: If ``hardness`` is none of these, ``voxel_loss`` is for the other kind of
            reference, or ``weight_ce`` is 0 although ``hardness`` or ``voxel_loss`` asks for the
            cross-entropy.

    Example:
        >>> loss = DiceCELoss(batch_dice=False, do_bg=False)
        >>> background = torch.tensor([[5.0, 5.0], [-5.0, -5.0]])  # (channels, voxels)
        >>> logits = torch.stack([background, background])  # (b, channels, voxels)
        >>> target = torch.tensor([[[0, 0]], [[1, 1]]])
        >>> cases = loss(logits, target)
        >>> [round(hardness, 2) for hardness in cases.hardness.tolist()]
        [-0.1, 10.0]
        >>> round(cases.weighted(torch.tensor([1.0, 2.0])).item(), 2)
        9.95
    """

    factors: Tensor

    def __init__(  # noqa: PLR0913 - these are the options of nnU-Net's loss, and ours
        self,
        *,
        regions: bool = False,
        batch_dice: bool,
        do_bg: bool,
        smooth: float = 1e-5,
        ignore_label: int | None = None,
        weight_ce: float = 1.0,
        weight_dice: float = 1.0,
        scale_weights: Sequence[float] = (1.0,),
        sum_over_ranks: SumOverRanks | None = None,
        voxel_loss: VoxelLoss | None = None,
        hardness: Hardness = "loss",
    ) -> None:
        super().__init__()
        if voxel_loss is None:
            voxel_loss = VoxelLoss(regions=regions)
        _check(voxel_loss, regions=regions, hardness=hardness, weight_ce=weight_ce)

        self.batch_dice = batch_dice
        self.smooth = smooth
        self.weight_ce = weight_ce
        self.weight_dice = weight_dice
        self.sum_over_ranks = sum_over_ranks
        self.hardness: Hardness = hardness

        # Resolutions with the factor 0 are not evaluated.
        self.scale_weights = tuple(float(weight) for weight in scale_weights)
        used = [weight for weight in self.scale_weights if weight != 0]
        factors = torch.tensor(used, dtype=torch.float32)
        self.register_buffer("factors", factors, persistent=False)

        self.voxel_sums: Any = VoxelSums(
            voxel_loss,
            regions=regions,
            do_bg=do_bg,
            ignore_label=ignore_label,
            finds_predicted=_FINDS_PREDICTED.get(hardness, "nowhere"),
        )

    def forward(
        self, outputs: Tensor | Sequence[Tensor], targets: Tensor | Sequence[Tensor]
    ) -> "DiceCECaseLosses":
        """Evaluate a batch in one pass over its voxels.

        The outputs are logits (b, channels, *spatial), the targets reference label maps (b, 1,
        *spatial) or regions (b, regions [+ 1 to ignore], *spatial). In deep supervision they are
        lists, highest resolution first.
        """
        resolutions = self.resolutions(outputs, targets)
        logits, references, _ = zip(*resolutions, strict=True)

        sums: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None] = self.voxel_sums(
            logits, references
        )
        return DiceCECaseLosses(*sums, settings=self)

    def resolutions(
        self, outputs: Tensor | Sequence[Tensor], targets: Tensor | Sequence[Tensor]
    ) -> list[tuple[Tensor, Tensor, float]]:
        """Logits, target and factor of each output that counts, from the arguments of `forward`."""
        if isinstance(outputs, Tensor):
            outputs = [outputs]
            targets = [targets]  # type: ignore[list-item]

        # With fewer factors than outputs, the others do not count.
        scales = zip(outputs, targets, self.scale_weights, strict=False)
        return [(logits, target, factor) for logits, target, factor in scales if factor != 0]


def _check(voxel_loss: VoxelLoss, *, regions: bool, hardness: str, weight_ce: float) -> None:
    names = get_args(Hardness)
    if hardness not in names:
        raise ValueError(
            f"`hardness` must be one of {', '.join(names)}, got {hardness!r}. Choose one."
        )

    if voxel_loss.regions != regions:
        kinds = {False: "a label map", True: "regions"}
        raise ValueError(
            f"`voxel_loss` must be for {kinds[regions]}, as this loss is, got one for "
            f"{kinds[voxel_loss.regions]}. Make both with the same `regions`."
        )

    if weight_ce == 0:
        cure = "Leave it out, or raise `weight_ce`."
        if hardness == "ce":
            raise ValueError(f"`hardness` 'ce' needs a cross-entropy, got `weight_ce` 0. {cure}")
        if voxel_loss.is_adjusted:
            raise ValueError(
                f"An adjusted `voxel_loss` needs a cross-entropy, got `weight_ce` 0. {cure}"
            )


def mean_of_present(dice: Tensor, is_present: Tensor) -> Tensor:
    """Mean Dice of the classes that are present, along the last axis; 1 if none is."""
    n_present = is_present.sum(-1)
    mean = (dice * is_present).sum(-1) / n_present.clamp_min(1)
    # Not `torch.where` with a number, which older versions of torch copy to a GPU and wait for.
    return mean.masked_fill(n_present == 0, 1.0)


@dataclass(frozen=True)
class DiceCECaseLosses:
    """Sums over the voxels of each case of one batch: s resolutions, b cases, c classes."""

    intersection: Tensor  # soft voxels, shape (s, b, c), as the predicted and the reference volume
    predicted: Tensor
    reference: Tensor
    cross_entropy: Tensor  # summed over voxels (and regions), shape (s, b)
    n_voxels: Tensor  # number of terms that the cross-entropy is a mean of, shape (s, b)
    #: Whether a class is in the hard prediction, shape (s, b, c), or (1, b, c) for the pooled
    #: hardness, which needs the full resolution alone; None for the others.
    is_predicted: Tensor | None
    settings: DiceCELoss  # the loss that computed these sums

    @property
    def hardness(self) -> Tensor:
        """The hardness of each case alone, shape (b,), detached; see `DiceCELoss`."""
        with torch.no_grad():
            cross_entropy = self.cross_entropy / self.n_voxels.clamp_min(1)
            if self.settings.hardness == "ce":
                no_dice = torch.zeros_like(cross_entropy)
                return self._total(no_dice, cross_entropy)

            dice = self.dice(self.intersection, self.predicted, self.reference)
            if self.is_predicted is None or self.settings.hardness != "present":
                return self._total(dice.mean(2), cross_entropy)

            is_present = self.is_predicted | (self.reference > 0)
            return self._total(mean_of_present(dice, is_present), cross_entropy)

    @property
    def losses(self) -> Tensor:
        """The training loss of each case alone, shape (b,), with gradient.

        It never uses a batch Dice.
        """
        dice = self.dice(self.intersection, self.predicted, self.reference)
        n_voxels = self.n_voxels.clamp_min(1)
        return self._total(dice.mean(2), self.cross_entropy / n_voxels)

    def weighted(self, weights: Tensor) -> Tensor:
        """The batch's training loss, a scalar, with one weight per case, shape (b,)."""
        if self.settings.batch_dice:
            dice = self._weighted_batch_dice(weights)
        else:
            per_case = self.dice(self.intersection, self.predicted, self.reference)
            per_class = weights[None, :, None]
            dice = (per_class * per_case).mean((1, 2))

        sums = (weights * self.cross_entropy).sum(1)
        n_voxels = self.n_voxels.sum(1).clamp_min(1)
        cross_entropy = sums / n_voxels

        return self._total(dice, cross_entropy)

    def dice(self, intersection: Tensor, predicted: Tensor, reference: Tensor) -> Tensor:
        """Soft Dice (2 I + smooth) / (P + R + smooth) of each class."""
        smooth = self.settings.smooth
        volumes = reference + predicted + smooth
        return (2 * intersection + smooth) / volumes.clamp_min(1e-8)

    def _total(self, dice: Tensor, cross_entropy: Tensor) -> Tensor:
        """Sum over the resolutions of weight_ce CE - weight_dice Dice, along the first axis."""
        settings = self.settings
        loss = settings.weight_ce * cross_entropy - settings.weight_dice * dice

        # Not a matrix product, which autocast would round to half precision.
        factors = settings.factors.view(-1, *[1] * (loss.ndim - 1))
        return (factors * loss).sum(0)

    def _weighted_batch_dice(self, weights: Tensor) -> Tensor:
        """Mean weight times the Dice of the batch, in which the weights have the mean 1.

        The batch has the cases of all ranks.

        Returns:
            Shape (s,).
        """
        per_class = weights[None, :, None]
        volumes = (self.intersection, self.predicted, self.reference)
        totals = torch.stack([(volume * per_class).sum(1) for volume in volumes])
        total_weight = weights.sum()
        n_cases = torch.full_like(weights[0], len(weights))
        if self.settings.sum_over_ranks is not None:
            # One exchange instead of three.
            everything = torch.cat(
                [
                    totals.flatten(),
                    total_weight[None],
                    n_cases[None],
                ]
            )
            everything = self.settings.sum_over_ranks(everything)
            totals = everything[:-2].view_as(totals)
            total_weight = everything[-2]
            n_cases = everything[-1]

        mean_weight = total_weight / n_cases
        # Without any weight the Dice is that of nothing, and its gradient 0.
        totals = totals / mean_weight.masked_fill(mean_weight == 0, 1.0)
        return mean_weight * self.dice(*totals).mean(1)
