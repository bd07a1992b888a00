"""A small space of styles of an image.

One can draw in it at random, or climb to where the loss is largest.

A style has a gain and an offset for each channel and a coarse additive field, which all channels
share. It changes how an image looks, but not where things are. With a few numbers for each image it
cannot hide a pattern in single voxels.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

#: Largest logarithm of the gain, largest offset and largest value of the field, both in standard
#: deviations, and points of the field along each axis.
GAIN = 0.5
OFFSET = 0.5
FIELD = 1.0
GRID = 4
#: The ascent: steps, and their size.
STYLE_STEPS = 2
STYLE_STEP_SIZE = 0.75


def restyled(images: Tensor, styles: Tensor) -> Tensor:
    """Images (b, c, height, width), each in its style, with the gradient.

    A style is a vector u of 2 c + GRID^2 numbers in [-1, 1]. It turns channel k of the image x into

    exp(GAIN u_k) x_k + OFFSET u_(c+k) + FIELD up(u_(2c+1), ...),

    where ``up`` interpolates the last numbers, a grid of GRID points along each axis, linearly.
    u = 0 changes nothing.
    """
    n_channels = images.shape[1]
    gains, offsets, field = torch.split(styles, [n_channels, n_channels, GRID**2], 1)
    grid = field.reshape(len(images), 1, GRID, GRID)
    smooth = interpolate(grid, size=images.shape[2:], mode="bilinear", align_corners=True)
    return (
        (GAIN * gains).exp()[..., None, None] * images
        + OFFSET * offsets[..., None, None]
        + FIELD * smooth
    )


def random_styles(images: Tensor, *, rng: np.random.Generator) -> Tensor:
    """A style for each image, every number drawn uniformly from [-1, 1]."""
    n_numbers = 2 * images.shape[1] + GRID**2
    return torch.from_numpy(rng.uniform(-1, 1, (len(images), n_numbers))).to(images)


def worst_styles(
    network: nn.Module,
    images: Tensor,
    losses_of: Callable[[Any], Tensor],
    *,
    start: Tensor,
    steps: int = STYLE_STEPS,
    step_size: float = STYLE_STEP_SIZE,
) -> Tensor:
    """Climb from styles to those of larger losses.

    Each step is

    u <- clip(u + step_size sign(grad_u l), -1, 1).

    l is the loss of an image alone, and each image gets the style of the largest loss on its way:
    the loss never falls, and 0 steps return the start. The network works as in prediction, and does
    not change.

    Source: Sign steps within a box as in Madry et al. 2018, in the space of styles instead of that
    of voxels.
    """
    was_training = network.training
    network.eval()
    try:
        styles = best = start.detach()
        largest = torch.full_like(start[:, 0], -torch.inf)
        for step in range(steps + 1):
            styles = styles.detach().requires_grad_(step < steps)
            with torch.set_grad_enabled(step < steps):
                losses = losses_of(network(restyled(images, styles)))
            # A comparison with NaN is false, so that a loss that is not finite is never the best.
            is_better = losses.detach() > largest
            largest = torch.where(is_better, losses.detach(), largest)
            best = torch.where(is_better[:, None], styles.detach(), best)
            if step < steps:
                # The images are independent, so that the gradient of the sum is that of each of
                # them.
                (gradient,) = torch.autograd.grad(losses.sum(), styles)
                styles = (styles.detach() + step_size * gradient.sign()).clamp(-1, 1)
    finally:
        network.train(was_training)
    return best
