"""The columns of a case table, for the terminal."""

import pandas as pd
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from nnunet_dro.files.case_table import MISSING, attributes_of
from nnunet_dro.naming import name_some
from nnunet_dro.pages.wording import plain


def columns_table(table: pd.DataFrame) -> RenderableType:
    """What the columns of a case table hold.

    Args:
        table: As from `read_cases`.

    Returns:
        A renderable for rich's console: for every column how many cases have an entry, and the range of numbers, or
        some of the entries.
    """
    shown = Table(box=None, pad_edge=False, padding=(0, 1))
    shown.add_column("column", no_wrap=True)
    shown.add_column("cases", justify="right")
    shown.add_column("entries", overflow="fold")
    for column in attributes_of(table):
        entries = table.loc[table[column] != MISSING, column]
        numbers = pd.to_numeric(entries, errors="coerce")
        if len(entries) and numbers.notna().all():
            low, *_, high = sorted((str(entry) for entry in (*entries, *entries)), key=float)
            held = low if low == high else f"{low} to {high}"
        else:
            held = name_some(sorted(set(entries)))
        shown.add_row(Text(plain(column)), Text(str(len(entries))), Text(plain(held)))
    return shown
