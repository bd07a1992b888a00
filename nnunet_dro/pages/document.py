"""What reports are made of: five kinds of blocks, which HTML, Markdown, LaTeX and the terminal print alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True)
class Heading:
    """A heading; one of level 2 begins a section.

    Attributes:
        text: The heading.
        level: 1 (of all) to 4.
        anchor: Name of the section, for links.
        short: The section's name in the list of contents; empty where it is not listed.
        folded: Whether a page shows what follows, up to the next folded heading or section, only on request.
    """

    text: str
    level: int = 2
    anchor: str = ""
    short: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Prose:
    """Text.

    Attributes:
        text: A paragraph, or the points of a list.
        kind: What it is: ``about`` (an explanation), ``key`` (to a table or figure), ``first`` (that matters most),
            ``command``, ``steps`` (a numbered list), or a word for its looks on a page.
    """

    text: str | Sequence[str]
    kind: str = "about"


@dataclass(frozen=True)
class Note:
    """A sentence that stands out: a finding, a remark that readers need first, or a requirement.

    Attributes:
        text: Sentences.
        kind: ``remark``, ``finding`` or ``requirement``.
        title: The headline of a finding, such as ``Cerebellum is worst in spina_bifida``; whether a requirement is met.
        where: What the finding is about, as a heading.
        value: The number that it is about as written, with unit.
        caption: The name of the number, in a few words.
        tone: ``worse`` or ``better`` if it is bad or good news; otherwise empty.
    """

    text: str
    kind: str = "remark"
    title: str = ""
    where: str = ""
    value: str = ""
    caption: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Figure:
    """What only a page can show.

    Attributes:
        charts: The heading and the drawings of each chart; an empty heading for none.
        legend: Icons and what they stand for.
        drawing: Another drawing, as HTML.
    """

    charts: Sequence[tuple[str, Sequence[Markup]]] = ()
    legend: Sequence[tuple[Sequence[Markup], str]] = ()
    drawing: str | Markup = ""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        kind: ``num`` (at the right), ``text``, or ``name`` (what a row is about; such columns come first).
        above: A heading above this one and its neighbours that have the same.
        hint: What the heading means, where that needs saying.
        spare: What a narrow terminal leaves out: what is ``below`` the entries, the ``column``, or nothing.
    """

    title: str
    kind: str = "num"
    above: str = ""
    hint: str = ""
    spare: str = ""


@dataclass(frozen=True)
class Cell:
    """What one row has in one column.

    Attributes:
        text: The entry.
        below: What belongs to it and is less important, such as its interval.
        marks: Signs of footnotes to what they mean here; empty text where the table's notes say it.
        kind: Words for its looks: ``better``, ``worse``, ``few`` (too few cases), ``best`` (of several methods) ...
        strong: Whether a page emphasises the entry over what is below.
    """

    text: str = ""
    below: tuple[str, ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    strong: bool = False

    @property
    def beside(self) -> list[str]:
        """What is below as it is written beside the entry: in brackets of some kind."""
        others = ", ".join(text for text in self.below if not text.startswith("["))
        return [*(text for text in self.below if text.startswith("[")), *([f"({others})"] if others else [])]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        title: What it shows.
        columns: With one without heading, the table has no head.
        rows: A cell per column each.
        notes: What its numbers and marks mean, in sentences.
        about: What readers of the table alone need to know, as in a paper.
        kind: ``strata``, ``facts`` (names and values), ``terms`` (definitions), or empty.
        row_kinds: Words for the looks of each row, such as ``confirmed``; empty for none.
    """

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]
    notes: tuple[str, ...] = ()
    about: str = ""
    kind: str = ""
    row_kinds: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        title: str,
        columns: Iterable[tuple[Column, Callable[[Any], "Cell | str"]]],
        records: Sequence[Any],
        **described: Any,
    ) -> "Table":
        """The one way in which tables are made: every column says what it has of a record.

        Args:
            title: What the table shows.
            columns: The columns, and the function from a record to its cell.
            records: What the rows are about.
            described: ``notes``, ``about``, ``kind``, ``row_kinds``.
        """
        columns = list(columns)
        rows = []
        for record in records:
            cells = (cell_of(record) for _, cell_of in columns)
            rows.append([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells])
        return cls(title, tuple(column for column, _ in columns), rows, **described)

    @classmethod
    def of_pairs(cls, title: str, pairs: Iterable[tuple[str, str]], *, kind: str) -> "Table":
        """A table of names and their values (``facts``) or definitions (``terms``)."""
        columns = ((Column("", "name"), lambda pair: pair[0]), (Column("", "text"), lambda pair: pair[1]))
        return cls.of(title, columns, list(pairs), kind=kind)

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
        """The rows with their kinds, by the first of several names; one group without a name where there is one name.

        Returns:
            The name of a group, and the kinds and cells of its rows; they lack the name of the group.
        """
        rows = list(zip(self.row_kinds or [""] * len(self.rows), self.rows, strict=True))
        if self.n_names < 2:
            return [("", rows)]
        groups = groupby(rows, key=lambda row: row[1][0].text)
        return [(name, [(kind, cells[1:]) for kind, cells in inside]) for name, inside in groups]

    @property
    def hints(self) -> list[str]:
        """What headings mean, in sentences."""
        return [f"{column.title}: {column.hint}." for column in self.columns if column.hint]

    @property
    def heads(self) -> list[str]:
        """The headings on one line, with what is above them."""
        return [f"{column.above}: {column.title}" if column.above else column.title for column in self.columns]


Block = Heading | Prose | Note | Table | Figure
