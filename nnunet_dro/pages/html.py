"""Pages: HTML files of blocks and a table to sort.

A page is one file that sends no request and loads nothing from elsewhere.
"""

import base64
import json
import math
import re
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from nnunet_dro.pages.document import Block, Cell, Column, Figure, Heading, Note, Prose, unsaid
from nnunet_dro.pages.pictures import Picture
from nnunet_dro.pages.svg import markers

#: What a browser may load into a page: its own styles, scripts and pictures, and nothing from
#: anywhere else.
CONTENT_SECURITY_POLICY = Markup(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)

_ASSETS = Path(__file__).parent / "assets"

#: Where a name may be broken: after ``_``, ``/`` and ``-``, after a full stop, and before the humps
#: of camel case.
_BREAKS = re.compile(r"(?<=[_/-])(?=\w)|(?<=\.|[a-z])(?=[A-Z])|(?<=\.)(?=[a-z])")

#: Names up to this length are not broken: ``hippocampus_126``.
_SHORT = 16

#: Level of a folded heading: between a section and the headings inside.
_LEVEL_OF_FOLDED = 2.5

#: How data are written as JSON: a table of many cases has a million separators.
_JSON: dict[str, Any] = {"sort_keys": True, "separators": (",", ":")}

#: Data of more characters are packed, to a third of them and less.
_LARGEST_PLAIN = 1_000_000


