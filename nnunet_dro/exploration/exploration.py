"""From an evaluation to the combinations of attributes that stand out.

They are searched in one half of the cases, and tested in the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, in_pixels
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation, versions
from nnunet_dro.evaluation.statistics.patients import note_on_repeated_patients
from nnunet_dro.exploration.candidates import (
    LEAST_Z,
    Power,
    SearchOutcome,
    power_of,
    search_and_test,
)
from nnunet_dro.exploration.inputs import find_attributes, label_scores
from nnunet_dro.exploration.search import CodedAttribute, Limits
from nnunet_dro.naming import nearest_names

DEFINITIONS = {
    "search": (
        "half of the cases, drawn at random, patients whole; of the combinations the one whose "
        "cases have the lowest mean rank, in standard deviations of the permutations (z); each "
        "next one among the cases that are in none of those before; carried over if "
        f"z <= {LEAST_Z}"
    ),
    "test": (
        "the other half; sum of ranks, one-sided, distribution by random permutations of the "
        "patients that have equally many cases (with one case per patient: "
        "Wilcoxon-Mann-Whitney); Holm's correction for all that are carried over"
    ),
    "missed": (
        "a label that was missed or invented and has no value has the worst rank; in means 0, or "
        "the largest distance or error, without its sign, of any case for the label"
    ),
    "power": (
        "of random groups of whole patients as large as the median stratum, how many are "
        "confirmed if their cases score 10 points (distances: 10 mm or 10 pixels) worse; an upper "
        "bound, because the search has to find them among all others"
    ),
    "lower": (
        "how often a case of the combination scores lower than one of the rest, in the half that "
        "was tested; equal scores count one half"
    ),
}


@dataclass(frozen=True)
class Exploration:
    """Which combinations of attributes score lower than the rest."""

    method: str
    metric: str
    labels: tuple[str, ...]
    attributes: Mapping[str, Mapping[str, int]]  # the number of cases of every stratum
    n_cases: int
    n_patients: int
    n_searched: int  # cases in the half that was searched
    n_combinations: int  # of those that were looked at, over all labels
    max_attributes: int
    power: Power
    #: A row per combination that was carried over, in the order of the search, as in explore.csv.
    table: pd.DataFrame
    #: A row per case and label with a combination, whose place in the table it has (0 for none),
    #: with the ``value`` and the ``filled`` one, which is the worst where the label was missed or
    #: invented, and a column per attribute.
    cases: pd.DataFrame
    about: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def known_metric(self) -> Metric:
        """The metric, with the unit of its distances."""
        return METRICS[self.metric].measured(pixels=bool(self.about.get("in_pixels")))

    @property
    def confirmed(self) -> pd.DataFrame:
        """The rows of ``table`` that were confirmed."""
        return self.table[self.table["confirmed"].astype(bool)]


def explore_evaluation(
    evaluation: Evaluation,
    *,
    metric: str | None = None,
    labels: Sequence[str] = (),
    by: Sequence[str] | None = None,
    cases: Path | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> Exploration:
    """Find the combinations of attributes with the worst scores, and confirm them on other cases.

    All labels are one family of tests. On data in which attributes say nothing about scores, some
    combination is confirmed in at most 5 % of the seeds.

    Args:
        evaluation: The evaluation of one method.
        metric: What is compared; default: Dice, or else the first metric of the evaluation.
        labels: Default: all.
        by: The attributes to combine, as for evaluate; default: those of the evaluation, and all
            columns of the case table.
        cases: A case table with more columns.
        limits: Which combinations are looked at, and how many of them are tested.
        seed: Random seed of the halves and the permutations.
        progress: Called with the numbers of steps that are done and of all.

    Returns:
        The combinations that were tested, in the order of the search, and how each case counts.

    Raises:
        ValueError: If an argument is none that the evaluation knows, attributes divide no case, or
            no combination has enough cases.
    """
    return _exploration(
        evaluation,
        _metric(evaluation, metric),
        _labels(evaluation, labels),
        by=by,
        table=cases,
        limits=limits or Limits(),
        seed=seed,
        progress=progress,
    )


def _exploration(
    evaluation: Evaluation,
    metric: str,
    labels: Sequence[str],
    *,
    by: Sequence[str] | None,
    table: Path | None,
    limits: Limits,
    seed: int,
    progress: Callable[[int, int], None],
) -> Exploration:
    """Explore labels of the evaluation by a metric that it has; see `explore_evaluation`."""
    case_names = sorted(str(case) for case in evaluation.scores["case"].unique())
    attributes, notes = find_attributes(
        evaluation,
        case_names,
        by=by,
        table=table,
        min_cases=2 * limits.min_cases,
    )
    scores, notes_on_scores = label_scores(evaluation, case_names, metric, labels)
    notes += notes_on_scores
    labels = tuple(scores_of_label.label for scores_of_label in scores)
    patients, patient_column = evaluation.patient_numbers(case_names)
    if not patient_column:
        notes += note_on_repeated_patients(case_names)

    outcome = search_and_test(attributes, scores, patients, limits, seed=seed, progress=progress)
    rng = np.random.default_rng([seed, 2])
    power = power_of(outcome.search, scores, METRICS[metric], rng=rng)
    options = {
        "metric": metric,
        "labels": list(labels),
        "by": None if by is None else list(by),
        "cases": str(table) if table else None,
        "max_attributes": limits.max_attributes,
        "min_cases": limits.min_cases,
        "candidates": limits.n_candidates,
        "seed": seed,
        "patient": patient_column,
    }
    return Exploration(
        method=evaluation.method,
        metric=metric,
        labels=labels,
        attributes={attribute.name: attribute.n_cases for attribute in attributes},
        n_cases=len(case_names),
        n_patients=int(patients.max()) + 1,
        n_searched=int(outcome.search.searched.sum()),
        n_combinations=outcome.n_combinations,
        max_attributes=limits.max_attributes,
        power=power,
        table=_table(outcome.rows, limits.max_attributes),
        cases=_case_rows(case_names, attributes, outcome),
        about=_about(evaluation, options),
        notes=tuple(notes),
    )


def _about(evaluation: Evaluation, options: Mapping[str, Any]) -> dict[str, Any]:
    """What it takes to make the numbers again, and what they mean."""
    return {
        "versions": versions(),
        "options": options,
        "in_pixels": in_pixels(evaluation.scores),
        "evaluation": dict(evaluation.about.get("options", {})),
        "definitions": DEFINITIONS,
    }


def _metric(evaluation: Evaluation, name: str | None) -> str:
    """The metric to explore: the named one, or else Dice or the first one."""
    metrics = [metric for metric in evaluation.metrics if metric in METRICS]
    if name is None and metrics:
        return "dice" if "dice" in metrics else metrics[0]
    if name not in metrics:
        raise InputError(
            "metric",
            must="be a metric of the evaluation",
            got=repr(name),
            cure=f"Choose from: {nearest_names(name or '', metrics)}.",
        )
    return name


def _labels(evaluation: Evaluation, names: Sequence[str]) -> tuple[str, ...]:
    """The labels to explore: the named ones, each once, or else all."""
    for name in names:
        if name not in evaluation.labels:
            raise InputError(
                "label",
                must="be a label of the evaluation",
                got=repr(name),
                cure=f"Choose from: {nearest_names(name, evaluation.labels)}.",
            )
    return tuple(dict.fromkeys(names)) or evaluation.labels


def _table(rows: Sequence[Mapping[str, Any]], max_attributes: int) -> pd.DataFrame:
    """The columns of explore.csv, also where there is no row."""
    parts = []
    for number in range(1, max_attributes + 1):
        parts += [f"attribute_{number}", f"stratum_{number}"]

    measures = ("n", "n_rest", "n_patients", "n_worst", "mean", "mean_rest")
    numbers = []
    for half in ("search", "test"):
        numbers += [f"{measure}_{half}" for measure in measures]

    last = ["z_search", "share_lower", "p", "holm_p", "confirmed", "same_cases"]

    table = pd.DataFrame(list(rows), columns=["combination", "label", *parts, *numbers, *last])
    return table.assign(confirmed=table["confirmed"].astype(bool))


def _case_rows(
    cases: Sequence[str], attributes: Sequence[CodedAttribute], outcome: SearchOutcome
) -> pd.DataFrame:
    """A row per case and label with a combination."""
    strata = {}
    for attribute in attributes:
        names = [attribute.strata[code] for code in attribute.codes]
        strata[f"stratum of {attribute.name}"] = names

    rows_of_label: dict[str, pd.DataFrame] = {}
    for number, candidate in enumerate(outcome.candidates, start=1):
        scores = candidate.scores
        if scores.label not in rows_of_label:
            columns = {
                "case": list(cases),
                "label": scores.label,
                "value": scores.values,
                "filled": scores.filled,
                "half": np.where(outcome.search.searched, "searched", "tested"),
                "combination": 0,
            }
            rows_of_label[scores.label] = pd.DataFrame(columns | strata)
        rows_of_label[scores.label].loc[candidate.members, "combination"] = number

    if not rows_of_label:
        return pd.DataFrame()
    return pd.concat(rows_of_label.values(), ignore_index=True)
