"""From the folders of folds to what a reader sees: the ranking, the pictures, and notes on them."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.nnunet_summary import read_summary
from nnunet_dro.evaluation.scoring.label_maps import Labels, note_on_absent_labels
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.files.case_log import LOSSES, WEIGHTS, EpochLog, mean_log, read_logs
from nnunet_dro.files.case_table import MISSING, dividing_attributes, find_case_table, read_cases
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import Fold, folds_of
from nnunet_dro.suspects.images import ImageSource, Slice, find_images, slice_of
from nnunet_dro.suspects.ranking import FEW, below_most, rank_by_dice, rank_folds

_OTHERS = 20  # Cases beside the first ones whose reference is read, to know which labels are usual.

#: What the cases can be ranked by: the stale loss, the learnt weight, or the out-of-fold validation
#: Dice.
LOSS = LOSSES.value
WEIGHT = WEIGHTS.value
DICE = "dice"

#: What the ranking does not prove, by what it follows.
CAVEATS = {
    WEIGHT: (
        "A low weight marks a case to look at, not an error: a correct case that is unlike the trusted ones gets low "
        "weights as well."
    ),
    LOSS: (
        "A high loss marks a case to look at, not an error: hard anatomy has high losses, too, and a wrong label that "
        "the network has learnt by heart has a small one."
    ),
    DICE: (
        "A low Dice marks a case to look at, not an error: hard anatomy has a low Dice, too. The network has not seen "
        "the case, and cannot have learnt a wrong label by heart."
    ),
}


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
    pictures: Mapping[str, Slice]  # slice of each of the first ``top`` cases that has a picture
    reasons: Mapping[str, str]  # reason why a picture is lacking, for each of the others of these
    labels: Labels | None  # the labels that the outlines of the slices name; None without pictures
    strata: Mapping[
        str, Mapping[str, str]
    ]  # column of the case table that divides the cases to the entry of each case
    notes: tuple[str, ...]  # sentences that a reader has to know

    @property
    def shown(self) -> pd.DataFrame:
        """The rows of the first ``top`` cases that have a score."""
        return self.table[self.table["score"].notna()].head(self.top)


def find_suspects(
    folders: Path | Sequence[Path],
    *,
    top: int = 20,
    by: str | None = None,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> Suspects:
    """Rank the cases of one or several folds of a model, and make pictures of the first ones, or say why not."""
    if top < 1:
        raise ValueError(
            f"`top` must be 1 or more, got {top}. Give the number of cases to look at."
        )
    folds = folds_of([folders] if isinstance(folders, Path) else folders)
    dice, unusable = _validation_dice(folds)
    notes = [*unusable]
    logs = _logs(folds, by, notes)
    log = mean_log([log for log, _ in logs]) if logs else None
    ranked_by = log.kind.value if log and by != DICE else DICE
    if ranked_by == DICE:
        if dice.empty:
            where = str(folds[0].folder.parent if len(folds) > 1 else folds[0].folder)
            cure = "Wait for nnU-Net's validation, or leave it out. Fold all has none that is out of fold."
            cure = "Let nnU-Net validate again (nnUNetv2_train with --val)." if unusable else cure
            got = f"no {'usable ' * bool(unusable)}validation/summary.json in {where!r}"
            raise FileNotFoundError(f"`by` dice must be known, got {got}. {cure}")
        table = rank_by_dice(dice, rank_folds(logs) if logs else None)
    else:
        table = rank_folds(logs)
    table = _with_signals(table, dice)
    described, about_cases = _described_cases(folds[0])
    described = described.reindex(pd.Index(table["case"]), fill_value=MISSING)
    trusted = (
        described.pop("trusted").str.lower().to_numpy() == "yes"
        if "trusted" in described
        else False
    )
    table["trusted"] = trusted
    source, note = find_images(folds[0])
    first = table[table["score"].notna()].head(top)["case"].tolist()
    pictures, reasons = _pictures(first, source, progress) if source else ({}, {})
    about_labels = _absent_labels(table["case"].tolist(), list(pictures), source) if source else []
    about = [
        *_notes(ranked_by, log, table, top),
        *about_labels,
        *notes,
        *about_cases,
        *([note] if note else []),
    ]
    labels = source.labels if source else None
    strata = {name: described[name].to_dict() for name in dividing_attributes(described)}
    return Suspects(
        tuple(folds),
        ranked_by,
        log,
        table,
        top,
        pictures,
        reasons,
        labels,
        strata,
        (CAVEATS[ranked_by], *about),
    )


def _logs(
    folds: Sequence[Fold], by: str | None, notes: list[str]
) -> list[tuple[EpochLog, EpochLog | None]]:
    """The logs of the folds that have the one to rank by.

    By Dice, the losses of those that have any.
    """
    if by not in (None, LOSS, WEIGHT, DICE):
        cure = "Leave it out to rank by losses if there are any."
        raise ValueError(f"`by` must be loss, weight or dice, got {by!r}. {cure}")
    has_losses = any((fold.folder / LOSSES.file).is_file() for fold in folds)
    kind = WEIGHTS if by == WEIGHT or (by is None and not has_losses) else LOSSES
    there = [fold for fold in folds if (fold.folder / kind.file).is_file()]
    if by != DICE and not there:
        read_logs(folds[0].folder, by=kind)  # which says what is lacking
    if there and (lacking := [fold.folder.name for fold in folds if fold not in there]):
        notes.append(f"Left out because they have no {kind.file}: {name_some(lacking)}.")
    return [read_logs(fold.folder, by=kind) for fold in there]


def _with_signals(table: pd.DataFrame, dice: pd.Series) -> pd.DataFrame:
    """The ranking with the validation Dice, and at the end the cases that were only validated."""
    cases = [*table["case"], *sorted(set(dice.index) - set(table["case"]))]
    together = table.set_index("case").reindex(cases).assign(validation_dice=dice)
    counts = ["times_seen", "times_seen_in_all", "folds"]
    together[counts] = together[counts].fillna(0).astype("int64")
    return together.rename_axis("case").reset_index()[[*table.columns, "validation_dice"]]


def _pictures(
    cases: list[str], source: ImageSource, progress: Callable[[int, int], None]
) -> tuple[dict[str, Slice], dict[str, str]]:
    pictures = {}
    reasons = {}
    for n, case in enumerate(cases):
        try:
            pictures[case] = slice_of(source.read(case), source.labels)
        except FileNotFoundError as error:
            reasons[case] = f"no longer in the dataset: {error}"
        except (ValueError, OSError) as error:
            reasons[case] = f"no picture: {error}"
        progress(n + 1, len(cases))
    return pictures, reasons


def _absent_labels(cases: Sequence[str], first: Sequence[str], source: ImageSource) -> list[str]:
    """A note on labels that some of the first cases lack, and most of some others have."""
    others = [case for case in cases if case not in first]
    chosen = [
        others[n] for n in np.linspace(0, len(others) - 1, min(len(others), _OTHERS)).astype(int)
    ]
    n_voxels = {}
    for case in (*first, *chosen):
        with contextlib.suppress(ValueError, OSError):
            n_voxels[case] = source.labels.n_voxels(source.reference(case))
    of_first, of_others = (
        {case: n_voxels[case] for case in part if case in n_voxels} for part in (first, chosen)
    )
    return note_on_absent_labels(of_first, of_others)


def _notes(by: str, log: EpochLog | None, table: pd.DataFrame, top: int) -> list[str]:
    notes = []
    scored = table["score"].notna()
    if log is not None and by != DICE:
        if len(log.epochs) < 10:
            notes.append(
                f"The log holds {count(len(log.epochs), 'epoch')}: too few to tell what lasts."
            )
        if n_few := int((scored & (table["times_seen"] < FEW)).sum()):
            which = f"{count(n_few, 'case')} of {int(scored.sum()):,}"
            notes.append(
                f"Seen fewer than {FEW} times in the epochs that count, marked †: {which}. Ranks say little."
            )
        in_log = table["case"].isin(log.cases)
        if n_unscored := int((~scored & in_log).sum()):
            notes.append(
                f"Not seen in the epochs that count, and therefore not ranked: {count(n_unscored, 'case')}."
            )
        if n_validated := int((~in_log).sum()):
            notes.append(
                f"Only validated in these folds, and therefore not ranked: {count(n_validated, 'case')}."
            )
        notes += _lowest_dice(table, top)
    elif n_unscored := int((~scored).sum()):
        notes.append(
            f"Without validation Dice in these folds, and therefore not ranked: {count(n_unscored, 'case')}."
        )
    return notes


def _lowest_dice(table: pd.DataFrame, top: int) -> list[str]:
    """A sentence on the cases of clearly low validation Dice that are not among the first."""
    lowest = (
        table[below_most(table["validation_dice"])]
        .sort_values(["validation_dice", "case"])["case"]
        .head(top)
    )
    shown = set(table[table["score"].notna()]["case"].head(top))
    if not (others := [case for case in lowest if case not in shown]):
        return []
    which = f"{count(len(others), 'case')} with a low validation Dice (over 2 SD below the median)"
    return [
        f"Not among the first, but {which}: {name_some(others, at_most=10)}. Rank by it with --by dice."
    ]


def _validation_dice(folds: Sequence[Fold]) -> tuple[pd.Series, list[str]]:
    """The mean Dice of every case in the validation of the fold trained without it (not ``all``), and notes."""
    parts = []
    lacking = []
    notes = []
    for fold in folds:
        path = fold.folder / "validation" / "summary.json"
        if fold.folder.name == "fold_all":
            continue
        if not path.is_file():
            lacking.append(fold.folder.name)
            continue
        try:
            scores, _ = read_summary(path, None, Scoring(("dice",)))
        except ValueError as error:
            notes.append(f"The validation of {fold.folder.name} is left out: {error}")
        else:
            parts.append(scores.groupby("case")["dice"].mean())
    if parts and lacking:
        notes.append(
            f"No validation Dice of {name_some(lacking)}, whose validation/summary.json does not exist."
        )
    if not parts:
        return pd.Series(dtype="float64", name="validation_dice"), notes
    together = pd.concat(parts)
    return together.groupby(together.index).mean().rename("validation_dice"), notes


def _described_cases(fold: Fold) -> tuple[pd.DataFrame, list[str]]:
    """What the dataset's case table says of the cases."""
    path = find_case_table(*map(fold.dataset_folder, ("nnUNet_preprocessed", "nnUNet_raw")))
    try:
        return (read_cases(path).set_index("case") if path else pd.DataFrame()), []
    except ValueError as error:
        return pd.DataFrame(), [f"The case table is not used: {error}"]
