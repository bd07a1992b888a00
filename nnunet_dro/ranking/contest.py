"""A contest: the scores of all teams in all tasks and units, and what follows from them alone."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.patients import patient_values
from nnunet_dro.ranking.competition import competition_ranks
from nnunet_dro.ranking.signed_rank import one_sided_p

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
CodeArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Contest:
    """What is ranked: the scores of every team in every task and unit.

    A task is a metric of a label. A unit is a patient, with the mean or the worst of its cases, or
    a case where each is another patient's.
    """

    #: What means and medians are of, larger is better, shape (n_tasks, n_teams, n_units). NaN where
    #: the evaluation of the team leaves the unit out.
    scores: FloatArray
    #: What teams are compared by in a unit: the scores, and the best value where a team rightly
    #: left out a label. NaN where no team can have a value.
    goodness: FloatArray
    weights: FloatArray  # of the tasks, > 0, shape (n_tasks,)

    @classmethod
    def of_cases(
        cls,
        scores: FloatArray,
        goodness: FloatArray,
        units: CodeArray,
        weights: FloatArray,
        *,
        patient_score: PatientScore = PatientScore.MEAN,
    ) -> "Contest":
        """A contest of cases, of which ``units`` are the numbers of the patients, (n_cases,)."""
        if len(np.unique(units)) == len(units):
            return cls(scores, goodness, weights)

        # Of all metrics more is better here, as of Dice.
        worst_by = METRICS["dice"] if patient_score is PatientScore.WORST else None
        reduced = partial(patient_values, patients=units, worst_by=worst_by)
        return cls(reduced(scores), reduced(goodness), weights)

    @property
    def n_units(self) -> int:
        """Number of patients, or of cases where each is another patient's."""
        return self.scores.shape[2]

    @cached_property
    def defined(self) -> BoolArray:
        """Whether a unit counts in a task, shape (n_tasks, n_units)."""
        return np.asarray(~np.isnan(self.goodness).all(axis=1))

    @cached_property
    def unit_ranks(self) -> FloatArray:
        """The rank of each team in each unit and task, shape (n_tasks, n_teams, n_units).

        NaN where the unit does not count.
        """
        return competition_ranks(self.goodness.swapaxes(1, 2)).swapaxes(1, 2)

    @cached_property
    def unit_differences(self) -> tuple[FloatArray, CodeArray, CodeArray]:
        """How much better i is than j, for each pair of teams i < j; then all i, and all j.

        Differences are of shape (n_tasks, n_pairs, n_units), NaN where the unit does not count.
        """
        first, second = np.triu_indices(self.goodness.shape[1], 1)
        return self.goodness[:, first] - self.goodness[:, second], first, second

    @cached_property
    def unit_tests(self) -> FloatArray:
        """The p values of `one_sided_p` of these pairs, shape (2, n_tasks, n_pairs).

        First that of i being better than j, then that of the reverse; not corrected.
        """
        differences, *_ = self.unit_differences
        return np.stack([one_sided_p(rows) for rows in differences], axis=1)
