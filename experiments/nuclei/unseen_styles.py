"""A small space of styles of an image, in which one can draw at random or climb to where the loss is largest.

A style has a gain and an offset for each channel and a coarse additive field, which all channels share. It changes how
an image looks, but not where things are. With a few numbers for each image it cannot hide a pattern in single voxels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

#: How PyTorch calls linear interpolation, by the number of spatial axes.
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True)
class StyleSpace:
    """The styles within fixed bounds.

    A style of an image of c channels is a vector u of `size` numbers in [-1, 1]. It turns channel k of the image x into

        exp(gain u_k) x_k  +  offset u_(c+k)  +  field up(u_(2c+1), ...)

    where ``up`` interpolates the last numbers, a grid of ``grid`` points along each axis, linearly to the size of the
    image. u = 0 changes nothing. Images are standardised, so that offset and field are in standard deviations.
    """

    gain: float = 0.5  # Largest logarithm of the gain, >= 0; 0 for none.
    offset: float = 0.5  # Largest offset, >= 0; 0 for none.
    field: float = 1.0  # Largest value of the additive field, >= 0; 0 for none.
    grid: int = 4  # Points of the field along each axis, >= 1.

    def size(self, data: Tensor) -> int:
        """Number of values of the style of one image of ``data``, shape (b, channels, *spatial)."""
        return int(2 * data.shape[1] + self.grid ** (data.ndim - 2))

    def apply(self, data: Tensor, styles: Tensor) -> Tensor:
        """Images (b, channels, *spatial), 1 to 3 axes, in a style each, (b, `size`) in [-1, 1], with its gradient."""
        n_channels, n_axes = data.shape[1], data.ndim - 2
        gains, offsets, field = torch.split(styles, [n_channels, n_channels, self.grid**n_axes], 1)
        of_channels = (len(data), n_channels, *[1] * n_axes)
        grid = field.reshape(len(data), 1, *[self.grid] * n_axes)
        smooth = interpolate(grid, size=data.shape[2:], mode=_LINEAR[n_axes], align_corners=True)
        gain, offset = (self.gain * gains).exp().view(of_channels), self.offset * offsets.view(of_channels)
        return gain * data + offset + self.field * smooth


def random_styles(space: StyleSpace, data: Tensor, *, rng: np.random.Generator) -> Tensor:
    """Draw a style for each image, every number uniformly from [-1, 1]: shape (b, `StyleSpace.size`)."""
    drawn = rng.uniform(-1, 1, (len(data), space.size(data)))
    return torch.from_numpy(drawn).to(data)


def worst_styles(
    space: StyleSpace,
    network: nn.Module,
    data: Tensor,
    losses_of: Callable[[Any], Tensor],
    *,
    start: Tensor,
    steps: int,
    step_size: float,
) -> Tensor:
    """Climb from given styles to such with a larger loss; the network does not change.

    Each step moves a style u to

        u  <-  clip(u + step_size sign(grad_u l), -1, 1)

    where l is the loss of its image alone, and each image gets the style of the largest loss on its way. The loss
    therefore never falls, and 0 steps return the start. During the steps the network works as in prediction.

    Source: sign steps within a box as in Madry et al. 2018, in the space of styles instead of that of voxels.
    """
    was_training = network.training
    network.eval()
    try:
        styles = best = start.detach()
        largest = torch.full_like(start[:, 0], -torch.inf)
        for step in range(steps + 1):
            styles = styles.detach().requires_grad_(step < steps)
            with torch.set_grad_enabled(step < steps):
                losses = losses_of(network(space.apply(data, styles)))
            # A comparison with NaN is false, so that a loss that is not finite is never the best.
            is_better = losses.detach() > largest
            largest = torch.where(is_better, losses.detach(), largest)
            best = torch.where(is_better[:, None], styles.detach(), best)
            if step < steps:
                # The images are independent, so that the gradient of the sum is that of each of them.
                (gradient,) = torch.autograd.grad(losses.sum(), styles)
                styles = (styles.detach() + step_size * gradient.sign()).clamp(-1, 1)
    finally:
        network.train(was_training)
    return best
