"""Gradient steps from the images of a batch to their worst neighbours; the network does not change.

Source: Wang et al. 2024, Algorithm 1, inner loop; after Sinha et al. 2018 and Volpi et al. 2018
(features). Each step moves the image x of each case by

    x  <-  x + eta n grad_x { l(x) - gamma / 2  (N / n) mean_v ||z_v(x) - z_v(x_0)||^2 }

where l is the loss of the case alone, a mean over n voxels; N is the number of voxels of the patch
(n = N without an ignore label); and z_v are the features of voxel v. The term in braces is the
source's surrogate, with means over voxels instead of the values of one image. Because of the factor
n, the step at a voxel is that of its own l_v - gamma/2 ||z_v - z_v0||^2, so that neither eta nor
gamma depends on the size of the patch. This holds only for a loss that is a mean over voxels, as
the cross-entropy is and the Dice is not.

If a step makes the surrogate of its case smaller, it is taken back, and the next step of the case
is a quarter as long. The source keeps such a step. The surrogate therefore never falls, whatever
eta and gamma are, whereas plain steps diverge if eta gamma is large. If l_v is L-Lipschitz in z_v
and every voxel has a label, the root mean square of ||z - z_0|| is at most 2 L / gamma after any
number of steps; the source's bound is 3 L / gamma.

During these steps the parameters of the network have no gradient, and its modules without children,
such as dropout and batch norm, work as in prediction. The surrogate is then a function of a single
case, and evaluating it does not change the network.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from nnunet_dro.losses import mean_squared_distance

#: Factor that the sum over voxels is multiplied by before its gradient is computed in half
#: precision. For a patch of 128^3 voxels it scales the mean as nnU-Net's gradient scaler does at
#: its start (2^16). A power of 2 rounds nothing.
_SCALE = 2.0**-5


@dataclass(frozen=True)
class Perturbed:
    """A generated batch of b cases."""

    data: Tensor  # images, of the shape of the original batch; finite if that was finite
    #: Root mean square of the change over voxels and perturbed channels, in units of the images,
    #: shape (b,).
    change: Tensor
    feature_distance: Tensor  # root mean square over voxels of ||z - z_0||, shape (b,)
    surrogate_before: Tensor  # l of each case alone, shape (b,)
    surrogate_after: Tensor  # l - gamma/2 (N/n) mean ||z - z_0||^2 of each case alone, shape (b,)
    n_rejected: Tensor  # number of steps that were taken back, shape (b,)
    #: Whether any loss, feature or gradient of the case was not finite, shape (b,).
    is_non_finite: Tensor


@dataclass(frozen=True, kw_only=True)
class Ascent:
    """How far the images are moved, and how much their features may change."""

    steps: int
    eta: float  # size of the steps
    gamma: float  # penalty of the change of the features
    #: Bound of the root mean square change of a case's images, in standard deviations of its patch:
    #: a step that goes farther ends at the nearest image within the bound. None for no bound.
    largest_change: float | None = None


def ascend(
    network: nn.Module,
    features: nn.Module,
    data: Tensor,
    losses_of: Callable[[Any], Tensor],
    ascent: Ascent,
    *,
    n_voxels: Tensor | None = None,
    n_channels: int | None = None,
) -> Perturbed:
    """Move each case to where the loss of the network is larger but its features are similar.

    The module's docstring has the step, with its source and what x, z, n, eta and gamma stand for.

    Args:
        network: The network as it was built, see `bare`.
        features: Its module whose (first) input is z.
        data: Images, shape (b, channels, ...).
        losses_of: Computes the loss of each case, shape (b,), from the output of the network.
        ascent: Number and size of the steps, and what holds the images back.
        n_voxels: n of each case, shape (b,); None for all voxels.
        n_channels: How many of the first channels are changed; None for all.
    """
    n = data.new_full((len(data),), data[0, 0].numel(), dtype=torch.float32)
    if n_voxels is not None:
        n = n_voxels.to(n).clamp_min(1)

    original = data.detach()
    surrogate = _Surrogate(network, features, losses_of, original, ascent.gamma, n, n_channels)
    deviation = original[:, :n_channels].flatten(2).var(2, correction=0).mean(1).sqrt()
    with _as_one_function(network):
        start = surrogate(original, needs_gradient=ascent.steps > 0)
        best = start
        eta = torch.full_like(start.value, ascent.eta)
        n_rejected = torch.zeros_like(start.value)
        is_non_finite = ~start.is_finite
        for step in range(1, ascent.steps + 1):
            # The gradient is that of the sum over voxels: it contains the n of the formula.
            moved = best.data + _per_case(eta, best.data) * best.gradient
            if ascent.largest_change is not None:
                radius = ascent.largest_change * deviation
                moved = _within(moved, original, radius, n_channels)
            there = surrogate(moved, needs_gradient=step < ascent.steps)
            is_better = there.is_finite & (there.value >= best.value)
            is_non_finite |= ~there.is_finite
            n_rejected += ~is_better
            eta = torch.where(is_better, eta, eta / 4)
            best = there.where(is_better, best)

    return Perturbed(
        data=best.data,
        change=_root_mean_square((best.data - original)[:, :n_channels]),
        feature_distance=best.squared_distance.sqrt(),
        surrogate_before=start.value,
        surrogate_after=best.value,
        n_rejected=n_rejected,
        is_non_finite=is_non_finite,
    )


@dataclass(frozen=True)
class _Place:
    """The surrogate and its gradient at one image of each case."""

    data: Tensor
    value: Tensor
    squared_distance: Tensor
    gradient: Tensor
    is_finite: Tensor

    def where(self, is_mine: Tensor, other: "_Place") -> "_Place":
        """This place for some cases, and the other place for the rest."""
        values = {}
        for field in fields(self):
            mine = getattr(self, field.name)
            its = getattr(other, field.name)
            values[field.name] = torch.where(_per_case(is_mine, mine), mine, its)
        return _Place(**values)


def _per_case(values: Tensor, like: Tensor) -> Tensor:
    """Reshape one value per case, shape (b,), so that it applies to all values of a case."""
    return values.view(-1, *[1] * (like.ndim - 1))


def _within(data: Tensor, original: Tensor, radius: Tensor, n_channels: int | None) -> Tensor:
    """The image nearest to each case within a bound on the change of its first channels.

    The root mean square of the change is at most ``radius``, shape (b,).
    """
    change = data - original
    # The smallest positive number prevents a division by 0; a change of 0 stays 0.
    size = _root_mean_square(change[:, :n_channels]).clamp_min(torch.finfo(change.dtype).tiny)
    factor = (radius / size).clamp_max(1)
    return original + _per_case(factor, change) * change


def _root_mean_square(values: Tensor) -> Tensor:
    """Root mean square of the values of each case, shape (b,)."""
    return values.flatten(1).square().mean(1).sqrt()


@dataclass
class _Surrogate:
    """l(x) - gamma/2 (N/n) mean ||z(x) - z(x_0)||^2 of each case, and n times its gradient."""

    network: nn.Module
    features: nn.Module
    losses_of: Callable[[Any], Tensor]
    original: Tensor
    gamma: float
    n_voxels: Tensor
    n_channels: int | None
    original_features: Tensor | None = None

    def __call__(self, data: Tensor, *, needs_gradient: bool) -> _Place:
        """Evaluate one image of each case."""
        x = data.detach().requires_grad_()
        # nnU-Net uses half precision on CUDA and nowhere else.
        precision = torch.autocast("cuda") if x.device.type == "cuda" else nullcontext()
        with torch.set_grad_enabled(needs_gradient):
            with precision:
                z, output = self._run(x)
                losses = self.losses_of(output)
            if self.original_features is None:
                self.original_features = z.detach()

            squared_distance = mean_squared_distance(z, self.original_features)
            n_of_patch = data[0, 0].numel()
            weight = self.gamma / 2 * n_of_patch / self.n_voxels
            value = losses.float() - weight * squared_distance

            gradient = torch.zeros_like(x)
            if needs_gradient:
                over_voxels = (_SCALE * self.n_voxels * value).sum()
                (gradient,) = torch.autograd.grad(over_voxels, x)
        gradient = gradient / _SCALE
        if self.n_channels is not None:
            gradient[:, self.n_channels :] = 0

        # The image is checked too, because a saturated network may give a finite loss for an
        # infinite image.
        is_finite = value.isfinite() & _all_finite(gradient) & _all_finite(data)
        # Without a gradient, a case that cannot be evaluated at its start stays there.
        gradient = gradient.masked_fill_(_per_case(~is_finite, gradient), 0.0)
        return _Place(x.detach(), value.detach(), squared_distance.detach(), gradient, is_finite)

    def _run(self, x: Tensor) -> tuple[Tensor, Any]:
        """Features and output of the network at x."""
        inputs_of_module: list[Any] = []

        def keep(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
            inputs_of_module.append(inputs[0] if inputs else None)

        handle = self.features.register_forward_pre_hook(keep)
        try:
            output = self.network(x)
        finally:
            handle.remove()

        if inputs_of_module and isinstance(inputs_of_module[-1], Tensor):
            return inputs_of_module[-1], output

        what = "calls without one" if inputs_of_module else "does not call"
        raise ValueError(
            "`features_module` must be a module that the network calls with a tensor, got "
            f"{type(self.features).__name__}, which it {what}. Name the layer that computes the "
            "logits of full resolution."
        )


def _all_finite(values: Tensor) -> Tensor:
    """Whether all values of a case are finite, shape (b,)."""
    return values.flatten(1).isfinite().all(1)


@contextmanager
def _as_one_function(network: nn.Module) -> Iterator[None]:
    """Switch the gradients of parameters off, and modules without children to prediction.

    Other modules keep their mode, because networks may use `self.training` to decide on deep
    supervision. All is undone in the end.
    """
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    training = [module for module in network.modules() if module.training]
    leaves = [module for module in training if not list(module.children())]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        for module in leaves:
            module.training = False
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
        for module in leaves:
            module.training = True


def bare(network: nn.Module) -> nn.Module:
    """The network inside the wrappers of distributed training and compilation."""
    while True:
        if isinstance(network, nn.parallel.DistributedDataParallel):
            network = network.module
        elif isinstance(network, torch._dynamo.OptimizedModule):
            network = network._orig_mod
        else:
            return network


def find_features_module(network: nn.Module, name: str) -> nn.Module:
    """Find the module of a `bare` network whose input is the features.

    Args:
        network: The network.
        name: Dotted name of the module; '' for that of nnU-Net's own networks.
    """
    where = name
    layers = getattr(getattr(network, "decoder", None), "seg_layers", None)
    if not name and isinstance(layers, nn.ModuleList) and len(layers):
        where = f"decoder.seg_layers.{len(layers) - 1}"  # computes the logits of full resolution

    modules = dict(network.named_modules())
    if where and where in modules:
        return modules[where]

    wrong = f"got {name!r}"
    if not name:
        wrong = f"but {type(network).__name__} has no `decoder.seg_layers`, as nnU-Net's have"
    last = ", ".join([module for module in modules if module][-8:])
    raise ValueError(
        "`features_module` must name the layer that computes the logits of full resolution, "
        f"{wrong}. Derive from the trainer, and set `features_module` to one of the network's "
        f"modules. The last ones are: {last}."
    )
