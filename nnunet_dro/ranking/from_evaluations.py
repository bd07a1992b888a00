"""From evaluations of the same cases to a contest: the scores of all teams, and what counts as the worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.common_ground import CommonGround, find_common_ground, find_common_strata
from nnunet_dro.evaluation.comparing.one_sided import MethodValues, completed, method_values
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.stratum_statistics import percentile_notes
from nnunet_dro.evaluation.stratifying.stratify import ALL, divide
from nnunet_dro.pages.wording import count
from nnunet_dro.ranking.contest import BoolArray, CodeArray, Contest, FloatArray


@dataclass(frozen=True)
class Task:
    """What is ranked at once: a metric of a label."""

    metric: str
    label: str

    @property
    def sign(self) -> float:
        """1 where more is better, and otherwise -1."""
        return 1.0 if METRICS[self.metric].more_is_better else -1.0


@dataclass(frozen=True, eq=False)
class Entries:
    """The teams' scores of the same cases.

    Attributes:
        teams: Their names, in the given order.
        tasks: Metrics and labels, metric by metric.
        cases: Identifiers, sorted.
        contest: The scores.
        strata: Attribute to the names of its strata and, for each, its cases: bool, shape (n_cases,).
        patient: The column of the case table that names the patients; None where every case is another patient.
        notes: Sentences for the reader, of which none names a case.
        notes_on_cases: Sentences that may name cases.
    """

    teams: tuple[str, ...]
    tasks: tuple[Task, ...]
    cases: tuple[str, ...]
    contest: Contest
    strata: Mapping[str, tuple[tuple[str, BoolArray], ...]]
    patient: str | None
    notes: tuple[str, ...]
    notes_on_cases: tuple[str, ...]


def read_entries(
    evaluations: Mapping[str, Evaluation], *, by: Sequence[str] | None = None, intersect: bool = False
) -> Entries:
    """Check that evaluations can be ranked together, and align their scores; see `rank_evaluations`."""
    ground = find_common_ground(evaluations, intersect=intersect)
    strata = find_common_strata(evaluations, ground, by=by)
    first = next(iter(evaluations.values()))
    units, patient = _units(first, ground)
    tasks = tuple(Task(metric, label) for metric in ground.metrics for label in ground.labels)
    shape = (len(tasks), len(evaluations), len(ground.cases))
    goodness, filled = np.empty(shape), np.empty(shape)
    n_failed = 0
    for place, metric in enumerate(ground.metrics):
        values = {team: method_values(evaluation, ground, metric) for team, evaluation in evaluations.items()}
        at = slice(place * len(ground.labels), (place + 1) * len(ground.labels))
        goodness[at], filled[at] = _oriented(values, metric)
        n_failed += int(np.isneginf(goodness[at]).sum())
    contest = Contest(goodness, filled, units)
    _check_some_count(contest)
    notes = _notes(contest, patient, n_failed)
    return Entries(
        teams=tuple(evaluations),
        tasks=tasks,
        cases=ground.cases,
        contest=contest,
        strata={name: _members(of_case, ground) for name, of_case in strata.items() if name != ALL},
        patient=patient,
        notes=tuple(notes),
        notes_on_cases=tuple(_notes_on_cases(evaluations, ground)),
    )


def _oriented(values: Mapping[str, MethodValues], metric: str) -> tuple[FloatArray, FloatArray]:
    """``goodness`` and ``filled`` of one metric; see `Contest`."""
    sign = Task(metric, "").sign
    complete = completed(values, metric, among=list(values))
    every = np.stack(list(complete.values()))  # (n_teams, n_cases, n_labels)
    failed = np.stack([m.failed for m in values.values()])
    nobody = np.isnan(every).all(axis=0)
    # Whoever has no value where another team has one is last, for whatever reason.
    last = (failed | np.isnan(every)) & ~nobody
    filled = np.where(last, _worst(np.stack([m.values for m in values.values()]), metric), every)
    # Arrays of shape (n_teams, n_cases, n_labels) become (n_labels, n_teams, n_cases); NaN stays where nobody has one.
    goodness = np.where(last, -np.inf, sign * filled)
    return goodness.transpose(2, 0, 1), (sign * filled).transpose(2, 0, 1)


def _worst(values: FloatArray, metric: str) -> FloatArray:
    """The worst value of each label, shape (n_labels,): 0, or the largest distance that any team has for it."""
    if METRICS[metric].more_is_better:
        return np.zeros(values.shape[2])
    largest = np.where(np.isnan(values), -np.inf, values).max(axis=(0, 1))
    # Without a distance of this label that of another one; without any, all that is not a failure is 0 mm.
    known = largest[np.isfinite(largest)]
    return np.where(np.isfinite(largest), largest, known.max() if len(known) else 1.0)


def _units(first: Evaluation, ground: CommonGround) -> tuple[CodeArray, str | None]:
    """The patient of each case, by number, and the column that names it, if the first evaluation has patients."""
    of_case = first.patient_of_case
    if of_case is None:
        return np.arange(len(ground.cases), dtype=np.intp), None
    return pd.factorize(of_case.reindex(list(ground.cases)))[0].astype(np.intp), str(of_case.name)


def _members(of_case: "pd.Series[str]", ground: CommonGround) -> tuple[tuple[str, BoolArray], ...]:
    codes, names = divide(of_case, ground.cases, attribute=str(of_case.name))
    return tuple((str(name), np.asarray(codes == code)) for code, name in enumerate(names))


def _check_some_count(contest: Contest) -> None:
    if not contest.defined.any():
        cure = "Evaluate with labels that the cases have, or with another --empty."
        raise ValueError(f"`evaluations` must have a case in which some team has a value, got none. {cure}")


def _notes(contest: Contest, patient: str | None, n_failed: int) -> list[str]:
    notes = []
    n_cases = len(contest.units)
    if contest.n_units < n_cases:
        notes.append(
            f"The {n_cases} cases are of {contest.n_units} patients ({patient}): resamples draw patients, and tests "
            "are of the patients' mean differences."
        )
    if n_failed:
        notes.append(
            f"{count(n_failed, 'score')} of a team in a metric, label and case {'is' if n_failed == 1 else 'are'} "
            "undefined where another team has one: the rank is the last, and in means and medians the value is the "
            "worst (0, or the largest distance of any team for the label)."
        )
    if n_left_out := int((~contest.defined).sum()):
        notes.append(
            f"{count(n_left_out, 'combination')} of metric, label and case without a value in any team do not count."
        )
    return notes


def _notes_on_cases(evaluations: Mapping[str, Evaluation], ground: CommonGround) -> list[str]:
    """The notes of the evaluations, those that all teams have in common once."""
    # Which percentiles are uncertain says nothing of ranks.
    own = {t: [n for n in e.notes if n not in percentile_notes(e.strata)] for t, e in evaluations.items()}
    shared = [n for n in next(iter(own.values())) if all(n in notes for notes in own.values())]
    of_one = [f"{team}: {note}" for team, notes in own.items() for note in notes if note not in shared]
    return [*ground.notes, *shared, *of_one]
