"""CSV files read as they were written: names are text, and no digit of a number is lost."""

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: So many rows are written at a time.
_ROWS_AT_A_TIME = 10_000

#: How no digit of a number is lost: as Python reads them, which pandas does from version 3.1 on.
_EXACT: Any = {}
if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
    _EXACT = {"float_precision": "round_trip"}


def read_exact(path: Path, is_name: Callable[[str], bool]) -> pd.DataFrame:
    """Read a table whose columns of names are text, whatever they look like."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        columns = next(csv.reader(file), [])
    names = list(filter(is_name, columns))
    return pd.read_csv(
        path,
        dtype=dict.fromkeys(names, object),
        keep_default_na=False,
        na_values={column: [""] for column in columns if column not in names},
        encoding_errors="surrogateescape",
        **_EXACT,
    )


def csv_text(table: pd.DataFrame) -> str:
    """A table as pandas' ``to_csv(index=False)`` writes it, in a third of the time.

    Its columns are of floats, integers or texts; pandas writes tables with others.
    """
    columns = [table[name] for name in table.columns]
    if len(columns) < 2 or not all(map(_is_plain, columns)):
        return table.to_csv(index=False)

    parts = [_quoted(list(map(str, table.columns)))]
    for start in range(0, len(table), _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        texts = [_texts(column.iloc[rows]) for column in columns]
        # One text of these rows takes much less memory than a text of each.
        lines = os.linesep.join(map(",".join, zip(*texts, strict=True)))
        parts.append(lines)
    return os.linesep.join([*parts, ""])


def _is_plain(column: "pd.Series[Any]") -> bool:
    """Whether a column has only what `_texts` writes."""
    if _is_numeric(column):
        return True
    is_of_objects = column.dtype == object or isinstance(column.dtype, pd.StringDtype)
    return is_of_objects and pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")


def _is_numeric(column: "pd.Series[Any]") -> bool:
    """Whether a column has integers or floats of double precision, as Python writes them."""
    kind = column.dtype
    return isinstance(kind, np.dtype) and (kind.kind in "iu" or kind == np.float64)


def _texts(column: "pd.Series[Any]") -> list[str]:
    """The entries of a plain column as a CSV file has them, empty where undefined."""
    if _is_numeric(column):
        numbers = column.to_numpy()
        texts = list(map(repr, numbers.tolist()))
        for position in np.flatnonzero(np.isnan(numbers)):
            texts[position] = ""
        return texts

    codes, names = pd.factorize(column)
    # An entry beside it, since a line of one empty entry is quoted.
    quoted = np.array([*(_quoted([name, ""])[:-1] for name in names), ""], dtype=object)
    return quoted[codes].tolist()


def _quoted(entries: list[str]) -> str:
    """A line of entries, those with commas, quotes or line ends in quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator=os.linesep).writerow(entries)
    return line.getvalue().removesuffix(os.linesep)
