"""The files to evaluate: from a folder of label maps, a model folder of nnU-Net, or its summary.json."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.choices import MissingRule
from nnunet_dro.evaluation.scoring.label_maps import LABEL_MAP_ENDINGS, Labels, list_label_maps
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles
from nnunet_dro.evaluation.scoring.scoring import COUNTS, Scoring
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some, repeated
from nnunet_dro.nnunet.folders import FOLD_NAME

_OF_ALL = "fold_all was trained on these very cases, so its scores say nothing about new patients."


@dataclass(frozen=True)
class Inputs:
    """The files to evaluate."""

    method: str  # name of the method that made the predictions, from the path
    pairs: tuple[PairOfFiles, ...]  # the files of every case, sorted by case
    notes: tuple[str, ...] = ()  # sentences for the reader
    #: The references without a prediction that are not evaluated, although they were to be expected.
    lacking: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The cases without a prediction."""
        return [pair.case for pair in self.pairs if pair.prediction is None]


def find_inputs(
    reference: Path,
    prediction: Path,
    *,
    missing: MissingRule,
    folds: Sequence[str] = (),
) -> Inputs:
    """Pair the files of references and predictions; of a model folder those of some folds, or of all."""
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
            raise ValueError(f"`prediction` must hold a case once, got {name_some(both)} in several folds. {cure}")
        predictions |= found
    common = references.keys() & predictions.keys()
    if not common:
        examples = f"{next(iter(references.values())).name} and {next(iter(predictions.values())).name}"
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
        notes.append(
            f"{len(lacking)} of {len(references)} references have no prediction in these folds and are not evaluated."
        )
    if extra := sorted(predictions.keys() - references.keys()):
        notes.append(f"Predictions without a reference are not evaluated: {name_some(extra, at_most=20)}.")
    cases = sorted(references if missing is MissingRule.WORST else common)
    if lacking and missing is MissingRule.WORST:
        notes.append(f"Cases without a prediction are scored as failed: {name_some(lacking, at_most=20)}.")
    pairs = tuple(PairOfFiles(case, references[case], predictions.get(case)) for case in cases)
    absent = () if missing is MissingRule.WORST or is_part else tuple(lacking)
    return Inputs(_method(prediction), pairs, tuple(notes), absent)


def matched_inputs(inputs: Inputs, prediction: Path, references: Collection[str], *, missing: MissingRule) -> Inputs:
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
        notes.append(
            f"{len(lacking)} of {len(references)} references are not in the summary.json and are not evaluated."
        )
    if extra := sorted(cases - set(references)):
        notes.append(f"Cases of the summary.json without a reference: {name_some(extra, at_most=20)}.")
    return replace(inputs, notes=tuple(notes), lacking=() if _of_one_fold(prediction) else tuple(lacking))


def _validation_folders(folder: Path, notes: list[str], wanted: Sequence[str] = ()) -> list[Path]:
    """The folders of validation predictions in a model folder or fold; none in any other folder."""
    if wanted:
        there = sorted(path.parent.name for path in folder.glob("fold_*/validation"))
        if lacking := sorted({f"fold_{name}" for name in wanted} - set(there)):
            cure = "Make the predictions with nnUNetv2_train ... --val."
            raise FileNotFoundError(
                f"`folds` must be folds with a folder validation in {str(folder)!r} (there are {name_some(there)}), "
                f"got {name_some(lacking)}. {cure}"
            )
        if "all" in wanted:
            notes.append(_OF_ALL)
        return [folder / f"fold_{name}" / "validation" for name in dict.fromkeys(wanted)]
    if FOLD_NAME.fullmatch(folder.name) and (folder / "validation").is_dir():
        if folder.name == "fold_all":
            notes.append(_OF_ALL)
        return [folder / "validation"]
    folds = sorted(path for path in folder.iterdir() if path.is_dir() and FOLD_NAME.fullmatch(path.name))
    if not folds or any(path.name.lower().endswith(LABEL_MAP_ENDINGS) for path in folder.iterdir()):
        return []
    if len(folds) > 1:
        # The network of fold_all was trained on the cases it was validated on.
        folds = [fold for fold in folds if fold.name != "fold_all"]
    elif folds[0].name == "fold_all":
        notes.append(_OF_ALL)
    with_validation = [fold / "validation" for fold in folds if (fold / "validation").is_dir()]
    if not with_validation:
        cure = "Make the predictions with nnUNetv2_train ... --val."
        raise FileNotFoundError(
            f"`prediction` must have folds with a folder validation, got none in {str(folder)!r}. {cure}"
        )
    if without := [fold.name for fold in folds if not (fold / "validation").is_dir()]:
        notes.append(f"Folds without validation predictions are not evaluated: {name_some(without)}.")
    return with_validation


def _of_one_fold(prediction: Path) -> bool:
    """Whether a path names one fold, or the summary.json in it: then the cases of other folds are not expected."""
    return any(FOLD_NAME.fullmatch(name) for name in prediction.absolute().parts[-3:])


def _method(prediction: Path) -> str:
    """The part of a path that tells methods apart."""
    names = [name for name in prediction.absolute().parts[::-1] if name not in ("validation", "summary.json")]
    return next((name for name in names if not FOLD_NAME.fullmatch(name)), prediction.name)


