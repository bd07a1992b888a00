"""Where a linear model with a polynomially tailed loss ends."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from experiments.reweighting_limits.losses import TAIL_POWER, FloatArray


def tail_limit(margins: FloatArray, weights: FloatArray) -> FloatArray:
    """The direction, of length 1, to which descent converges.

    The loss has a polynomial tail, and the weights are fixed. The direction is the unit vector that
    makes sum_i w_i z_i^-alpha smallest, the leading term of the losses of large margins
    z = M theta. Up to its length it is the theta that makes
    ||theta||^2 / 2 + sum_i w_i z_i^-alpha / alpha smallest. Of all theta with the same margins the
    shortest is M' (M M')^-1 z, so that is a convex problem in z > 0. M has the examples times their
    targets, shape (n, d), linearly independent, and w > 0 the shape (n,).

    Source: Zhai et al. 2023, theorem 8, after Ji et al. 2020: the direction is that of the
    regularisation path.
    """
    inverse = np.linalg.inv(margins @ margins.T)

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        terms = weights * z**-TAIL_POWER
        return float(z @ inverse @ z / 2 + terms.sum() / TAIL_POWER), inverse @ z - terms / z

    start = np.ones(len(weights))
    options = {"ftol": 1e-15, "gtol": 1e-12}
    minimum = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(1e-9, None)] * len(start),
        options=options,
    )
    theta = margins.T @ inverse @ minimum.x
    return np.asarray(theta / np.linalg.norm(theta))


def widest_margin(margins: FloatArray) -> FloatArray:
    """The unit vector with the largest smallest margin.

    M is that of `tail_limit`.

    Source: Zhai et al. 2023, eq. (17) and (18).
    """
    inverse = np.linalg.inv(margins @ margins.T)
    minimum = minimize(
        lambda z: (z @ inverse @ z / 2, inverse @ z),
        np.ones(len(margins)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(1.0, None)] * len(margins),
    )
    theta = margins.T @ inverse @ minimum.x
    return np.asarray(theta / np.linalg.norm(theta))


def tail_distances(
    images: FloatArray, targets: FloatArray, groups: NDArray[np.int64]
) -> tuple[float, float]:
    """Distances of the limits from that of ERM: of importance weighting, and of Group DRO."""
    margins = images * targets[:, None]
    sizes = np.bincount(groups, minlength=2)

    def limit(share: float) -> FloatArray:
        return tail_limit(margins, np.array([1 - share, share])[groups] / sizes[groups])

    def surplus(share: float) -> float:
        losses = (margins @ limit(share)) ** -TAIL_POWER
        return float(losses[groups == 1].mean() - losses[groups == 0].mean())

    plain = limit(sizes[1] / sizes.sum())
    weighting = limit(0.5)
    # Group DRO ends where the losses of both groups are the same.
    group_dro = limit(brentq(surplus, 1e-3, 1 - 1e-3))
    return float(np.linalg.norm(weighting - plain)), float(np.linalg.norm(group_dro - plain))
