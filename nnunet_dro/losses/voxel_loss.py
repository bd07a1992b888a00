"""The cross-entropy of each voxel, plain or adjusted for rare classes."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody uses

LOG_2 = math.log(2)


class VoxelLoss(nn.Module):
    """Cross-entropy of each voxel, of logits that may be shifted, scaled, or given a heavier tail.

    With the shares pi of the channels, the cross-entropy is taken of the adjusted logits

        s_c = (pi_c / max pi)^gamma  logit_c  +  tau log pi_c

    For regions, which are one binary decision per channel, the scale is that of the voxel's own side, in the region
    (y = 1, pi_1 = share) or not (y = 0, pi_0 = 1 - share):

        s = (pi_y / max(pi_0, pi_1))^gamma  logit  +  tau log(share / (1 - share))

    ``tau`` alone is logit adjustment: with 1 the best network is the one of the smallest mean error over classes, not
    over voxels. ``gamma`` alone is the class-dependent temperature: it moves the boundary away from rare classes where
    the training data is separated, which a shift and weights no longer do. Both are the vector-scaling loss.

    ``alpha`` replaces the exponential tail of the cross-entropy by a polynomial one. In the margin
    z = s_label - log sum_{c != label} e^{s_c} (regions: z = s inside, -s outside)

        l(z) = log(1 + e^-z)                             for z <= 0, the cross-entropy of a misclassified voxel
        l(z) = log 2 (1 + z / (2 alpha log 2))^-alpha    for z > 0

    with the value log 2 and the slope -1/2 at the joint from both sides. A case's weight then goes on to matter when
    its voxels are fitted. The source joins its tail at z = 1 to a scaled cross-entropy; here all of z <= 0 stays what
    it is. alpha -> infinity gives the exponential tail log 2 exp(-z / (2 log 2)).

    ``smoothing`` a softens the reference: the label has probability 1 - a and each of the k - 1 others a / (k - 1);
    for regions, which are one binary decision each, 1 becomes 1 - a and 0 becomes a. (PyTorch's ``label_smoothing``
    spreads its a' over all k classes; it is the same with a' = a k / (k - 1).)

    With the defaults it is the cross-entropy, at its cost.

    Args:
        regions: The reference is one channel per region (sigmoid) instead of a label map (softmax).
        shares: Share of the voxels of each channel, > 0; for regions the share inside, < 1. Needed by ``tau``
            and ``gamma``.
        tau: Strength of the additive adjustment, >= 0.
        gamma: Strength of the multiplicative adjustment, >= 0.
        alpha: Exponent of the tail, > 0, or None for the exponential tail.
        smoothing: Probability that the reference takes from its label, in [0, 0.5]; only with the exponential tail.

    Raises:
        ValueError: If a number is out of its range, the shares are missing, or ``smoothing`` meets ``alpha``.

    Source: Menon et al. 2021, eq. (10), for tau; Ye et al. 2020 (CDT) for gamma; Kini et al. 2021 (VS loss, also its
    binary form) for both; Wang et al. 2022, "Is importance weighting incompatible with interpolating classifiers?";
    label smoothing as in Wang et al. 2024, "Generalizing Few Data to Unseen Domains Flexibly ...".
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
        for name, value in (("tau", tau), ("gamma", gamma)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"`{name}` must be a number >= 0, got {value!r}. 0 turns the adjustment off.")
        if alpha is not None and not (math.isfinite(alpha) and alpha > 0):
            raise ValueError(f"`alpha` must be a number > 0, got {alpha!r}. None gives the cross-entropy's own tail.")
        if not 0 <= smoothing <= 0.5:
            raise ValueError(f"`smoothing` must be a number in [0, 0.5], got {smoothing!r}. 0 keeps the labels hard.")
        if smoothing and alpha is not None:
            raise ValueError(
                f"`smoothing` must be 0 with a polynomial tail, got {smoothing!r}: its margin is that of one label. "
                "Leave one of `smoothing` and `alpha` out."
            )
        self.regions = regions
        self.smoothing = smoothing
        self.tau = tau
        self.gamma = gamma
        self.alpha = alpha
        self.n_shares = 0
        if tau or gamma:
            self._set_shares(shares)

    @property
    def is_adjusted(self) -> bool:
        """Whether it differs from the plain cross-entropy."""
        return bool(self.tau or self.gamma or self.alpha is not None or self.smoothing)

    def _set_shares(self, shares: Sequence[float] | None) -> None:
        if shares is None:
            raise ValueError("`shares` must be given where `tau` or `gamma` is not 0. Give one share per channel.")
        high = 1.0 if self.regions else math.inf
        if len(shares) == 0 or not all(0 < share < high for share in shares):
            rule = "between 0 and 1, and neither," if self.regions else "positive and finite"
            raise ValueError(
                f"`shares` must be {rule} for every channel, got {list(shares)!r}. Smooth the counts they are made of."
            )
        self.n_shares = len(shares)
        if self.regions:
            larger = [max(share, 1 - share) for share in shares]
            shift = [math.log(share / (1 - share)) for share in shares]
            outside = [((1 - share) / most) ** self.gamma for share, most in zip(shares, larger, strict=True)]
        else:
            larger = [max(shares)] * len(shares)
            shift = [math.log(share) for share in shares]
            outside = []
        scale = [(share / most) ** self.gamma for share, most in zip(shares, larger, strict=True)]
        for name, values in (("scale", scale), ("scale_outside", outside), ("shift", [self.tau * s for s in shift])):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32), persistent=False)

    def forward(self, logits: Tensor, target: Tensor, ignore_label: int | None = None) -> Tensor:
        """The loss of every voxel.

        Args:
            logits: Shape (b, channels, *spatial).
            target: Shape (b, 1, *spatial) with labels, or (b, regions [+ 1 to ignore], *spatial).
            ignore_label: Voxels of this label have a loss of 0. With regions any value says that the target's last
                channel marks the voxels to ignore.

        Returns:
            Shape (b, *spatial), or (b, regions, *spatial); float32 if adjusted, whatever autocast made of the logits.

        Raises:
            ValueError: If there is not one share per channel.
        """
        if self.n_shares not in (0, logits.shape[1]):
            raise ValueError(
                f"`shares` must have one number per channel, got {self.n_shares} for {logits.shape[1]} channels. "
                "They follow the network's output: background first, or the regions."
            )
        if self.regions:
            return self._of_regions(logits, target, ignore_label)
        return self._of_labels(logits, target[:, 0].long(), ignore_label)

    def _of_labels(self, logits: Tensor, labels: Tensor, ignore_label: int | None) -> Tensor:
        if self.is_adjusted:
            logits = _at_least_float32(logits)
            if self.gamma:
                logits = logits * _per_channel(self.scale, logits)
            if self.tau:
                logits = logits + _per_channel(self.shift, logits)
        if self.alpha is None:
            ignored = -100 if ignore_label is None else ignore_label
            n_classes = logits.shape[1]
            spread_over_all = self.smoothing * n_classes / max(1, n_classes - 1)
            return F.cross_entropy(
                logits, labels, ignore_index=ignored, reduction="none", label_smoothing=spread_over_all
            )
        if ignore_label is None:
            return polynomially_tailed(_margin(logits, labels), alpha=self.alpha)
        is_ignored = labels == ignore_label
        margin = _margin(logits, labels.masked_fill(is_ignored, 0))
        return polynomially_tailed(margin, alpha=self.alpha).masked_fill(is_ignored, 0)

    def _of_regions(self, logits: Tensor, target: Tensor, ignore_label: int | None) -> Tensor:
        reference = target if ignore_label is None else target[:, :-1]
        if self.is_adjusted:
            logits = _at_least_float32(logits)
            if self.gamma:
                inside, outside = _per_channel(self.scale, logits), _per_channel(self.scale_outside, logits)
                logits = logits * torch.where(reference.to(torch.bool), inside, outside)
            if self.tau:
                logits = logits + _per_channel(self.shift, logits)
        if self.alpha is None:
            soft = reference.to(logits.dtype)
            if self.smoothing:
                soft = soft + self.smoothing * (1 - 2 * soft)
            voxelwise = F.binary_cross_entropy_with_logits(logits, soft, reduction="none")
        else:
            margin = torch.where(reference.to(torch.bool), logits, -logits)
            voxelwise = polynomially_tailed(margin, alpha=self.alpha)
        return voxelwise if ignore_label is None else voxelwise * ~target[:, -1:].to(torch.bool)


