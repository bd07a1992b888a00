"""Blocks in Markdown."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from nnunet_dro.pages.document import Block, Cell, Figure, Heading, Note, Prose, Table


def markdown(blocks: Sequence[Block]) -> str:
    """Blocks without the figures; all names are escaped, and the text ends with a line break."""
    # Remarks follow each other without a blank line, and so do other notes.
    runs = groupby(
        blocks, key=lambda block: block.kind == "remark" if isinstance(block, Note) else id(block)
    )
    text = "\n\n".join(
        "\n".join(line for block in run for line in _printed(block)) for _, run in runs
    )
    return re.sub(r"\n{3,}", "\n\n", text.strip()) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line, also inside a table and where HTML is allowed."""
    # Entities, not backslashes, for what begins HTML: every flavour of Markdown knows them.
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#!$])", r"\\\1", flat)


def _printed(block: Block) -> list[str]:
    match block:
        case Heading():
            return [f"{'#' * block.level} {escape(block.text)}", ""]
        case Prose(str(text)):
            return [escape(text), ""]
        case Prose(points):
            return [f"- {escape(point)}" for point in points]
        case Note(kind="requirement"):
            word = block.title if block.title == "met" else f"**{block.title}**"
            return [f"- Requirement {word}: {escape(block.text)}"]
        case Note(kind="finding"):
            where = f" ({escape(block.where)})" if block.where else ""
            return [f"- **{escape(block.title)}**{where}: {escape(block.text)}"]
        case Note():
            return [f"> {escape(block.text)}  "]
        case Table():
            return _table(block)
        case Figure():
            return []


def _table(table: Table) -> list[str]:
    rule = "".join(" ---: |" if column.kind == "num" else " --- |" for column in table.columns)
    title = [f"## {escape(table.title)}", ""] if table.title else []
    lines = [
        *title,
        _line(map(escape, table.heads)),
        f"|{rule}",
        *(_line(map(_cell, row)) for row in table.rows),
    ]
    return [
        *lines,
        *(line for note in (*table.notes, *table.hints) for line in ("", escape(note))),
        "",
    ]


def _cell(cell: Cell) -> str:
    text = escape(cell.text) + "".join(cell.marks)
    return " ".join([f"**{text}**" if "best" in cell.kind else text, *map(escape, cell.beside)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
