"""A contest: the scores of all teams in all tasks and units, and what follows from them alone.

A task is what is ranked at once, and its weight how much it counts in the overall ranking.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.stats import rankdata

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.patients import patient_values
from nnunet_dro.evaluation.statistics.significance import (
    paired_differences,
    without_rounding_errors,
)
from nnunet_dro.naming import name_some, spelt_like
from nnunet_dro.ranking.options import RankOptions
from nnunet_dro.ranking.signed_rank import one_sided_p


def competition_ranks(scores: FloatArray) -> FloatArray:
    """Ranks over the last axis: one plus the number of teams that are better.

    A team without a score (NaN) where others have one has failed nowhere, and is the first: each
    of its failures would have given it a score. Where no team has a score, all ranks are NaN.
    Scores that differ by rounding alone, as sums in another order do, are equal.
    """
    rounded = without_rounding_errors(scores, np.abs(scores))
    is_nothing = np.isnan(rounded)
    rounded[is_nothing] = np.inf
    ranks: FloatArray = rankdata(-rounded, method="min", axis=-1).astype(np.float64)
    ranks[is_nothing.all(axis=-1)] = np.nan
    return ranks


@dataclass(frozen=True)
class Task:
    """What is ranked at once: a metric of a label."""

    metric: str
    label: str

    @property
    def sign(self) -> float:
        """1 where more is better, and otherwise -1."""
        return METRICS[self.metric].sign


def task_weights(
    metrics: Sequence[str], labels: Sequence[str], options: RankOptions
) -> tuple[tuple[Task, ...], FloatArray]:
    """The tasks that are ranked, metric by metric, and the weight of each.

    A task has the weight of its metric times that of its label. What has the weight 0 is not
    ranked.
    """
    metric_weights = parsed_weights(options.metric_weights, metrics, name="metric_weight")
    label_weights = parsed_weights(options.label_weights, labels, name="label_weight")

    weights = {}
    for metric in metrics:
        for label in labels:
            weight = metric_weights[metric] * label_weights[label]
            if weight:
                weights[Task(metric, label)] = weight
    return tuple(weights), np.array(list(weights.values()))


def parsed_weights(entries: Sequence[str], names: Sequence[str], *, name: str) -> dict[str, float]:
    """The weight of each of the names, 1 unless an entry ``NAME=NUMBER`` says otherwise."""
    weights = dict.fromkeys(names, 1.0)
    weighed: set[str] = set()
    for entry in entries:
        weighted, _, number = entry.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if not (math.isfinite(weight) and weight >= 0 and weighted):
            raise InputError(
                name,
                must="be NAME=NUMBER, 0 or more",
                got=repr(entry),
                cure=f"Write, for example, {names[0]}=2; what has the weight 0 is not ranked.",
            )
        (weighted,) = spelt_like({weighted: None}, names)
        if weighted not in weights:
            raise InputError(
                name,
                must="name what all evaluations have",
                got=repr(entry),
                cure=f"Choose from: {name_some(names, at_most=20)}.",
            )
        if weighted in weighed:
            raise InputError(
                name,
                must="weigh each once",
                got=f"{weighted!r} twice",
                cure="Leave one out.",
            )
        weighed.add(weighted)
        weights[weighted] = weight

    if not any(weights.values()):
        raise InputError(
            name,
            must="leave something to rank",
            got="only zeros",
            cure="Leave one of them out.",
        )
    return weights


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
        units: IndexArray,
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

    def n_valued(self, tasks: Sequence[int] | slice = slice(None)) -> int:
        """Number of those in which some team has a value in some of the tasks; default: all."""
        return int((~np.isnan(self.scores[tasks])).any(axis=(0, 1)).sum())

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
    def unit_differences(self) -> tuple[FloatArray, IndexArray, IndexArray]:
        """How much better i is than j, for each pair of teams i < j; then all i, and all j.

        Differences are of shape (n_tasks, n_pairs, n_units), NaN where the unit does not count.
        """
        first, second = np.triu_indices(self.goodness.shape[1], 1)
        differences = paired_differences(self.goodness[:, second], self.goodness[:, first])
        return differences, first, second

    @cached_property
    def unit_tests(self) -> FloatArray:
        """The p values of `one_sided_p` of these pairs, shape (2, n_tasks, n_pairs).

        First that of i being better than j, then that of the reverse; not corrected.
        """
        differences, *_ = self.unit_differences
        return np.stack([one_sided_p(rows) for rows in differences], axis=1)
