"""What several evaluations have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.instances import labels_with_lesions
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import count, name_some, repeated


@dataclass(frozen=True)
class CommonGround:
    """What all evaluations have in common, in the first one's order."""

    cases: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    notes: tuple[str, ...]  # what is left out, in sentences
    with_lesions: tuple[str, ...] = ()  # the labels that were compared lesion by lesion
    #: Cases that are not in every evaluation, references without a prediction among them.
    n_absent: int = 0
    #: What `_places` found for some scores.
    _places_of_scores: dict[int, tuple[pd.DataFrame, npt.NDArray[np.intp]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def reports(self, label: str, metric: str) -> bool:
        """Whether the metric was computed for the label.

        Metrics on lesions are those of some labels only.
        """
        return label in self.with_lesions or not METRICS[metric].on_lesions

    def align(self, scores: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
        """A column of the scores as an array of shape (n_cases, n_labels).

        NaN where there is no row.
        """
        return self.laid_out(scores, scores[column].to_numpy(dtype=np.float64))

    def laid_out(
        self, scores: pd.DataFrame, numbers: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """A number per row of the scores as an array; see `align`."""
        place = self._places(scores)
        is_common = place >= 0
        values = np.full(len(self.cases) * len(self.labels), np.nan)
        values[place[is_common]] = numbers[is_common]
        return values.reshape(len(self.cases), len(self.labels))

    def _places(self, scores: pd.DataFrame) -> npt.NDArray[np.intp]:
        """Where each row of the scores is in an array, flat; -1 for no place."""
        if id(scores) not in self._places_of_scores:
            row = pd.Index(self.cases).get_indexer(pd.Index(scores["case"]))
            column = pd.Index(self.labels).get_indexer(pd.Index(scores["label"]))
            places = np.where((row < 0) | (column < 0), -1, row * len(self.labels) + column)
            # The scores are kept, too, so that no others get their number.
            self._places_of_scores[id(scores)] = (scores, places)
        return self._places_of_scores[id(scores)][1]


def find_common_ground(
    evaluations: Mapping[str, Evaluation], *, intersect: bool = False
) -> CommonGround:
    """Find what evaluations have in common; `comparable_ground` checks that it can be compared."""
    check_methods(list(evaluations))
    labels = _common_labels(evaluations)
    metrics, notes_on_metrics = _common_metrics(evaluations)
    cases, notes_on_cases = _common_cases(evaluations, intersect=intersect)

    expected: set[str] = set()
    for evaluation in evaluations.values():
        expected |= {*_unique(evaluation.scores["case"]), *evaluation.absent}

    first = next(iter(evaluations.values()))
    return CommonGround(
        cases=cases,
        labels=labels,
        metrics=metrics,
        notes=(*notes_on_metrics, *notes_on_cases),
        with_lesions=tuple(labels_with_lesions(first.scores)),
        n_absent=len(expected - set(cases)),
    )


def _common_labels(evaluations: Mapping[str, Evaluation]) -> tuple[str, ...]:
    labels = {
        method: _unique(evaluation.scores["label"]) for method, evaluation in evaluations.items()
    }
    differing = _lacking(labels)
    if differing:
        raise ValueError(
            f"`evaluations` must have the same labels, got different ones: {differing}. "
            "Evaluate both with the labels of the same dataset.json."
        )
    return tuple(next(iter(labels.values())))


def _common_metrics(evaluations: Mapping[str, Evaluation]) -> tuple[tuple[str, ...], list[str]]:
    """The metrics that all evaluations have, and notes on the others."""
    metrics: dict[str, list[str]] = {}
    signed: set[str] = set()
    for method, evaluation in evaluations.items():
        signed |= {name for name in evaluation.metrics if METRICS[name].is_signed}
        metrics[method] = [name for name in evaluation.metrics if not METRICS[name].is_signed]

    common = _common(metrics)
    if not common:
        listed = "; ".join(f"{method} has {name_some(names)}" for method, names in metrics.items())
        condition = ", without a sign" if signed else ""
        raise ValueError(
            f"`evaluations` must have a metric in common, got none: {listed}. "
            f"Evaluate both with one metric{condition}."
        )

    notes = []
    if signed:
        notes.append(
            "Errors with a sign are not compared, for neither more nor less is better: "
            f"{name_some(sorted(signed))}."
        )
    differing = _lacking(metrics)
    if differing:
        notes.append(f"Only the metrics that all methods have are compared: {differing}.")
    return common, notes


def _common_cases(
    evaluations: Mapping[str, Evaluation], *, intersect: bool
) -> tuple[tuple[str, ...], list[str]]:
    """The cases that all evaluations have, sorted, and a note on the others."""
    cases = {
        method: _unique(evaluation.scores["case"]) for method, evaluation in evaluations.items()
    }
    common = tuple(sorted(_common(cases)))
    differing = _lacking(cases)
    if not differing:
        return common, []

    if not intersect:
        owners = "both" if len(cases) == 2 else "all"
        cure = f"Add --intersect to compare what {owners} have."
        every = set().union(*cases.values())
        if len({normalize("NFC", case) for case in every}) < len(every):
            cure = (
                "Names of cases differ in Unicode's form alone (an ü may be one character or two). "
                f"Evaluate {owners} with the same folder of references."
            )
        raise ValueError(
            f"`evaluations` must have the same cases, got different ones: {differing}. {cure}"
        )
    if not common:
        raise ValueError(
            f"`evaluations` must have a case in common, got none: {differing}. "
            "Check that both were evaluated on the same test set."
        )

    n_left_out = len(set().union(*cases.values())) - len(common)
    kept = count(len(common), "case")
    return common, [f"Compared: {kept}; left out: {n_left_out:,} ({differing})."]


def shared_notes(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """The notes of the evaluations, those that all have in common once.

    Some tell how patients count: if evaluations differ in that, a note before says whose way it is.
    """
    shared = _common({method: evaluation.notes for method, evaluation in evaluations.items()})
    own = []
    ways = {}
    for method, evaluation in evaluations.items():
        own += [f"{method}: {note}" for note in evaluation.notes if note not in shared]
        ways[method] = (evaluation.options.patient, evaluation.options.patient_score)

    first = next(iter(ways))
    others = [method for method, way in ways.items() if way != ways[first]]
    if others:
        own.insert(
            0,
            f"Patients count as in {first}, although {name_some(others)} counted them in another "
            "way (--patient).",
        )
    return [*shared, *own]


def evaluated_case_table(evaluation: Evaluation, cases: Sequence[str]) -> pd.DataFrame:
    """What the scores say of some cases beside the scores.

    The case table of the evaluation, as `read_cases` has it.
    """
    entries = evaluation.case_table.reindex(list(cases)).astype(object)
    text = entries.where(entries.notna(), MISSING).astype(str)
    return text.reset_index(names="case")


def check_methods(methods: list[str]) -> None:
    """Check the names of methods."""
    if len(methods) < 2:
        raise ValueError(
            f"`evaluations` must be of at least two methods, got {name_some(methods)}. "
            "Give the baseline first, then what to compare with it."
        )

    names = [method.strip() for method in methods]
    if "" in names:
        raise InputError(
            "evaluations",
            must="name every method",
            got=repr(methods[names.index("")]),
            cure="Give it a name.",
        )
    twice = repeated(names)
    if twice:
        raise InputError(
            "evaluations",
            must="name every method once",
            got=f"{twice[0]!r} twice",
            cure="Rename one.",
        )


def _unique(column: "pd.Series[str]") -> list[str]:
    return [str(name) for name in column.unique()]


def _common(names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The names that all have, in the order of the first."""
    first, *others = names.values()
    kept = set(first).intersection(*others)
    return tuple(name for name in first if name in kept)


def _lacking(names: Mapping[str, Sequence[str]]) -> str:
    """What each method lacks that another method has; empty text if none lacks anything."""
    every = set().union(*names.values())
    lacks = []
    for method, names_of_method in names.items():
        missing = sorted(every - set(names_of_method))
        if missing:
            lacks.append(f"{method} lacks {name_some(missing)}")
    return "; ".join(lacks)
