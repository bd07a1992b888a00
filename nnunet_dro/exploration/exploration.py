"""From an evaluation to the combinations of attributes that stand out.

Searched in one half, tested in the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation, versions
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, in_pixels
from nnunet_dro.evaluation.statistics.patients import note_on_repeated_patients
from nnunet_dro.exploration.candidates import LEAST_Z, Outcome, Power, power_of, search_and_test
from nnunet_dro.exploration.inputs import find_attributes, label_scores
from nnunet_dro.exploration.search import Attribute, Limits
from nnunet_dro.naming import nearest_names

DEFINITIONS = {
    "search": "half of the cases, drawn at random, patients whole; of the combinations the one whose cases have the "
    "lowest mean rank, in standard deviations of the permutations (z); each next one among the cases that are in none "
    f"of those before; carried over if z <= {LEAST_Z}",
    "test": "the other half; sum of ranks, one-sided, distribution by random permutations of the patients that have "
    "equally many cases (with one case per patient: Wilcoxon-Mann-Whitney); Holm's correction for all that are carried "
    "over",
    "missed": "a label that was missed or invented and has no value has the worst rank; in means 0, or the largest "
    "distance of any case for the label",
    "power": "of random groups of whole patients as large as the median stratum, how many are confirmed if their cases "
    "score 10 points (distances: 10 mm or 10 pixels) worse; an upper bound, because the search has to find them among "
    "all others",
    "lower": "how often a case of the combination scores lower than one of the rest, in the half that was tested; "
    "equal scores count one half",
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
    table: (
        pd.DataFrame
    )  # a row per combination that was carried over, in the order of the search, as in explore.csv
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
    max_attributes: int = 2,
    min_cases: int = 5,
    n_candidates: int = 3,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> Exploration:
    """Find the combinations of attributes whose cases have the worst scores, and confirm them on other cases.

    All labels are one family of tests. On data in which attributes say nothing about scores, some
    combination is confirmed in at most 5 % of the seeds.
    """
    limits = Limits(max_attributes, min_cases)
    if n_candidates < 1:
        raise ValueError(f"`candidates` must be at least 1, got {n_candidates!r}. Try 3.")
    metric = _metric(evaluation, metric)
    wanted = _labels(evaluation, labels)
    case_names = sorted(str(case) for case in evaluation.scores["case"].unique())
    attributes, notes = find_attributes(
        evaluation, case_names, by=by, table=cases, min_cases=2 * min_cases
    )
    of_labels, lost = label_scores(evaluation, case_names, metric, wanted)
    names = tuple(of_label.label for of_label in of_labels)
    patients, column = evaluation.patient_numbers(case_names)
    outcome = search_and_test(
        attributes,
        of_labels,
        patients,
        limits,
        n_candidates=n_candidates,
        seed=seed,
        progress=progress,
    )
    rng = np.random.default_rng([seed, 2])
    power = power_of(outcome.search, of_labels, METRICS[metric], rng=rng)
    options: dict[str, Any] = {
        "metric": metric,
        "labels": list(names),
        "by": None if by is None else list(by),
    }
    options |= {
        "cases": str(cases) if cases else None,
        "max_attributes": max_attributes,
        "min_cases": min_cases,
    }
    options |= {"candidates": n_candidates, "seed": seed, "patient": column}
    return Exploration(
        method=evaluation.method,
        metric=metric,
        labels=names,
        attributes={
            a.name: dict(zip(a.strata, np.bincount(a.codes).tolist(), strict=True))
            for a in attributes
        },
        n_cases=len(case_names),
        n_patients=int(patients.max()) + 1,
        n_searched=int(outcome.search.searched.sum()),
        n_combinations=outcome.n_combinations,
        max_attributes=max_attributes,
        power=power,
        table=_table(outcome.rows, max_attributes),
        cases=_case_rows(case_names, attributes, outcome),
        about={
            "versions": versions(),
            "options": options,
            "in_pixels": in_pixels(evaluation.scores),
            "evaluation": dict(evaluation.about.get("options", {})),
            "definitions": DEFINITIONS,
        },
        notes=(*notes, *lost, *([] if column else note_on_repeated_patients(case_names))),
    )


def _metric(evaluation: Evaluation, name: str | None) -> str:
    known = [metric for metric in evaluation.metrics if metric in METRICS]
    if name is None and known:
        return "dice" if "dice" in known else known[0]
    if name not in known:
        cure = f"Choose from: {nearest_names(name or '', known)}."
        raise ValueError(f"`metric` must be a metric of the evaluation, got {name!r}. {cure}")
    return name


def _labels(evaluation: Evaluation, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in evaluation.labels:
            cure = f"Choose from: {nearest_names(name, evaluation.labels)}."
            raise ValueError(f"`label` must be a label of the evaluation, got {name!r}. {cure}")
    return tuple(dict.fromkeys(names)) or evaluation.labels


def _table(rows: Sequence[Mapping[str, Any]], max_attributes: int) -> pd.DataFrame:
    """The columns of explore.csv, also where there is no row."""
    parts = [
        f"{what}_{n}" for n in range(1, max_attributes + 1) for what in ("attribute", "stratum")
    ]
    of_half = ("n", "n_rest", "n_patients", "n_worst", "mean", "mean_rest")
    numbers = [f"{name}_{half}" for half in ("search", "test") for name in of_half]
    last = ["z_search", "share_lower", "p", "holm_p", "confirmed", "same_cases"]
    table = pd.DataFrame(list(rows), columns=["combination", "label", *parts, *numbers, *last])
    # A column without any entry is one of numbers.
    named = {part: table[part].astype(object).where(table[part].notna(), "") for part in parts}
    return table.assign(**named, confirmed=table["confirmed"].astype(bool))


def _case_rows(
    cases: Sequence[str], attributes: Sequence[Attribute], outcome: Outcome
) -> pd.DataFrame:
    """A row per case and label with a combination."""
    strata = {a.name: [a.strata[code] for code in a.codes] for a in attributes}
    frames = []
    for label in dict.fromkeys(candidate.scores.label for candidate in outcome.candidates):
        place = np.zeros(len(cases), dtype=np.intp)
        for number, candidate in enumerate(outcome.candidates, start=1):
            if candidate.scores.label == label:
                scores = candidate.scores
                place = np.where(candidate.members, number, place)
        own = {
            "case": list(cases),
            "label": label,
            "value": scores.values,
            "filled": scores.filled,
            "half": np.where(outcome.search.searched, "searched", "tested"),
            "combination": place,
        }
        frames.append(
            pd.DataFrame(own | {f"stratum of {name}": of_case for name, of_case in strata.items()})
        )
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
