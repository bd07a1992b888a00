"""What a reader has to know of a ranking, in sentences."""

import contextlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.scoring.absent_labels import note_on_absent_labels
from nnunet_dro.files.case_log import EpochLog
from nnunet_dro.inspection.images import ImageSource
from nnunet_dro.inspection.suspects.ranking import DICE, FEW, LOSS, WEIGHT, below_most
from nnunet_dro.naming import count, name_some

#: What the ranking does not prove, by what it follows.
CAVEATS = {
    WEIGHT: (
        "A low weight marks a case to look at, not an error: a correct case that is unlike the "
        "trusted ones gets low weights as well."
    ),
    LOSS: (
        "A high loss marks a case to look at, not an error: hard anatomy has high losses, too, and "
        "a wrong label that the network has learnt by heart has a small one."
    ),
    DICE: (
        "A low Dice marks a case to look at, not an error: hard anatomy has a low Dice, too. The "
        "network has not seen the case, and cannot have learnt a wrong label by heart."
    ),
}

#: With fewer epochs, nobody can tell what lasts.
_FEWEST_EPOCHS = 10

#: Cases beside the first ones whose reference is read, to know which labels are usual.
_OTHERS = 20


def notes_on_ranking(by: str, log: EpochLog | None, table: pd.DataFrame, top: int) -> list[str]:
    """Which cases are not ranked, and whose ranks say little."""
    if log is not None and by != DICE:
        return [*_notes_on_log(log, table), *_note_on_lowest_dice(table, top)]

    n_unscored = int(table["score"].isna().sum())
    if not n_unscored:
        return []
    return [
        "Without validation Dice in these folds, and therefore not ranked: "
        f"{count(n_unscored, 'case')}."
    ]


def _notes_on_log(log: EpochLog, table: pd.DataFrame) -> list[str]:
    """What a log is too short for, and the cases that it lacks."""
    notes = []
    n_epochs = len(log.epochs)
    if n_epochs < _FEWEST_EPOCHS:
        notes.append(f"The log holds {count(n_epochs, 'epoch')}: too few to tell what lasts.")

    is_scored = table["score"].notna()
    n_few = int((is_scored & (table["times_seen"] < FEW)).sum())
    if n_few:
        notes.append(
            f"Seen fewer than {FEW} times in the epochs that count, marked †: "
            f"{count(n_few, 'case')} of {int(is_scored.sum()):,}. Ranks say little."
        )

    is_in_log = table["case"].isin(log.cases)
    n_unscored = int((~is_scored & is_in_log).sum())
    if n_unscored:
        notes.append(
            "Not seen in the epochs that count, and therefore not ranked: "
            f"{count(n_unscored, 'case')}."
        )
    n_validated = int((~is_in_log).sum())
    if n_validated:
        notes.append(
            "Only validated in these folds, and therefore not ranked: "
            f"{count(n_validated, 'case')}."
        )
    return notes


def _note_on_lowest_dice(table: pd.DataFrame, top: int) -> list[str]:
    """A sentence on the cases of clearly low validation Dice that are not among the first."""
    is_low = below_most(table["validation_dice"])
    lowest = table[is_low].sort_values(["validation_dice", "case"])["case"].head(top)
    first = set(table[table["score"].notna()]["case"].head(top))
    others = [case for case in lowest if case not in first]
    if not others:
        return []
    return [
        f"Not among the first, but {count(len(others), 'case')} with a low validation Dice (over "
        f"2 SD below the median): {name_some(others, at_most=10)}. Rank by it with --by dice."
    ]


def note_on_labels(cases: Sequence[str], first: Sequence[str], source: ImageSource) -> list[str]:
    """A note on labels that some of the first cases lack, and most of some others have."""
    others = [case for case in cases if case not in first]

    # Evenly spread over the ranking.
    n_chosen = min(len(others), _OTHERS)
    places = np.linspace(0, len(others) - 1, n_chosen).astype(int)
    chosen = [others[place] for place in places]
    return note_on_absent_labels(_n_voxels(first, source), _n_voxels(chosen, source))


def _n_voxels(cases: Sequence[str], source: ImageSource) -> dict[str, dict[str, int]]:
    """The voxels of each label in the references that can be read."""
    n_voxels = {}
    for case in cases:
        with contextlib.suppress(ValueError, OSError):
            n_voxels[case] = source.labels.n_voxels(source.reference(case))
    return n_voxels
