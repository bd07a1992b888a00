"""What is known about the cases beside the logs: their out-of-fold validation Dice, and the case table."""

from collections.abc import Sequence

import pandas as pd

from nnunet_dro.evaluation.inputs import read_summary
from nnunet_dro.evaluation.scoring.score_arrays import Scoring
from nnunet_dro.files.case_table import MISSING, case_table_places, read_cases
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import Fold

#: The most strata of a column of the case table that is shown; two of them have several cases.
_MOST_STRATA = 10


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


def described_cases(fold: Fold) -> tuple[pd.DataFrame, list[str]]:
    """What the dataset's case table says of the cases.

    Args:
        fold: A fold of the dataset.

    Returns:
        The table by case, empty without one; and a sentence if it cannot be read.
    """
    folders = [fold.dataset_folder(variable) for variable in ("nnUNet_preprocessed", "nnUNet_raw")]
    places = [place for folder in folders if folder for place in case_table_places(folder, None)]
    path = next((place for place in places if place.is_file()), None)
    try:
        return (read_cases(path).set_index("case") if path else pd.DataFrame()), []
    except ValueError as error:
        return pd.DataFrame(), [f"The case table is not used: {error}"]


def trusted_cases(table: pd.DataFrame) -> frozenset[str]:
    """The cases that have ``yes`` in the column ``trusted`` of the case table."""
    return frozenset(table.index[table["trusted"].str.lower() == "yes"]) if "trusted" in table else frozenset()


def strata_of_cases(table: pd.DataFrame, cases: Sequence[str]) -> dict[str, dict[str, str]]:
    """Column of the case table that divides the cases, into at most ten strata, to the stratum of each case."""
    known = table.reindex(pd.Index(cases), fill_value=MISSING).drop(columns="trusted", errors="ignore")
    sizes = {name: known[name].value_counts() for name in known}
    divide = [name for name, n in sizes.items() if len(n) <= _MOST_STRATA and (n > 1).sum() > 1]
    return {str(name): known[name].to_dict() for name in divide}
