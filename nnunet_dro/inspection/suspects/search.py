"""From the folders of folds to what a reader sees: the ranking, the pictures, and notes on them."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.scoring.absent_labels import note_on_absent_labels
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.files.case_log import LOSSES, WEIGHTS, EpochLog, mean_log, read_logs
from nnunet_dro.files.case_table import dividing_attributes
from nnunet_dro.inspection.images import CaseSlice, ImageSource, find_images, slice_of
from nnunet_dro.inspection.suspects.ranking import (
    DICE,
    FEW,
    LOSS,
    WEIGHT,
    below_most,
    rank_by_dice,
    rank_folds,
)
from nnunet_dro.inspection.suspects.words import WORDS
from nnunet_dro.inspection.training import described_cases, validation_dice
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import Fold, folds_of

#: Cases beside the first ones whose reference is read, to know which labels are usual.
_OTHERS = 20


@dataclass(frozen=True, eq=False)
class Suspects:
    """The cases of a training in the order in which to look at them."""

    folds: tuple[Fold, ...]  # the folds of one model on which they were trained or validated
    by: str  # what they are ranked by: ``loss``, ``weight`` or ``dice``
    #: The log by which they are ranked, averaged over the folds; by Dice, the losses if there are
    #: any.
    log: EpochLog | None
    #: The ranking, as `rank_folds` returns it, with ``validation_dice`` (NaN if it is unknown) and
    #: ``trusted``. Cases that were only validated have no rank, unless the Dice ranks.
    table: pd.DataFrame
    top: int  # number of cases to show
    pictures: Mapping[str, CaseSlice]  # slice of each of the first ``top`` cases that has a picture
    reasons: Mapping[str, str]  # reason why a picture is lacking, for each of the others of these
    labels: Labels | None  # the labels that the outlines of the slices name; None without pictures
    #: Of each column of the case table that divides the cases, the entry of each case.
    strata: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...]  # sentences that a reader has to know

    @property
    def shown(self) -> pd.DataFrame:
        """The rows of the first ``top`` cases that have a score."""
        return self.table[self.table["score"].notna()].head(self.top)

    def is_few(self, times_seen: Any) -> Any:
        """Whether so few visits of a case, or of each case, leave its rank to chance.

        They never do if the Dice ranks.
        """
        return (times_seen < FEW) & (self.by != DICE)


def find_suspects(
    folders: Path | Sequence[Path],
    *,
    top: int = 20,
    by: str | None = None,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> Suspects:
    """Rank the cases of one or several folds of a model, and make pictures of the first ones.

    Args:
        folders: The folders of the folds, or of a model.
        top: Number of cases to make pictures of; where there is none, the reason is kept.
        by: ``loss``, ``weight`` or ``dice``; default: losses if there are any, else weights.
        progress: Called with the numbers of pictures that are made and of all.

    Raises:
        FileNotFoundError: If there is nothing to rank by.
        ValueError: If an option is wrong or a log is damaged.
    """
    if top < 1:
        raise ValueError(
            f"`top` must be 1 or more, got {top}. Give the number of cases to look at."
        )
    if isinstance(folders, Path):
        folders = [folders]

    folds = folds_of(folders)
    ranked_by, log, table, notes_on_files = _ranking(folds, by)
    described, notes_on_table = described_cases(folds[0], table["case"].tolist())
    table["trusted"] = False
    if "trusted" in described:
        table["trusted"] = described.pop("trusted").str.lower().isin(("yes", "true")).to_numpy()

    first = table[table["score"].notna()].head(top)["case"].tolist()
    source, note_on_source = find_images(folds[0])
    pictures, reasons = _pictures(first, source, progress)

    labels = None
    notes = _notes_on_ranking(ranked_by, log, table, top)
    if source is not None:
        labels = source.labels
        notes += _note_on_labels(table["case"].tolist(), list(pictures), source)
    notes += [*notes_on_files, *notes_on_table]
    if note_on_source:
        notes.append(note_on_source)

    return Suspects(
        folds=tuple(folds),
        by=ranked_by,
        log=log,
        table=table,
        top=top,
        pictures=pictures,
        reasons=reasons,
        labels=labels,
        strata=described[dividing_attributes(described)].to_dict(),
        notes=tuple(notes),
    )


def _ranking(
    folds: Sequence[Fold], by: str | None
) -> tuple[str, EpochLog | None, pd.DataFrame, list[str]]:
    """Rank the cases.

    Returns:
        What they are ranked by, the log (None if there is none), the table without ``trusted``, and
        notes on the files.
    """
    dice, notes_on_dice = validation_dice(folds)
    logs, notes_on_logs = _logs(folds, by)
    log = mean_log([log for log, _ in logs]) if logs else None

    if log is not None and by != DICE:
        ranked_by = log.kind.value
        table = rank_folds(logs)
    elif dice.empty:
        raise _no_validation(folds, is_unusable=bool(notes_on_dice))
    else:
        ranked_by = DICE
        table = rank_by_dice(dice, rank_folds(logs) if logs else None)

    notes = [*notes_on_dice, *notes_on_logs]
    return ranked_by, log, _with_validation(table, dice), notes


def _logs(
    folds: Sequence[Fold], by: str | None
) -> tuple[list[tuple[EpochLog, EpochLog | None]], list[str]]:
    """The logs of the folds that have the one to rank by, and a note on the others.

    By Dice, these are the losses of the folds that have any.
    """
    if by not in (None, LOSS, WEIGHT, DICE):
        raise ValueError(
            f"`by` must be loss, weight or dice, got {by!r}. Leave it out to rank by losses if "
            "there are any."
        )
    has_losses = any((fold.folder / LOSSES.file).is_file() for fold in folds)
    kind = LOSSES
    if by == WEIGHT or (by is None and not has_losses):
        kind = WEIGHTS

    logged = [fold for fold in folds if (fold.folder / kind.file).is_file()]
    if not logged and by != DICE:
        # It raises the error that says which log is lacking.
        read_logs(folds[0].folder, by=kind)

    notes = []
    lacking = [fold.folder.name for fold in folds if fold not in logged]
    if logged and lacking:
        notes.append(f"Left out because they have no {kind.file}: {name_some(lacking)}.")
    return [read_logs(fold.folder, by=kind) for fold in logged], notes


def _no_validation(folds: Sequence[Fold], *, is_unusable: bool) -> FileNotFoundError:
    """The error where cases are to be ranked by a Dice that no fold has."""
    folder = folds[0].folder
    where = folder.parent if len(folds) > 1 else folder
    lacking = "no validation/summary.json"
    cure = "Wait for nnU-Net's validation, or leave it out. Fold all has none that is out of fold."
    if is_unusable:
        lacking = "no usable validation/summary.json"
        cure = "Let nnU-Net validate again (nnUNetv2_train with --val)."
    return FileNotFoundError(f"`by` dice must be known, got {lacking} in {str(where)!r}. {cure}")


def _with_validation(table: pd.DataFrame, dice: pd.Series) -> pd.DataFrame:
    """The ranking with the validation Dice, and at the end the cases that were only validated."""
    only_validated = sorted(set(dice.index) - set(table["case"]))
    cases = [*table["case"], *only_validated]
    together = table.set_index("case").reindex(cases).assign(validation_dice=dice)

    # Cases that were only validated were never seen.
    counts = ["times_seen", "times_seen_in_all", "folds"]
    together[counts] = together[counts].fillna(0).astype("int64")

    columns = [*table.columns, "validation_dice"]
    return together.rename_axis("case").reset_index()[columns]


def _pictures(
    cases: list[str], source: ImageSource | None, progress: Callable[[int, int], None]
) -> tuple[dict[str, CaseSlice], dict[str, str]]:
    """The slices of the cases, and the reasons why others have none."""
    pictures: dict[str, CaseSlice] = {}
    reasons: dict[str, str] = {}
    if source is None:
        return pictures, reasons

    for n, case in enumerate(cases, start=1):
        try:
            pictures[case] = slice_of(source.read(case), source.labels)
        except FileNotFoundError as error:
            reasons[case] = f"no longer in the dataset: {error}"
        except (ValueError, OSError) as error:
            reasons[case] = f"no picture: {error}"
        progress(n, len(cases))
    return pictures, reasons


def _notes_on_ranking(by: str, log: EpochLog | None, table: pd.DataFrame, top: int) -> list[str]:
    """What the ranking does not prove, which cases are not ranked, and whose ranks say little."""
    is_scored = table["score"].notna()
    notes = WORDS.sentences("caveat", by=by)
    if log is None or by == DICE:
        return notes + WORDS.sentences("about_unvalidated", n_cases=int((~is_scored).sum()))

    is_in_log = table["case"].isin(log.cases)
    notes += WORDS.sentences(
        "about_log",
        n_epochs=len(log.epochs),
        n_scored=int(is_scored.sum()),
        n_few=int((is_scored & (table["times_seen"] < FEW)).sum()),
        n_unscored=int((~is_scored & is_in_log).sum()),
        n_validated=int((~is_in_log).sum()),
    )

    is_low = below_most(table["validation_dice"])
    lowest = table[is_low].sort_values(["validation_dice", "case"])["case"].head(top)
    first = set(table[is_scored]["case"].head(top))
    others = [case for case in lowest if case not in first]
    return notes + WORDS.sentences("about_lowest_dice", cases=others)


def _note_on_labels(cases: Sequence[str], first: Sequence[str], source: ImageSource) -> list[str]:
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
