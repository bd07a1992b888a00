"""From evaluations of the same cases to a contest.

A contest has the scores of all teams, and what counts as the worst.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import rankdata

from nnunet_dro.evaluation.comparing.common_ground import (
    CommonGround,
    find_common_ground,
    shared_notes,
)
from nnunet_dro.evaluation.comparing.common_strata import find_common_strata
from nnunet_dro.evaluation.comparing.one_sided import (
    MethodValues,
    completed,
    method_values,
    worst_values,
)
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.stratifying.stratify import ALL, divide
from nnunet_dro.naming import count

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
CodeArray = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Contest:
    """What is ranked: the scores of every team in every task and case.

    A task is a metric of a label.
    """

    #: Scores, larger is better, shape (n_tasks, n_teams, n_cases). -inf where a team has no value
    #: and others have, NaN where no team has one: the case does not count in that task.
    goodness: FloatArray
    #: The same with the worst possible value in place of -inf: for means and medians.
    filled: FloatArray
    #: The number of the patient of each case, shape (n_cases,), 0 to n_units - 1: what is drawn in
    #: resamples.
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
        """The rank of each team in each case and task, the shape of ``goodness``.

        NaN where the case does not count.
        """
        ranks = rankdata(
            -self.goodness,
            method="min",
            axis=1,
            nan_policy="omit",
        )
        return np.asarray(ranks, dtype=np.float64)

    @cached_property
    def unit_differences(self) -> tuple[FloatArray, CodeArray, CodeArray]:
        """How much better i is than j, for each pair of teams i < j; then all i, and all j.

        Differences are averaged over the cases of each unit, shape (n_tasks, n_pairs, n_units): NaN
        where no case counts, infinite where one of the two failed and the other did not.
        """
        n_tasks, n_teams, n_cases = self.goodness.shape
        first, second = np.triu_indices(n_teams, 1)
        better = self.goodness[:, first]
        worse = self.goodness[:, second]
        with np.errstate(invalid="ignore"):
            differences = better - worse

        # Both failed: neither is better.
        both_failed = np.isneginf(better) & np.isneginf(worse)
        differences = np.where(both_failed, 0.0, differences)

        if self.n_units == n_cases:
            by_unit = np.empty_like(differences)
            by_unit[..., self.units] = differences
            return by_unit, first, second

        means = np.full((n_tasks, len(first), self.n_units), np.nan)
        for unit in range(self.n_units):
            inside = self.units == unit
            means[..., unit] = _mean_of_defined(differences[..., inside])

        return means, first, second

    def of_cases(self, inside: BoolArray) -> "Contest":
        """The contest of some of the cases, shape (n_cases,)."""
        _, units = np.unique(self.units[inside], return_inverse=True)
        return Contest(
            goodness=self.goodness[..., inside],
            filled=self.filled[..., inside],
            units=units.astype(np.intp),
        )


def _mean_of_defined(differences: FloatArray) -> FloatArray:
    """Means over the last axis without NaN; a failure of each of the two teams cancel out."""
    counted = ~np.isnan(differences)
    n = counted.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(counted, differences, 0.0).sum(axis=-1) / n
    return np.where((n > 0) & np.isnan(means), 0.0, means)


@dataclass(frozen=True)
class Task:
    """What is ranked at once: a metric of a label."""

    metric: str
    label: str

    @property
    def sign(self) -> float:
        """1 where more is better, and otherwise -1."""
        return METRICS[self.metric].sign


@dataclass(frozen=True, eq=False)
class Entries:
    """The teams' scores of the same cases."""

    teams: tuple[str, ...]  # their names, in the given order
    tasks: tuple[Task, ...]  # metrics and labels, metric by metric
    cases: tuple[str, ...]  # identifiers, sorted
    contest: Contest
    #: Attribute to the names of its strata and, for each, its cases: bool, shape (n_cases,).
    strata: Mapping[str, tuple[tuple[str, BoolArray], ...]]
    #: The column of the case table that names the patients; None where every case is another
    #: patient.
    patient: str | None
    notes: tuple[str, ...]  # sentences for the reader, of which none names a case
    notes_on_cases: tuple[str, ...]  # sentences that may name cases

    @property
    def values(self) -> FloatArray:
        """The scores as they are, shape (n_tasks, n_teams, n_cases); NaN where undefined."""
        signs = np.array([task.sign for task in self.tasks])
        values = signs[:, None, None] * self.contest.filled
        return np.where(np.isneginf(self.contest.goodness), np.nan, values)


