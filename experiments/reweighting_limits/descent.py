"""Gradient descent of a linear model to the end, with three ways to weight the examples."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.mnist import load_digits
from experiments.reweighting_limits.losses import (
    FloatArray,
    Loss,
    logistic_loss,
    polynomial_loss,
    smooth_polynomial_loss,
    squared_loss,
)
from experiments.reweighting_limits.weighting import METHODS, GroupWeights

LEARNING_RATE = 0.01


def six_digits() -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """The first five 0s and the first 1: images (6, 784), targets (6,) of 1 and -1, and groups (6,) of 0 and 1."""
    images, labels = load_digits()
    chosen = np.concatenate([np.flatnonzero(labels == 0)[:5], np.flatnonzero(labels == 1)[:1]])
    return images[chosen], 1.0 - 2.0 * labels[chosen], labels[chosen]


@dataclass(frozen=True)
class Setting:
    """A loss, and how long to train with it.

    Attributes:
        name: Name of the setting in the table.
        loss: Loss of one prediction.
        steps: Steps of gradient descent.
        mu: Factor of the penalty mu/2 ||theta||^2.
        directions: Whether the weights are compared after division by their norms: without a penalty, the losses of
            classification are never 0, and the norms grow for ever.
        polynomial: Whether the loss has a polynomial tail, so that the directions have a limit that depends on the
            weights of the groups.
    """

    name: str
    loss: Loss
    steps: int
    mu: float = 0.0
    directions: bool = False
    polynomial: bool = False


def settings(*, quick: bool) -> list[Setting]:
    """The settings of the linear model, each of them a panel of the figure."""
    short, long = (1_000, 10_000) if quick else (100_000, 1_000_000)
    tails: dict[str, Loss] = {
        "smooth": smooth_polynomial_loss,
        "eq. 19, beta 0": partial(polynomial_loss, beta=0.0),
        "eq. 19, beta 1": partial(polynomial_loss, beta=1.0),
    }
    return [
        Setting("squared loss", squared_loss, short),
        Setting("squared loss, mu 0.1", squared_loss, short, mu=0.1),
        Setting("squared loss, mu 10", squared_loss, short, mu=10.0),
        Setting("logistic loss", logistic_loss, long, directions=True),
        *(
            Setting(f"polynomial tail, {name}", loss, long, directions=True, polynomial=True)
            for name, loss in tails.items()
        ),
    ]


@dataclass(frozen=True)
class Trajectory:
    """The state of a training at k of its steps.

    Attributes:
        steps: Shape (k,), from 1.
        weights: Of the model of each method after the step, minus those of the start, shape (k, 3, d).
        losses: Of the examples, before the step, shape (k, 3, n).
        group_weights: Of the loss of each group, shape (k, 3, 2), summing to 1.
    """

    steps: NDArray[np.int64]
    weights: FloatArray
    losses: FloatArray
    group_weights: FloatArray


def descend(images: FloatArray, targets: FloatArray, groups: NDArray[np.int64], setting: Setting) -> Trajectory:
    """Train a linear model without intercept from 0 with every method, by gradient descent on all examples.

    theta <- theta - rate (sum_g q_g mean over group g of grad l_i + mu theta), with the q_g of `GroupWeights`.

    Args:
        images: Shape (n, d).
        targets: Shape (n,).
        groups: Shape (n,), 0 or 1, each at least once.
        setting: Loss, penalty and number of steps.

    Returns:
        All methods at about 20 steps per power of ten, the powers among them.

    Source: Zhai et al. 2023, eq. 6 and 13.
    """
    # The weights never leave the span of the images, so n coordinates are as good as d weights, and faster.
    basis = np.linalg.qr(images.T)[0]
    inputs = images @ basis
    weights = np.zeros((len(METHODS), basis.shape[1]))
    group_weights = GroupWeights(groups)
    marks = _marks(setting.steps)
    kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for step in range(1, setting.steps + 1):
        losses, slopes = setting.loss(weights @ inputs.T, targets)
        pulls = group_weights.of_examples(losses) * slopes
        weights -= LEARNING_RATE * (pulls @ inputs + setting.mu * weights)
        if step == marks[len(kept)]:
            kept.append((weights @ basis.T, losses, group_weights.values.copy()))
    return Trajectory(marks, *(np.stack(parts) for parts in zip(*kept, strict=True)))


def _marks(n_steps: int) -> NDArray[np.int64]:
    marks = np.geomspace(1, n_steps, round(20 * np.log10(n_steps)) + 1).round().astype(np.int64)
    return np.unique(marks)


def distances(trajectory: Trajectory, *, directions: bool) -> FloatArray:
    """||theta_method - theta_ERM|| at each step, shape (k, 3); of the normalised thetas for ``directions``."""
    weights = trajectory.weights
    if directions:
        weights = weights / np.linalg.norm(weights, axis=-1, keepdims=True)
    return np.asarray(np.linalg.norm(weights - weights[:, :1], axis=-1))
