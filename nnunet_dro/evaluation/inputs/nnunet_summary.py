"""The summary.json that nnU-Net writes beside its predictions: their scores and their files."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import MissingRule
from nnunet_dro.evaluation.inputs.folders import Inputs, is_one_fold, method_of
from nnunet_dro.evaluation.scoring.label_maps import Labels, case_named
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles
from nnunet_dro.evaluation.scoring.scoring import COUNTS, Scoring
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some, repeated, spelt_like
from nnunet_dro.nnunet.folders import read_if_usable
from nnunet_dro.nnunet.splits_file import (
    notes_on_training_cases,
    only_training_cases,
    training_cases_in,
)


def read_summary(
    path: Path, labels: Labels | None, scoring: Scoring, references: Collection[str] = ()
) -> tuple[pd.DataFrame, Inputs]:
    """Read the scores of a summary.json.

    Args:
        path: The file.
        labels: The labels to score; None for those that the file has.
        scoring: The metrics, which must follow from voxel counts.
        references: The cases that cases are spelt like, see `spelt_like`.

    Returns:
        The scores, without volumes in ml, and the files of the cases. Cases that the fold is
        trained on are left out, with a note, and one names those of earlier folds.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If it is not a summary.json, or lacks something.
    """
    _check_metrics(scoring, path)
    entries = _entries(path, labels)
    cases = [entry.pair.case for entry in entries]
    trained_on = training_cases_in(path.parent, cases)
    entries = [entry for entry in entries if entry.pair.case not in trained_on]
    if not entries:
        raise only_training_cases(path, trained_on)

    names = _label_names(entries, labels, path)
    entry_of_case = spelt_like({entry.pair.case: entry for entry in entries}, references)
    rows: list[dict[str, Any]] = []
    for case, entry in entry_of_case.items():
        for name in names:
            counts = entry.counts[name]
            rows.append(
                {
                    "case": case,
                    "label": name,
                    **scoring.of_counts(*counts),
                    **dict(zip(COUNTS, counts, strict=True)),
                    "reference_ml": float("nan"),
                    "prediction_ml": float("nan"),
                }
            )
    notes = notes_on_training_cases(path.parent, cases, trained_on)
    pairs = tuple(replace(entry.pair, case=case) for case, entry in entry_of_case.items())
    inputs = Inputs(method_of(path), pairs, tuple(notes))
    return pd.DataFrame(rows, columns=["case", *scoring.columns]), inputs


def matched_inputs(
    inputs: Inputs, summary: Path, references: Collection[str], *, missing: MissingRule
) -> Inputs:
    """The files that a summary.json names, with notes on how they match the references."""
    cases = {pair.case for pair in inputs.pairs}
    if not cases & set(references):
        cure = "Give the references that the predictions were evaluated with."
        raise ValueError(
            "`reference` and `prediction` must have cases in common, "
            f"got none (there are {min(references)} and {min(cases)}). {cure}"
        )

    notes = list(inputs.notes)
    lacking = sorted(set(references) - cases)
    if lacking and missing is MissingRule.WORST:
        raise InputError(
            "missing",
            must="be error where summary.json lacks cases",
            got=f"worst and no {name_some(lacking)}",
            cure="Give the folder of the predictions instead.",
        )
    if lacking:
        some = f"{len(lacking)} of {len(references)} references"
        notes.append(f"{some} are not in the summary.json and are not evaluated.")

    extra = sorted(cases - set(references))
    if extra:
        names = name_some(extra, at_most=20)
        notes.append(
            "Evaluated by the counts in summary.json, without a file among the references: "
            f"{names}."
        )

    # The cases of other folds are not expected.
    expected = () if is_one_fold(summary) else tuple(lacking)
    return replace(inputs, notes=tuple(notes), lacking=expected)


def _check_metrics(scoring: Scoring, path: Path) -> None:
    """Check that all metrics follow from voxel counts."""
    lacking = []
    for name in scoring.metrics:
        metric = METRICS[name]
        if metric.on_shape or metric.on_lesions or metric.unit == "ml":
            lacking.append(name)

    if lacking:
        raise ValueError(
            "`metrics` must follow from voxel counts where a summary.json is evaluated, "
            f"got {name_some(lacking)}, which {str(path)!r} lacks. "
            "Give the folder of the predictions instead."
        )


@dataclass(frozen=True)
class _Entry:
    """What a summary.json says of a case."""

    pair: PairOfFiles
    counts: Mapping[str, tuple[int, int, int]]  # label to voxels of reference, prediction and both


def _label_names(entries: Sequence[_Entry], labels: Labels | None, path: Path) -> list[str]:
    """The labels to score, of each of which every entry has the counts."""
    names: dict[str, None] = {}
    for entry in entries:
        names |= dict.fromkeys(labels.values if labels else entry.counts)
    if not names:
        raise InputError(
            "prediction",
            must="have the scores of a label",
            got=f"none in {str(path)!r}",
            cure="Let nnU-Net evaluate again.",
        )

    for entry in entries:
        absent = [name for name in names if name not in entry.counts]
        if absent:
            got = f"none for {name_some(absent)} of {entry.pair.case!r} in {str(path)!r}"
            raise InputError(
                "prediction",
                must="have a score for every label",
                got=got,
                cure="Give the dataset.json that the predictions were evaluated with.",
            )
    return list(names)


def _entries(path: Path, labels: Labels | None) -> list[_Entry]:
    """What the file says of every case, sorted by case."""
    try:
        stored = read_json(path)["metric_per_case"]
        entries = [_entry(case, labels, path) for case in stored]
    except InputError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`prediction` must be a file or folder, got {str(path)!r}, which does not exist. "
            "Check the path."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = ""
        cure = "Give the one that nnU-Net writes beside the predictions."
        if _is_of_version_1(path):
            what = ", which nnU-Net v1 wrote: it does not have the numbers of voxels"
            cure = "Give the folder of the predictions instead."
        raise ValueError(
            f"`prediction` must be a summary.json of nnU-Net, got {str(path)!r}{what}. {cure}"
        ) from error

    if not entries:
        raise ValueError(
            f"`prediction` must have cases, got none in {str(path)!r}. Predict and evaluate again."
        )
    entries.sort(key=lambda entry: entry.pair.case)
    twice = repeated(entry.pair.case for entry in entries)
    if twice:
        raise InputError(
            "prediction",
            must="hold a case once",
            got=f"{name_some(twice)} twice in {str(path)!r}",
            cure="Remove an entry.",
        )
    return entries


def _is_of_version_1(path: Path) -> bool:
    """Whether a file that is no summary.json of nnU-Net v2 is one of version 1."""
    content = read_if_usable(path) or {}
    results = content.get("results")
    return isinstance(results, Mapping) and "all" in results


def _entry(stored: Mapping[str, Any], labels: Labels | None, path: Path) -> _Entry:
    """An entry from what the file has of it; fails where that is something else.

    An `InputError` says that its counts contradict each other.
    """
    reference = stored["reference_file"]
    prediction = stored["prediction_file"]
    # The file may come from another system.
    file_name = re.split(r"[/\\]", prediction)[-1]
    pair = PairOfFiles(case_named(file_name) or file_name, Path(reference), Path(prediction))

    counts = {}
    for label, metrics in _stored_labels(stored["metrics"], labels).items():
        tp, fp, fn = (_count(metrics[name]) for name in ("TP", "FP", "FN"))
        counts[label] = (tp + fn, tp + fp, tp)

        # Files of other versions lack the two sums.
        for name, n, sum_name in (("FN", fn, "n_ref"), ("FP", fp, "n_pred")):
            if sum_name not in metrics:
                continue
            total = _count(metrics[sum_name])
            if total != tp + n:
                sums = f"TP {tp} + {name} {n} and {sum_name} {total}"
                raise InputError(
                    "prediction",
                    must="have counts that fit",
                    got=f"{sums} for {label} of {pair.case!r} in {str(path)!r}",
                    cure="Let nnU-Net evaluate again.",
                )
    return _Entry(pair, counts)


def _stored_labels(
    metrics: Mapping[str, Any], labels: Labels | None
) -> dict[str, Mapping[str, Any]]:
    """What an entry says of each label that it has; the background, 0, is none."""
    stored = {}
    if labels is None:
        # The file has them in alphabetical order: 10 before 2.
        for key in sorted(metrics, key=_values):
            numbers = _values(key)
            if numbers != [0]:
                name = "+".join(map(str, numbers)) or key
                stored[name] = metrics[key]
        return stored

    for name, values in labels.values.items():
        # nnU-Net names a label or region by a tuple of values as text, or by the value.
        keys = [str(tuple(values))]
        if len(values) == 1:
            keys.append(str(values[0]))
        for key in keys:
            if key in metrics:
                stored[name] = metrics[key]
    return stored


def _count(value: Any) -> int:
    """A number of voxels; fails for anything else."""
    if not isinstance(value, int | float) or value != int(value) or value < 0:
        raise TypeError(value)
    return int(value)


def _values(key: str) -> list[int]:
    """The values that a key names: ``(1, 2)`` names 1 and 2."""
    return [int(value) for value in re.findall(r"-?\d+", key)]