def read_entries(
    evaluations: Mapping[str, Evaluation], *, by: Sequence[str] = (), intersect: bool = False
) -> Entries:
    """Check that evaluations can be ranked together, and align their scores.

    See `rank_evaluations`.
    """
    ground = find_common_ground(evaluations, intersect=intersect)
    strata = find_common_strata(evaluations, ground, by=by)
    first = next(iter(evaluations.values()))
    units, patient = first.patient_numbers(ground.cases)

    goodness = []
    filled = []
    for metric in ground.metrics:
        values = {
            team: method_values(evaluation, ground, metric)
            for team, evaluation in evaluations.items()
        }
        goodness_of_metric, filled_of_metric = _oriented(values, metric)
        goodness.append(goodness_of_metric)
        filled.append(filled_of_metric)

    contest = Contest(np.concatenate(goodness), np.concatenate(filled), units)
    if not contest.defined.any():
        cure = "Evaluate with labels that the cases have, or with another --empty."
        raise ValueError(
            f"`evaluations` must have a case in which some team has a value, got none. {cure}"
        )

    return Entries(
        teams=tuple(evaluations),
        tasks=tuple(Task(metric, label) for metric in ground.metrics for label in ground.labels),
        cases=ground.cases,
        contest=contest,
        strata={
            attribute: _members(stratum_of_case, ground)
            for attribute, stratum_of_case in strata.items()
            if attribute != ALL
        },
        patient=patient,
        notes=tuple(_notes(contest, patient)),
        notes_on_cases=(*ground.notes, *shared_notes(evaluations)),
    )


def _oriented(values: Mapping[str, MethodValues], metric: str) -> tuple[FloatArray, FloatArray]:
    """``goodness`` and ``filled`` of one metric; see `Contest`."""
    complete = completed(values, metric, among=list(values))
    every = np.stack(list(complete.values()))  # (n_teams, n_cases, n_labels)
    failed = np.stack([values_of_team.failed for values_of_team in values.values()])
    nobody = np.isnan(every).all(axis=0)
    # Whoever has no value where another team has one is last, for whatever reason.
    last = (failed | np.isnan(every)) & ~nobody

    # Without a distance of this label that of another one; without any, all that is not a failure
    # is 0 mm.
    worst = worst_values(values, METRICS[metric])
    is_unknown = np.isnan(worst)
    worst[is_unknown] = 1.0 if is_unknown.all() else np.nanmax(worst)

    # Arrays of shape (n_teams, n_cases, n_labels) become (n_labels, n_teams, n_cases); NaN stays
    # where nobody has one.
    is_last = last.transpose(2, 0, 1)
    filled = METRICS[metric].sign * np.where(last, worst, every).transpose(2, 0, 1)
    goodness = np.where(is_last, -np.inf, filled)
    return goodness, filled


def _members(
    stratum_of_case: "pd.Series[str]", ground: CommonGround
) -> tuple[tuple[str, BoolArray], ...]:
    """The names of the strata, each with where its cases are."""
    attribute = str(stratum_of_case.name)
    codes, names = divide(stratum_of_case, ground.cases, attribute=attribute)
    return tuple((str(name), np.asarray(codes == code)) for code, name in enumerate(names))


def _notes(contest: Contest, patient: str | None) -> list[str]:
    """What is not as one would expect, without the name of a case."""
    notes = []
    n_cases = len(contest.units)
    if contest.n_units < n_cases:
        notes.append(
            f"The {n_cases} cases are of {contest.n_units} patients ({patient}): resamples draw "
            "patients, and tests are of the patients' mean differences."
        )
    n_failed = int(np.isneginf(contest.goodness).sum())
    if n_failed:
        verb = "is" if n_failed == 1 else "are"
        notes.append(
            f"{count(n_failed, 'score')} of a team in a metric, label and case {verb} undefined "
            "where another team has one: the rank is the last, and in means and medians the value "
            "is the worst (0, or the largest distance of any team for the label)."
        )
    n_left_out = int((~contest.defined).sum())
    if n_left_out:
        notes.append(
            f"{count(n_left_out, 'combination')} of metric, label and case without a value in any "
            "team do not count."
        )
    return notes
