"""The scores of all teams as arrays, in which more is always better."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
CodeArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Contest:
    """What is ranked: the scores of every team in every task and case. A task is a metric of a label.

    Attributes:
        goodness: Scores, larger is better, shape (n_tasks, n_teams, n_cases). -inf where a team has no value and others
            have, NaN where no team has one: the case does not count in that task.
        filled: The same with the worst possible value in place of -inf: for means and medians.
        units: The number of the patient of each case, shape (n_cases,), 0 to n_units - 1: what is drawn in resamples.
    """

    goodness: FloatArray
    filled: FloatArray
    units: CodeArray

    @property
    def n_units(self) -> int:
        """Number of patients, or of cases where each is another patient's."""
        return int(self.units.max()) + 1 if len(self.units) else 0

    @cached_property
    def defined(self) -> BoolArray:
        """Whether a case counts in a task, shape (n_tasks, n_cases)."""
        return np.asarray(~np.isnan(self.goodness).all(axis=1))

    @cached_property
    def case_ranks(self) -> FloatArray:
        """The rank of each team in each case and task, the shape of ``goodness``; NaN where the case does not count."""
        ranks = np.ones_like(self.goodness)
        for team in range(self.goodness.shape[1]):
            ranks += self.goodness[:, [team]] > self.goodness
        return np.where(np.isnan(self.goodness), np.nan, ranks)

    @cached_property
    def unit_differences(self) -> tuple[FloatArray, CodeArray, CodeArray]:
        """For each pair of teams i < j how much better i is, averaged over the cases of each unit; i and j.

        Shape (n_tasks, n_pairs, n_units): NaN where no case counts, infinite where one of the two failed and the other
        did not.
        """
        n_tasks, n_teams, n_cases = self.goodness.shape
        first, second = np.triu_indices(n_teams, 1)
        with np.errstate(invalid="ignore"):
            differences = self.goodness[:, first] - self.goodness[:, second]
        # Both failed: neither is better.
        both = np.isneginf(self.goodness[:, first]) & np.isneginf(self.goodness[:, second])
        differences = np.where(both, 0.0, differences)
        if self.n_units == n_cases:
            by_unit = np.empty_like(differences)
            by_unit[..., self.units] = differences
            return by_unit, first, second
        means = np.full((n_tasks, len(first), self.n_units), np.nan)
        for unit in range(self.n_units):
            means[..., unit] = _mean_of_defined(differences[..., self.units == unit])
        return means, first, second

    def of_cases(self, inside: BoolArray) -> "Contest":
        """The contest of some of the cases, shape (n_cases,)."""
        units = np.unique(self.units[inside], return_inverse=True)[1].astype(np.intp)
        return Contest(self.goodness[..., inside], self.filled[..., inside], units)


def _mean_of_defined(differences: FloatArray) -> FloatArray:
    """Means over the last axis without NaN; a failure of each of the two teams cancel out."""
    counted = ~np.isnan(differences)
    n = counted.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(counted, differences, 0.0).sum(axis=-1) / n
    return np.where((n > 0) & np.isnan(means), 0.0, means)
