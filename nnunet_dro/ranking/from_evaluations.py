"""From evaluations of the same cases to a contest.

A contest has the scores of all teams. What a team has in a case depends on the reference and on
that team alone, so that its score is that of its own evaluation, whoever else takes part.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.comparing.common_ground import (
    CommonGround,
    find_common_ground,
    shared_notes,
)
from nnunet_dro.evaluation.comparing.common_strata import find_common_strata
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.failures import size_columns
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.stratifying.stratify import ALL, divide
from nnunet_dro.ranking.contest import Contest, Task, task_weights
from nnunet_dro.ranking.options import RankOptions
from nnunet_dro.ranking.words import WORDS


@dataclass(frozen=True, eq=False)
class Entries:
    """The teams' scores of the same cases."""

    teams: tuple[str, ...]  # their names, in the given order
    tasks: tuple[Task, ...]  # metrics and labels, metric by metric
    weights: FloatArray  # of the tasks, shape (n_tasks,)
    cases: tuple[str, ...]  # identifiers, sorted
    scores: FloatArray  # of the cases, as `Contest` has them of units, (n_tasks, n_teams, n_cases)
    goodness: FloatArray  # likewise
    units: IndexArray  # the number of the patient of each case, shape (n_cases,)
    #: Attribute to the names of its strata and, for each, its cases: bool, shape (n_cases,).
    strata: Mapping[str, tuple[tuple[str, BoolArray], ...]]
    #: The column of the case table that names the patients; None where every case is another
    #: patient.
    patient: str | None
    patient_score: PatientScore = PatientScore.MEAN  # of a patient with several cases
    notes: tuple[str, ...] = ()  # sentences for the reader, of which none names a case
    notes_on_cases: tuple[str, ...] = ()  # sentences that may name cases

    @property
    def n_cases(self) -> dict[str, dict[str, int]]:
        """Attribute to its strata and their numbers of cases."""
        sizes = {}
        for attribute, strata in self.strata.items():
            sizes[attribute] = {stratum: int(inside.sum()) for stratum, inside in strata}
        return sizes

    @cached_property
    def contest(self) -> Contest:
        """The contest of all cases."""
        return self.contest_of(np.ones(len(self.cases), dtype=np.bool_))

    def contest_of(self, inside: BoolArray) -> Contest:
        """The contest of some of the cases, shape (n_cases,)."""
        return Contest.of_cases(
            self.scores[..., inside],
            self.goodness[..., inside],
            self.units[inside],
            self.weights,
            patient_score=self.patient_score,
        )

    @property
    def values(self) -> FloatArray:
        """The scores in their units, shape (n_tasks, n_teams, n_cases); NaN where undefined."""
        signs = np.array([task.sign for task in self.tasks])
        # + 0.0 turns -0.0 into 0.0.
        return np.asarray(signs[:, None, None] * self.scores + 0.0)


