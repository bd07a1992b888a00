"""What readers are told of the suspects.

The order, the form of its numbers, and the table of the first cases.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from nnunet_dro.inspection.suspects.ranking import DICE, FEW, LOSS, WEIGHT
from nnunet_dro.inspection.suspects.search import Suspects
from nnunet_dro.naming import written
from nnunet_dro.pages.document import Block, Cell, Column, Note, Prose, Table
from nnunet_dro.pages.terminal import printed

#: By what the cases are ranked by: the heading of the score, and what the first ones have.
_SCORE_TITLES = {
    LOSS: "mean rank (%)",
    WEIGHT: "mean weight",
    DICE: "validation Dice",
}
_EXTREMES = {
    LOSS: "loss stays highest",
    WEIGHT: "weight stays lowest",
    DICE: "validation Dice is lowest",
}


def suspects_table(suspects: Suspects, steps: Sequence[str] = ()) -> RenderableType:
    """The first cases of the ranking, with notes and what to do next, for rich's console.

    Rarely seen cases are dim.
    """
    records = suspects.shown.to_dict("records")
    is_by_dice = suspects.by == DICE
    kinds = ["few" if is_few(row) and not is_by_dice else "" for row in records]
    blocks: list[Block] = [
        Table.of(
            f"Cases to look at: {ordering(suspects)}",
            _columns(suspects),
            records,
            row_kinds=kinds,
        )
    ]
    blocks += map(Note, suspects.notes)
    blocks += [Prose(f"Next: {step}", kind="") for step in steps]
    return printed(blocks)


def _columns(suspects: Suspects) -> list[Any]:
    """The columns of the table, each with what it has of a row."""
    is_by_dice = suspects.by == DICE

    def times_seen(row: Mapping[Hashable, Any]) -> Cell:
        is_marked = is_few(row) and not is_by_dice
        return Cell(f"{row['times_seen']:,}", marks={"†": ""} if is_marked else {})

    def picture(row: Mapping[Hashable, Any]) -> str:
        # The page and suspects.csv give the whole reason.
        reason = suspects.reasons.get(row["case"], "")
        return reason.split(":")[0]

    columns: list[Any] = [
        (Column("rank"), lambda row: str(row["rank"])),
        (Column("case", "name"), lambda row: row["case"]),
        (Column(score_title(suspects)), lambda row: score_text(row["score"], suspects)),
        (Column("gap (SD)"), lambda row: written(row["gap"], "+.1f")),
    ]
    if suspects.table["loss"].notna().any():
        columns.append((Column("loss"), lambda row: written(row["loss"], ".3f")))
    if not is_by_dice and suspects.shown["validation_dice"].notna().any():
        columns.append((Column("Dice"), lambda row: written(row["validation_dice"], ".3f")))

    if suspects.log is not None:
        columns.append((Column("seen"), times_seen))
        columns.append((Column("in all"), lambda row: f"{row['times_seen_in_all']:,}"))
    if suspects.shown["trusted"].any():
        columns.append((Column("trusted", "text"), lambda row: "yes" if row["trusted"] else ""))
    if suspects.reasons:
        columns.append((Column("picture", "text"), picture))
    return columns


def ordering(suspects: Suspects) -> str:
    """The order of the ranking, with the epochs that count."""
    log = suspects.log
    about = []
    if log is not None and suspects.by != DICE:
        first = log.epochs[log.first_counted]
        last = log.epochs[-1]
        about.append(f"epoch {last}" if first == last else f"epochs {first} to {last}")
    if len(suspects.folds) > 1:
        about.append(f"{len(suspects.folds)} folds")

    extreme = _EXTREMES[suspects.by]
    return f"{extreme} ({', '.join(about)})" if about else extreme


def score_title(suspects: Suspects) -> str:
    """The heading of the score."""
    return _SCORE_TITLES[suspects.by]


def score_text(score: float, suspects: Suspects) -> str:
    """Write a score: a weight or a Dice with three decimals, a rank in per cent."""
    if suspects.by == LOSS:
        return written(100 * score, ".1f")
    return written(score, ".3f")


def is_few(row: Mapping[Hashable, Any]) -> bool:
    """Whether the case of a row was seen so rarely that its score says little."""
    return bool(row["times_seen"] < FEW)
