"""Blocks in Markdown."""

import re
from collections.abc import Iterable, Sequence

from nnunet_dro.pages.document import Block, Cell, Figure, Heading, Note, Prose, Table


def markdown(blocks: Sequence[Block]) -> str:
    """Blocks without the figures; all names are escaped, and the text ends with a line break."""
    lines: list[str] = []
    before: Block | None = None
    for block in blocks:
        is_listed = isinstance(block, Note) and isinstance(before, Note)
        if not is_listed or _is_remark(block) != _is_remark(before):
            lines.append("")
        lines += _printed(block)
        before = block
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip()) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line, also inside a table and where HTML is allowed."""
    # Entities, not backslashes, for what begins HTML: every flavour of Markdown knows them.
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#!$])", r"\\\1", flat)


def _is_remark(block: Block | None) -> bool:
    return isinstance(block, Note) and block.kind == "remark"


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
    lines = [f"## {escape(table.title)}", "", _line(map(escape, table.heads)), f"|{rule}"]
    lines += [_line(map(_cell, row)) for row in table.rows]
    return [*lines, *(line for note in (*table.notes, *table.hints) for line in ("", escape(note))), ""]


def _cell(cell: Cell) -> str:
    text = escape(cell.text) + "".join(cell.marks)
    return " ".join([f"**{text}**" if "best" in cell.kind else text, *map(escape, cell.beside)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
