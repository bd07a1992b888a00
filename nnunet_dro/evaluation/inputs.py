"""The files to evaluate.

From a folder of label maps, a model folder of nnU-Net, or its summary.json.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.choices import MissingRule
from nnunet_dro.evaluation.scoring.label_maps import (
    LABEL_MAP_ENDINGS,
    Labels,
    case_named,
    list_label_maps,
)
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles
from nnunet_dro.evaluation.scoring.scoring import COUNTS, Scoring
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some, repeated
from nnunet_dro.nnunet.folders import FOLD_NAME


@dataclass(frozen=True)
class Inputs:
    """The files to evaluate."""

    method: str  # name of the method that made the predictions, from the path
    pairs: tuple[PairOfFiles, ...]  # the files of every case, sorted by case
    notes: tuple[str, ...] = ()  # sentences for the reader
    #: The references without a prediction that are not evaluated, although they were to be
    #: expected.
    lacking: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The cases without a prediction."""
        return [pair.case for pair in self.pairs if pair.prediction is None]


def find_inputs(
    reference: Path, prediction: Path, *, missing: MissingRule, folds: Sequence[str] = ()
) -> Inputs:
    """Pair the files of references and predictions.

    Of a model folder those of some folds, or of all.
    """
    references = list_label_maps(reference)
    if not prediction.is_dir():
        cure = "Give a folder of label maps, a model folder of nnU-Net, or a summary.json."
        raise FileNotFoundError(f"`prediction` must be a folder, got {str(prediction)!r}. {cure}")
    notes: list[str] = []
    folders = _validation_folders(prediction, notes, folds)
    predictions: dict[str, Path] = {}
    for folder in folders or [prediction]:
        found = list_label_maps(folder)
        if both := sorted(found.keys() & predictions.keys()):
            cure = "Give one fold, or the folder of one training."
            raise ValueError(
                f"`prediction` must hold a case once, got {name_some(both)} in several folds. {cure}"
            )
        predictions |= found
    common = references.keys() & predictions.keys()
    if not common:
        examples = (
            f"{next(iter(references.values())).name} and {next(iter(predictions.values())).name}"
        )
        raise ValueError(
            f"`reference` and `prediction` must have file names in common, got none in {str(reference)!r} and "
            f"{str(prediction)!r} (there are {examples}). Name the predictions as the references are."
        )
    lacking = [case for case in references if case not in predictions]
    if lacking and missing is MissingRule.ERROR and not folders:
        raise FileNotFoundError(
            f"`prediction` must have a label map for every reference, got none for {name_some(lacking)} in "
            f"{str(prediction)!r}. Predict them, or give --missing worst to score them as failed."
        )
    is_part = bool(folds) or _of_one_fold(prediction)
    if lacking and missing is MissingRule.WORST and folders and is_part:
        cure = "Leave --missing out, or evaluate the whole model."
        raise ValueError(
            "`missing` must be error where a part of the folds is evaluated, got worst: the references without a "
            f"prediction ({name_some(lacking)}) may be of other folds. {cure}"
        )
    if lacking and missing is MissingRule.ERROR:
        some = f"{len(lacking)} of {len(references)} references"
        notes.append(f"{some} have no prediction in these folds and are not evaluated.")
    if extra := sorted(predictions.keys() - references.keys()):
        notes.append(
            f"Predictions without a reference are not evaluated: {name_some(extra, at_most=20)}."
        )
    cases = sorted(references if missing is MissingRule.WORST else common)
    if lacking and missing is MissingRule.WORST:
        notes.append(
            f"Cases without a prediction are scored as failed: {name_some(lacking, at_most=20)}."
        )
    pairs = tuple(PairOfFiles(case, references[case], predictions.get(case)) for case in cases)
    absent = () if missing is MissingRule.WORST or is_part else tuple(lacking)
    return Inputs(_method(prediction), pairs, tuple(notes), absent)


