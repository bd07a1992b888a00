"""CSV files read as they were written: names are text, and no digit of a number is lost."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

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
