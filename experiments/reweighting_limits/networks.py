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
    widths, n_seeds, steps = ((16, 128), 2, 1_000) if quick else ((64, 512, 4096), 5, 10_000)
    return [Network(units, seed, steps) for units in widths for seed in range(n_seeds)]


def held_out_digits() -> FloatArray:
    """Images of 0s and 1s that are not among `six_digits`, 100 of each, shape (200, 784)."""
    images, labels = load_digits()
    zeros, ones = (np.flatnonzero(labels == digit) for digit in (0, 1))
    return images[np.concatenate([zeros[5 : 5 + N_HELD_OUT], ones[1 : 1 + N_HELD_OUT]])]


def in_unit_ball(images: FloatArray, held_out: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both sets of images, shapes (n, d) and (m, d), divided by the length of the longest image in either."""
    longest = np.linalg.norm(np.concatenate([images, held_out]), axis=1).max()
    return images / longest, held_out / longest


def train_network(
    images: FloatArray,
    targets: FloatArray,
    groups: NDArray[np.int64],
    held_out: FloatArray,
    network: Network,
) -> tuple[Trajectory, FloatArray]:
    """Train f(x) = a' tanh(W x + b) / sqrt(units) with every method, by gradient descent on the losses of all examples.

    W and b begin standard normal and a with 0. Images (n, d) and held-out ones (m, d) are in the
    unit ball; targets and groups have the shape (n,). Returned are the last step alone, with the
    weights of hidden and output layer in coordinates whose distances are those of the weights, and
    the outputs of every method on the held-out images, shape (3, m). Source: Zhai et al. 2023, eq.
    8 and 9 with one hidden layer, without the factor 1 / sqrt(d) of W.
    """
    first = first_weights(network, images.shape[1])
    inputs, others = (np.column_stack([part, np.ones(len(part))]) for part in (images, held_out))
    # W and b never leave the span of the examples around their start, so n coordinates of a unit
    # are enough.
    basis = np.linalg.qr(inputs.T)[0]
    hidden = np.zeros((len(METHODS), network.units, basis.shape[1]))
    output = np.zeros((len(METHODS), network.units))
    sums = first @ inputs.T
    coordinates = inputs @ basis
    scale = 1 / np.sqrt(network.units)
    group_weights = GroupWeights(groups)
    for _ in range(network.steps):
        active = np.tanh(sums + hidden @ coordinates.T)
        losses, errors = LOSSES[network.loss](scale * _outputs(output, active), targets)
        pulls = scale * group_weights.of_examples(losses) * errors
        slopes = (1 - active**2) * output[:, :, None] * pulls[:, None]
        output -= NETWORK_RATE * ((active @ pulls[:, :, None])[:, :, 0] + network.mu * output)
        hidden -= NETWORK_RATE * (slopes @ coordinates + network.mu * hidden)
    moved = np.concatenate([hidden.reshape(len(METHODS), -1), output], axis=1)
    end = Trajectory(
        np.array([network.steps]), moved[None], losses[None], group_weights.values[None].copy()
    )
    seen = np.tanh(first @ others.T + hidden @ (others @ basis).T)
    return end, scale * _outputs(output, seen)


def first_weights(network: Network, n_pixels: int) -> FloatArray:
    """W and b at the start, shape (units, n_pixels + 1)."""
    rng = np.random.default_rng(network.seed)
    return np.column_stack(
        [rng.normal(size=(network.units, n_pixels)), rng.normal(size=network.units)]
    )


def _outputs(output: FloatArray, active: FloatArray) -> FloatArray:
    """Sums of the active units, shape (3, units, images), by the output weights.

    Shape (3, images).
    """
    return (output[:, None] @ active)[:, 0]
