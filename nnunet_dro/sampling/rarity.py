"""How often to draw a case because it looks like few others: the inverse density of fingerprints.

numpy and scikit-learn only, and no label or loss: it cannot be fooled by a wrong label.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from nnunet_dro.sampling.divergences import FloatArray

#: Share of the variance of the features that the principal components keep.
_VARIANCE = 0.9
#: The width of the kernel is the median distance to the nearest share of the cases.
_NEAREST = 0.1


def rarity(features: ArrayLike, *, cap: float) -> FloatArray:
    """Weights of cases by the inverse density of their features, relative to uniform draws.

    The features are standardised and reduced to the principal components that hold 90 % of their
    variance. With d a Gaussian kernel density estimate there, whose width is the median distance of
    a case to the nearest tenth of the cases, the weight of a case is proportional to 1 / d, with a
    mean of 1 and at most ``cap``.

    Args:
        features: Numbers that describe each case, shape (n, k), finite.
        cap: How many times as often as uniformly a case is drawn at most, > 1.

    Returns:
        Weights, shape (n,), > 0, with a mean of 1. All 1 where the features are equal.

    Raises:
        ValueError: If the features are empty or not finite, or ``cap`` is out of range.

    Example:
        >>> features = np.array([[0.0], [0.1], [0.2], [0.3], [5.0]])
        >>> rarity(features, cap=4.0).round(1).tolist()
        [1.0, 0.7, 0.7, 1.0, 1.7]
    """
    from sklearn.decomposition import PCA
    from sklearn.neighbors import KernelDensity, NearestNeighbors

    table = np.asarray(features, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError(
            f"`features` must be finite, of shape (cases, numbers), got {table.shape}."
        )
    check_cap(cap)

    deviations = table.std(axis=0)
    differs = deviations > 1e-9 * np.maximum(1.0, np.abs(table).max(axis=0))
    if len(table) < 3 or not differs.any():
        return np.ones(len(table))
    standardised = (table - table.mean(axis=0))[:, differs] / deviations[differs]
    components = PCA(_VARIANCE, svd_solver="full").fit_transform(standardised)

    n_nearest = min(len(table) - 1, math.ceil(_NEAREST * len(table)))
    neighbours = NearestNeighbors(n_neighbors=n_nearest).fit(components)
    distances, _ = neighbours.kneighbors()
    width = float(np.median(distances[:, -1]))
    if width == 0:
        # At least half of the cases are copies: the width is that of the others.
        width = float(distances[distances > 0].min())

    log_density = KernelDensity(bandwidth=width).fit(components).score_samples(components)
    return capped(np.exp(log_density.min() - log_density), cap=cap)


def capped(weights: FloatArray, *, cap: float) -> FloatArray:
    """Weights in the same proportions with a mean of 1, but for those that would exceed ``cap``.

    w_i = min(cap, kappa weights_i), with kappa such that their mean is 1.

    Example:
        >>> capped(np.array([1.0, 1.0, 1.0, 9.0]), cap=2.0).round(2).tolist()
        [0.67, 0.67, 0.67, 2.0]
    """
    n = len(weights)
    is_bound = np.zeros(n, dtype=bool)
    while True:
        left = n - cap * np.count_nonzero(is_bound)
        scaled = weights * (left / weights[~is_bound].sum())
        is_new = (scaled > cap) & ~is_bound
        if not is_new.any():
            return np.where(is_bound, cap, scaled)
        is_bound |= is_new


def check_cap(cap: float) -> None:
    """Raise ValueError unless ``cap`` is > 1."""
    if not cap > 1:
        raise ValueError(
            f"`cap` must be > 1, got {cap!r}. 8 draws no case more than 8 times as often as by "
            "chance."
        )
