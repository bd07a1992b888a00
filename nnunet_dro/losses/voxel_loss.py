"""Cross-entropy of each voxel, plain or adjusted for rare classes."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

from nnunet_dro.bad_input import check_number

LOG_2 = math.log(2)


class VoxelLoss(nn.Module):
    """Cross-entropy of each voxel, plain or adjusted.

    The logits may be shifted or scaled, and the tail of the loss may be heavier. With the shares pi
    of the channels, the cross-entropy uses the adjusted logits

        s_c = (pi_c / max pi)^gamma  logit_c  +  tau log pi_c

    Regions are one binary decision per channel, and the scale depends on whether the voxel is
    inside the region (y = 1, pi_1 = share) or outside (y = 0, pi_0 = 1 - share):

        s = (pi_y / max(pi_0, pi_1))^gamma  logit  +  tau log(share / (1 - share))

    ``tau`` alone is logit adjustment: with tau 1, the best network has the smallest mean error over
    classes, not over voxels. ``gamma`` alone is the class-dependent temperature: it moves the
    boundary away from rare classes even when the network separates the training data, where shifts
    and weights no longer have an effect. Together they are the vector-scaling loss.

    ``alpha`` replaces the exponential tail of the cross-entropy by a polynomial one. With the
    margin z = s_label - log sum_{c != label} e^{s_c} (for regions z = s inside, -s outside)

        l(z) = log(1 + e^-z)                             for z <= 0
        l(z) = log 2 (1 + z / (2 alpha log 2))^-alpha    for z > 0

    The first line is the cross-entropy of a misclassified voxel. At z = 0 both lines have the value
    log 2 and the slope -1/2. So the weight of a case still matters once its voxels are fitted. The
    source joins its tail at z = 1 to a scaled cross-entropy; here the loss does not change for
    z <= 0. alpha -> infinity gives the exponential tail log 2 exp(-z / (2 log 2)).

    ``smoothing`` a softens the reference: the label has probability 1 - a, and each of the k - 1
    other classes has a / (k - 1). For regions, 1 becomes 1 - a and 0 becomes a. (PyTorch's
    ``label_smoothing`` a' is spread over all k classes; a' = a k / (k - 1) gives the same.)

    With the defaults it is the plain cross-entropy, at the same cost.

    Args:
        regions: Whether the reference has one channel per region (sigmoid) instead of being a label
            map (softmax).
        shares: Share of the voxels of each channel, > 0; for regions the share inside, < 1. Without
            them, nothing can be computed with ``tau`` or ``gamma``.
        tau: Strength of the additive adjustment, >= 0.
        gamma: Strength of the multiplicative adjustment, >= 0.
        alpha: Exponent of the tail, > 0, or None for the exponential tail.
        smoothing: Probability that the reference gives to the other classes, in [0, 0.5]; not with
            ``alpha``.

    Raises:
        ValueError: If a number is out of its range, or both ``smoothing`` and ``alpha`` are given.

    Example:
        >>> loss = VoxelLoss(regions=False, shares=(0.9, 0.1), tau=1.0)
        >>> logits = torch.zeros(1, 2, 1)  # one voxel of one case, without a preference
        >>> [round(loss(logits, torch.tensor([[[label]]])).item(), 3) for label in (0, 1)]
        [0.105, 2.303]

    Source: Menon et al. 2021, eq. (10), for tau; Ye et al. 2020 (CDT) for gamma; Kini et al. 2021
    (VS loss, also its binary form) for both; Wang et al. 2022, "Is importance weighting
    incompatible with interpolating classifiers?"; label smoothing as in Wang et al. 2024,
    "Generalizing Few Data to Unseen Domains Flexibly ...".
    """

    scale: Tensor
    scale_outside: Tensor
    shift: Tensor

    def __init__(
        self,
        *,
        regions: bool,
        shares: Sequence[float] | None = None,
        tau: float = 0.0,
        gamma: float = 0.0,
        alpha: float | None = None,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        check_number("tau", tau, "[0, inf)", "0 turns the adjustment off.")
        check_number("gamma", gamma, "[0, inf)", "0 turns the adjustment off.")
        check_number("smoothing", smoothing, "[0, 0.5]", "0 smooths nothing.")
        if alpha is not None:
            check_number("alpha", alpha, "(0, inf)", "None gives the cross-entropy's own tail.")
        if smoothing and alpha is not None:
            raise ValueError(
                f"`smoothing` must be 0 with a polynomial tail, got {smoothing!r}: the margin of "
                "the tail belongs to a single label. Leave out `smoothing` or `alpha`."
            )

        self.regions = regions
        self.smoothing = smoothing
        self.tau = tau
        self.gamma = gamma
        self.alpha = alpha
        self.n_shares = 0
        if shares is not None and self._needs_shares:
            self._set_shares(shares)

    @property
    def is_adjusted(self) -> bool:
        """Whether it differs from the plain cross-entropy."""
        return self._needs_shares or self.alpha is not None or self.smoothing > 0

    @property
    def _needs_shares(self) -> bool:
        return self.tau > 0 or self.gamma > 0

    def _set_shares(self, shares: Sequence[float]) -> None:
        rule = "between 0 and 1, both excluded," if self.regions else "positive and finite"
        high = 1.0 if self.regions else math.inf
        if len(shares) == 0 or not all(0 < share < high for share in shares):
            raise ValueError(
                f"`shares` must be {rule} for every channel, got {list(shares)!r}. Add 1 to the "
                "counts that they are computed from."
            )

        # (pi_c / max pi)^gamma and tau log pi_c, for regions by the two sides of each.
        pi = torch.tensor(shares, dtype=torch.float64)
        larger = pi.max()
        shift = self.tau * pi.log()
        if self.regions:
            larger = torch.maximum(pi, 1 - pi)
            shift = self.tau * (pi / (1 - pi)).log()
        buffers = {
            "scale": (pi / larger) ** self.gamma,
            "scale_outside": ((1 - pi) / larger) ** self.gamma,
            "shift": shift,
        }
        for name, values in buffers.items():
            self.register_buffer(name, values.float(), persistent=False)
        self.n_shares = len(shares)

    def forward(self, logits: Tensor, target: Tensor, ignore_label: int | None = None) -> Tensor:
        """Compute the loss of every voxel.

        Args:
            logits: Shape (b, channels, *spatial).
            target: Shape (b, 1, *spatial) with labels, or (b, regions [+ 1 to ignore], *spatial).
            ignore_label: Voxels of this label have a loss of 0. With regions, any value says that
                the target's last channel marks the voxels to ignore.

        Returns:
            Shape (b, *spatial), or (b, regions, *spatial); if adjusted, at least float32, also
            under autocast.

        Raises:
            ValueError: If the number of shares is not that of the channels.
        """
        n_channels = logits.shape[1]
        if self._needs_shares and self.n_shares != n_channels:
            raise ValueError(
                f"`shares` must have one number per channel, got {self.n_shares} for {n_channels} "
                "channels. They follow the network's output: background first, or the regions."
            )

        if self.is_adjusted:
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.regions:
            return self._loss_of_regions(logits, target, ignore_label)
        return self._loss_of_labels(logits, target[:, 0].long(), ignore_label)

    def _loss_of_labels(self, logits: Tensor, labels: Tensor, ignore_label: int | None) -> Tensor:
        if self.gamma:
            logits = logits * _per_channel(self.scale, logits)
        if self.tau:
            logits = logits + _per_channel(self.shift, logits)

        if self.alpha is None:
            # PyTorch spreads the smoothing over all classes, the label's own among them.
            n_classes = logits.shape[1]
            ignored = -100 if ignore_label is None else ignore_label
            spread_over_all = self.smoothing * n_classes / max(1, n_classes - 1)
            return F.cross_entropy(
                logits,
                labels,
                ignore_index=ignored,
                reduction="none",
                label_smoothing=spread_over_all,
            )

        if ignore_label is None:
            return polynomially_tailed(_margin(logits, labels), alpha=self.alpha)
        # The ignore label is no class, so its voxels take the margin of any other one.
        is_ignored = labels == ignore_label
        margin = _margin(logits, labels.masked_fill(is_ignored, 0))
        loss = polynomially_tailed(margin, alpha=self.alpha)
        return loss.masked_fill(is_ignored, 0)

    def _loss_of_regions(self, logits: Tensor, target: Tensor, ignore_label: int | None) -> Tensor:
        reference = target if ignore_label is None else target[:, :-1]
        if self.gamma:
            inside = _per_channel(self.scale, logits)
            outside = _per_channel(self.scale_outside, logits)
            logits = logits * torch.where(reference.to(torch.bool), inside, outside)
        if self.tau:
            logits = logits + _per_channel(self.shift, logits)

        if self.alpha is None:
            soft = reference.to(logits.dtype)
            if self.smoothing:
                soft = soft + self.smoothing * (1 - 2 * soft)
            voxelwise = F.binary_cross_entropy_with_logits(logits, soft, reduction="none")
        else:
            voxelwise = polynomially_tailed(
                logits,
                alpha=self.alpha,
                is_inside=reference.to(torch.bool),
            )

        if ignore_label is None:
            return voxelwise
        is_ignored = target[:, -1:].to(torch.bool)
        return voxelwise * ~is_ignored


def polynomially_tailed(scores: Tensor, *, alpha: float, is_inside: Tensor | None = None) -> Tensor:
    """Cross-entropy for margins up to 0, with a polynomial tail for larger ones; see `VoxelLoss`.

    Args:
        scores: Margins of the labels against all other classes; for regions the scores, which are
            the margins inside of a region and minus the margins outside.
        alpha: Exponent of the tail, > 0.
        is_inside: Whether a score is inside of its region; None for margins.
    """
    return _PolynomialTail.apply(scores, is_inside, alpha)  # type: ignore[no-untyped-call]


class _PolynomialTail(torch.autograd.Function):
    """l(z) as the product of log(1 + e^-min(z, 0)) and (1 + max(z, 0) / (2 alpha log 2))^-alpha.

    A function of its own because the gradient needs nothing but the scores: what autograd would
    keep of the formula is more than twice the memory of the plain cross-entropy.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, is_inside: Tensor | None, alpha: float) -> Tensor:
        ctx.save_for_backward(scores, is_inside)
        ctx.alpha = alpha
        margin = _with_sign(scores, is_inside)
        # Above its threshold `softplus` is linear: at 50 that is exact in double precision, and
        # e^50 fits in single.
        loss = F.softplus(margin.clamp_max(0).neg_(), threshold=50)
        return loss.mul_(_power(margin, -alpha, alpha=alpha))

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        scores, is_inside = ctx.saved_tensors
        margin = _with_sign(scores, is_inside)

        # Where z <= 0 the power is 1, where z > 0 the sigmoid is 1/2.
        slope = margin.clamp_max(0).neg_().sigmoid_().neg_()
        slope.mul_(_power(margin, -(ctx.alpha + 1), alpha=ctx.alpha))
        del margin
        return _with_sign(slope, is_inside).mul_(gradient), None, None


