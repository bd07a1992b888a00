"""What readers are told of the suspects.

The order, the form of its numbers, and the table of the first cases.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from nnunet_dro.naming import written
from nnunet_dro.pages.document import Cell, Column, Note, Prose, Table
from nnunet_dro.pages.terminal import printed
from nnunet_dro.suspects.ranking import FEW
from nnunet_dro.suspects.search import DICE, LOSS, WEIGHT, Suspects


def suspects_table(suspects: Suspects, steps: Sequence[str] = ()) -> RenderableType:
    """The first cases of the ranking, rarely seen ones dim, with notes and what to do next, for rich's console."""
    records = suspects.shown.to_dict("records")
    by = suspects.by
    has_log = suspects.log is not None
    few = [by != DICE and is_few(row) for row in records]
    columns: list[Any] = [
        (Column("rank"), lambda row: str(row["rank"])),
        (Column("case", "name"), lambda row: row["case"]),
        (Column(score_title(suspects)), lambda row: score_text(row["score"], suspects)),
        (Column("gap (SD)"), lambda row: written(row["gap"], "+.1f")),
    ]
    if suspects.table["loss"].notna().any():
        columns.append((Column("loss"), lambda row: written(row["loss"], ".3f")))
    if by != DICE and suspects.shown["validation_dice"].notna().any():
        columns.append((Column("Dice"), lambda row: written(row["validation_dice"], ".3f")))
    if has_log:
        marks = {"†": ""} if by != DICE else {}
        columns.append(
            (
                Column("seen"),
                lambda row: Cell(f"{row['times_seen']:,}", (), marks if is_few(row) else {}),
            )
        )
        columns.append((Column("in all"), lambda row: f"{row['times_seen_in_all']:,}"))
    if suspects.shown["trusted"].any():
        columns.append((Column("trusted", "text"), lambda row: "yes" if row["trusted"] else ""))
    if suspects.reasons:
        # The page and suspects.csv give the whole reason.
        columns.append(
            (
                Column("picture", "text"),
                lambda row: suspects.reasons.get(row["case"], "").split(":")[0],
            )
        )
    title = f"Cases to look at: {ordering(suspects)}"
    table = Table.of(title, columns, records, row_kinds=["few" if is_one else "" for is_one in few])
    return printed(
        [table, *map(Note, suspects.notes), *(Prose(f"Next: {step}", kind="") for step in steps)]
    )


def ordering(suspects: Suspects) -> str:
    """The order of the ranking, with the epochs that count."""
    folds = f", {len(suspects.folds)} folds" if len(suspects.folds) > 1 else ""
    if suspects.by == DICE or suspects.log is None:
        return f"validation Dice is lowest{folds.replace(', ', ' (') + ')' if folds else ''}"
    log = suspects.log
    first = log.epochs[log.first_counted]
    last = log.epochs[-1]
    epochs = f"epoch {last}" if first == last else f"epochs {first} to {last}"
    return f"{'weight stays lowest' if suspects.by == WEIGHT else 'loss stays highest'} ({epochs}{folds})"


def score_title(suspects: Suspects) -> str:
    """The heading of the score."""
    return {WEIGHT: "mean weight", DICE: "validation Dice"}.get(suspects.by, "mean rank (%)")


def score_text(score: float, suspects: Suspects) -> str:
    """Write a score: a weight or a Dice with three decimals, a rank in per cent."""
    return written(100 * score, ".1f") if suspects.by == LOSS else written(score, ".3f")


def is_few(row: Mapping[Hashable, Any]) -> bool:
    """Whether the case of a row was seen so rarely that its score says little."""
    return bool(row["times_seen"] < FEW)
