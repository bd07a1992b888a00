"""The Dice of cases in the validation of the fold that was trained without them."""

from collections.abc import Sequence

import pandas as pd

from nnunet_dro.evaluation.inputs import read_summary
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import Fold


def validation_dice(folds: Sequence[Fold]) -> tuple[pd.Series, list[str]]:
    """The mean Dice of every case over the labels, and notes on folds without.

    Fold ``all`` is left out: it validates cases that it was trained on. So are the cases in another
    fold's validation that splits_final.json has in its training part.
    """
    parts = []
    lacking = []
    notes = []
    for fold in folds:
        name = fold.folder.name
        if name == "fold_all":
            continue

        path = fold.folder / "validation" / "summary.json"
        if not path.is_file():
            lacking.append(name)
            continue
        try:
            scores, inputs = read_summary(path, None, Scoring(("dice",)))
        except ValueError as error:
            notes.append(f"The validation of {name} is left out: {error}")
        else:
            parts.append(scores.groupby("case")["dice"].mean())
            notes += inputs.notes

    if not parts:
        return pd.Series(dtype="float64", name="validation_dice"), notes
    if lacking:
        notes.append(
            f"No validation Dice of {name_some(lacking)}, whose validation/summary.json does not "
            "exist."
        )
    together = pd.concat(parts)
    return together.groupby(together.index).mean().rename("validation_dice"), notes