def _with_sign(scores: Tensor, is_inside: Tensor | None) -> Tensor:
    """The scores inside of regions, and minus the scores outside."""
    if is_inside is None:
        return scores
    return torch.where(is_inside, scores, -scores)


def _power(margin: Tensor, exponent: float, *, alpha: float) -> Tensor:
    """(1 + max(z, 0) / (2 alpha log 2))^exponent, for the margin z.

    The logarithm is that of log1p, because the sum would round to 1 for a large alpha.
    """
    return margin.clamp_min(0).div_(2 * alpha * LOG_2).log1p_().mul_(exponent).exp_()


def _margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label minus the log-sum-exp of the other classes.

    This is the logarithm of the odds p / (1 - p) of the label. It is not computed from p, which
    rounds to 1 in float32 as soon as the margin is above 17.

    Args:
        logits: Shape (b, channels, *spatial).
        labels: Shape (b, *spatial).

    Returns:
        Shape (b, *spatial).
    """
    label = labels.unsqueeze(1)
    without_label = logits.scatter(1, label, -torch.inf)
    others = torch.logsumexp(without_label, 1)
    return logits.gather(1, label).squeeze(1) - others


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    """One value per channel, in a shape that multiplies tensors (b, channels, *spatial)."""
    return values.view(-1, *[1] * (like.ndim - 2))
