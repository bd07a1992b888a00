"""The case table, and the strata its columns divide the cases into."""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from nnunet_dro.evaluation.naming import name_some

#: The stratum of cases whose entry is empty.
MISSING = "missing"

#: Entries that say that a value is not known.
_EMPTY_ENTRIES = ("", "n/a", "N/A", "NA", "nan", "NaN")


def read_cases(path: Path) -> pd.DataFrame:
    """Read a case table.

    Args:
        path: A CSV file (or TSV, if its name ends so) with a column ``case`` and a row per case.

    Returns:
        The table, every entry as text: a case called 001 stays 001. Empty entries, and those that say that a value is
        not known (n/a, NA, NaN), become ``missing`` outside the column ``case``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, is empty, has no column ``case``, or a case is unnamed or there twice.
    """
    if not path.is_file():
        cure = "Write a table with a column `case` and a row per case."
        raise FileNotFoundError(f"`cases` must be a case table, got {str(path)!r}, which is not there. {cure}")
    try:
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        table: pd.DataFrame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"`cases` must be a readable table, got {str(path)!r}: {reason}. Save it again.") from error
    if not isinstance(table.index, pd.RangeIndex):
        raise ValueError(f"`cases` must have a name for every column, got more columns in {str(path)!r}. Name them.")
    table.columns = table.columns.str.strip()
    table = table.apply(lambda column: column.str.strip())
    if "case" not in table.columns:
        columns = name_some(list(table.columns))
        raise ValueError(f"`cases` must have a column `case`, got {columns} in {str(path)!r}. Rename the column.")
    if table.empty:
        raise ValueError(f"`cases` must have a row per case, got none in {str(path)!r}. Fill the table.")
    if (table["case"] == "").any():
        row = int((table["case"] == "").to_numpy().argmax()) + 2
        raise ValueError(f"`cases` must name every case, got an empty name in row {row} of {str(path)!r}. Fill it in.")
    if (twice := table["case"].duplicated()).any():
        names = name_some(table.loc[twice, "case"].unique().tolist())
        raise ValueError(f"`cases` must name every case once, got {names} twice in {str(path)!r}. Remove a row.")
    attributes = attributes_of(table)
    table[attributes] = table[attributes].replace(list(_EMPTY_ENTRIES), MISSING)
    return table


def check_cases(table: pd.DataFrame, cases: Collection[str]) -> None:
    """Check that a case table is about exactly these cases.

    Args:
        table: From `read_cases`.
        cases: Identifiers of the cases there are.

    Raises:
        ValueError: If the table has cases that are not there, or lacks some that are; the message names them.
    """
    known, listed = set(cases), set(table["case"])
    if unknown := sorted(listed - known):
        cure = "Remove the rows, or name the cases as the images are (without _0000 and the file ending)."
        raise ValueError(f"`cases` must name cases that are there, got {name_some(unknown)}. {cure}")
    if missing := sorted(known - listed):
        raise ValueError(f"`cases` must have a row for every case, got none for {name_some(missing)}. Add the rows.")


def strata(table: pd.DataFrame, column: str) -> "pd.Series[str]":
    """The stratum of every case.

    Args:
        table: From `read_cases`.
        column: The column whose entries are the strata.

    Returns:
        Strata as text, indexed by case.

    Raises:
        ValueError: If there is no such column; the message names those there are.
    """
    if column not in table.columns or column == "case":
        columns = name_some(attributes_of(table), at_most=20)
        raise ValueError(f"`by` must be a column of the case table, got {column!r}. Choose from: {columns}.")
    stratum_of_case: pd.Series[str] = table.set_index("case")[column]
    return stratum_of_case


def attributes_of(table: pd.DataFrame) -> list[str]:
    """The columns of a case table that can divide the cases."""
    return [str(column) for column in table.columns if column != "case"]