def matched_inputs(
    inputs: Inputs, prediction: Path, references: Collection[str], *, missing: MissingRule
) -> Inputs:
    """The files that a summary.json names, with notes on how they match the references."""
    cases = {pair.case for pair in inputs.pairs}
    if not cases & set(references):
        examples = f"{min(references)} and {min(cases)}"
        cure = "Give the references that the predictions were evaluated with."
        raise ValueError(
            f"`reference` and `prediction` must have cases in common, got none (there are {examples}). {cure}"
        )
    notes = list(inputs.notes)
    if lacking := sorted(set(references) - cases):
        if missing is MissingRule.WORST:
            cure = "Give the folder of the predictions instead."
            raise ValueError(
                f"`missing` must be error where summary.json lacks cases, got worst and no {name_some(lacking)}. {cure}"
            )
        some = f"{len(lacking)} of {len(references)} references"
        notes.append(f"{some} are not in the summary.json and are not evaluated.")
    if extra := sorted(cases - set(references)):
        notes.append(
            f"Cases of the summary.json without a reference: {name_some(extra, at_most=20)}."
        )
    return replace(
        inputs, notes=tuple(notes), lacking=() if _of_one_fold(prediction) else tuple(lacking)
    )


def _validation_folders(folder: Path, notes: list[str], wanted: Sequence[str]) -> list[Path]:
    """The folders of validation predictions in a model folder or fold; none in any other folder."""
    cure = "Make the predictions with nnUNetv2_train ... --val."
    if wanted:
        folds = [folder / f"fold_{name}" for name in dict.fromkeys(wanted)]
        there = sorted(path.parent.name for path in folder.glob("fold_*/validation"))
        if lacking := sorted({fold.name for fold in folds} - set(there)):
            raise FileNotFoundError(
                f"`folds` must be folds with a folder validation in {str(folder)!r} (there are {name_some(there)}), "
                f"got {name_some(lacking)}. {cure}"
            )
    elif FOLD_NAME.fullmatch(folder.name) and (folder / "validation").is_dir():
        folds = [folder]
    else:
        folds = sorted(
            path for path in folder.iterdir() if path.is_dir() and FOLD_NAME.fullmatch(path.name)
        )
        if not folds or any(
            path.name.lower().endswith(LABEL_MAP_ENDINGS) for path in folder.iterdir()
        ):
            return []
        # The network of fold_all was trained on the cases it was validated on.
        folds = [fold for fold in folds if fold.name != "fold_all"] or folds
    if "fold_all" in [fold.name for fold in folds]:
        notes.append(
            "fold_all was trained on these very cases, so its scores say nothing about new patients."
        )
    with_validation = [fold / "validation" for fold in folds if (fold / "validation").is_dir()]
    if not with_validation:
        raise FileNotFoundError(
            f"`prediction` must have folds with validation, got none in {str(folder)!r}. {cure}"
        )
    if without := [fold.name for fold in folds if fold / "validation" not in with_validation]:
        notes.append(
            f"Folds without validation predictions are not evaluated: {name_some(without)}."
        )
    return with_validation


def _of_one_fold(prediction: Path) -> bool:
    """Whether a path names one fold, or the summary.json in it.

    Then the cases of other folds are not expected.
    """
    return any(FOLD_NAME.fullmatch(name) for name in prediction.absolute().parts[-3:])


def _method(prediction: Path) -> str:
    """The part of a path that tells methods apart."""
    names = [
        name
        for name in prediction.absolute().parts[::-1]
        if name not in ("validation", "summary.json")
    ]
    return next((name for name in names if not FOLD_NAME.fullmatch(name)), prediction.name)


