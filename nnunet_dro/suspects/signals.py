"""What is known about the cases beside the logs: their out-of-fold validation Dice, and which of them are trusted."""

from collections.abc import Sequence

import pandas as pd

from nnunet_dro.case_table import case_table_places, read_cases
from nnunet_dro.evaluation.inputs import read_summary
from nnunet_dro.evaluation.score_arrays import Scoring
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import Fold


def validation_dice(folds: Sequence[Fold]) -> tuple[pd.Series, list[str]]:
    """The Dice of every case in the validation of the fold that was trained without it.

    Args:
        folds: The folds. Fold ``all`` is left out: its network has seen the cases.

    Returns:
        The Dice by case, averaged over the labels that have one, from nnU-Net's validation/summary.json; and sentences
        on files that cannot be used.
    """
    parts, lacking, notes = [], [], []
    for fold in folds:
        path = fold.folder / "validation" / "summary.json"
        if fold.folder.name == "fold_all":
            continue
        if not path.is_file():
            lacking.append(fold.folder.name)
            continue
        try:
            scores = read_summary(path, None, Scoring(("dice",))).scores
        except ValueError as error:
            notes.append(f"The validation of {fold.folder.name} is left out: {error}")
        else:
            parts.append(scores.groupby("case")["dice"].mean())
    if parts and lacking:
        notes.append(f"No validation Dice of {name_some(lacking)}, whose validation/summary.json does not exist.")
    if not parts:
        return pd.Series(dtype="float64", name="validation_dice"), notes
    together = pd.concat(parts)
    return together.groupby(together.index).mean().rename("validation_dice"), notes


def trusted_cases(fold: Fold) -> tuple[frozenset[str], list[str]]:
    """The cases that have ``yes`` in the column ``trusted`` of the dataset's case table.

    Args:
        fold: A fold of the dataset.

    Returns:
        The cases, none without a table or the column; and a sentence if the table cannot be read.
    """
    folders = [fold.dataset_folder(variable) for variable in ("nnUNet_preprocessed", "nnUNet_raw")]
    places = [place for folder in folders if folder for place in case_table_places(folder, None)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return frozenset(), []
    try:
        table = read_cases(path)
    except ValueError as error:
        return frozenset(), [f"Trusted cases are not marked: {error}"]
    if "trusted" not in table:
        return frozenset(), []
    return frozenset(table["case"][table["trusted"].str.lower() == "yes"]), []
