"""Blocks for the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from nnunet_dro.naming import NO_VALUE, plain
from nnunet_dro.pages.document import (
    Block,
    Cell,
    Column,
    Heading,
    Note,
    Prose,
    Table,
    hints_of,
    unsaid,
)

#: Words for the looks of a cell or a row to styles.
_STYLES = {
    "better": "green",
    "worse": "red",
    "failed": "red",
    "best": "bold",
    "confirmed": "bold",
    "few": "dim",
    "refuted": "dim",
}

#: Kinds of prose to styles.
_PROSE_STYLES = {"about": "dim", "key": "dim", "first": "bold"}


def printed(blocks: Sequence[Block]) -> RenderableType:
    """Blocks without figures and requirements for rich's console.

    Names from files are shown as they are, never read as markup. What tables have in common is said
    below the first of them.
    """
    parts: list[RenderableType] = []
    said: set[str] = set()
    for block in blocks:
        match block:
            case Table():
                parts.append(_FittingTable(block, said))
            case Heading():
                parts.append(Text(plain(block.text), style="bold"))
            case Prose(str(text), kind):
                indent = "    " if kind == "command" else ""
                style = _PROSE_STYLES.get(kind, "")
                parts.append(Text(indent + plain(text), style=style))
            case Prose(points):
                parts += [Text(plain(point)) for point in points]
            case Note(kind="finding"):
                where = f" ({block.where})" if block.where else ""
                title = plain(f"{block.title}{where}: ")
                finding = Text.assemble((title, "bold"), plain(block.text))
                parts.append(finding)
            case Note(kind="remark"):
                sentence = plain(f"Note: {block.text}")
                parts.append(Text(sentence, style="yellow"))
    return Group(*parts)


@dataclass(frozen=True)
class _FittingTable:
    """A table that fits into the terminal.

    A narrow terminal lacks what can be spared; a very narrow one shows what is beside the entries
    below them, and breaks lines.
    """

    table: Table
    said: set[str]  # what tables above have said of their numbers, to which this one adds

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        width_of = partial(Measurement.get, console, options.update(max_width=10_000))

        drawn = self._drawn(without_spare=False, between=" ")
        lacks_spare = width_of(drawn).maximum > options.max_width
        if lacks_spare:
            drawn = self._drawn(without_spare=True, between=" ")
        if lacks_spare and width_of(drawn).maximum > options.max_width:
            drawn = self._drawn(without_spare=True, between="\n")
            heads = [width_of(column.header) for column in drawn.columns]
            entries = [width_of(Group(*column.cells)) for column in drawn.columns]
            _divide(options.max_width, drawn.columns, heads, entries)

        if self.table.title:
            yield Text(plain(self.table.title), style="bold")
        yield drawn
        key = self._key(lacks_spare=lacks_spare)
        if key:
            yield Text(plain(" ".join(key)), style="dim")

    def _key(self, *, lacks_spare: bool) -> list[str]:
        """What is to be said of what is shown, and has not been said above."""
        key = self.table.key
        if lacks_spare:
            shown = [column for column in self.table.columns if column.spare != "column"]
            key = [*self.table.notes, *hints_of(shown)]
        if lacks_spare and self._has_spare_entries():
            key.append("A wider terminal shows more.")
        return unsaid(key, self.said)

    def _has_spare_entries(self) -> bool:
        """Whether anything stands below the entries of a column that can be spared."""
        spared = [n for n, column in enumerate(self.table.columns) if column.spare]
        return any(row[n].below for row in self.table.rows for n in spared)

    def _drawn(self, *, without_spare: bool, between: str) -> RichTable:
        """The table for rich.

        Args:
            without_spare: Whether to leave out what can be spared.
            between: What separates an entry from what is beside it.
        """
        table = self.table
        padding = (0, 1, 0, 0) if without_spare else (0, 1)
        drawn = RichTable(
            box=None,
            pad_edge=False,
            padding=padding,
            show_header=table.has_head,
        )

        left_out = "column" if without_spare else None
        shown = [n for n, column in enumerate(table.columns) if column.spare != left_out]
        for n in shown:
            _add_column(drawn, table.columns[n], [row[n] for row in table.rows])

        for place, row in enumerate(table.rows):
            cells = []
            for n in shown:
                is_spared = without_spare and table.columns[n].spare
                beside = [] if is_spared else row[n].beside
                cells.append(_cell(row[n], beside, between))
            kind = table.row_kinds[place] if table.row_kinds else ""
            drawn.add_row(*cells, style=_STYLES.get(kind, ""))

        if between == " ":
            _keep_whole(drawn)
        return drawn


def _keep_whole(drawn: RichTable) -> None:
    """Give each column the width of its longest line, which rich would measure twice."""
    for column in drawn.columns:
        contents = [column.header, *column.cells] if drawn.show_header else column.cells
        lines = [line for content in contents for line in str(content).splitlines()]
        column.width = max([column.min_width or 0, *map(cell_len, lines)])


def _divide(
    width: int,
    columns: Sequence[RichColumn],
    heads: Sequence[Measurement],
    entries: Sequence[Measurement],
) -> None:
    """Divide the width of the terminal among columns.

    No line of numbers is broken where there is room for the longest of every column, else no word;
    the columns that lack least are helped first. Where there is no room for words, rich divides the
    width.
    """
    most = [max(head.maximum, entry.maximum) for head, entry in zip(heads, entries, strict=True)]
    words = [max(head.minimum, entry.minimum) for head, entry in zip(heads, entries, strict=True)]
    lines = []
    for column, least, entry in zip(columns, words, entries, strict=True):
        is_number = column.justify == "right"
        lines.append(max(least, entry.maximum) if is_number else least)

    for needed in (lines, words):
        room = width - sum(needed) - (len(columns) - 1)
        if room < 0:
            continue
        lacking = [wished - least for wished, least in zip(most, needed, strict=True)]
        for place in sorted(range(len(columns)), key=lacking.__getitem__):
            more = min(room, lacking[place])
            columns[place].width = needed[place] + more
            room -= more
        return


def _add_column(drawn: RichTable, column: Column, cells: Sequence[Cell]) -> None:
    """Add a column to a table of rich, with the rules for its lines."""
    is_number = column.kind == "num"
    justify: Literal["right", "left"] = "right" if is_number else "left"
    # Numbers stay whole; long headings and entries, and what is below, may be broken.
    texts = (column.title, *(cell.text for cell in cells))
    is_long = any(len(text) > 10 and " " in text for text in texts)
    has_below = any(cell.below for cell in cells)

    least_width = 6 if column.kind == "name" else None
    titles = [plain(title) for title in (column.above, column.title) if title]
    drawn.add_column(
        Text("\n".join(titles)),
        justify=justify,
        overflow="fold",
        no_wrap=is_number and not is_long and not has_below,
        min_width=least_width,
    )


def _cell(cell: Cell, beside: Sequence[str], between: str) -> Text:
    """An entry with what is beside it, in the style of its kind."""
    styles = [_STYLES[word] for word in cell.kind.split() if word in _STYLES]
    if cell.text == NO_VALUE:
        styles = ["dim"]

    entry = cell.text + "".join(cell.marks)
    lines = [plain(text) for text in (entry, *beside)]
    return Text(between.join(lines), style=" ".join(styles))
