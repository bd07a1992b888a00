"""From the loss that nnU-Net built to the same loss case by case."""

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

from nnunet_dro.losses import CaseByCaseLoss, DiceCELoss, Hardness, VoxelLoss


def per_case_loss(
    loss: nn.Module,
    *,
    tau: float = 0.0,
    gamma: float = 0.0,
    alpha: float | None = None,
    smoothing: float = 0.0,
    shares: Sequence[float] | None = None,
    hardness: Hardness = "loss",
) -> DiceCELoss | CaseByCaseLoss:
    """The per-case form of a loss.

    Args:
        loss: What a trainer's ``_build_loss`` returned.
        tau: As ``gamma``, ``alpha``, ``smoothing`` and ``shares``: adjusts the cross-entropy, see `VoxelLoss`.
        gamma: See ``tau``.
        alpha: See ``tau``.
        smoothing: See ``tau``.
        shares: See ``tau``; as `voxel_shares` gives them.
        hardness: What the hardness of a case is, see `DiceCELoss`.

    Returns:
        nnU-Net's own Dice + cross-entropy in one pass for the whole batch; any other loss case by case.

    Raises:
        ValueError: If a loss that is not nnU-Net's own is to be adjusted, or to give another hardness than itself; or
            as `VoxelLoss` and `DiceCELoss` do.
    """
    scale_weights: tuple[float, ...] = (1.0,)
    inner: Any = loss
    if type(loss) is DeepSupervisionWrapper:
        scale_weights, inner = tuple(inner.weight_factors), inner.loss
    settings = _dice_ce_settings(inner)
    if settings is None:
        _refuse_options(inner, tau=tau, gamma=gamma, alpha=alpha, smoothing=smoothing, hardness=hardness)
        return CaseByCaseLoss(loss)
    voxel_loss = VoxelLoss(
        regions=settings["regions"], shares=shares, tau=tau, gamma=gamma, alpha=alpha, smoothing=smoothing
    )
    known = DiceCELoss(**settings, scale_weights=scale_weights, voxel_loss=voxel_loss, hardness=hardness)
    if isinstance(inner.dc, torch._dynamo.OptimizedModule):
        known.voxel_sums = torch.compile(known.voxel_sums)  # type: ignore[assignment]
    return known


def _refuse_options(
    loss: nn.Module, *, tau: float, gamma: float, alpha: float | None, smoothing: float, hardness: str
) -> None:
    """Raise if any of the options is set, which only nnU-Net's Dice + cross-entropy has."""
    options = {f"la{tau:g}": tau != 0, f"vs{gamma:g}": gamma != 0, f"hardness {hardness!r}": hardness != "loss"}
    if alpha is not None:
        options[f"poly{alpha:g}"] = True
    options[f"alpha{smoothing:g}"] = smoothing != 0
    if any(options.values()):
        raise ValueError(
            f"{', '.join(name for name, is_set in options.items() if is_set)} must be left out with this trainer: it "
            "needs nnU-Net's Dice + cross-entropy as nnUNetTrainer builds it, and this trainer's loss "
            f"({type(loss).__name__}) is another, or built in another way. Leave the option out, or derive from a "
            "trainer with nnU-Net's loss."
        )


def _dice_ce_settings(loss: Any) -> dict[str, Any] | None:
    """Arguments of `DiceCELoss` if ``loss`` computes exactly that, else None."""
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
