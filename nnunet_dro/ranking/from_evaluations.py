"""From evaluations of the same cases to a contest.

A contest has the scores of all teams. What a team has in a case depends on the reference and on
that team alone, so that its score is that of its own evaluation, whoever else takes part.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.comparing.common_ground import (
    CommonGround,
    shared_notes,
)
from nnunet_dro.evaluation.comparing.common_strata import find_common_strata
from nnunet_dro.evaluation.comparing.comparability import comparable_ground
from nnunet_dro.evaluation.comparing.one_sided import MethodValues, method_values
from nnunet_dro.evaluation.scoring.failures import size_columns
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.stratifying.stratify import ALL, members_by_stratum
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
        return {
            attribute: {stratum: int(inside.sum()) for stratum, inside in strata}
            for attribute, strata in self.strata.items()
        }

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
    ground = comparable_ground(evaluations, intersect=options.intersect)
    strata = find_common_strata(evaluations, ground, by=options.by)
    first = next(iter(evaluations.values()))
    units, patient = first.patient_numbers(ground.cases)
    tasks, weights = task_weights(ground.metrics, ground.labels, options)

    is_measured = np.array([_is_measured(task, evaluations, ground) for task in tasks])
    tasks = tuple(tasks[int(place)] for place in np.flatnonzero(is_measured))
    results = {
        team: _results(evaluation, ground, tasks) for team, evaluation in evaluations.items()
    }
    scores, goodness = _aligned(results, tasks, ground)
    entries = Entries(
        teams=tuple(evaluations),
        tasks=tasks,
        weights=weights[is_measured],
        cases=ground.cases,
        scores=scores,
        goodness=goodness,
        units=units,
        strata={
            attribute: tuple(
                members_by_stratum(stratum_of_case, ground.cases, attribute=attribute).items()
            )
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
        notes=tuple(_notes(entries, results)),
        notes_on_cases=(*ground.notes, *shared_notes(evaluations)),
    )


#: What a team has in each task, of shape (n_cases,). A value that is missing for an unknown
#: reason counts as failed, too.
_Results = Mapping[Task, MethodValues]


def _is_measured(task: Task, evaluations: Mapping[str, Evaluation], ground: CommonGround) -> bool:
    """Whether some team has a number of a task: other tools do not give all metrics of labels."""
    place = ground.labels.index(task.label)
    for evaluation in evaluations.values():
        for column in (task.metric, *size_columns(task.metric)):
            if column in evaluation.scores:
                numbers = ground.align(evaluation.scores, column)[:, place]
                if not np.isnan(numbers).all():
                    return True
    return False


def _results(evaluation: Evaluation, ground: CommonGround, tasks: Sequence[Task]) -> _Results:
    metrics = {task.metric for task in tasks}
    by_metric = {metric: method_values(evaluation, ground, metric) for metric in metrics}
    results = {}
    for task in tasks:
        method = by_metric[task.metric]
        is_lost = np.isnan(method.values) & ~method.right
        if task.metric == "false_positive_volume":
            # It has no value where the reference has the label, whatever was predicted.
            is_lost = method.failed
        if not ground.reports(task.label, task.metric):
            is_lost = np.zeros_like(is_lost)

        place = ground.labels.index(task.label)
        results[task] = MethodValues(
            method.values[:, place],
            failed=is_lost[:, place],
            right=method.right[:, place],
        )
    return results


def _aligned(
    results: Mapping[str, _Results], tasks: Sequence[Task], ground: CommonGround
) -> tuple[FloatArray, FloatArray]:
    """``scores`` and ``goodness`` of the cases, as `Entries` has them."""
    scores = []
    goodness = []
    for task in tasks:
        metric = METRICS[task.metric]
        for team, results_of_team in results.items():
            result = results_of_team[task]
            if result.failed.any() and not metric.more_is_better:
                case = ground.cases[int(result.failed.argmax())]
                raise ValueError(_without_worst(metric, task, case, team))

            scores_of_team = np.where(result.failed, 0.0, metric.sign * result.values)
            best = float(metric.more_is_better)
            scores.append(scores_of_team)
            goodness.append(np.where(result.right, best, scores_of_team))

    shape = (len(tasks), len(results), len(ground.cases))
    return np.array(scores).reshape(shape), np.array(goodness).reshape(shape)


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


def _notes(entries: Entries, results: Mapping[str, _Results]) -> list[str]:
    """What is not as one would expect, without the name of a case."""
    teams_by_scores: dict[bytes, list[str]] = {}
    for place, team in enumerate(entries.teams):
        teams_by_scores.setdefault(entries.values[:, place].tobytes(), []).append(team)

    # Team and metric to the number of values that its evaluation leaves out.
    n_lost: Counter[tuple[str, str]] = Counter()
    for team, results_of_team in results.items():
        for task, result in results_of_team.items():
            n_lost[team, METRICS[task.metric].title] += int(result.failed.sum())

    return WORDS.sentences(
        "notes",
        entries=entries,
        n_right=int((np.isnan(entries.scores) & ~np.isnan(entries.goodness)).sum()),
        identical=[teams for teams in teams_by_scores.values() if len(teams) > 1],
        n_lost=n_lost,
    )