def read_entries(evaluations: Mapping[str, Evaluation], options: RankOptions) -> Entries:
    """Check that evaluations can be ranked together, and align their scores.

    See `rank_evaluations`.
    """
    ground = find_common_ground(evaluations, intersect=options.intersect)
    strata = find_common_strata(evaluations, ground, by=options.by)
    first = next(iter(evaluations.values()))
    units, patient = first.patient_numbers(ground.cases)
    tasks, weights = task_weights(ground.metrics, ground.labels, options)

    numbers = {team: _Numbers.of(evaluation, ground) for team, evaluation in evaluations.items()}
    tasks, weights = _measured(numbers, tasks, weights)
    scores, goodness = _aligned(numbers, tasks)
    entries = Entries(
        teams=tuple(evaluations),
        tasks=tasks,
        weights=weights,
        cases=ground.cases,
        scores=scores,
        goodness=goodness,
        units=units,
        strata={
            attribute: _members(stratum_of_case, ground)
            for attribute, stratum_of_case in strata.items()
            if attribute != ALL
        },
        patient=patient,
        patient_score=first.options.patient_score,
    )
    if np.isnan(entries.scores).all():
        raise InputError(
            "evaluations",
            must="have a case in which some team has a value",
            got="none",
            cure="Evaluate with labels that the cases have, or with another --empty.",
        )
    return replace(
        entries,
        notes=tuple(_notes(entries, numbers, tasks)),
        notes_on_cases=(*ground.notes, *shared_notes(evaluations)),
    )


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The numbers of one evaluation in the common cases and labels."""

    columns: Mapping[str, FloatArray]  # name to values, shape (n_cases, n_labels)
    ground: CommonGround

    @classmethod
    def of(cls, evaluation: Evaluation, ground: CommonGround) -> "_Numbers":
        names = set(ground.metrics)
        for metric in ground.metrics:
            names.update(size_columns(metric))

        scores = evaluation.scores
        columns = [name for name in scores.columns if name in names]
        aligned = ground.align_all(scores, columns)
        return cls(dict(zip(columns, aligned, strict=True)), ground)

    def values(self, task: Task) -> FloatArray:
        """The values of a task as they are, shape (n_cases,); NaN where undefined."""
        return self.columns[task.metric][:, self.ground.labels.index(task.label)]

    def sizes(self, task: Task) -> tuple[FloatArray, FloatArray]:
        """How much of the label reference and prediction have, (n_cases,); NaN if not known."""
        place = self.ground.labels.index(task.label)
        unknown = np.full((len(self.ground.cases), len(self.ground.labels)), np.nan)
        in_reference, in_prediction = size_columns(task.metric)
        return (
            self.columns.get(in_reference, unknown)[:, place],
            self.columns.get(in_prediction, unknown)[:, place],
        )

    def has(self, task: Task) -> bool:
        """Whether anything is known of a task.

        Other tools do not give all metrics of all labels.
        """
        numbers = (self.values(task), *self.sizes(task))
        return not all(np.isnan(column).all() for column in numbers)

    def is_right(self, task: Task) -> BoolArray:
        """Where there is no value because neither reference nor prediction has the label."""
        n_reference, n_prediction = self.sizes(task)
        is_absent = (n_reference == 0) & (n_prediction == 0)
        return np.asarray(is_absent & np.isnan(self.values(task)))

    def is_lost(self, task: Task) -> BoolArray:
        """Where there is no value although there could be one: the label was missed or invented.

        A value that lacks for an unknown reason counts as lost, too.
        """
        is_possible = np.full(len(self.ground.cases), self.ground.reports(task.label, task.metric))
        if task.metric == "false_positive_volume":
            # It has no value where the reference has the label, whatever was predicted.
            n_reference, _ = self.sizes(task)
            is_possible &= n_reference == 0
        return np.asarray(is_possible & np.isnan(self.values(task)) & ~self.is_right(task))


def _measured(
    numbers: "Mapping[str, _Numbers]", tasks: Sequence[Task], weights: FloatArray
) -> tuple[tuple[Task, ...], FloatArray]:
    """The tasks of which some team has a number, and their weights."""
    teams = numbers.values()
    is_measured = np.array([any(team.has(task) for team in teams) for task in tasks])
    return tuple(tasks[int(i)] for i in np.flatnonzero(is_measured)), weights[is_measured]


def _aligned(
    numbers: "Mapping[str, _Numbers]", tasks: Sequence[Task]
) -> tuple[FloatArray, FloatArray]:
    """``scores`` and ``goodness`` of the cases, as `Entries` has them."""
    scores = []
    goodness = []
    for task in tasks:
        for team, numbers_of_team in numbers.items():
            scores_of_team, goodness_of_team = _of_task(numbers_of_team, task, team)
            scores.append(scores_of_team)
            goodness.append(goodness_of_team)

    shape = (len(tasks), len(numbers), -1)
    return np.array(scores).reshape(shape), np.array(goodness).reshape(shape)


def _of_task(numbers: _Numbers, task: Task, team: str) -> tuple[FloatArray, FloatArray]:
    """The scores of a team in a task, and what it is compared by, both of shape (n_cases,)."""
    metric = METRICS[task.metric]
    scores = metric.sign * numbers.values(task)
    is_lost = numbers.is_lost(task)
    if is_lost.any():
        if not metric.more_is_better:
            case = numbers.ground.cases[int(is_lost.argmax())]
            raise ValueError(_without_worst(metric, task, case, team))
        scores = np.where(is_lost, 0.0, scores)

    best = float(metric.more_is_better)
    return scores, np.where(numbers.is_right(task), best, scores)


def _without_worst(metric: Metric, task: Task, case: str, team: str) -> str:
    """Why a value that a team lacks cannot be ranked."""
    cure = f"leave it out with --metric-weight {metric.name}=0."
    if metric.unit == "mm" and not metric.is_only_read:
        cure = f"Evaluate with --empty diagonal (the length of the image's diagonal), or {cure}"
    else:
        cure = cure.capitalize()
    return (
        f"`evaluations` must have {metric.title} wherever a label was missed or invented, "
        f"got none of {task.label!r} in {case!r} by {team!r}. {cure}"
    )


def _members(
    stratum_of_case: "pd.Series[str]", ground: CommonGround
) -> tuple[tuple[str, BoolArray], ...]:
    """The names of the strata, each with where its cases are."""
    attribute = str(stratum_of_case.name)
    codes, names = divide(stratum_of_case, ground.cases, attribute=attribute)
    return tuple((str(name), np.asarray(codes == code)) for code, name in enumerate(names))


def _notes(entries: Entries, numbers: "Mapping[str, _Numbers]", tasks: Sequence[Task]) -> list[str]:
    """What is not as one would expect, without the name of a case."""
    teams_by_scores: dict[bytes, list[str]] = {}
    for place, team in enumerate(entries.teams):
        teams_by_scores.setdefault(entries.values[:, place].tobytes(), []).append(team)

    # Team and metric to the number of values that its evaluation leaves out.
    n_lost: Counter[tuple[str, str]] = Counter()
    for team, numbers_of_team in numbers.items():
        for task in tasks:
            lost = int(numbers_of_team.is_lost(task).sum())
            n_lost[team, METRICS[task.metric].title] += lost

    return WORDS.sentences(
        "notes",
        entries=entries,
        n_right=int((np.isnan(entries.scores) & ~np.isnan(entries.goodness)).sum()),
        identical=[teams for teams in teams_by_scores.values() if len(teams) > 1],
        n_lost=n_lost,
    )
