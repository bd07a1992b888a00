"""What several evaluations have in common, and whether their numbers can be compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.scoring.instances import labels_with_lesions, lesion_metrics
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.stratum_statistics import percentile_notes
from nnunet_dro.evaluation.stratifying.stratify import divide, parse_by, stratify
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import count, name_some

_OPTIONS_THAT_MATTER = (
    "empty",
    "missing",
    "nsd_tolerance_mm",
    "instances",
)  # Options that change what a number means.


@dataclass(frozen=True)
class CommonGround:
    """What all evaluations have in common, in the first one's order, and notes on what is left out."""

    cases: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    notes: tuple[str, ...]
    with_lesions: tuple[str, ...] = ()  # the labels that were compared lesion by lesion
    n_absent: int = (
        0  # cases that are not in every evaluation, references without a prediction among them
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
        pairs = pd.MultiIndex.from_product([self.cases, self.labels])
        values = scores.set_index(["case", "label"])[column].reindex(pairs)
        return values.to_numpy(dtype=np.float64).reshape(len(self.cases), len(self.labels))


def find_common_ground(
    evaluations: Mapping[str, Evaluation], *, intersect: bool = False
) -> CommonGround:
    """Check that evaluations can be compared, and find what they have in common."""
    check_methods(list(evaluations))
    labels = {
        method: _unique(evaluation.scores["label"]) for method, evaluation in evaluations.items()
    }
    if differing := _lacking(labels):
        cure = "Evaluate both with the labels of the same dataset.json."
        raise ValueError(
            f"`evaluations` must have the same labels, got different ones: {differing}. {cure}"
        )
    every = [name for evaluation in evaluations.values() for name in evaluation.metrics]
    signed = {name for name in every if METRICS[name].is_signed}
    metrics = {
        method: [m for m in evaluation.metrics if m not in signed]
        for method, evaluation in evaluations.items()
    }
    common_metrics = _common(metrics)
    if not common_metrics:
        had = "; ".join(f"{method} has {name_some(names)}" for method, names in metrics.items())
        cure = f"Evaluate both with one metric{', without a sign' if signed else ''}."
        raise ValueError(f"`evaluations` must have a metric in common, got none: {had}. {cure}")
    notes = []
    if signed:
        why = "for neither more nor less is better"
        notes.append(f"Errors with a sign are not compared, {why}: {name_some(sorted(signed))}.")
    if differing := _lacking(metrics):
        notes.append(f"Only the metrics that all methods have are compared: {differing}.")
    _check_options(evaluations, common_metrics)
    cases = {
        method: _unique(evaluation.scores["case"]) for method, evaluation in evaluations.items()
    }
    common_cases = sorted(_common(cases))
    if differing := _lacking(cases):
        if not intersect:
            cure = f"Add --intersect to compare what {'both' if len(cases) == 2 else 'all'} have."
            raise ValueError(
                f"`evaluations` must have the same cases, got different ones: {differing}. {cure}"
            )
        if not common_cases:
            cure = "Check that both were evaluated on the same test set."
            raise ValueError(
                f"`evaluations` must have a case in common, got none: {differing}. {cure}"
            )
        n_left_out = len(set().union(*cases.values())) - len(common_cases)
        notes.append(
            f"Compared: {count(len(common_cases), 'case')}; left out: {n_left_out:,} ({differing})."
        )
    first = next(iter(evaluations))
    with_lesions = tuple(labels_with_lesions(evaluations[first].scores))
    expected = set().union(
        *cases.values(), *(evaluation.absent for evaluation in evaluations.values())
    )
    n_absent = len(expected - set(common_cases))
    ground = CommonGround(
        tuple(common_cases),
        tuple(labels[first]),
        common_metrics,
        tuple(notes),
        with_lesions,
        n_absent,
    )
    _check_references(evaluations, ground)
    return ground


def shared_notes(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """The notes of all evaluations once, but those on uncertain percentiles, which reports judge themselves."""
    own = {
        name: [note for note in evaluation.notes if note not in percentile_notes(evaluation.strata)]
        for name, evaluation in evaluations.items()
    }
    shared = [
        note for note in next(iter(own.values())) if all(note in notes for notes in own.values())
    ]
    return [
        *shared,
        *(f"{name}: {note}" for name, notes in own.items() for note in notes if note not in shared),
    ]


def find_common_strata(
    evaluations: Mapping[str, Evaluation], ground: CommonGround, *, by: Sequence[str] = ()
) -> "dict[str, pd.Series[str]]":
    """The strata of the common cases."""
    (first, baseline), *others = evaluations.items()
    found: dict[str, pd.Series[str]] = {}
    specs = list(dict.fromkeys(by or baseline.stratum_of_case))
    for spec in specs:
        strata = _strata_of(baseline, spec, ground)
        # A column that is cut in a second way, or also used uncut, needs another name.
        attribute = spec if strata.name in (*found, *specs) else str(strata.name)
        for method, evaluation in others:
            if not _can_divide(evaluation, spec):
                continue
            theirs = _strata_of(evaluation, spec, ground)
            differs = strata.astype(str).to_numpy() != theirs.astype(str).to_numpy()
            if differs.any():
                case = strata.index[differs][0]
                values = f"{strata[case]!r} in {first} and {theirs[case]!r} in {method}"
                rule = "be in the same stratum in every evaluation"
                # An evaluation has the quantiles of its own cases.
                cure = "Evaluate both with the same case table, and the same cases if a column is cut into quantiles."
                raise ValueError(f"`{case}` must {rule}, got {values} of {attribute!r}. {cure}")
        found[attribute] = strata.rename(attribute)
    return found


def absent_strata(
    evaluations: Mapping[str, Evaluation],
    strata: "Mapping[str, pd.Series[str]]",
    *,
    by: Collection[str],
) -> dict[str, list[str]]:
    """Attribute to the strata that have no case in common.

    None was evaluated, or not with every method.
    """
    absent = {}
    for attribute, of_case in strata.items():
        # A column that is cut here has other strata than in the evaluations.
        if by and attribute.replace(" ", "") not in [spec.replace(" ", "") for spec in by]:
            continue
        divided = [
            e.stratum_of_case[attribute]
            for e in evaluations.values()
            if attribute in e.stratum_of_case
        ]
        known = [
            str(name) for stratum_of_case in divided for name in stratum_of_case.cat.categories
        ]
        known += [
            name for e in evaluations.values() for name in e.strata_without_cases.get(attribute, ())
        ]
        absent[attribute] = [
            name for name in dict.fromkeys(known) if name not in of_case.cat.categories
        ]
    return {attribute: names for attribute, names in absent.items() if names}


def _can_divide(evaluation: Evaluation, spec: str) -> bool:
    if spec in evaluation.stratum_of_case:
        return True
    try:
        parse_by(spec, [str(column) for column in evaluation.case_table.columns])
    except ValueError:
        return False
    return True


def _strata_of(evaluation: Evaluation, spec: str, ground: CommonGround) -> "pd.Series[str]":
    """The strata of the common cases, named after their attribute."""
    if spec in evaluation.stratum_of_case:
        attribute = spec
        strata = evaluation.stratum_of_case[spec]
    else:
        attribute, strata = stratify(case_table_of(evaluation, ground.cases), spec)
    codes, names = divide(strata, ground.cases, attribute=attribute)
    categories = pd.Categorical([names[code] for code in codes], categories=names, ordered=True)
    return pd.Series(categories, index=pd.Index(ground.cases, name="case"), name=attribute)


def case_table_of(evaluation: Evaluation, cases: Sequence[str]) -> pd.DataFrame:
    """What the scores say of some cases beside the scores.

    The case table of the evaluation, as `read_cases` has it.
    """
    entries = evaluation.case_table.reindex(list(cases))
    return (
        entries.astype(object).where(entries.notna(), MISSING).astype(str).reset_index(names="case")
    )


def check_methods(methods: list[str]) -> None:
    """Check the names of methods."""
    if len(methods) < 2:
        cure = "Give the baseline first, then what to compare with it."
        raise ValueError(
            f"`evaluations` must be of at least two methods, got {name_some(methods)}. {cure}"
        )
    for position, method in enumerate(methods):
        if not method.strip():
            raise ValueError(
                f"`evaluations` must name every method, got {method!r}. Give it a name."
            )
        if method.strip() in [other.strip() for other in methods[:position]]:
            raise ValueError(
                f"`evaluations` must name every method once, got {method!r} twice. Rename one."
            )


def _check_options(evaluations: Mapping[str, Evaluation], metrics: Collection[str]) -> None:
    (first, baseline), *others = evaluations.items()
    expected = baseline.about.get("options", {})
    for method, evaluation in others:
        options = evaluation.about.get("options", {})
        for name in _OPTIONS_THAT_MATTER:
            if name == "nsd_tolerance_mm" and not {"nsd", "lesion_nsd"} & set(metrics):
                continue
            if name == "instances" and not lesion_metrics(metrics):
                continue
            # An evaluation that does not record the option, such as one made from other software's
            # files, is accepted.
            if name in expected and name in options and options[name] != expected[name]:
                values = f"{expected[name]!r} in {first} and {options[name]!r} in {method}"
                raise ValueError(
                    f"`{name}` must be the same in every evaluation, got {values}. Evaluate one again."
                )


def _check_references(evaluations: Mapping[str, Evaluation], ground: CommonGround) -> None:
    sizes = {}
    for method, evaluation in evaluations.items():
        check_rows(evaluation.scores)
        if "n_reference" in evaluation.scores.columns:
            sizes[method] = ground.align(evaluation.scores, "n_reference")
    for method, size in sizes.items():
        first = next(iter(sizes))
        # NaN stands for an unknown size, which agrees with every other.
        differs = np.argwhere((size != sizes[first]) & ~np.isnan(size) & ~np.isnan(sizes[first]))
        if len(differs):
            at = tuple(differs[0])
            values = f"{sizes[first][at]:.0f} voxels in {first} and {size[at]:.0f} in {method}"
            rule = "have the same reference in every evaluation"
            label = ground.labels[at[1]]
            cure = "Evaluate both with the same references."
            raise ValueError(
                f"`{ground.cases[at[0]]}` must {rule}, got {values} of {label!r}. {cure}"
            )


def check_rows(scores: pd.DataFrame) -> None:
    """Check that there is one row per case and label."""
    rows = scores[["case", "label"]]
    if (twice := rows.duplicated().to_numpy()).any():
        case, label = rows[twice].iloc[0]
        cure = "Evaluate it again."
        raise ValueError(
            f"`scores` must have one row per case and label, got two for {case!r}, {label!r}. {cure}"
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
    every = dict.fromkeys(name for of_method in names.values() for name in of_method)
    lacks = {method: sorted(set(every) - set(of_method)) for method, of_method in names.items()}
    return "; ".join(
        f"{method} lacks {name_some(missing)}" for method, missing in lacks.items() if missing
    )
