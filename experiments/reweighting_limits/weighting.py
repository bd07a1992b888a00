"""How the three methods weight the two groups."""

import numpy as np
from numpy.typing import NDArray

from experiments.reweighting_limits.losses import FloatArray

METHODS = ("ERM", "weighting", "Group DRO")

#: Step of Group DRO's weights: q_g <- q_g exp(step * loss of group g), then normalised.
GROUP_STEP = 0.01


class GroupWeights:
    """The weights q of both groups with every method, of which only those of Group DRO move.

    ERM has q_g = n_g / n, importance weighting q_g = 1/2, and Group DRO begins with 1/2.

    Attributes:
        values: Shape (3, 2), summing to 1 for each method.

    Source: Zhai et al. 2023, section 3; Group DRO: Sagawa et al. 2020, Algorithm 1, on all examples at once.
    """

    def __init__(self, groups: NDArray[np.int64]) -> None:
        """Begin with the first weights.

        Args:
            groups: Group of each example, shape (n,), 0 or 1, each at least once.
        """
        sizes = np.bincount(groups, minlength=2)
        self._means = np.eye(2)[groups] / sizes
        self.values = np.array([sizes / sizes.sum(), [0.5, 0.5], [0.5, 0.5]])

    def of_examples(self, losses: FloatArray) -> FloatArray:
        """Move the weights of Group DRO by these losses, and return the weights of the examples.

        Args:
            losses: Of every method and example, shape (3, n).

        Returns:
            q of the example's group divided by the group's size, shape (3, n), summing to 1 for each method.
        """
        self.values[2] *= np.exp(GROUP_STEP * (losses[2] @ self._means))
        self.values[2] /= self.values[2].sum()
        return self.values @ self._means.T
