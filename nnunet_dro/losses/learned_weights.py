"""Weights of cases that are learnt from a few trusted cases."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from nnunet_dro.losses.case_by_case import case_of

Batch = tuple[Tensor, Any]


@dataclass(frozen=True)
class WeightedGradient:
    """The gradient of a batch of b cases, weighted by how much each case helps the trusted cases.

    Attributes:
        weights: Weight of each case, shape (b,), >= 0; they sum to 1 over the batches of all ranks,
            or are all 0.
        total: The sum over all ranks that the weights were divided by. It is 0 if no case helps,
            and not finite if a gradient is not finite (an overflow in half precision); the weights
            and the gradient are NaN then.
        losses: Loss of each case, shape (b,), detached.
        parameters: The parameters that the gradient belongs to: those that the loss depends on.
        gradient: The weighted gradient of all ranks, flat, times the scale of the loss.
    """

    weights: Tensor
    total: Tensor
    losses: Tensor
    parameters: list[nn.Parameter]
    gradient: Tensor

    def write(self) -> None:
        """Write the gradient to the ``grad`` of the parameters, as a backward pass would."""
        parts = _parts(self.gradient, self.parameters)
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part


class LearnedWeights:
    r"""Learning to reweight: cases are weighted by how much they help a few trusted cases.

    The weight of a case is how much a step on it would lower the loss of the trusted cases.

    .. math::

        w_i \propto \max(\langle \nabla f_{trusted}, \nabla f_i \rangle, 0), \quad \sum_i w_i = 1

    Ren et al. find the weights by differentiating through a look-ahead step with weights epsilon,
    at epsilon = 0. There the look-ahead network is the current one, so the derivative is this inner
    product, and neither a second derivative nor a copy of the network is needed.

    The inner products are computed exactly, in one of two ways, each of which needs memory for one
    more gradient:

    - *case by case*: one backward pass per case. Each gradient is added to the weighted sum as soon
      as it is computed, so one pass over the batch gives both the weights and the weighted
      gradient.
    - *at once*: forward-mode differentiation gives the derivatives of all outputs along the trusted
      gradient, at about the cost of a forward and a backward pass; a weighted pass over the batch
      follows.

    The network must treat the cases of a batch independently: instance, group or layer norm, not
    batch norm.

    Args:
        network: Called with a batch's data.
        losses_of: Returns the loss of each case, shape (b,), with gradient, from output and target.
        at_once: Whether to work at once instead of case by case. It becomes False if the network
            has no forward-mode derivative, and ``not_at_once`` says why.
        autocast: Returns the context for the forward passes.
        scale: Scales a loss before its backward pass, for half precision. The scale cancels in the
            weights.
        sum_over_ranks: Sums a tensor in place over the processes of a distributed training.

    Example:
        >>> def squared_errors(output, target):
        ...     return (output - target).square().flatten(1).sum(1)
        >>> network = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(network.weight)
        >>> learner = LearnedWeights(network, squared_errors)
        >>> batch = torch.ones(2, 1), torch.tensor([[1.0], [-1.0]])
        >>> trusted = torch.ones(1, 1), torch.ones(1, 1)
        >>> learnt = learner.gradient(batch, trusted)
        >>> learnt.weights.tolist()  # the second case contradicts the trusted one
        [1.0, 0.0]

    Source: Ren et al. 2018, "Learning to Reweight Examples for Robust Deep Learning", Algorithm 1,
    eq. (7) to (9).
    """

    def __init__(
        self,
        network: nn.Module,
        losses_of: Callable[[Any, Any], Tensor],
        *,
        at_once: bool = False,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
        scale: Callable[[Tensor], Tensor] | None = None,
        sum_over_ranks: Callable[[Tensor], Any] | None = None,
    ) -> None:
        self.network = network
        self.losses_of = losses_of
        self.at_once = at_once
        self.not_at_once: str | None = None
        self.autocast = autocast
        self.scale = scale or (lambda loss: loss)
        self.sum_over_ranks = sum_over_ranks or (lambda values: None)

    def gradient(self, batch: Batch, trusted: Batch) -> WeightedGradient:
        """The weighted gradient of a batch of data and targets, from trusted cases.

        No parameter's ``grad`` changes.
        """
        direction, used = self._trusted_direction(trusted)
        if self.at_once:
            try:
                products = self._derivatives_along(direction, *batch, used).clamp_min(0)
            except RuntimeError as error:
                # An operation has no forward-mode derivative, or the memory is too small.
                self.at_once = False
                self.not_at_once = str(error).splitlines()[0]
            else:
                return self._gradient_at_once(batch, used, products)
        return self._gradient_case_by_case(batch, used, direction)

    def _trusted_direction(self, trusted: Batch) -> tuple[Tensor, list[nn.Parameter]]:
        """The gradient of the trusted cases, flat and of length 1, and the parameters it is of."""
        parameters = [
            parameter for parameter in self.network.parameters() if parameter.requires_grad
        ]
        loss = self.scale(self._losses(*trusted).mean())
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)

        # The loss may depend on some of the parameters only.
        pairs = list(zip(parameters, gradients, strict=True))
        used = [parameter for parameter, gradient in pairs if gradient is not None]
        direction = _flat([gradient for gradient in gradients if gradient is not None])
        del gradients, loss, pairs
        self.sum_over_ranks(direction)

        # Its length cancels in the weights; products of scaled gradients with a direction of length
        # 1 do not overflow.
        for order in (torch.inf, 2):  # first divide by the largest entry, whose square may overflow
            length = torch.linalg.vector_norm(direction, order)
            direction = torch.where(length > 0, direction / length, direction)
        return direction, used

    def _losses(self, data: Tensor, target: Any) -> Tensor:
        with self.autocast():
            return self.losses_of(self.network(data), target)

    def _gradient_case_by_case(
        self, batch: Batch, parameters: list[nn.Parameter], direction: Tensor
    ) -> WeightedGradient:
        data, target = batch
        products = []
        losses = []
        weighted = torch.zeros_like(direction)

        for i in range(len(data)):
            loss = self._losses(data[i : i + 1], case_of(target, i)).sum()
            gradient = self._derivatives(loss, parameters)
            product = torch.dot(gradient, direction).clamp_min(0)
            weighted += product * gradient
            products.append(product)
            losses.append(loss.detach())

        unnormalised = torch.stack(products)
        total, divisor = self._total(unnormalised)
        weighted /= divisor
        self.sum_over_ranks(weighted)
        return WeightedGradient(
            weights=unnormalised / divisor,
            total=total,
            losses=torch.stack(losses),
            parameters=parameters,
            gradient=weighted,
        )

    def _gradient_at_once(
        self, batch: Batch, parameters: list[nn.Parameter], products: Tensor
    ) -> WeightedGradient:
        total, divisor = self._total(products)
        weights = products / divisor
        losses = self._losses(*batch)
        gradient = self._derivatives((weights * losses).sum(), parameters)
        self.sum_over_ranks(gradient)
        return WeightedGradient(
            weights=weights,
            total=total,
            losses=losses.detach(),
            parameters=parameters,
            gradient=gradient,
        )

    def _derivatives(self, loss: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
        """The gradient of a loss, flat, times the scale; 0 for parameters that do not matter."""
        gradients = torch.autograd.grad(
            self.scale(loss),
            parameters,
            allow_unused=True,
            materialize_grads=True,
        )
        return _flat(gradients)

    def _total(self, products: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the products over all ranks, and what to divide them by.

        After an overflow the divisor is NaN, and with it all weights and the gradient.
        """
        total = products.sum()
        self.sum_over_ranks(total)
        divisor = total.masked_fill(total == 0, 1.0)
        divisor = divisor.masked_fill(~torch.isfinite(total), torch.nan)
        return total, divisor

    def _derivatives_along(
        self, direction: Tensor, data: Tensor, target: Any, parameters: Sequence[nn.Parameter]
    ) -> Tensor:
        """Derivative of the loss of each case along a direction of the parameters, shape (b,)."""
        tangents = _parts(direction, parameters)
        with (
            forward_ad.dual_level(),
            torch.no_grad(),
            _moving(self.network, parameters, tangents),
            self.autocast(),
        ):
            # A compiled network knows no duals.
            network = getattr(self.network, "_orig_mod", self.network)
            outputs = network(data)
            is_list = not isinstance(outputs, Tensor)
            if not is_list:
                outputs = [outputs]
            duals = [forward_ad.unpack_dual(output) for output in outputs]  # type: ignore[no-untyped-call]

        # For the loss, a backward pass to the outputs is enough, and every loss has one.
        leaves = [dual.primal.float().requires_grad_() for dual in duals]
        losses = self.losses_of(leaves if is_list else leaves[0], target)
        gradients = torch.autograd.grad(losses.sum(), leaves, allow_unused=True)

        derivatives = torch.zeros_like(losses)
        for gradient, dual in zip(gradients, duals, strict=True):
            if gradient is not None and dual.tangent is not None:
                products = gradient * dual.tangent.float()
                derivatives = derivatives + products.reshape(len(losses), -1).sum(1)
        return derivatives


