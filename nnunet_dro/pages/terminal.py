"""Blocks for the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from nnunet_dro.naming import NO_VALUE, plain
from nnunet_dro.pages.document import Block, Cell, Heading, Note, Prose, Table

#: Words for the looks of a cell or a row to styles.
_STYLES = {"better": "green", "worse": "red", "failed": "red"}
_STYLES |= {"best": "bold", "confirmed": "bold", "few": "dim", "refuted": "dim"}


def printed(blocks: Sequence[Block]) -> RenderableType:
    """Blocks without figures and requirements for rich's console.

    Names from files are never read as markup.
    """
    parts: list[RenderableType] = []
    said: set[str] = set()
    for block in blocks:
        match block:
            case Table():
                new = tuple(note for note in (*block.notes, *block.hints) if note not in said)
                said |= set(new)
                parts.append(_FittingTable(block, new))
            case Heading():
                parts.append(Text(plain(block.text), style="bold"))
            case Prose(str(text), kind):
                style = {"about": "dim", "key": "dim", "first": "bold"}.get(kind, "")
                parts.append(Text("    " * (kind == "command") + plain(text), style=style))
            case Prose(points):
                parts += [Text(plain(point)) for point in points]
            case Note(kind="finding"):
                where = f" ({block.where})" if block.where else ""
                parts.append(
                    Text.assemble((plain(f"{block.title}{where}: "), "bold"), plain(block.text))
                )
            case Note(kind="remark"):
                parts.append(Text(plain(f"Note: {block.text}"), style="yellow"))
    return Group(*parts)


@dataclass(frozen=True)
class _FittingTable:
    """A table; a narrow terminal lacks what can be spared, a very narrow one shows the rest below the entries."""

    table: Table
    notes: tuple[str, ...]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        unlimited = options.update(max_width=10_000)
        for without_spare in (False, True):
            drawn = self._drawn(without_spare=without_spare, between=" ")
            if Measurement.get(console, unlimited, drawn).maximum <= options.max_width:
                break
        else:
            drawn = self._drawn(without_spare=True, between="\n")
            widths = [
                Measurement.get(console, unlimited, Group(c.header, *c.cells))
                for c in drawn.columns
            ]
            room = options.max_width - sum(width.minimum + 1 for width in widths)
            # No word is broken where there is room for the longest of every column; who lacks least
            # is helped first.
            if room >= 0:
                for width, column in sorted(
                    zip(widths, drawn.columns, strict=True), key=lambda pair: pair[0].span
                ):
                    column.width = width.minimum + min(room, width.span)
                    room -= column.width - width.minimum
        if self.table.title:
            yield Text(plain(self.table.title), style="bold")
        yield drawn
        spared = any(
            row[n].below
            for row in self.table.rows
            for n, c in enumerate(self.table.columns)
            if c.spare
        )
        notes = [
            *self.notes,
            *(["A wider terminal has room for all of it."] if without_spare and spared else []),
        ]
        if self.notes:
            yield Text(plain(" ".join(notes)), style="dim")

    def _drawn(self, *, without_spare: bool, between: str) -> RichTable:
        table = self.table
        drawn = RichTable(
            box=None,
            pad_edge=False,
            padding=(0, 1, 0, 0) if without_spare else (0, 1),
            show_header=table.has_head,
        )
        shown = [
            n
            for n, column in enumerate(table.columns)
            if not (without_spare and column.spare == "column")
        ]
        for place in shown:
            column = table.columns[place]
            is_number = column.kind == "num"
            # Numbers stay whole; long headings and entries, and what is below, may be broken.
            texts = (column.title, *(row[place].text for row in table.rows))
            is_long = any(len(text) > 10 and " " in text for text in texts)
            breaks = not is_number or is_long or any(row[place].below for row in table.rows)
            head = Text("\n".join(map(plain, filter(None, (column.above, column.title)))))
            justify: Literal["right", "left"] = "right" if is_number else "left"
            least = 6 if column.kind == "name" else None
            drawn.add_column(
                head, justify=justify, overflow="fold", no_wrap=not breaks, min_width=least
            )
        for place, row in enumerate(table.rows):
            style = _STYLES.get(table.row_kinds[place], "") if table.row_kinds else ""
            is_last = place + 1 == len(table.rows) or row[0].text != table.rows[place + 1][0].text
            beside = {
                n: [] if without_spare and table.columns[n].spare else row[n].beside for n in shown
            }
            cells = [_cell(row[n], beside[n], between) for n in shown]
            drawn.add_row(*cells, style=style, end_section=is_last and table.n_names > 1)
        return drawn


def _cell(cell: Cell, beside: Sequence[str], between: str) -> Text:
    styles = [_STYLES[word] for word in cell.kind.split() if word in _STYLES]
    style = "dim" if cell.text == NO_VALUE else " ".join(styles)
    return Text(between.join(map(plain, (cell.text + "".join(cell.marks), *beside))), style=style)
