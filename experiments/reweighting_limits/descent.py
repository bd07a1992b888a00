"""Gradient descent of a linear model to the end, with three ways to weight the examples."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.mnist import load_digits
from experiments.reweighting_limits.losses import LOSSES, FloatArray

LEARNING_RATE = 0.01
METHODS = ("ERM", "weighting", "Group DRO")
#: Step of Group DRO's weights: q_g <- q_g exp(step * loss of group g), then normalised.
GROUP_STEP = 0.01


def six_digits() -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """The first five 0s and the first 1.

    Returns:
        Images (6, 784), targets (6,) of 1 and -1, and groups (6,) of 0 and 1.
    """
    images, labels = load_digits()
    chosen = np.concatenate([np.flatnonzero(labels == 0)[:5], np.flatnonzero(labels == 1)[:1]])
    return images[chosen], 1.0 - 2.0 * labels[chosen], labels[chosen]


class GroupWeights:
    """The weights q of both groups, ``values`` of shape (3, 2), a row per method.

    ERM has q_g = n_g / n, importance weighting q_g = 1/2, and Group DRO begins with 1/2. Only those
    of Group DRO move.

    Source: Zhai et al. 2023, section 3; Group DRO: Sagawa et al. 2020, Algorithm 1, on all examples
    at once.
    """

    def __init__(self, groups: NDArray[np.int64]) -> None:
        sizes = np.bincount(groups, minlength=2)
        self._means = np.eye(2)[groups] / sizes
        self.values = np.array([sizes / sizes.sum(), [0.5, 0.5], [0.5, 0.5]])

    def of_examples(self, losses: FloatArray) -> FloatArray:
        """Move the weights of Group DRO by losses (3, n).

        Returns:
            q_g / n_g of the group g of each example, shape (3, n).
        """
        self.values[2] *= np.exp(GROUP_STEP * (losses[2] @ self._means))
        self.values[2] /= self.values[2].sum()
        return self.values @ self._means.T


@dataclass(frozen=True)
class Setting:
    """A loss, and how long to train with it."""

    name: str  # Name of the setting in the table.
    loss: str  # Name of the loss of one prediction.
    steps: int  # Steps of gradient descent.
    mu: float = 0.0  # Factor of the penalty mu/2 ||theta||^2.
    #: Whether the weights are compared after division by their norms: without a penalty, the losses
    #: of classification are never 0, and the norms grow for ever.
    directions: bool = False
    #: Whether the loss has a polynomial tail, so that the directions have a limit that depends on
    #: the weights of the groups.
    polynomial: bool = False


def settings(*, quick: bool) -> list[Setting]:
    """The settings of the linear model, each of them a panel of the figure."""
    short = 1_000 if quick else 100_000
    long = 10 * short
    tails = [name for name in LOSSES if name.startswith("polynomial tail")]
    return [
        Setting("squared loss", "squared loss", short),
        Setting("squared loss, mu 0.1", "squared loss", short, mu=0.1),
        Setting("squared loss, mu 10", "squared loss", short, mu=10.0),
        Setting("logistic loss", "logistic loss", long, directions=True),
        *(Setting(name, name, long, directions=True, polynomial=True) for name in tails),
    ]


@dataclass(frozen=True)
class Trajectory:
    """The state of a training at k of its steps."""

    steps: NDArray[np.int64]  # Shape (k,), from 1.
    #: Of the model of each method after the step, minus those of the start, shape (k, 3, d).
    weights: FloatArray
    losses: FloatArray  # Of the examples, before the step, shape (k, 3, n).
    group_weights: FloatArray  # Of the loss of each group, shape (k, 3, 2), summing to 1.


def descend(
    images: FloatArray, targets: FloatArray, groups: NDArray[np.int64], setting: Setting
) -> Trajectory:
    """Train a linear model without intercept from 0 with every method.

    Gradient descent on all examples,

    theta <- theta - rate (sum_g q_g mean over group g of grad l_i + mu theta),

    with the q_g of `GroupWeights`. Images have the shape (n, d), targets and groups (0 or 1, each
    at least once) (n,). Kept are about 20 steps per power of ten, the powers among them.

    Source: Zhai et al. 2023, eq. (6) and (13).
    """
    # The weights never leave the span of the images, so n coordinates are as good as d weights, and
    # faster.
    basis, _ = np.linalg.qr(images.T)
    inputs = images @ basis
    weights = np.zeros((len(METHODS), basis.shape[1]))
    group_weights = GroupWeights(groups)
    n_marks = round(20 * np.log10(setting.steps)) + 1
    marks = np.unique(np.geomspace(1, setting.steps, n_marks).round().astype(np.int64))
    kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for step in range(1, setting.steps + 1):
        losses, slopes = LOSSES[setting.loss](weights @ inputs.T, targets)
        pulls = group_weights.of_examples(losses) * slopes
        weights -= LEARNING_RATE * (pulls @ inputs + setting.mu * weights)
        if step == marks[len(kept)]:
            kept.append((weights @ basis.T, losses, group_weights.values.copy()))

    all_weights, all_losses, all_group_weights = zip(*kept, strict=True)
    return Trajectory(
        steps=marks,
        weights=np.stack(all_weights),
        losses=np.stack(all_losses),
        group_weights=np.stack(all_group_weights),
    )


def distances(trajectory: Trajectory, *, directions: bool) -> FloatArray:
    """||theta_method - theta_ERM|| at each step, shape (k, 3).

    With ``directions``, it is that of the normalised thetas.
    """
    weights = trajectory.weights
    if directions:
        weights = weights / np.linalg.norm(weights, axis=-1, keepdims=True)
    return np.asarray(np.linalg.norm(weights - weights[:, :1], axis=-1))


def summary(trajectory: Trajectory) -> dict[str, Any]:
    """What table and picture need of a trajectory, in JSON's types, at each of its steps.

    ``norm`` of ERM's weights, ``weights`` and ``directions``, the distances of the two others,
    ``weight of the 1`` in Group DRO, and ``losses``, the means of the three methods.
    """
    apart = distances(trajectory, directions=False)
    turned = distances(trajectory, directions=True)
    return {
        "steps": trajectory.steps.tolist(),
        "norm": np.linalg.norm(trajectory.weights[:, 0], axis=-1).tolist(),
        "weights": apart[:, 1:].tolist(),
        "directions": turned[:, 1:].tolist(),
        "weight of the 1": trajectory.group_weights[:, 2, 1].tolist(),
        "losses": trajectory.losses.mean(axis=-1).tolist(),
    }
