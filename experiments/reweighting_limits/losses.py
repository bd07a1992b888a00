"""Losses of one prediction, with their derivatives."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
#: Predictions (m, n) and targets (n,) -> losses (m, n) and their derivatives by the predictions (m,
#: n).
Loss = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
#: Alpha, the power of the polynomial tails.
TAIL_POWER = 1.0


def squared_loss(predictions: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(f - y)^2 / 2 and its derivative by f."""
    errors = predictions - targets
    return errors**2 / 2, errors


def logistic_loss(predictions: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log(1 + exp(-y f)) and its derivative by f, for targets y of 1 and -1."""
    margins = predictions * targets
    values = np.logaddexp(0.0, -margins)
    # exp(-log(1 + e^z)) is 1 / (1 + e^z) and cannot overflow.
    return values, -targets * np.exp(-margins - values)


def smooth_polynomial_loss(
    predictions: FloatArray, targets: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """A loss of the margin z = y f with a polynomial tail, and its derivative by f.

    The targets y are 1 and -1. The loss is

    log(1 + exp(-z)) for z <= 0, log(2) (1 + z / (2 alpha log 2))^-alpha for z > 0, with alpha = 1:
    where they meet both are log 2 and fall with slope 1/2. It is that of
    `nnunet_dro.losses.voxel_loss`.
    """
    margins = predictions * targets
    values, slopes = logistic_loss(np.minimum(margins, 0.0), np.ones(1))
    tail = 1.0 + np.maximum(margins, 0.0) / (2 * TAIL_POWER * np.log(2))
    right = margins > 0
    values = np.where(right, np.log(2) * tail**-TAIL_POWER, values)
    return values, targets * np.where(right, -0.5 * tail ** (-TAIL_POWER - 1), slopes)


def polynomial_loss(
    predictions: FloatArray, targets: FloatArray, *, beta: float
) -> tuple[FloatArray, FloatArray]:
    """A loss of the margin z = y f with a polynomial tail, and its derivative by f.

    The targets y are 1 and -1. The loss is

    log(1 + exp(-z)) + c for z < beta, (z - (beta - 1))^-alpha for z >= beta, with alpha = 1, and c
    such that both are 1 where they meet. There the slope jumps from -1 / (1 + exp(beta)) to -alpha:
    with alpha = 1 the loss is neither differentiable nor convex at beta, where the derivative is
    that of the tail.

    Source: Zhai et al. 2023, eq. (19) and appendix C (the shift c), after Wang et al. 2022.
    """
    margins = predictions * targets
    values, slopes = logistic_loss(np.minimum(margins, beta), np.ones(1))
    tail = np.maximum(margins, beta) - (beta - 1)
    right = margins >= beta
    values = np.where(right, tail**-TAIL_POWER, values + 1 - np.logaddexp(0.0, -beta))
    return values, targets * np.where(right, -TAIL_POWER * tail ** (-TAIL_POWER - 1), slopes)


#: Name of a loss to it.
LOSSES: dict[str, Loss] = {
    "squared loss": squared_loss,
    "logistic loss": logistic_loss,
    "polynomial tail, smooth": smooth_polynomial_loss,
    "polynomial tail, eq. 19, beta 0": partial(polynomial_loss, beta=0.0),
    "polynomial tail, eq. 19, beta 1": partial(polynomial_loss, beta=1.0),
}
