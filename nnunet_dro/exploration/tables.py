"""An exploration in sentences and in a table, as the page and the terminal show both."""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from nnunet_dro.evaluation.report.formatting import number, p_value, unit_sign
from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.exploration.words import WORDS, title
from nnunet_dro.naming import share
from nnunet_dro.pages.document import Block, Cell, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.terminal import printed


def exploration_table(exploration: Exploration) -> RenderableType:
    """The combinations that were tested, and what was found, for rich's console.

    Names are shown as they are.
    """
    blocks: list[Block] = [
        Heading(heading(exploration)),
        Prose(size(exploration), kind=""),
        *tested_combinations(exploration),
        Prose(exploration_findings(exploration)),
        *map(Note, exploration.notes),
    ]
    return printed(blocks)


def heading(exploration: Exploration) -> str:
    """What stands out."""
    names = [title(row) for row in exploration.confirmed.to_dict("records")]
    return WORDS.sentence("heading", names=names)


def size(exploration: Exploration) -> str:
    """What was looked at, and on how many cases."""
    return WORDS.sentence("size", of=exploration)


def exploration_findings(exploration: Exploration) -> list[str]:
    """A sentence per combination that was confirmed, or one that says that there is none."""
    return WORDS.sentences("findings", of=exploration)


def tested_combinations(exploration: Exploration) -> list[Table]:
    """The table of the combinations that were tested, if there are any."""
    return [_combinations_table(exploration)] if len(exploration.table) else []


def _combinations_table(exploration: Exploration) -> Table:
    """The combinations that were tested, in the order of the search."""
    metric = exploration.known_metric
    has_labels = len(exploration.labels) > 1

    def name(row: Mapping[Any, Any]) -> Cell:
        twins = row["same_cases"]
        return Cell(title(row), (f"the same cases: {twins}",)) if twins else Cell(title(row))

    def counted(row: Mapping[Any, Any]) -> str:
        n_worst = row["n_worst_test"]
        n = f"{row['n_test']:,}"
        return f"{n} ({n_worst} as worst)" if n_worst else n

    def when_found(row: Mapping[Any, Any]) -> Cell:
        mean = number(row["mean_search"], metric)
        rest = number(row["mean_rest_search"], metric)
        return Cell(f"{mean} / {rest}", (f"n = {row['n_search']:,}",))

    columns: list[Any] = [(Column("Combination", "name", spare="below"), name)]
    if has_labels:
        columns.append((Column("Label", "text"), lambda row: str(row["label"])))
    columns += [
        (Column("n"), counted),
        (Column(f"Mean ({unit_sign(metric)})"), lambda row: number(row["mean_test"], metric)),
        (Column("Of the rest"), lambda row: number(row["mean_rest_test"], metric)),
        (Column("Worse in"), lambda row: share(row["share_lower"])),
        (Column("Holm p"), lambda row: p_value(row["holm_p"])),
        (Column("Confirmed", "text"), lambda row: "yes" if row["confirmed"] else "no"),
        (Column("When found: mean / rest", spare="column"), when_found),
    ]

    records = exploration.table.to_dict("records")
    return Table.of(
        "Combinations that were tested",
        columns,
        records,
        notes=tuple(WORDS.sentences("notes", has_labels=has_labels)),
        notes_below=tuple(WORDS.sentences("note_on_search")),
        row_kinds=["confirmed" if row["confirmed"] else "refuted" for row in records],
    )
