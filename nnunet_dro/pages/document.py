"""What reports are made of: five kinds of blocks.

HTML, Markdown, LaTeX and the terminal print the same blocks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True)
class Heading:
    """A heading; one of level 2 begins a section."""

    text: str
    level: int = 2  # 1 (of all) to 4
    anchor: str = ""  # name of the section, for links
    short: str = ""  # the section's name in the list of contents; empty where it is not listed
    #: Whether a page shows what follows only on request, up to the next such heading or section.
    folded: bool = False


@dataclass(frozen=True)
class Prose:
    """Text."""

    text: str | Sequence[str]  # a paragraph, or the points of a list
    #: ``about`` (an explanation), ``key`` (to a table or figure), ``first`` (that matters most),
    #: ``command``, ``steps`` (a numbered list), or a word for its looks on a page.
    kind: str = "about"


@dataclass(frozen=True)
class Note:
    """A sentence that stands out: a finding, a remark that readers need first, or a requirement."""

    text: str
    kind: str = "remark"  # or ``finding``, ``requirement``
    title: str = ""  # the headline of a finding; whether a requirement is met
    where: str = ""  # what a finding is about, as a heading
    value: str = ""  # the number that it is about as written, with unit
    caption: str = ""  # the name of the number, in a few words
    tone: str = ""  # ``worse`` or ``better`` if it is bad or good news


@dataclass(frozen=True)
class Figure:
    """What only a page can show."""

    charts: Sequence[tuple[str, Sequence[Markup]]] = ()  # heading, or none, and drawings of each
    legend: Sequence[tuple[Sequence[Markup], str]] = ()  # icons and what they stand for
    drawing: str | Markup = ""  # another drawing, as HTML


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    #: ``num`` (at the right), ``text``, or ``name`` (what a row is about; such columns come first).
    kind: str = "num"
    above: str = ""  # a heading above this one and its neighbours that have the same
    hint: str = ""  # what the heading means, where that needs saying
    #: What a narrow terminal leaves out: what is ``below`` the entries, the ``column``, or nothing.
    spare: str = ""
    is_minor: bool = False  # whether a page on a phone leaves it out


@dataclass(frozen=True)
class Cell:
    """What one row has in one column."""

    text: str = ""
    below: tuple[str, ...] = ()  # what belongs to it and is less important, such as its interval
    #: Signs of footnotes to what they mean here; empty text where the table's notes say it.
    marks: Mapping[str, str] = field(default_factory=dict)
    #: Words for its looks: ``better``, ``worse``, ``few`` (cases), ``best`` (of methods) ...
    kind: str = ""
    strong: bool = False  # whether a page emphasises the entry over what is below

    @property
    def beside(self) -> list[str]:
        """What is below as it is written beside the entry: in brackets of some kind."""
        beside = [text for text in self.below if text.startswith("[")]
        without_brackets = [text for text in self.below if not text.startswith("[")]
        if without_brackets:
            beside.append(f"({', '.join(without_brackets)})")
        return beside


@dataclass(frozen=True)
class Table:
    """A table."""

    title: str
    columns: tuple[Column, ...]  # with one without heading, the table has no head
    rows: Sequence[Sequence[Cell]]  # a cell per column each
    notes: tuple[str, ...] = ()  # what its numbers and marks mean, in sentences
    about: str = ""  # what readers of the table alone need to know, as in a paper
    kind: str = ""  # ``strata``, ``facts`` (names and values), ``terms`` (definitions), or none
    row_kinds: Sequence[str] = ()  # words for the looks of each row, such as ``confirmed``
    #: As ``notes``, before them, on what is below the entries of columns that can spare it.
    notes_below: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        columns: Iterable[tuple[Column, Callable[[Any], "Cell | str"]]],
        records: Sequence[Any],
        **described: Any,
    ) -> "Table":
        """Make a table with a row per record: every column says what it has of a record.

        Args:
            title: The title of the table.
            columns: Each column with a function from a record to its cell, or to the cell's text.
            records: What the rows are made of.
            described: Further fields of the table.
        """
        columns = list(columns)
        rows = []
        for record in records:
            row = []
            for _, cell_of in columns:
                cell = cell_of(record)
                row.append(cell if isinstance(cell, Cell) else Cell(cell))
            rows.append(row)
        return cls(title, tuple(column for column, _ in columns), rows, **described)

    @classmethod
    def of_pairs(cls, title: str, pairs: Iterable[tuple[str, str]], **described: Any) -> "Table":
        """A table of names and their values (``facts``) or definitions (``terms``)."""
        columns = (
            (Column("", "name"), lambda pair: pair[0]),
            (Column("", "text"), lambda pair: pair[1]),
        )
        return cls.of(title, columns, list(pairs), **described)

    @property
    def n_names(self) -> int:
        """Number of the columns that say what a row is about."""
        return sum(column.kind == "name" for column in self.columns)

    @property
    def has_head(self) -> bool:
        """Whether the columns have headings."""
        return any(column.title for column in self.columns)

    @property
    def groups(self) -> list[tuple[str, list[tuple[str, Sequence[Cell]]]]]:
        """The rows, grouped by the first of several names.

        Returns:
            The name of each group, and its rows, each as its kind and its cells without that name.
            With one name only, all rows are in one group, whose name is empty.
        """
        row_kinds = self.row_kinds or [""] * len(self.rows)
        rows = list(zip(row_kinds, self.rows, strict=True))
        if self.n_names < 2:
            return [("", rows)]

        groups = []
        for name, members in groupby(rows, key=lambda row: row[1][0].text):
            rest = [(kind, cells[1:]) for kind, cells in members]
            groups.append((name, rest))
        return groups

    @property
    def key(self) -> list[str]:
        """What its numbers, marks and headings mean, in sentences, where nothing is left out."""
        return [*self.notes_below, *self.notes, *hints_of(self.columns)]

    @property
    def heads(self) -> list[str]:
        """The headings on one line, with what is above them."""
        heads = []
        for column in self.columns:
            above = f"{column.above}: " if column.above else ""
            heads.append(f"{above}{column.title}")
        return heads


Block = Heading | Prose | Note | Table | Figure


def hints_of(columns: Iterable[Column]) -> list[str]:
    """What the headings of some columns mean, in sentences."""
    return [f"{column.title}: {column.hint}." for column in columns if column.hint]


def unsaid(sentences: Iterable[str], said: set[str]) -> list[str]:
    """Those sentences that have not been said above, each once; they have been from now on."""
    new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in said]
    said.update(new)
    return new
