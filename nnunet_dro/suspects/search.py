"""From the folder of a fold to what a reader sees: the ranking, the pictures, and notes on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nnunet_dro.evaluation.labels import Labels
from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.pages.wording import count
from nnunet_dro.suspects.epoch_log import HARDNESS, WEIGHTS, EpochLog, read_logs
from nnunet_dro.suspects.images import ImageSource, find_images
from nnunet_dro.suspects.pictures import Slice, slice_of
from nnunet_dro.suspects.ranking import FEW, rank_cases

#: What the ranking does not prove, by kind of log.
CAVEATS = {
    WEIGHTS: (
        "A low weight marks a case to look at, not an error: a correct case that is unlike the trusted ones gets low "
        "weights as well."
    ),
    HARDNESS: (
        "A high loss marks a case to look at, not an error: hard anatomy has high losses, too, and a wrong label that "
        "the network has learnt by heart has a small one."
    ),
}


@dataclass(frozen=True, eq=False)
class Suspects:
    """The cases of a training in the order in which to look at them.

    Attributes:
        fold: The fold on which they were trained.
        log: The log by which they are ranked.
        table: The ranking, as `rank_cases` returns it.
        top: Number of cases to show.
        pictures: Slice of each of the first ``top`` cases that has a picture.
        reasons: Reason why a picture is lacking, for each of the others of these.
        labels: The labels that the outlines of the slices name; None without pictures.
        notes: Sentences that a reader has to know.
    """

    fold: Fold
    log: EpochLog
    table: pd.DataFrame
    top: int
    pictures: Mapping[str, Slice]
    reasons: Mapping[str, str]
    labels: Labels | None
    notes: tuple[str, ...]

    @property
    def shown(self) -> pd.DataFrame:
        """The rows of the first ``top`` cases that have a score."""
        return self.table[self.table["score"].notna()].head(self.top)


def find_suspects(
    folder: Path, *, top: int = 20, by: str | None = None, progress: Callable[[int, int], None] | None = None
) -> Suspects:
    """Rank the training cases of a fold, and make pictures of the first ones.

    Args:
        folder: Results folder of the fold, ``DATASET/TRAINER__PLANS__CONFIGURATION/fold_X``.
        top: Number of cases to make pictures of.
        by: Log to rank by, ``weight`` or ``loss``; None for weights if there are any, else losses.
        progress: Function to call with the number of finished pictures and the number of all pictures.

    Returns:
        The cases and their pictures. A case whose image does not exist or is damaged has a reason instead.

    Raises:
        FileNotFoundError: If the folder or the log does not exist.
        ValueError: If ``top`` is below 1, ``by`` is something else, the folder is not that of a fold, or a log is
            empty or damaged.
    """
    if top < 1:
        raise ValueError(f"`top` must be 1 or more, got {top}. Give the number of cases to look at.")
    fold = Fold.of(folder)
    log, losses = read_logs(fold.folder, by=by)
    table = rank_cases(log, losses)
    source, note = find_images(fold)
    first = table[table["score"].notna()].head(top)["case"].tolist()
    pictures, reasons = _pictures(first, source, progress) if source else ({}, {})
    notes = (CAVEATS[log.kind], *_notes(log, table), *([note] if note else []))
    return Suspects(fold, log, table, top, pictures, reasons, source.labels if source else None, notes)


def _pictures(
    cases: list[str], source: ImageSource, progress: Callable[[int, int], None] | None
) -> tuple[dict[str, Slice], dict[str, str]]:
    pictures, reasons = {}, {}
    for n, case in enumerate(cases):
        try:
            pictures[case] = slice_of(source.read(case), source.labels)
        except FileNotFoundError as error:
            reasons[case] = f"no longer in the dataset: {error}"
        except (ValueError, OSError) as error:
            reasons[case] = f"no picture: {error}"
        if progress:
            progress(n + 1, len(cases))
    return pictures, reasons


def _notes(log: EpochLog, table: pd.DataFrame) -> list[str]:
    notes = []
    if len(log.epochs) < 10:
        notes.append(f"The log holds {count(len(log.epochs), 'epoch')}: too few to tell what lasts.")
    scored = table["score"].notna()
    if n_few := int((scored & (table["times_seen"] < FEW)).sum()):
        which = f"{count(n_few, 'case')} of {int(scored.sum()):,}"
        notes.append(
            f"Seen fewer than {FEW} times in the epochs that count, marked †: {which}. Their ranks say little."
        )
    if n_unscored := int((~scored).sum()):
        notes.append(f"Not seen in the epochs that count, and therefore not ranked: {count(n_unscored, 'case')}.")
    return notes