def read_summary(
    path: Path, labels: Labels | None, scoring: Scoring
) -> tuple[pd.DataFrame, Inputs]:
    """Scores from the summary.json that nnU-Net writes, without volumes in ml, and the files that it names."""
    lacking = [
        m
        for m in scoring.metrics
        if METRICS[m].on_surfaces or METRICS[m].on_lesions or METRICS[m].unit == "ml"
    ]
    if lacking:
        raise ValueError(
            f"`metrics` must follow from voxel counts where a summary.json is evaluated, got {name_some(lacking)}, "
            f"which {str(path)!r} lacks. Give the folder of the predictions instead."
        )
    entries = _entries(path, labels)
    cases = [pair.case for pair, _ in entries]
    if twice := repeated(cases):
        cure = "Remove an entry."
        raise ValueError(
            f"`prediction` must hold a case once, got {name_some(twice)} twice in {str(path)!r}. {cure}"
        )
    names = (
        list(labels.values)
        if labels
        else list(dict.fromkeys(name for _, counts in entries for name in counts))
    )
    rows: list[dict[str, Any]] = []
    for pair, counts in entries:
        if absent := [name for name in names if name not in counts]:
            got = f"none for {name_some(absent)} of {pair.case!r} in {str(path)!r}"
            cure = "Give the dataset.json that the predictions were evaluated with."
            raise ValueError(f"`prediction` must have a score for every label, got {got}. {cure}")
        for name in names:
            row = {"case": pair.case, "label": name} | scoring.of_counts(*counts[name])
            row |= dict(zip(COUNTS, counts[name], strict=True))
            rows.append(row | dict.fromkeys(("reference_ml", "prediction_ml"), float("nan")))
    inputs = Inputs(_method(path), tuple(pair for pair, _ in entries))
    return pd.DataFrame(rows, columns=["case", *scoring.columns]), inputs


def _entries(
    path: Path, labels: Labels | None
) -> list[tuple[PairOfFiles, dict[str, tuple[int, int, int]]]]:
    """The files of every case, sorted by case, and its voxels of reference, prediction and both by label."""
    entries = []
    contradictions = []
    try:
        for entry in read_json(path)["metric_per_case"]:
            reference, prediction = (
                entry[f"{which}_file"] for which in ("reference", "prediction")
            )
            # The file may come from another system.
            name = re.split(r"[/\\]", prediction)[-1]
            pair = PairOfFiles(case_named(name) or name, Path(reference), Path(prediction))
            counts = {}
            for label, stored in _stored(entry["metrics"], labels).items():
                tp, fp, fn = (_count(stored[term]) for term in ("TP", "FP", "FN"))
                counts[label] = (tp + fn, tp + fp, tp)
                # Files of other versions lack the two sums.
                for n, of_n, term in ((fn, "FN", "n_ref"), (fp, "FP", "n_pred")):
                    if term in stored and (total := _count(stored[term])) != tp + n:
                        contradictions.append(
                            f"TP {tp} + {of_n} {n} and {term} {total} for {label} of {pair.case!r}"
                        )
            entries.append((pair, counts))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`prediction` must be a file or folder, got {str(path)!r}, which does not exist. Check the path."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        cure = "Give the one that nnU-Net writes beside the predictions."
        raise ValueError(
            f"`prediction` must be a summary.json of nnU-Net, got {str(path)!r}. {cure}"
        ) from error
    if not entries:
        raise ValueError(
            f"`prediction` must have cases, got none in {str(path)!r}. Predict and evaluate again."
        )
    if contradictions:
        got = f"{contradictions[0]} in {str(path)!r}"
        raise ValueError(
            f"`prediction` must have counts that fit, got {got}. Let nnU-Net evaluate again."
        )
    return sorted(entries, key=lambda entry: entry[0].case)


def _stored(metrics: Mapping[str, Any], labels: Labels | None) -> dict[str, Mapping[str, Any]]:
    """What an entry says of each label that it has."""
    if labels is None:
        # The file has them in alphabetical order: 10 before 2.
        return {
            "+".join(map(str, _values(key))) or key: metrics[key]
            for key in sorted(metrics, key=_values)
        }
    # nnU-Net names a label or region by a tuple of values as text, or by the value.
    keys = {
        name: [str(tuple(v)), *([str(v[0])] if len(v) == 1 else [])]
        for name, v in labels.values.items()
    }
    return {
        name: metrics[key]
        for name, candidates in keys.items()
        for key in candidates
        if key in metrics
    }


def _count(value: Any) -> int:
    if not isinstance(value, int | float) or value != int(value) or value < 0:
        raise TypeError(value)
    return int(value)


def _values(key: str) -> list[int]:
    return [int(value) for value in re.findall(r"-?\d+", key)]


def labels_by_value(names: Sequence[str]) -> Labels:
    """The labels that are named by their values: ``1``, or ``1+2`` for a region."""
    try:
        return Labels({name: tuple(map(int, name.split("+"))) for name in names})
    except ValueError as error:
        got = f"got {list(names)}"
        raise ValueError(
            f"`labels` must be named by their values without a dataset.json, {got}."
        ) from error
