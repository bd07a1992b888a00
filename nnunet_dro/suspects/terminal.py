"""The table for the terminal, and the form of its numbers."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nnunet_dro.pages.wording import NO_VALUE, plain
from nnunet_dro.suspects.ranking import FEW
from nnunet_dro.suspects.search import DICE, LOSS, WEIGHT, Suspects


def suspects_table(suspects: Suspects, steps: Sequence[str] = ()) -> RenderableType:
    """Show the first cases of the ranking, with the notes on them.

    Args:
        suspects: The cases, as `find_suspects` returns them.
        steps: What to do next, in sentences.

    Returns:
        A table for rich's console. Markup in names from files has no effect; cases that were rarely seen are dim.
    """
    rows = suspects.shown.to_dict("records")
    title = f"Cases to look at: {ordering(suspects)}"
    shown = Table(title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    shown.add_column("rank", justify="right")
    shown.add_column("case", overflow="fold")
    optional = {
        "loss": bool(suspects.table["loss"].notna().any()),
        "Dice": suspects.by != DICE and bool(suspects.shown["validation_dice"].notna().any()),
        "seen": suspects.log is not None,
        "in all": suspects.log is not None,
        "trusted": bool(suspects.shown["trusted"].any()),
    }
    heads = [name for name, is_there in optional.items() if is_there]
    for head in [score_title(suspects), "gap (SD)", *heads]:
        shown.add_column(head, justify="right")
    if suspects.reasons:
        shown.add_column("picture", overflow="fold")
    for row in rows:
        few = suspects.by != DICE and is_few(row)
        cells = {
            "loss": decimals(row["loss"], 3),
            "Dice": decimals(row["validation_dice"], 3),
            "seen": f"{row['times_seen']:,}{'†' if few else ''}",
            "in all": f"{row['times_seen_in_all']:,}",
            "trusted": "yes" if row["trusted"] else "",
        }
        numbers = [score_text(row["score"], suspects), decimals(row["gap"], 1, signed=True), *map(cells.get, heads)]
        # The page and suspects.csv give the whole reason.
        reason = [suspects.reasons.get(row["case"], "").split(":")[0]] if suspects.reasons else []
        words = [str(row["rank"]), row["case"], *(str(number) for number in numbers), *reason]
        shown.add_row(*(Text(plain(word)) for word in words), style="dim" if few else None)
    notes = [Text(plain(f"Note: {note}"), style="yellow") for note in suspects.notes]
    return Group(shown, *notes, *(Text(plain(f"Next: {step}")) for step in steps))


def ordering(suspects: Suspects) -> str:
    """The order of the ranking, with the epochs that count."""
    folds = f", {len(suspects.folds)} folds" if len(suspects.folds) > 1 else ""
    if suspects.by == DICE or suspects.log is None:
        return f"validation Dice is lowest{folds.replace(', ', ' (') + ')' if folds else ''}"
    log = suspects.log
    first, last = log.epochs[log.first_counted], log.epochs[-1]
    epochs = f"epoch {last}" if first == last else f"epochs {first} to {last}"
    return f"{'weight stays lowest' if suspects.by == WEIGHT else 'loss stays highest'} ({epochs}{folds})"


def score_title(suspects: Suspects) -> str:
    """The heading of the score."""
    return {WEIGHT: "mean weight", DICE: "validation Dice"}.get(suspects.by, "mean rank (%)")


def score_text(score: float, suspects: Suspects) -> str:
    """Write a score: a weight or a Dice with three decimals, a rank in per cent."""
    return decimals(100 * score, 1) if suspects.by == LOSS else decimals(score, 3)


def is_few(row: Mapping[Hashable, Any]) -> bool:
    """Whether the case of a row was seen so rarely that its score says little."""
    return bool(row["times_seen"] < FEW)


def decimals(value: float, n: int, *, signed: bool = False) -> str:
    """Write a number with ``n`` decimals, and with its sign if ``signed``; NaN is a dash."""
    if math.isnan(value):
        return NO_VALUE
    text = f"{round(value, n) + 0.0:{'+' if signed else ''}.{n}f}"
    return text.replace("-", "−")
