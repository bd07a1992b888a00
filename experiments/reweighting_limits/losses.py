"""Losses of one prediction, with their derivatives."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

#: Predictions (m, n) and targets (n,) -> losses (m, n) and their derivatives by the predictions (m, n).
Loss = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

#: Alpha, the power of the polynomial tail.
_TAIL = 1.0


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


def polynomial_loss(predictions: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A loss of the margin z = y f with a polynomial tail, and its derivative by f, for targets y of 1 and -1.

    log(1 + exp(-z)) for z <= 0, log(2) (1 + z / (2 alpha log 2))^-alpha for z > 0, with alpha = 1: where they meet both
    are log 2 and fall with slope 1/2.

    Source: Wang et al. 2022, "Is Importance Weighting Incompatible with Interpolating Classifiers?"; Zhai et al. 2023.
    """
    margins = predictions * targets
    values, slopes = logistic_loss(np.minimum(margins, 0.0), np.ones(1))
    tail = 1.0 + np.maximum(margins, 0.0) / (2 * _TAIL * np.log(2))
    right = margins > 0
    values = np.where(right, np.log(2) * tail**-_TAIL, values)
    return values, targets * np.where(right, -0.5 * tail ** (-_TAIL - 1), slopes)
