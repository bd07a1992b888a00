"""The loss that nnU-Net built, case by case and weighted for batches drawn by hardness."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from nnunetv2.training.loss.compound_losses import DC_and_BCE_loss, DC_and_CE_loss
from nnunetv2.training.loss.deep_supervision import DeepSupervisionWrapper
from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss
from nnunetv2.training.loss.robust_ce_loss import RobustCrossEntropyLoss
from nnunetv2.utilities.ddp_allgather import AllGatherGrad
from nnunetv2.utilities.helpers import softmax_helper_dim1
from torch import Tensor, nn

from nnunet_dro.losses import (
    CaseByCaseLoss,
    DiceCELoss,
    ImportanceWeights,
    PooledHardness,
    VoxelLoss,
)
from nnunet_dro.sampling import Rule
from nnunet_dro.trainers.case_columns import N_COLUMNS, CaseColumns, rows_of_all_ranks
from nnunet_dro.trainers.options import TrainerOptions

#: Weight of the past in the running mean of the importance weights, per iteration.
_MEAN_WEIGHT_MEMORY = 0.99


class HardnessWeightedLoss(nn.Module):
    """A loss that weights its cases while `drawn` is active.

    Otherwise, as in validation, it is nnU-Net's own loss.

    Args:
        plain: The loss that nnU-Net built.
        per_case: The same loss, case by case.
        importance: The importance weights; None for weights of 1.
        max_cases: The most cases in the batch of a rank.
        is_ddp: Whether there may be several ranks.
        normalised: Whether the weights are divided by their running mean over all ranks.
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
        #: The running mean; 1 where the weights are not divided by it.
        self.mean_weight = 1.0
        #: Computes the hardness of the cases instead of the loss, if it is set.
        self.pooled: PooledHardness | None = None
        self.max_cases = max_cases
        self.is_ddp = is_ddp
        self._batch: dict[str, Any] | None = None
        self._rule_weights: Tensor | None = None
        self._readback: Tensor | None = None
        self._is_copied: torch.cuda.Event | None = None

        voxel_sums = getattr(per_case, "voxel_sums", None)
        if isinstance(voxel_sums, torch._dynamo.OptimizedModule):
            self._weigh = torch.compile(self._weigh)  # type: ignore[method-assign]

    @contextmanager
    def drawn(self, batch: dict[str, Any], rule: Rule | None = None) -> Iterator[None]:
        """Within this context the loss belongs to ``batch``, with its draws, and weights its cases.

        The loss weights of the rule multiply the importance weights. They are those of now, because
        they are part of what is minimised, whereas importance weights correct the draw.
        """
        self._batch = batch
        if rule is not None:
            drawn = CaseColumns.in_batch(batch)
            weights = rule.loss_weights(drawn.indices.numpy(), drawn.probabilities.numpy())
            if weights is not None:
                self._rule_weights = torch.from_numpy(weights).float()
        try:
            yield
        finally:
            self._batch = None
            self._rule_weights = None

    def forward(self, output: Any, target: Any) -> Tensor:
        """The training loss, a scalar."""
        if self._batch is None:
            return self.plain(output, target)

        cases = self.per_case(output, target)
        finest = output if isinstance(output, Tensor) else output[0]
        drawn = CaseColumns.in_batch(self._batch, device=finest.device)
        hardness = None
        if self.pooled is not None:
            hardness = self.pooled(drawn.indices, cases)

        factors = self._factors(drawn.weights)
        loss, mean_loss, hardness, weights, clipped = self._weigh(cases, drawn, hardness, factors)
        drawn = replace(drawn, losses=hardness, weights=weights, clipped=clipped)
        self.send(drawn, mean_loss)
        return loss

    def _factors(self, weights: Tensor) -> Tensor:
        """What multiplies the weights of the cases in the loss, shape (b,).

        The running mean is put into a tensor, because `_weigh` would be compiled again for every
        new number.
        """
        inverse_mean = torch.full_like(weights, 1 / self.mean_weight)
        if self._rule_weights is None:
            return inverse_mean
        return inverse_mean * self._rule_weights.to(weights.device, non_blocking=True)

    def _weigh(
        self, cases: Any, drawn: CaseColumns, hardness: Tensor | None, factors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Weighted and plain loss, hardness, weights and clipping of the cases.

        It is compiled where nnU-Net's loss is.
        """
        if hardness is None:
            hardness = cases.hardness
        weights = drawn.weights
        clipped = drawn.clipped
        if self.importance is not None:
            weights, clipped = self.importance(
                hardness,
                drawn.stale_losses,
                shares=drawn.shares,
                explored=drawn.explored,
                betas=drawn.betas,
            )

        with torch.no_grad():
            mean_loss = cases.weighted(torch.ones_like(hardness))
        loss = cases.weighted(weights * factors)
        return loss, mean_loss, hardness, weights, clipped

    def step(self) -> tuple[CaseColumns, float]:
        """The cases of the last weighted call on all ranks, and nnU-Net's loss of this rank.

        The columns of the cases are on the CPU.
        """
        if self._readback is None:
            raise RuntimeError(
                "The training step did not call `self.loss`, so the losses of its cases are "
                "unknown. A trainer with the mixin HardnessWeighted must compute its loss as "
                "`self.loss(output, target)`."
            )
        if self._is_copied is not None:
            self._is_copied.synchronize()
        values = self._readback.double()
        self._readback = None
        self._is_copied = None

        rows = values[1:].view(-1, N_COLUMNS)
        cases = CaseColumns.of_rows(rows[rows[:, 0] >= 0])

        mean_weight = float(cases.weights.numpy().mean())
        if self.normalised and math.isfinite(mean_weight):
            self.mean_weight += (1 - _MEAN_WEIGHT_MEMORY) * (mean_weight - self.mean_weight)
        return cases, float(values[0])

    def send(self, cases: CaseColumns, mean_loss: Tensor) -> None:
        """Start moving the cases of all ranks to the CPU, where `step` waits for them.

        nnU-Net's step ends by waiting for the device, when it reads its loss. This copy is queued
        earlier and is done by then, so it adds no wait; where a step ends without that, `step`
        waits for the copy alone.
        """
        rows = cases.rows()
        if self.is_ddp:
            rows = rows_of_all_ranks(rows, self.max_cases)

        loss = mean_loss.detach().reshape(1).to(rows.dtype)
        values = torch.cat([loss, rows.reshape(-1)])
        if values.device.type == "cuda":
            self._readback = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._readback.copy_(values, non_blocking=True)
            self._is_copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._is_copied.record(torch.cuda.current_stream(values.device))
        else:
            self._readback = values.cpu()


def per_case_loss(
    loss: nn.Module, options: TrainerOptions | None = None, *, shares: Sequence[float] | None = None
) -> DiceCELoss | CaseByCaseLoss:
    """The per-case form of a trainer's loss.

    nnU-Net's Dice + cross-entropy is computed in one pass, any other loss case by case.

    Args:
        loss: The loss that nnU-Net built.
        options: Options of the trainer; the defaults if None.
        shares: Share of the voxels of each class, without which some options compute nothing.

    Raises:
        ValueError: If an option is set that needs nnU-Net's Dice + cross-entropy, and the loss is
            another one.
    """
    options = options or TrainerOptions()
    scale_weights: tuple[float, ...] = (1.0,)
    inner: Any = loss
    if type(loss) is DeepSupervisionWrapper:
        scale_weights = tuple(inner.weight_factors)
        inner = inner.loss

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
        smoothing=options.smoothing,
    )
    dice_ce = DiceCELoss(
        **settings,
        scale_weights=scale_weights,
        voxel_loss=voxel_loss,
        hardness=options.history.hardness,
    )
    if isinstance(inner.dc, torch._dynamo.OptimizedModule):
        dice_ce.voxel_sums = torch.compile(dice_ce.voxel_sums)
    return dice_ce


def _refuse_options(loss: nn.Module, options: TrainerOptions) -> None:
    """Raise an error if an option is set that only works with nnU-Net's Dice + cross-entropy."""
    is_set = {
        "smoothing": options.smoothing > 0,
        "hardness": options.history.hardness not in ("loss", "pooled"),
        "logit_adjustment": options.logit_adjustment > 0,
        "vector_scaling": options.vector_scaling > 0,
        "polynomial_tail": options.polynomial_tail is not None,
    }
    refused = [option for option in options.known_options() if is_set.get(option.field, False)]
    written = [option.write(getattr(options, option.field)) for option in refused]
    words = ", ".join(word for word in written if word)
    if words:
        raise ValueError(
            f"{words} must be left out with this trainer: this needs nnU-Net's Dice + "
            "cross-entropy as nnUNetTrainer builds it, and this trainer has another loss "
            f"({type(loss).__name__}) or builds it in another way. Leave the option out, or derive "
            "from a trainer with nnU-Net's loss."
        )


def _dice_ce_settings(loss: Any) -> dict[str, Any] | None:
    """Arguments for a `DiceCELoss` that computes exactly ``loss``, or None if there are none."""
    if type(loss) not in (DC_and_CE_loss, DC_and_BCE_loss):
        return None

    regions = type(loss) is DC_and_BCE_loss
    nonlinearity = torch.sigmoid if regions else softmax_helper_dim1
    dice = getattr(loss.dc, "_orig_mod", loss.dc)  # the Dice itself, if it is compiled
    if type(dice) is not MemoryEfficientSoftDiceLoss or dice.apply_nonlin is not nonlinearity:
        return None
    if not _has_plain_cross_entropy(loss):
        return None

    sum_over_ranks = None
    if dice.ddp and dice.batch_dice:
        sum_over_ranks = _sum_over_ranks
    return {
        "regions": regions,
        "batch_dice": dice.batch_dice,
        "do_bg": dice.do_bg,
        "smooth": dice.smooth,
        "ignore_label": _ignore_label(loss),
        "weight_ce": loss.weight_ce,
        "weight_dice": loss.weight_dice,
        "sum_over_ranks": sum_over_ranks,
    }


def _has_plain_cross_entropy(loss: Any) -> bool:
    """Whether the cross-entropy of a loss has no weights and no smoothing, as nnU-Net builds it.

    With regions and an ignore label, nnU-Net itself takes the mean over the voxels with a label.
    """
    reduction = "mean"
    if type(loss) is DC_and_BCE_loss:
        is_plain = type(loss.ce) is nn.BCEWithLogitsLoss and loss.ce.pos_weight is None
        if loss.use_ignore_label:
            reduction = "none"
    else:
        is_plain = type(loss.ce) is RobustCrossEntropyLoss and loss.ce.label_smoothing == 0
    return is_plain and loss.ce.weight is None and loss.ce.reduction == reduction


def _ignore_label(loss: Any) -> int | None:
    """The ignore label of a loss; with regions, whether the last channel masks voxels, as 1."""
    if type(loss) is DC_and_CE_loss:
        return loss.ignore_label
    return 1 if loss.use_ignore_label else None


def _sum_over_ranks(values: Tensor) -> Tensor:
    return AllGatherGrad.apply(values).sum(0)
