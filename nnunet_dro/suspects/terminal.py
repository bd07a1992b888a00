"""The table for the terminal, and the form of its numbers."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nnunet_dro.pages.wording import NO_VALUE, plain
from nnunet_dro.suspects.epoch_log import WEIGHTS, EpochLog
from nnunet_dro.suspects.ranking import FEW
from nnunet_dro.suspects.search import Suspects


def suspects_table(suspects: Suspects) -> RenderableType:
    """Show the first cases of the ranking, with the notes on them.

    Args:
        suspects: The cases, as `find_suspects` returns them.

    Returns:
        A table for rich's console. Markup in names from files has no effect; cases that were rarely seen are dim.
    """
    rows = suspects.shown.to_dict("records")
    title = f"Cases to look at: {ordering(suspects.log)}"
    shown = Table(title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    shown.add_column("rank", justify="right")
    shown.add_column("case", overflow="fold")
    has_loss = bool(suspects.table["loss"].notna().any())
    heads = [score_title(suspects.log), "gap (SD)", *(["loss"] if has_loss else []), "seen", "in all"]
    for head in heads:
        shown.add_column(head, justify="right")
    if suspects.reasons:
        shown.add_column("picture", overflow="fold")
    for row in rows:
        few = is_few(row)
        numbers = [score_text(row["score"], suspects.log), decimals(row["gap"], 1, signed=True)]
        numbers += [decimals(row["loss"], 3)] if has_loss else []
        numbers += [f"{row['times_seen']:,}{'†' if few else ''}", f"{row['times_seen_in_all']:,}"]
        # The page and suspects.csv give the whole reason.
        reason = [suspects.reasons.get(row["case"], "").split(":")[0]] if suspects.reasons else []
        cells = [str(row["rank"]), row["case"], *numbers, *reason]
        shown.add_row(*(Text(plain(cell)) for cell in cells), style="dim" if few else None)
    return Group(shown, *(Text(plain(f"Note: {note}"), style="yellow") for note in suspects.notes))


def ordering(log: EpochLog) -> str:
    """The order of the ranking, with the epochs that count."""
    first, last = log.epochs[log.first_counted], log.epochs[-1]
    epochs = f"epoch {last}" if first == last else f"epochs {first} to {last}"
    return f"{'weight stays lowest' if log.kind == WEIGHTS else 'loss stays highest'} ({epochs})"


def score_title(log: EpochLog) -> str:
    """The heading of the score."""
    return "mean weight" if log.kind == WEIGHTS else "mean rank (%)"


def score_text(score: float, log: EpochLog) -> str:
    """Write a score: a weight with three decimals, a rank in per cent."""
    return decimals(score, 3) if log.kind == WEIGHTS else decimals(100 * score, 1)


def is_few(row: Mapping[Hashable, Any]) -> bool:
    """Whether the case of a row was seen so rarely that its score says little."""
    return bool(row["times_seen"] < FEW)


def decimals(value: float, n: int, *, signed: bool = False) -> str:
    """Write a number with ``n`` decimals, and with its sign if ``signed``; NaN is a dash."""
    if math.isnan(value):
        return NO_VALUE
    text = f"{round(value, n) + 0.0:{'+' if signed else ''}.{n}f}"
    return text.replace("-", "−")