@cache
def page_environment(*folders: Path) -> Environment:
    """The templates in some folders, and those that all pages share.

    A folder given earlier takes precedence.
    """
    environment = Environment(
        loader=FileSystemLoader([*folders, _ASSETS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    environment.policies["json.dumps_kwargs"] = _JSON
    environment.globals["content_security_policy"] = CONTENT_SECURITY_POLICY
    environment.globals["table_cell"] = table_cell
    return environment


def breakable(name: str) -> Markup:
    """A long name that a browser may break after ``_``, ``-``, ``/``, ``.``, and in camel case."""
    if len(name) <= _SHORT:
        return escape(name)
    return Markup(_BREAKS.sub("<wbr>", str(escape(name))))


def table_cell(column: Column, cell: Cell) -> Markup:
    """An entry of a table, with its marks and what is below it.

    Not a macro: a page may have tens of thousands of them, and a macro takes ten times as long.
    """
    is_name = column.kind == "name"
    text = breakable(cell.text) if is_name else escape(cell.text)
    parts: list[str] = [text]
    for sign, why in cell.marks.items():
        title = f' title="{escape(why)}"' if why else ""
        parts.append(f"<sup{title}>{escape(sign)}</sup>")
    if cell.strong and not is_name:
        parts = ["<b>", *parts, "</b>"]
    parts += [f'<span class="ci">{escape(text)}</span>' for text in cell.below]
    content = "".join(parts)
    if is_name:
        return Markup(f'<th scope="row">{content}</th>')

    is_number = "num" if column.kind == "num" else ""
    is_minor = "minor" if column.is_minor else ""
    kinds = " ".join(filter(None, (is_number, cell.kind, is_minor)))
    looks = f' class="{escape(kinds)}"' if kinds else ""
    return Markup(f"<td{looks}>{content}</td>")


def page_assets() -> dict[str, Markup]:
    """The ``style`` and the ``script`` that ``base.html`` puts into every page."""
    style = page_environment().get_template("style.css").render()
    script = (_ASSETS / "page.js").read_text(encoding="utf-8")
    return {"style": Markup(style), "script": Markup(script)}


def page(
    blocks: Sequence[Block],
    appendix: Sequence[Block],
    *,
    about: Mapping[str, Any],
    table: "SortableTable | None" = None,
    **head: str,
) -> str:
    """A page, in which all names are escaped.

    Args:
        blocks: What stands above the table.
        appendix: What stands below the table.
        about: How all was made, which stands last.
        table: The table that readers sort and filter.
        head: ``kind``, ``title``, ``heading`` and ``lede`` of the page.
    """
    if about:
        macros = _macros()
        appendix = [
            *appendix,
            Heading("How this was made", 3),
            Figure(drawing=Markup(macros.tree(about))),
        ]

    cases = Heading("", anchor="cases", short="Cases" if table else "")
    headings = [block for block in (*blocks, cases, *appendix) if isinstance(block, Heading)]
    payload: dict[str, Any] = {"columns": []}
    if table:
        payload = table.payload()
    packed = _packed(payload)
    if packed:
        # They are in the page once, and let go before it is written.
        payload.clear()

    content = html(blocks)
    below = html(appendix)
    template = page_environment().get_template("base.html")
    return template.render(
        **page_assets(),
        contents=[(heading.anchor, heading.short) for heading in headings if heading.short],
        markers=markers([*content, *below]),
        content=content,
        appendix=below,
        table=table,
        payload=payload,
        packed=packed,
        **head,
    )


def _packed(payload: Mapping[str, Any]) -> str:
    """Many data as JSON that is compressed by zlib, in base64; empty for few data."""
    text = json.dumps(payload, **_JSON)
    if len(text) <= _LARGEST_PLAIN:
        return ""
    return base64.b64encode(zlib.compress(text.encode("ascii"))).decode("ascii")


def html(blocks: Sequence[Block]) -> list[Markup]:
    """Blocks as parts of HTML, a section for each heading of level 2.

    They are joined where the page is written: a large one would be in memory twice.
    """
    macros = _macros()
    runs = [list(run) for _, run in groupby(blocks, key=_run_of)]
    kinds = [run[0].kind for run in runs if isinstance(run[0], Note)]
    has_lead = kinds.count("finding") == 1

    parts: list[Markup] = []
    said: set[str] = set()
    #: Level and end of the elements that are open.
    opened: list[tuple[float, Markup]] = []
    for run in runs:
        block = run[0]
        if isinstance(block, Heading):
            # What is folded holds headings of its level.
            level = _LEVEL_OF_FOLDED if block.folded else block.level
            parts += _closed(opened, level)
            if end := _end_of(block):
                opened.append((level, end))
            parts.append(macros.heading(block))
        elif isinstance(block, Note):
            if block.kind == "remark":
                parts += _closed(opened, 0)
            parts.append(macros.notes(run, has_lead))
        elif isinstance(block, Figure):
            parts.append(macros.figure(block))
        elif isinstance(block, Prose):
            parts.append(macros.prose(block))
        else:
            key = unsaid((*block.notes_below, *block.notes), said)
            parts.append(macros.table(block, key))
    return parts + _closed(opened, 0)


def _closed(opened: list[tuple[float, Markup]], level: float) -> list[Markup]:
    """Close the elements that are open from a level on, and return their ends, the last first."""
    ends = []
    while opened and opened[-1][0] >= level:
        _, end = opened.pop()
        ends.append(end)
    return ends


def _macros() -> Any:
    """The macros of the templates that write a block of each kind."""
    return page_environment().get_template("blocks.html").module


def _end_of(heading: Heading) -> Markup:
    """The end of the element that holds what follows a heading, if it has one."""
    if heading.folded:
        return Markup("</details>\n")
    if heading.level == 2:
        return Markup("</section>\n")
    return Markup("")


def _run_of(block: Block) -> object:
    """What blocks share that are written together: notes of one kind that follow each other."""
    return block.kind if isinstance(block, Note) else id(block)


def gallery(
    pictures: Sequence[Picture], legend: Sequence[tuple[str, str]], *, kind: str = ""
) -> Figure:
    """Pictures of cases; the legend has words for the looks of outlines, and what these are."""
    template = page_environment().get_template("gallery.html")
    drawing = template.render(pictures=pictures, legend=legend, kind=kind)
    return Figure(drawing=Markup(drawing))


@dataclass(frozen=True)
class SortableColumn:
    """A column of a `SortableTable`."""

    title: str
    #: ``text``, ``number`` (one decimal), ``difference`` (one decimal, with sign), ``volume`` (ml),
    #: ``decimal`` (three decimals) or ``count``.
    kind: str
    values: Iterable[Any]  # a value per row: text, or numbers in shown units
    filtered: bool = False  # whether the page offers a choice of its values

    def payload(self) -> dict[str, Any]:
        """The column as JSON.

        Text becomes codes into its different values. Numbers have three decimals, small volumes
        three digits, and null stands for those that are undefined.
        """
        payload: dict[str, Any] = {
            "title": self.title,
            "kind": self.kind,
            "filtered": self.filtered,
        }
        if self.kind == "text":
            texts = np.asarray([str(value) for value in self.values], dtype=object)
            codes, names = pd.factorize(texts)
            payload["names"] = [str(name) for name in names]
            payload["codes"] = codes.tolist()
            return payload

        numbers = []
        for value in self.values:
            form = ".3g" if self.kind == "volume" and abs(value) < 0.1 else ".3f"
            # What is left of a rounding error is no volume.
            digits = f"{round(float(value), 9):{form}}"
            numbers.append(float(digits) if math.isfinite(value) else None)
        return payload | {"values": numbers}


@dataclass(frozen=True)
class SortableTable:
    """A table that readers of a page sort and filter, and the words around it."""

    columns: tuple[SortableColumn, ...]  # the first one names the case
    keys: Sequence[Hashable]  # what a row is about: a case, or a case and a label
    sorted_by: int  # index of the column that the table is sorted by at first
    descending: bool  # whether the largest value comes first
    about: str = ""  # what it has, in a sentence
    hint: str = "A dot in a figure opens its case here."
    caption: str = "Every case and label"  # for those who do not see it
    file: str = "scores.csv"  # the file that has the same numbers
    pictures: Mapping[Any, str] = field(default_factory=dict)  # key to the id of its picture
    links: Mapping[Any, str] = field(default_factory=dict)  # key to its address in the viewer

    def column(self, title: str) -> int:
        """Index of the last column of this title: an attribute may be called like a metric."""
        titles = [column.title for column in self.columns]
        return len(titles) - 1 - titles[::-1].index(title)

    def payload(self) -> dict[str, Any]:
        """Everything the page's script needs, as JSON."""
        rows = list(enumerate(self.keys))
        return {
            "columns": [column.payload() for column in self.columns],
            "sortedBy": self.sorted_by,
            "descending": self.descending,
            "pictures": {row: self.pictures[key] for row, key in rows if key in self.pictures},
            "links": {row: self.links[key] for row, key in rows if key in self.links},
        }