def polynomially_tailed(margin: Tensor, *, alpha: float) -> Tensor:
    """Cross-entropy up to a margin of 0, and a polynomial tail beyond; see `VoxelLoss`.

    Args:
        margin: Any shape; positive where the label wins against all others together.
        alpha: Exponent of the tail, > 0.

    Returns:
        Losses >= 0, of the same shape.

    Source: Wang et al. 2022, with the joint at 0.
    """
    # The tail as an exponential of log1p, so that a large alpha does not round 1 + z / (2 alpha log 2) to 1. Where the
    # branch is not taken its argument is 0: a NaN there would pass through the gradient of `where`.
    tail = LOG_2 * torch.exp(-alpha * torch.log1p(margin.clamp_min(0) / (2 * alpha * LOG_2)))
    return torch.where(margin <= 0, -F.logsigmoid(margin), tail)


def _margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Logit of the label minus the log-sum-exp of the others, (b, *spatial), from (b, channels, *spatial).

    The log of the odds p / (1 - p), but not from p, which rounds to 1 from margins of 17 (float32) on.
    """
    label = labels.unsqueeze(1)
    others = torch.logsumexp(logits.scatter(1, label, -torch.inf), 1)
    return logits.gather(1, label).squeeze(1) - others


def _at_least_float32(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.ndim - 2))
