"""What several evaluations have in common, and whether their numbers can be compared."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.instances import labels_with_lesions, lesion_metrics
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.statistics.stratum_statistics import check_rows
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import count, name_some


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
    """Check that evaluations can be compared, and find what they have in common."""
    check_methods(list(evaluations))
    labels = _common_labels(evaluations)
    metrics, notes_on_metrics = _common_metrics(evaluations)
    _check_options(evaluations, metrics)
    _check_units(evaluations, metrics)
    cases, notes_on_cases = _common_cases(evaluations, intersect=intersect)

    expected: set[str] = set()
    for evaluation in evaluations.values():
        expected |= {*_unique(evaluation.scores["case"]), *evaluation.absent}

    notes_on_references = _notes_on_references(evaluations, cases)
    first = next(iter(evaluations.values()))
    ground = CommonGround(
        cases=cases,
        labels=labels,
        metrics=metrics,
        notes=(*notes_on_metrics, *notes_on_cases, *notes_on_references),
        with_lesions=tuple(labels_with_lesions(first.scores)),
        n_absent=len(expected - set(cases)),
    )
    _check_references(evaluations, ground)
    return ground


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
        raise ValueError(
            f"`evaluations` must have the same cases, got different ones: {differing}. "
            f"Add --intersect to compare what {owners} have."
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
    """The notes of the evaluations, those that all have in common once."""
    shared = _common({method: evaluation.notes for method, evaluation in evaluations.items()})
    own = []
    for method, evaluation in evaluations.items():
        own += [f"{method}: {note}" for note in evaluation.notes if note not in shared]
    return [*shared, *own]


def case_table_of(evaluation: Evaluation, cases: Sequence[str]) -> pd.DataFrame:
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

    taken: set[str] = set()
    for method in methods:
        name = method.strip()
        if not name:
            raise InputError(
                "evaluations",
                must="name every method",
                got=repr(method),
                cure="Give it a name.",
            )
        if name in taken:
            raise InputError(
                "evaluations",
                must="name every method once",
                got=f"{method!r} twice",
                cure="Rename one.",
            )
        taken.add(name)


def _check_options(evaluations: Mapping[str, Evaluation], metrics: Collection[str]) -> None:
    """Check the options that change what a number means."""
    names = ["empty", "missing"]
    if any(METRICS[metric].has_tolerance for metric in metrics):
        names.append("nsd_tolerance_mm")
    if lesion_metrics(metrics):
        names.append("instances")

    (first, baseline), *others = evaluations.items()
    expected = baseline.about.get("options", {})

    for method, evaluation in others:
        options = evaluation.about.get("options", {})
        for name in names:
            # An evaluation that does not record the option, such as one made from other software's
            # files, is accepted.
            if name in expected and name in options and options[name] != expected[name]:
                raise InputError(
                    name,
                    must="be the same in every evaluation",
                    got=f"{expected[name]!r} in {first} and {options[name]!r} in {method}",
                    cure="Evaluate one again.",
                )


def _check_units(evaluations: Mapping[str, Evaluation], metrics: Collection[str]) -> None:
    """Check that what is measured is in mm and ml in every evaluation, or in pixels in every one.

    A reference without a voxel size has that of the prediction, which one method may not store.
    """
    needs_sizes = any(METRICS[metric].needs_voxel_size for metric in metrics)
    # Other software does not say what its units are.
    frames = {
        method: evaluation.scores
        for method, evaluation in evaluations.items()
        if "reference_ml" in evaluation.scores
    }
    with_pixels = [method for method, scores in frames.items() if in_pixels(scores)]
    if needs_sizes and 0 < len(with_pixels) < len(frames):
        raise InputError(
            "evaluations",
            must="measure in one unit",
            got=f"pixels in {name_some(with_pixels)} alone",
            cure="Give their label maps the voxel size, and evaluate again.",
        )


def _check_references(evaluations: Mapping[str, Evaluation], ground: CommonGround) -> None:
    """Check that references have the same size wherever it is known, and voxels where it matters.

    A reference without a voxel size has that of the prediction, which methods may state otherwise.
    """
    for evaluation in evaluations.values():
        check_rows(evaluation.scores, cure="Evaluate it again.")

    _check_sizes(
        evaluations,
        ground,
        ("n_reference", "voxels"),
        must="have the same reference in every evaluation",
        cure="Evaluate both with the same references.",
    )
    if any(METRICS[metric].needs_voxel_size for metric in ground.metrics):
        _check_sizes(
            evaluations,
            ground,
            ("reference_ml", "ml"),
            rounding=1e-4,
            must="have the same voxel size in every evaluation",
            cure="Give the reference its voxel size, and evaluate both again.",
        )


def _check_sizes(
    evaluations: Mapping[str, Evaluation],
    ground: CommonGround,
    measure: tuple[str, str],
    *,
    rounding: float = 0.0,
    must: str,
    cure: str,
) -> None:
    """Check that a size of the references, a column and its unit, is the same for all methods.

    Sizes may differ by ``rounding`` of their size.
    """
    column, unit = measure
    sizes = {
        method: ground.align(evaluation.scores, column)
        for method, evaluation in evaluations.items()
        if column in evaluation.scores
    }
    for method, size in sizes.items():
        first, expected = next(iter(sizes.items()))
        # NaN stands for an unknown size, which agrees with every other.
        is_known = ~np.isnan(size) & ~np.isnan(expected)
        differs = is_known & ~np.isclose(size, expected, rtol=rounding, atol=0)
        if differs.any():
            row, place = np.argwhere(differs)[0]
            raise InputError(
                ground.cases[row],
                must=must,
                got=(
                    f"{expected[row, place]:.10g} {unit} in {first} and {size[row, place]:.10g} in "
                    f"{method} of {ground.labels[place]!r}"
                ),
                cure=cure,
            )


def _notes_on_references(
    evaluations: Mapping[str, Evaluation], cases: Sequence[str]
) -> Iterator[str]:
    """A note on evaluations whose reference files are not those of the first one.

    This is no error, since files of other bytes can hold the same label map.
    """
    (first, baseline), *others = evaluations.items()
    expected = _reference_digests(baseline)

    methods = []
    differing: set[str] = set()
    for method, evaluation in others:
        digests = _reference_digests(evaluation)
        # What other software has computed has no digests.
        recorded = [case for case in cases if case in expected and case in digests]
        changed = {case for case in recorded if digests[case] != expected[case]}
        if changed:
            methods.append(method)
            differing |= changed

    if differing:
        yield (
            f"The reference files of {name_some(methods)} are not those of {first}, for "
            f"{name_some(sorted(differing))}: check that they hold the same label maps."
        )


def _reference_digests(evaluation: Evaluation) -> dict[str, str]:
    """Case to the SHA-256 of its reference file, where it is recorded."""
    digests = evaluation.about.get("inputs", {}).get("files_sha256", {})
    return {case: reference for case, (reference, _) in digests.items()}


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
