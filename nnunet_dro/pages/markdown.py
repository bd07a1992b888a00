"""Blocks in Markdown."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby

from nnunet_dro.pages.document import (
    Block,
    Cell,
    Figure,
    Heading,
    Note,
    Prose,
    Table,
    unsaid,
)

#: Entities, not backslashes, for what begins HTML: every flavour of Markdown knows them.
_ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {sign: f"\\{sign}" for sign in r"\`*_[]|~#!$"}
)


def markdown(blocks: Sequence[Block], *, level: int = 2) -> str:
    """Blocks without the figures; all names are escaped, and the text ends with a line break.

    ``level`` is that of the headings of tables.
    """
    paragraphs = []
    said: set[str] = set()
    for _, run in groupby(blocks, key=_run_of):
        lines = []
        for block in run:
            lines += _printed(block, said, level)
        paragraphs.append("\n".join(lines))

    text = "\n\n".join(paragraphs).strip()
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


@lru_cache(maxsize=1 << 14)
def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line.

    It may stand inside a table, and where HTML is allowed.
    """
    return " ".join(text.split()).translate(_ESCAPED)


def _run_of(block: Block) -> object:
    """What blocks share that follow each other without a blank line: remarks, or other notes."""
    if isinstance(block, Note):
        return block.kind == "remark"
    return id(block)


def _printed(block: Block, said: set[str], level: int) -> list[str]:
    """The lines of a block; the last one is empty where a blank line has to follow.

    Tables lack what tables above have said, to which they add.
    """
    match block:
        case Heading():
            return [f"{'#' * block.level} {escape_markdown(block.text)}", ""]
        case Prose(str(text)):
            return [escape_markdown(text), ""]
        case Prose(points):
            return [f"- {escape_markdown(point)}" for point in points]
        case Note(kind="requirement"):
            word = block.title if block.title == "met" else f"**{block.title}**"
            return [f"- Requirement {word}: {escape_markdown(block.text)}"]
        case Note(kind="finding"):
            where = f" ({escape_markdown(block.where)})" if block.where else ""
            return [f"- **{escape_markdown(block.title)}**{where}: {escape_markdown(block.text)}"]
        case Note():
            return [f"> {escape_markdown(block.text)}  "]
        case Table():
            return _table(block, unsaid(block.key, said), level)
        case Figure():
            return []


def _table(table: Table, key: Sequence[str], level: int) -> list[str]:
    lines = []
    if table.title:
        lines += [f"{'#' * level} {escape_markdown(table.title)}", ""]

    rules = ["---:" if column.kind == "num" else "---" for column in table.columns]
    lines.append(_line(map(escape_markdown, table.heads)))
    lines.append(_line(rules))
    lines += [_line(map(_cell, row)) for row in table.rows]

    if key:
        lines += ["", escape_markdown(" ".join(key))]
    lines.append("")
    return lines


def _cell(cell: Cell) -> str:
    text = escape_markdown(cell.text) + "".join(cell.marks)
    if "best" in cell.kind:
        text = f"**{text}**"

    return " ".join([text, *map(escape_markdown, cell.beside)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
