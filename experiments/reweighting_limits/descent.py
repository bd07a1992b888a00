"""Gradient descent to the end, with three ways to weight the examples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.datasets.mnist import load_digits
from experiments.reweighting_limits.losses import FloatArray, Loss, logistic_loss, polynomial_loss, squared_loss

METHODS = ("ERM", "weighting", "Group DRO")

LEARNING_RATE = 0.01

#: Step of Group DRO's weights: q_g <- q_g exp(step * loss of group g), then normalised.
GROUP_STEP = 0.01


def six_digits() -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """The first five 0s and the first 1: images (6, 784), targets (6,) of 1 and -1, and groups (6,) of 0 and 1."""
    images, labels = load_digits()
    chosen = np.concatenate([np.flatnonzero(labels == 0)[:5], np.flatnonzero(labels == 1)[:1]])
    return images[chosen], 1.0 - 2.0 * labels[chosen], labels[chosen]


@dataclass(frozen=True)
class Setting:
    """One panel of the figure.

    Attributes:
        name: Name of the setting in the table.
        loss: Loss of one prediction.
        steps: Steps of gradient descent.
        mu: Factor of the penalty mu/2 ||theta||^2.
        directions: Whether the weights are compared after division by their norms: without a penalty, the losses of
            classification are never 0, and the norms grow for ever.
    """

    name: str
    loss: Loss
    steps: int
    mu: float = 0.0
    directions: bool = False


def settings(*, quick: bool) -> list[Setting]:
    """The panels of the figure."""
    short, long = (1_000, 10_000) if quick else (10_000, 100_000)
    return [
        Setting("squared loss", squared_loss, short),
        Setting("squared loss, mu 0.1", squared_loss, short, mu=0.1),
        Setting("squared loss, mu 10", squared_loss, short, mu=10.0),
        Setting("logistic loss", logistic_loss, long, directions=True),
        Setting("polynomial tail", polynomial_loss, long, directions=True),
    ]


@dataclass(frozen=True)
class Trajectory:
    """The state of a training at k of its steps.

    Attributes:
        steps: Shape (k,), from 1.
        weights: The linear model of each method after the step, shape (k, 3, d).
        losses: Of the examples, before the step, shape (k, 3, n).
        group_weights: Of the loss of each group, shape (k, 3, 2), summing to 1.
    """

    steps: NDArray[np.int64]
    weights: FloatArray
    losses: FloatArray
    group_weights: FloatArray


def descend(images: FloatArray, targets: FloatArray, groups: NDArray[np.int64], setting: Setting) -> Trajectory:
    """Train a linear model without intercept from 0 with every method, by gradient descent on all examples.

    theta <- theta - rate (sum_g q_g mean over group g of grad l_i + mu theta). ERM has q_g = n_g / n, importance
    weighting q_g = 1/2, and Group DRO q_g <- q_g exp(step * loss of group g) / norm, from 1/2, before each step.

    Args:
        images: Shape (n, d).
        targets: Shape (n,).
        groups: Shape (n,), 0 or 1, each at least once.
        setting: Loss, penalty and number of steps.

    Returns:
        All methods at about 20 steps per power of ten, the powers among them.

    Source: Zhai et al. 2023; Group DRO: Sagawa et al. 2020, Algorithm 1, on all examples at once.
    """
    sizes = np.bincount(groups, minlength=2)
    means = np.eye(2)[groups] / sizes
    group_weights = np.array([sizes / sizes.sum(), [0.5, 0.5], [0.5, 0.5]])
    weights = np.zeros((len(METHODS), images.shape[1]))
    marks = _marks(setting.steps)
    kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for step in range(1, setting.steps + 1):
        losses, slopes = setting.loss(weights @ images.T, targets)
        group_weights[2] *= np.exp(GROUP_STEP * (losses[2] @ means))
        group_weights[2] /= group_weights[2].sum()
        weights -= LEARNING_RATE * ((group_weights @ means.T * slopes) @ images + setting.mu * weights)
        if step == marks[len(kept)]:
            kept.append((weights.copy(), losses, group_weights.copy()))
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


def results_table(chosen: Sequence[Setting], trajectories: Sequence[Trajectory]) -> pd.DataFrame:
    """Distances to ERM, the norm of ERM's weights and the mean training losses, at the powers of ten from 10 on."""
    rows = []
    for setting, trajectory in zip(chosen, trajectories, strict=True):
        apart, turned = (distances(trajectory, directions=directions) for directions in (False, True))
        for k in np.flatnonzero(np.isin(trajectory.steps, 10 ** np.arange(1, 10))):
            losses = trajectory.losses[k].mean(axis=-1)
            rows.append(
                {
                    "setting": setting.name,
                    "step": int(trajectory.steps[k]),
                    "norm, ERM": float(np.linalg.norm(trajectory.weights[k, 0])),
                    **{f"weights, {method}": apart[k, m] for m, method in enumerate(METHODS) if m},
                    **{f"directions, {method}": turned[k, m] for m, method in enumerate(METHODS) if m},
                    **{f"loss, {method}": losses[m] for m, method in enumerate(METHODS)},
                }
            )
    return pd.DataFrame(rows)
