"""nnU-Net's file of folds, and predictions that are older than it."""

import re
from collections.abc import Collection
from pathlib import Path

from nnunet_dro.files.case_log import logged_cases
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import SPLITS_FILE, Fold

#: In the folder of a fold that was started from another model: the cases it validates on that this
#: model may have been trained on, a line each.
SOURCE_CASES_FILE = "trained_on_by_source.txt"


def read_splits(path: Path) -> list[dict[str, list[str]]]:
    """The ``train`` and ``val`` cases of each of nnU-Net's folds."""
    splits = []
    try:
        content = read_json(path)
        if not (isinstance(content, list) and content):
            raise TypeError("it is no list of folds")

        for fold in content:
            train = [str(case) for case in fold["train"]]
            val = [str(case) for case in fold["val"]]
            splits.append({"train": train, "val": val})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`{SPLITS_FILE}` must be a list of folds, got {str(path)!r}. Write it again with "
            "`nnunet-dro splits --force`."
        ) from error
    return splits


def read_fold(path: Path, fold: str) -> dict[str, list[str]] | None:
    """The ``train`` and ``val`` cases that splits_final.json gives a fold.

    None if it does not say: there is no such file, it has too few folds, or all cases are trained
    on.

    Raises:
        ValueError: If the file is not usable.
    """
    if not fold.isdecimal() or not path.is_file():
        return None
    splits = read_splits(path)
    number = int(fold)
    return splits[number] if number < len(splits) else None


def held_out_cases(path: Path, fold: str) -> set[str]:
    """The cases that a fold validates on and does not train on; none if `read_fold` has none."""
    divided = read_fold(path, fold)
    return set(divided["val"]) - set(divided["train"]) if divided else set()


def training_cases_in(validation: Path, cases: Collection[str]) -> list[str]:
    """The cases in a fold's folder ``validation`` that nnU-Net trains this fold on, sorted.

    nnU-Net never empties the folder: after another division into folds, predictions of the earlier
    one stay there, and its summary.json counts them. There are none where the folder is not that
    of a fold, or splits_final.json is not known or does not have the fold.

    Raises:
        ValueError: If splits_final.json is not usable.
    """
    if not _is_of_numbered_fold(validation):
        return []
    try:
        fold = Fold.of(validation.absolute().parent)
    except (ValueError, FileNotFoundError):
        return []

    preprocessed = fold.dataset_folder("nnUNet_preprocessed")
    if preprocessed is None:
        return []
    divided = read_fold(preprocessed / SPLITS_FILE, fold.number)
    return sorted(set(divided["train"]) & set(cases)) if divided else []


def notes_on_training_cases(
    validation: Path, cases: Collection[str], left_out: Collection[str]
) -> list[str]:
    """Sentences on the cases that `training_cases_in` finds, and on those of earlier trainings.

    The latter are not left out: what hardness.csv beside the folder names, if a trainer of this
    package wrote one, and `cases_of_source`.
    """
    fold = validation.absolute().parent
    notes = []
    if left_out:
        notes.append(
            f"Left out, for {SPLITS_FILE} has them in the training part of {fold.name}: "
            f"{name_some(left_out, at_most=20)}."
        )

    earlier = set()
    if _is_of_numbered_fold(validation):
        earlier = logged_cases(fold) | cases_of_source(fold)
    seen = sorted(earlier & set(cases) - set(left_out))
    if seen:
        notes.append(
            f"The scores of these cases are too good, for {fold.name} was trained on them before "
            f"{SPLITS_FILE} was changed, or may have been in the model that it was started from: "
            f"{name_some(seen, at_most=20)}."
        )
    return notes


def cases_of_source(fold: Path) -> set[str]:
    """The cases that `SOURCE_CASES_FILE` in a fold's folder names; none without it."""
    path = fold / SOURCE_CASES_FILE
    if not path.is_file():
        return set()
    # Names that are not UTF-8 are written as they are.
    return set(path.read_text(encoding="utf-8", errors="surrogateescape").splitlines())


def _is_of_numbered_fold(validation: Path) -> bool:
    """Whether a folder is named like that of the validation of a fold that is not ``all``."""
    names = "/".join(validation.absolute().parts[-2:])
    return re.fullmatch(r"fold_\d+/validation", names, re.ASCII) is not None


def only_training_cases(prediction: Path, cases: Collection[str]) -> ValueError:
    """The error where `training_cases_in` leaves nothing to evaluate."""
    return ValueError(
        "`prediction` must have cases that the fold is not trained on, got only "
        f"{name_some(cases)} in {str(prediction)!r}, which {SPLITS_FILE} has in its training part. "
        "Validate again (nnUNetv2_train ... --val); if the network was trained with other folds, "
        "copy the label maps to a folder that is not called validation."
    )
