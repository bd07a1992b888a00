"""A table that readers sort and filter: its rows as the page's script reads them."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    title: str
    #: ``text``, ``number`` (one decimal), ``difference`` (one decimal, with sign), ``volume`` (ml), ``decimal`` (three
    #: decimals) or ``count``.
    kind: str
    values: Sequence[Any]  # a value per row: text, or numbers in shown units
    filtered: bool = False  # whether the page offers a choice of its values

    def payload(self) -> dict[str, Any]:
        """As JSON: text as codes into its values, numbers with three decimals, null where undefined."""
        head = {"title": self.title, "kind": self.kind, "filtered": self.filtered}
        if self.kind != "text":
            return head | {"values": [round(float(v), 3) if math.isfinite(v) else None for v in self.values]}
        codes, names = pd.factorize(np.asarray([str(value) for value in self.values], dtype=object))
        return head | {"names": [str(name) for name in names], "codes": codes.tolist()}


@dataclass(frozen=True)
class SortableTable:
    """All rows of a table."""

    columns: tuple[Column, ...]  # the first one names the case
    keys: Sequence[Hashable]  # what a row is about: a case, or a case and a label
    sorted_by: int  # index of the column that the table is sorted by at first
    descending: bool  # whether the largest value comes first

    def column(self, title: str) -> int:
        """Index of the last column of this title: an attribute may be called like a metric."""
        titles = [column.title for column in self.columns]
        return len(titles) - 1 - titles[::-1].index(title)

    def payload(self, pictures: Mapping[Any, str], links: Mapping[Any, str] | None = None) -> dict[str, Any]:
        """Everything the page's script needs, as JSON."""
        columns = [column.payload() for column in self.columns]
        return {
            "columns": columns,
            "sortedBy": self.sorted_by,
            "descending": self.descending,
            "pictures": {row: pictures[key] for row, key in enumerate(self.keys) if key in pictures},
            "links": {row: links[key] for row, key in enumerate(self.keys) if key in links} if links else {},
        }
