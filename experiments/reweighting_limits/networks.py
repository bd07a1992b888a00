"""Networks of one wide hidden layer, trained to the end with three ways to weight the examples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.mnist import load_digits
from experiments.reweighting_limits.descent import METHODS, GroupWeights, Trajectory
from experiments.reweighting_limits.losses import LOSSES, FloatArray

NETWORK_RATE = 1.0
#: Digits of each kind that no training sees.
N_HELD_OUT = 100


@dataclass(frozen=True)
class Network:
    """A network to train with every method from the same start."""

    units: int  # Width of the hidden layer.
    seed: int  # Seed of its first weights.
    steps: int  # Steps of gradient descent.
    loss: str = "squared loss"  # Name of the loss of one prediction.
    mu: float = 0.0  # Factor of the penalty mu/2 ||theta - theta_0||^2.


def networks(*, quick: bool) -> list[Network]:
    """All widths with all seeds."""
    widths: tuple[int, ...] = (64, 512, 4096)
    n_seeds = 5
    steps = 10_000
    if quick:
        widths = (16, 128)
        n_seeds = 2
        steps = 1_000
    return [Network(units, seed, steps) for units in widths for seed in range(n_seeds)]


def held_out_digits() -> FloatArray:
    """Images of 0s and 1s that are not among `six_digits`, 100 of each, shape (200, 784)."""
    images, labels = load_digits()
    zeros = np.flatnonzero(labels == 0)
    ones = np.flatnonzero(labels == 1)
    return images[np.concatenate([zeros[5 : 5 + N_HELD_OUT], ones[1 : 1 + N_HELD_OUT]])]


def in_unit_ball(images: FloatArray, held_out: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both sets of images, divided by the length of the longest image in either.

    Their shapes are (n, d) and (m, d).
    """
    longest = np.linalg.norm(np.concatenate([images, held_out]), axis=1).max()
    return images / longest, held_out / longest


def train_network(
    images: FloatArray,
    targets: FloatArray,
    groups: NDArray[np.int64],
    held_out: FloatArray,
    network: Network,
) -> tuple[Trajectory, FloatArray]:
    """Train f(x) = a' tanh(W x + b) / sqrt(units) with every method.

    Gradient descent on the losses of all examples; W and b begin standard normal and a with 0.
    Images (n, d) and held-out ones (m, d) are in the unit ball; targets and groups have the shape
    (n,).

    Returns:
        The last step alone, with the weights of hidden and output layer in coordinates whose
        distances are those of the weights, and the outputs of every method on the held-out images,
        shape (3, m).

    Source: Zhai et al. 2023, eq. (8) and (9) with one hidden layer, without the factor 1 / sqrt(d)
    of W.
    """
    start = first_weights(network, images.shape[1])
    inputs = _with_ones(images)
    # W and b never leave the span of the examples around their start, so n coordinates of a unit
    # are enough.
    basis, _ = np.linalg.qr(inputs.T)
    hidden = np.zeros((len(METHODS), network.units, basis.shape[1]))
    output = np.zeros((len(METHODS), network.units))
    sums_at_start = start @ inputs.T
    coordinates = inputs @ basis
    scale = 1 / np.sqrt(network.units)
    group_weights = GroupWeights(groups)
    for _ in range(network.steps):
        active = np.tanh(sums_at_start + hidden @ coordinates.T)
        losses, errors = LOSSES[network.loss](scale * _outputs(output, active), targets)
        pulls = scale * group_weights.of_examples(losses) * errors
        slopes = (1 - active**2) * output[:, :, None] * pulls[:, None]
        output -= NETWORK_RATE * ((active @ pulls[:, :, None])[:, :, 0] + network.mu * output)
        hidden -= NETWORK_RATE * (slopes @ coordinates + network.mu * hidden)

    end = Trajectory(
        steps=np.array([network.steps]),
        weights=np.concatenate([hidden.reshape(len(METHODS), -1), output], axis=1)[None],
        losses=losses[None],
        group_weights=group_weights.values[None].copy(),
    )
    inputs = _with_ones(held_out)
    active = np.tanh(start @ inputs.T + hidden @ (inputs @ basis).T)
    return end, scale * _outputs(output, active)


def _with_ones(images: FloatArray) -> FloatArray:
    """Images with a pixel of 1, whose weight is the b of a unit."""
    return np.column_stack([images, np.ones(len(images))])


def first_weights(network: Network, n_pixels: int) -> FloatArray:
    """W and b at the start, shape (units, n_pixels + 1)."""
    rng = np.random.default_rng(network.seed)
    slopes = rng.normal(size=(network.units, n_pixels))
    offsets = rng.normal(size=network.units)
    return np.column_stack([slopes, offsets])


def _outputs(output: FloatArray, active: FloatArray) -> FloatArray:
    """Sums of the active units, shape (3, units, images), by the output weights.

    The sums have the shape (3, images).
    """
    return (output[:, None] @ active)[:, 0]
