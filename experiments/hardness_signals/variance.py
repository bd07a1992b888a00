"""The variance of a signal, split into the part between cases and the part between patches of one case."""

import numpy as np
from numpy.typing import NDArray


def variance_parts(values: NDArray[np.float64], cases: NDArray[np.int64]) -> tuple[float, float]:
    """The variance between cases and that between the values of one case.

    Args:
        values: Shape (m,).
        cases: The case of each value, shape (m,); at least two cases, and two values of one.

    Returns:
        Both components; the one between cases is estimated without bias and cut at 0.

    Source: the one-way analysis of variance with random effects, unequal group sizes (Searle et al. 1992, chapter 3).
    """
    names, group, counts = np.unique(cases, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=values) / counts
    within = float(((values - means[group]) ** 2).sum() / (len(values) - len(names)))
    between = float((counts * (means - values.mean()) ** 2).sum() / (len(names) - 1))
    effective = (len(values) - (counts**2).sum() / len(values)) / (len(names) - 1)
    return max(0.0, (between - within) / effective), within


def share_between(between: float, within: float, *, momentum: float) -> float:
    """The share of a stale loss's variance that is between cases, with a history of this momentum.

    A history L <- m L + (1 - m) l of independent values has (1 - m) / (1 + m) of their variance.
    """
    remaining = within * (1 - momentum) / (1 + momentum)
    return between / (between + remaining)
