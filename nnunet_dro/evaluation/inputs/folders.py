"""The files to evaluate.

In a folder of label maps, or in a model folder of nnU-Net.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnunet_dro.bad_input import InputError, check_folder
from nnunet_dro.choices import MissingRule
from nnunet_dro.evaluation.scoring.label_maps import Labels, case_named, list_label_maps
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles
from nnunet_dro.naming import name_some, spelt_like
from nnunet_dro.nnunet.folders import FOLD_NAME
from nnunet_dro.nnunet.raw_dataset import notes_on_copies
from nnunet_dro.nnunet.splits_file import (
    notes_on_training_cases,
    only_training_cases,
    training_cases_in,
)

_VALIDATION_CURE = (
    "Make the predictions with nnUNetv2_train ... --val, or give nnU-Net's summary.json of them."
)


@dataclass(frozen=True)
class Inputs:
    """The files to evaluate."""

    method: str  # name of the method that made the predictions, from the path
    pairs: tuple[PairOfFiles, ...]  # the files of every case, sorted by case
    notes: tuple[str, ...] = ()  # sentences for the reader
    #: The references without a prediction that are not evaluated, although they were to be
    #: expected.
    lacking: tuple[str, ...] = ()
    #: Case to why its prediction cannot be scored: it counts as failed.
    invalid: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The cases without a prediction."""
        without = [pair.case for pair in self.pairs if pair.prediction is None]
        return [case for case in without if case not in self.invalid]

    def without(self, invalid: Mapping[str, str]) -> "Inputs":
        """The same without some predictions, which are scored as failed; a note names them."""
        pairs = []
        for pair in self.pairs:
            prediction = None if pair.case in invalid else pair.prediction
            pairs.append(replace(pair, prediction=prediction))

        names = name_some(list(invalid), at_most=20)
        note = f"Cases with an invalid prediction are scored as failed: {names}."
        notes = (*self.notes, note) if invalid else self.notes
        return replace(
            self,
            pairs=tuple(pairs),
            notes=notes,
            invalid=invalid,
        )


def find_inputs(
    reference: Path, prediction: Path, *, missing: MissingRule, folds: Sequence[str] = ()
) -> Inputs:
    """Pair the files of references and predictions.

    Args:
        reference: Folder of reference label maps.
        prediction: Folder of predicted label maps, or a model folder of nnU-Net, or one of its
            folds, or the folder ``validation`` in that.
        missing: What to do with references without a prediction.
        folds: The folds of the model folder that are evaluated; without any, all that have
            validation predictions.
    """
    references = list_label_maps(reference)
    check_folder(
        "prediction",
        prediction,
        "Give a folder of label maps, a model folder of nnU-Net, or a summary.json.",
    )

    notes: list[str] = []
    folders = _validation_folders(prediction.absolute(), notes, folds)
    predictions = spelt_like(_predictions(folders or [prediction], notes), references)
    _check_common(references, predictions, reference, prediction)

    is_part = bool(folds) or is_one_fold(prediction)
    lacking = [case for case in references if case not in predictions]
    if lacking:
        _check_missing(lacking, missing, prediction, in_folds=bool(folders), is_part=is_part)
    notes += _notes_on_unpaired(references, predictions, lacking, missing)

    not_evaluated: tuple[str, ...] = ()
    cases = sorted(references)
    pairs = [PairOfFiles(case, references[case], predictions.get(case)) for case in cases]
    if missing is MissingRule.ERROR:
        pairs = [pair for pair in pairs if pair.prediction]
        not_evaluated = () if is_part else tuple(lacking)
    notes += notes_on_copies({pair.case: pair.reference for pair in pairs})
    return Inputs(method_of(prediction), tuple(pairs), tuple(notes), lacking=not_evaluated)


def _predictions(folders: Sequence[Path], notes: list[str]) -> dict[str, Path]:
    """The label maps of some folders, of which no two may have the same case.

    Those of training cases are left out. Notes on them and on cases of earlier folds are added.
    """
    predictions: dict[str, Path] = {}
    left_out: list[str] = []
    for folder in folders:
        label_maps = dict(list_label_maps(folder))
        trained_on = training_cases_in(folder, label_maps)
        notes += notes_on_training_cases(folder, label_maps, trained_on)
        left_out += trained_on
        for case in trained_on:
            del label_maps[case]

        in_both = sorted(label_maps.keys() & predictions.keys())
        if in_both:
            raise InputError(
                "prediction",
                must="hold a case once",
                got=f"{name_some(in_both)} in several folds",
                cure="Give one fold, or the folder of one training.",
            )
        predictions |= label_maps

    if not predictions:
        raise only_training_cases(folders[0], left_out)
    return predictions


def _check_common(
    references: Mapping[str, Path],
    predictions: Mapping[str, Path],
    reference: Path,
    prediction: Path,
) -> None:
    """Check that some reference has a prediction."""
    if references.keys() & predictions.keys():
        return

    first_reference = next(iter(references.values())).name
    first_prediction = next(iter(predictions.values())).name
    raise ValueError(
        "`reference` and `prediction` must have file names in common, got none in "
        f"{str(reference)!r} and {str(prediction)!r} (there are {first_reference} and "
        f"{first_prediction}). Name the predictions as the references are."
    )