def read_summary(path: Path, labels: Labels | None, scoring: Scoring) -> tuple[pd.DataFrame, Inputs]:
    """Scores from the summary.json that nnU-Net writes, without volumes in ml, and the files that it names."""
    lacking = [m for m in scoring.metrics if METRICS[m].on_surfaces or METRICS[m].on_lesions or METRICS[m].unit == "ml"]
    if lacking:
        raise ValueError(
            f"`metrics` must follow from voxel counts where a summary.json is evaluated, got {name_some(lacking)}, "
            f"which {str(path)!r} lacks. Give the folder of the predictions instead."
        )
    entries = _entries(path, labels)
    cases = [pair.case for pair, _ in entries]
    if twice := repeated(cases):
        cure = "Remove an entry."
        raise ValueError(f"`prediction` must hold a case once, got {name_some(twice)} twice in {str(path)!r}. {cure}")
    names = list(labels.values) if labels else list(dict.fromkeys(name for _, counts in entries for name in counts))
    rows: list[dict[str, Any]] = []
    for pair, counts in entries:
        if absent := [name for name in names if name not in counts]:
            got = f"none for {name_some(absent)} of {pair.case!r} in {str(path)!r}"
            cure = "Give the dataset.json that the predictions were evaluated with."
            raise ValueError(f"`prediction` must have a score for every label, got {got}. {cure}")
        for name in names:
            sizes = counts[name].sizes
            row = {"case": pair.case, "label": name} | scoring.of_counts(*sizes)
            row |= dict(zip(COUNTS, sizes, strict=True))
            rows.append(row | dict.fromkeys(("reference_ml", "prediction_ml"), float("nan")))
    inputs = Inputs(_method(path), tuple(pair for pair, _ in entries))
    return pd.DataFrame(rows, columns=["case", *scoring.columns]), inputs


@dataclass(frozen=True)
class _Counts:
    """The voxels of a label in a case, as summary.json has them; the two sums are None in files without them."""

    tp: int
    fp: int
    fn: int
    n_ref: int | None
    n_pred: int | None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Voxels of reference, prediction and both."""
        return self.tp + self.fn, self.tp + self.fp, self.tp

    @property
    def contradiction(self) -> str:
        """A sum that does not fit; empty if all do."""
        for name, n, term, stored in (("FN", self.fn, "n_ref", self.n_ref), ("FP", self.fp, "n_pred", self.n_pred)):
            if stored not in (None, self.tp + n):
                return f"TP {self.tp} + {name} {n} and {term} {stored}"
        return ""


def _entries(path: Path, labels: Labels | None) -> list[tuple[PairOfFiles, dict[str, _Counts]]]:
    """The files and the counts of every case, sorted by case."""
    try:
        entries = [
            (
                PairOfFiles(
                    _case_of(entry["prediction_file"]), Path(entry["reference_file"]), Path(entry["prediction_file"])
                ),
                _counts(entry["metrics"], labels),
            )
            for entry in read_json(path)["metric_per_case"]
        ]
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`prediction` must be a file or folder, got {str(path)!r}, which does not exist. Check the path."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        cure = "Give the one that nnU-Net writes beside the predictions."
        raise ValueError(
            f"`prediction` must be a summary.json of nnU-Net, got {str(path)!r}, which is not. {cure}"
        ) from error
    if not entries:
        raise ValueError(f"`prediction` must have cases, got none in {str(path)!r}. Predict and evaluate again.")
    for pair, counts in entries:
        for name, of_label in counts.items():
            if wrong := of_label.contradiction:
                got = f"{wrong} for {name} of {pair.case!r} in {str(path)!r}"
                raise ValueError(f"`prediction` must have counts that fit, got {got}. Let nnU-Net evaluate again.")
    return sorted(entries, key=lambda entry: entry[0].case)


def _case_of(file: str) -> str:
    # The file may come from another system.
    name = re.split(r"[/\\]", file)[-1]
    ending = next((e for e in LABEL_MAP_ENDINGS if name.lower().endswith(e)), "")
    return name[: len(name) - len(ending)]


def _counts(metrics: Mapping[str, Any], labels: Labels | None) -> dict[str, _Counts]:
    """The counts of each label that an entry has."""
    if labels:
        keys = {name: _keys(values) for name, values in labels.values.items()}
    else:
        # The file has them in alphabetical order: 10 before 2.
        keys = {_name(key): [key] for key in sorted(metrics, key=_values)}
    counts = {}
    for name, candidates in keys.items():
        for key in candidates:
            if key in metrics:
                stored = metrics[key]
                sums = (_count(stored[name_of]) if name_of in stored else None for name_of in ("n_ref", "n_pred"))
                counts[name] = _Counts(*(_count(stored[name_of]) for name_of in ("TP", "FP", "FN")), *sums)
    return counts


def _count(value: Any) -> int:
    if not isinstance(value, int | float) or value != int(value) or value < 0:
        raise TypeError(value)
    return int(value)


def _keys(values: Sequence[int]) -> list[str]:
    """The names that nnU-Net may give a label or region: a value, or a tuple of values, as text."""
    return [str(tuple(values)), *([str(values[0])] if len(values) == 1 else [])]


def _values(key: str) -> list[int]:
    return [int(value) for value in re.findall(r"-?\d+", key)]


def _name(key: str) -> str:
    return "+".join(map(str, _values(key))) or key


def labels_by_value(names: Sequence[str]) -> Labels:
    """The labels that are named by their values: ``1``, or ``1+2`` for a region."""
    try:
        return Labels({name: tuple(int(value) for value in name.split("+")) for name in names})
    except ValueError as error:
        raise ValueError(
            f"`labels` must be named by their values without a dataset.json, got {list(names)}."
        ) from error
