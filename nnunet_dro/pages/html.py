"""Pages: one HTML file of blocks and a table to sort, that sends no request and holds nothing from elsewhere."""

import math
import re
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

from nnunet_dro.pages.document import Block, Figure, Heading, Note
from nnunet_dro.pages.pictures import Picture

#: What a browser may load into a page: its own styles, scripts and pictures, and nothing from
#: anywhere else.
CONTENT_SECURITY_POLICY = Markup(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)

_ASSETS = Path(__file__).parent / "assets"

#: With more dots the browser draws only the figures in view: the page opens faster and scrolls more
#: slowly.
_MANY_DOTS = 6_000


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
    environment.globals["content_security_policy"] = CONTENT_SECURITY_POLICY
    return environment


def breakable(name: str) -> Markup:
    """A name that may be broken after ``_``, ``-``, ``/`` and ``.``, and before the humps of camel case."""
    return Markup(
        re.sub(
            r"(?<=[_/-])(?=\w)|(?<=\.|[a-z])(?=[A-Z])|(?<=\.)(?=[a-z])", "<wbr>", str(escape(name))
        )
    )


def page_assets() -> dict[str, Markup]:
    """The ``style`` and the ``script`` that ``base.html`` puts into every page."""
    script = (_ASSETS / "page.js").read_text(encoding="utf-8")
    return {
        "style": Markup(page_environment().get_template("style.css").render()),
        "script": Markup(script),
    }


def page(
    blocks: Sequence[Block],
    appendix: Sequence[Block],
    *,
    about: Mapping[str, Any],
    table: "SortableTable | None" = None,
    **head: str,
) -> str:
    """A page, in which all names are escaped.

    The appendix stands below the table, and ``about``, how all was made, is last. ``head`` has
    ``kind``, ``title``, ``heading`` and ``lede``.
    """
    if about:
        macros: Any = page_environment().get_template("blocks.html").module
        appendix = [
            *appendix,
            Heading("How this was made", 3),
            Figure(drawing=Markup(macros.tree(about))),
        ]
    every = (*blocks, Heading("", anchor="cases", short="Cases" if table else ""), *appendix)
    content = {
        "contents": [
            (block.anchor, block.short)
            for block in every
            if isinstance(block, Heading) and block.short
        ],
        "content": html(blocks),
        "appendix": html(appendix),
        "table": table,
        "payload": table.payload() if table else {"columns": []},
    }
    return page_environment().get_template("base.html").render({**page_assets(), **content, **head})


def html(blocks: Sequence[Block]) -> Markup:
    """Blocks as HTML, a section for each heading of level 2."""
    macros: Any = page_environment().get_template("blocks.html").module
    charts = [
        drawing
        for b in blocks
        if isinstance(b, Figure)
        for _, drawings in b.charts
        for drawing in drawings
    ]
    many = " many" if sum(drawing.count("data-row=") for drawing in charts) > _MANY_DOTS else ""
    runs = [
        list(run)
        for _, run in groupby(blocks, key=lambda b: b.kind if isinstance(b, Note) else id(b))
    ]
    has_lead = sum(isinstance(run[0], Note) and run[0].kind == "finding" for run in runs) == 1
    parts: list[Markup] = []
    #: Level and end of the elements that are open.
    opened: list[tuple[float, Markup]] = []

    def close(level: float) -> None:
        while opened and opened[-1][0] >= level:
            parts.append(opened.pop()[1])

    for run in runs:
        block = run[0]
        if isinstance(block, Heading):
            # What is folded holds headings of its level.
            close(2.5 if block.folded else block.level)
            if block.folded:
                opened.append((2.5, Markup("</details>\n")))
            elif block.level == 2:
                opened.append((2, Markup("</section>\n")))
            parts.append(macros.heading(block))
        elif isinstance(block, Note):
            if block.kind == "remark":
                close(0)
            parts.append(macros.notes(run, has_lead))
        elif isinstance(block, Figure):
            parts.append(macros.figure(block, many))
        else:
            parts.append(getattr(macros, type(block).__name__.lower())(block))
    close(0)
    return Markup("").join(parts)


def gallery(
    pictures: Sequence[Picture], legend: Sequence[tuple[str, str]], *, kind: str = ""
) -> Figure:
    """Pictures of cases; the legend has words for the looks of outlines, and what these are."""
    template = page_environment().get_template("gallery.html")
    return Figure(drawing=Markup(template.render(pictures=pictures, legend=legend, kind=kind)))


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
        """As JSON: text as codes into its values, numbers with three decimals, null where undefined."""
        head = {"title": self.title, "kind": self.kind, "filtered": self.filtered}
        if self.kind != "text":
            return head | {
                "values": [round(float(v), 3) if math.isfinite(v) else None for v in self.values]
            }
        codes, names = pd.factorize(np.asarray([str(value) for value in self.values], dtype=object))
        return head | {"names": [str(name) for name in names], "codes": codes.tolist()}


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
        return {
            "columns": [column.payload() for column in self.columns],
            "sortedBy": self.sorted_by,
            "descending": self.descending,
            "pictures": {
                row: self.pictures[key] for row, key in enumerate(self.keys) if key in self.pictures
            },
            "links": {
                row: self.links[key] for row, key in enumerate(self.keys) if key in self.links
            },
        }