def _check_missing(
    lacking: Sequence[str],
    missing: MissingRule,
    prediction: Path,
    *,
    in_folds: bool,
    is_part: bool,
) -> None:
    """Check that references may lack a prediction.

    Where only a part of the folds is evaluated, nobody knows whether a prediction is missing or is
    one of another fold.
    """
    names = name_some(lacking)
    if missing is MissingRule.ERROR and not in_folds:
        raise FileNotFoundError(
            f"`prediction` must have a label map for every reference, got none for {names} in "
            f"{str(prediction)!r}. Predict them, or give --missing worst to score them as failed."
        )
    if missing is MissingRule.WORST and in_folds and is_part:
        raise InputError(
            "missing",
            must="be error where a part of the folds is evaluated",
            got=f"worst: the references without a prediction ({names}) may be of other folds",
            cure="Leave --missing out, or evaluate the whole model.",
        )


def _notes_on_unpaired(
    references: Mapping[str, Path],
    predictions: Mapping[str, Path],
    lacking: Sequence[str],
    missing: MissingRule,
) -> Iterator[str]:
    """What happens to references that lack a prediction, and to predictions without a reference."""
    if lacking and missing is MissingRule.ERROR:
        some = f"{len(lacking)} of {len(references)} references"
        yield f"{some} have no prediction in these folds and are not evaluated."

    extra = sorted(predictions.keys() - references.keys())
    if extra:
        yield (
            f"Predictions without a reference are not evaluated: {name_some(extra, at_most=20)}."
        )

    if lacking and missing is MissingRule.WORST:
        names = name_some(lacking, at_most=20)
        yield f"Cases without a prediction are scored as failed: {names}."


def _validation_folders(folder: Path, notes: list[str], wanted: Sequence[str]) -> list[Path]:
    """The folders of validation predictions in a model folder or fold; none in any other folder.

    Notes are added on folds that do not say what they seem to.
    """
    folds = _folds(folder, wanted)
    if not folds:
        return []

    if "fold_all" in [fold.name for fold in folds]:
        notes.append(
            "fold_all was trained on these very cases, "
            "so its scores say nothing about new patients."
        )
    with_validation = list(filter(_is_predicted, folds))
    if not with_validation:
        raise FileNotFoundError(
            "`prediction` must have folds with validation predictions, "
            f"got none in {str(folder)!r}. {_VALIDATION_CURE}"
        )
    without = [fold.name for fold in folds if fold not in with_validation]
    if without:
        notes.append(
            f"Folds without validation predictions are not evaluated: {name_some(without)}."
        )
    return [fold / "validation" for fold in with_validation]


def _is_predicted(fold: Path) -> bool:
    """Whether a fold has validation predictions; exported models have summary.json alone."""
    return any(case_named(path.name) for path in fold.glob("validation/*"))


def _folds(folder: Path, wanted: Sequence[str]) -> list[Path]:
    """The folds to evaluate in a model folder or fold; none in any other folder."""
    if wanted:
        return _wanted_folds(folder, wanted)
    # The folder of its predictions stands for a fold: it lacks the cases of the others, too.
    fold = folder.absolute().parent if folder.name == "validation" else folder
    if FOLD_NAME.fullmatch(fold.name) and (fold / "validation").is_dir():
        return [fold]

    paths = list(folder.iterdir())
    if any(case_named(path.name) for path in paths):
        return []
    folds = sorted(path for path in paths if path.is_dir() and FOLD_NAME.fullmatch(path.name))
    # The network of fold_all was trained on the cases it was validated on.
    honest = [fold for fold in folds if fold.name != "fold_all"]
    return honest or folds


def _wanted_folds(folder: Path, wanted: Sequence[str]) -> list[Path]:
    folds = [folder / f"fold_{name}" for name in dict.fromkeys(wanted)]
    available = sorted(path.name for path in folder.glob("fold_*") if _is_predicted(path))
    lacking = sorted({fold.name for fold in folds} - set(available))
    if lacking:
        raise FileNotFoundError(
            f"`folds` must be folds with validation predictions in {str(folder)!r} "
            f"(there are {name_some(available)}), got {name_some(lacking)}. {_VALIDATION_CURE}"
        )
    return folds


def is_one_fold(prediction: Path) -> bool:
    """Whether a path names one fold, or the summary.json in it.

    Then the cases of other folds are not expected.
    """
    last_parts = prediction.absolute().parts[-3:]
    return any(FOLD_NAME.fullmatch(name) for name in last_parts)


def method_of(prediction: Path) -> str:
    """The name of the method: the part of the path of its predictions that tells methods apart."""
    for name in reversed(prediction.absolute().parts):
        is_in_model = name in ("validation", "summary.json") or FOLD_NAME.fullmatch(name)
        if not is_in_model:
            return name
    return prediction.name


def labels_by_value(names: Sequence[str]) -> Labels:
    """The labels that are named by their values: ``1``, or ``1+2`` for a region."""
    try:
        return Labels({name: tuple(map(int, name.split("+"))) for name in names})
    except ValueError as error:
        raise ValueError(
            f"`labels` must be named by their values without a dataset.json, got {list(names)}."
        ) from error
