"""Turns the loss that nnU-Net built into the same loss case by case."""

from collections.abc import Sequence
from typing import Any

import torch
from nnunetv2.training.loss.compound_losses import DC_and_BCE_loss, DC_and_CE_loss
from nnunetv2.training.loss.deep_supervision import DeepSupervisionWrapper
from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss
from nnunetv2.training.loss.robust_ce_loss import RobustCrossEntropyLoss
from nnunetv2.utilities.ddp_allgather import AllGatherGrad
from nnunetv2.utilities.helpers import softmax_helper_dim1
from torch import Tensor, nn

from nnunet_dro.losses import CaseByCaseLoss, DiceCELoss, VoxelLoss
from nnunet_dro.trainers.options import TrainerOptions


def per_case_loss(
    loss: nn.Module, options: TrainerOptions | None = None, *, shares: Sequence[float] | None = None
) -> DiceCELoss | CaseByCaseLoss:
    """The per-case form of a loss.

    Args:
        loss: The loss that a trainer's ``_build_loss`` returned.
        options: Options that adjust the cross-entropy and choose the hardness; None for no change.
        shares: Share of the voxels of each channel, from `voxel_shares`; the options ``la`` and ``vs`` need it.

    Returns:
        nnU-Net's own Dice + cross-entropy in one pass for the whole batch; any other loss case by case.

    Raises:
        ValueError: If the options ask for something that only nnU-Net's own loss has, or for the reasons of `VoxelLoss`
            and `DiceCELoss`.
    """
    options = options or TrainerOptions()
    scale_weights: tuple[float, ...] = (1.0,)
    inner: Any = loss
    if type(loss) is DeepSupervisionWrapper:
        scale_weights, inner = tuple(inner.weight_factors), inner.loss
    settings = _dice_ce_settings(inner)
    if settings is None:
        _refuse_options(inner, options)
        return CaseByCaseLoss(loss)
    voxel_loss = VoxelLoss(
        regions=settings["regions"],
        shares=shares,
        tau=options.logit_adjustment,
        gamma=options.vector_scaling,
        alpha=options.polynomial_tail,
        smoothing=options.label_smoothing,
    )
    hardness = options.history.hardness
    known = DiceCELoss(
        **settings,
        scale_weights=scale_weights,
        voxel_loss=voxel_loss,
        hardness="loss" if hardness == "pooled" else hardness,  # pooled from the losses of several batches
    )
    if isinstance(inner.dc, torch._dynamo.OptimizedModule):
        known.voxel_sums = torch.compile(known.voxel_sums)  # type: ignore[assignment]
    return known


def _refuse_options(loss: nn.Module, options: TrainerOptions) -> None:
    """Raise an error if an option is set that only works with nnU-Net's Dice + cross-entropy."""
    is_set = {
        "smoothing": options.label_smoothing > 0,
        "hardness": options.history.hardness not in ("loss", "pooled"),
        "logit_adjustment": options.logit_adjustment > 0,
        "vector_scaling": options.vector_scaling > 0,
        "polynomial_tail": options.polynomial_tail is not None,
    }
    asked = [option for option in options.known_options() if is_set.get(option.field, False)]
    if words := [word for option in asked if (word := option.write(getattr(options, option.field)))]:
        raise ValueError(
            f"{', '.join(words)} must be left out with this trainer: this needs nnU-Net's Dice + cross-entropy as "
            f"nnUNetTrainer builds it, and this trainer has another loss ({type(loss).__name__}) or builds it in "
            "another way. Leave the option out, or derive from a trainer with nnU-Net's loss."
        )


def _dice_ce_settings(loss: Any) -> dict[str, Any] | None:
    """Arguments for a `DiceCELoss` that computes exactly ``loss``, or None if there are none."""
    if type(loss) not in (DC_and_CE_loss, DC_and_BCE_loss):
        return None
    regions = type(loss) is DC_and_BCE_loss
    dice = getattr(loss.dc, "_orig_mod", loss.dc)
    nonlinearity = torch.sigmoid if regions else softmax_helper_dim1
    if type(dice) is not MemoryEfficientSoftDiceLoss or dice.apply_nonlin is not nonlinearity:
        return None
    if loss.ce.weight is not None:
        return None
    if regions:
        ignore_label = 1 if loss.use_ignore_label else None
        plain = type(loss.ce) is nn.BCEWithLogitsLoss and loss.ce.pos_weight is None
        reduction = "none" if loss.use_ignore_label else "mean"
    else:
        ignore_label = loss.ignore_label
        plain = type(loss.ce) is RobustCrossEntropyLoss and loss.ce.label_smoothing == 0
        reduction = "mean"
    if not plain or loss.ce.reduction != reduction:
        return None
    return {
        "regions": regions,
        "batch_dice": dice.batch_dice,
        "do_bg": dice.do_bg,
        "smooth": dice.smooth,
        "ignore_label": ignore_label,
        "weight_ce": loss.weight_ce,
        "weight_dice": loss.weight_dice,
        "sum_over_ranks": _sum_over_ranks if dice.ddp and dice.batch_dice else None,
    }


def _sum_over_ranks(values: Tensor) -> Tensor:
    gathered: Tensor = AllGatherGrad.apply(values)
    return gathered.sum(0)