@contextmanager
def _moving(
    network: nn.Module, parameters: Sequence[nn.Parameter], tangents: Sequence[Tensor]
) -> Iterator[None]:
    """Within this context the parameters of a network move along tangents.

    Afterwards they are the same objects as before. `torch.func.functional_call` does not serve: it
    damages networks whose sub-modules have two names, as those of nnU-Net do.
    """
    duals = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # from torch's own modules
        for parameter, tangent in zip(parameters, tangents, strict=True):
            dual = forward_ad.make_dual(parameter.detach(), tangent)  # type: ignore[no-untyped-call]
            duals[id(parameter)] = dual

    places = []
    for module in network.modules():
        for name, own in module._parameters.items():
            if own is not None and id(own) in duals:
                places.append((module, name, own))

    try:
        for module, name, parameter in places:
            module._parameters[name] = duals[id(parameter)]  # type: ignore[assignment]
        yield
    finally:
        for module, name, parameter in places:
            module._parameters[name] = parameter


def _flat(gradients: Sequence[Tensor]) -> Tensor:
    """The gradients of several parameters as one vector."""
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def _parts(values: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """The parts of such a vector, in the shapes of the parameters."""
    sizes = [parameter.numel() for parameter in parameters]
    parts = torch.split(values, sizes)
    return [part.view_as(like) for part, like in zip(parts, parameters, strict=True)]
