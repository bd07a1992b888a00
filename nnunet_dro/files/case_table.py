"""The case table: what is known about every case in addition to its images."""

import csv
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from nnunet_dro.files.table_rows import IDENTIFIERS, READERS
from nnunet_dro.naming import name_some, repeated, spelt_like

CASE_TABLE_FILE = "cases.csv"  # Name of the case table in the folders of a dataset.

#: What to do where a column is asked for and there is no case table.
NO_TABLE = (
    f"Name the table with --cases, or write {CASE_TABLE_FILE} into the folder of the dataset."
)

#: The entry of a case whose value is unknown, which is also the name of its stratum.
MISSING = "missing"

_MOST_STRATA = 10  # The most strata of a column that divides the cases where nobody names one.

#: Entries that mean that a value is unknown.
EMPTY_ENTRIES = frozenset(("", "n/a", "N/A", "NA", "#N/A", "<NA>", "nan", "NaN"))

#: What a spreadsheet shows where a formula failed, but for #N/A, which means an unknown value.
_FAILED_FORMULA = re.compile(r"#[A-Z/0]{3,}[!?]|Err:\d{3}")

#: A number, with a decimal point or a decimal comma.
_DECIMAL = re.compile(r"[+-]?\d+([.,]\d+)?")


def case_table_places(*folders: Path | None) -> list[Path]:
    """The files that may be the case table of a dataset, in the order of its folders."""
    return [folder / CASE_TABLE_FILE for folder in folders if folder is not None]


def find_case_table(*folders: Path | None) -> Path | None:
    """The first ``cases.csv`` in folders such as the preprocessed and the raw one, or None."""
    return next(filter(Path.is_file, case_table_places(*folders)), None)


def read_cases(path: Path, cases: Collection[str] = ()) -> pd.DataFrame:
    r"""Read a case table.

    It is a CSV (commas, semicolons or tabs), TSV, XLSX (its first sheet that is not hidden) or JSON
    file with a row per case, which the column ``case``, or else ``case_id``, or else
    ``participant_id``, names. JSON is a list of records, a mapping from cases to attributes, or a
    mapping from columns to entries.

    Every entry becomes text without surrounding spaces: a case called 001 stays 001. Of XLSX and
    JSON, whole numbers are written as such (1.0 becomes 1), truth values as ``true`` and ``false``.
    Outside the column ``case``, empty entries and those that mean an unknown value (n/a, NA, NaN)
    become ``missing``. Rows are of those ``cases`` whose names differ from theirs in Unicode's form
    alone.

    Example:
        >>> path = Path("cases.csv")
        >>> size = path.write_text("case_id,centre,age\n001,A,61\n002,B,\n")
        >>> print(read_cases(path))
          case centre      age
        0  001      A       61
        1  002      B  missing
    """
    if not path.is_file():
        cure = "Write a table with a column `case` and a row per case."
        what = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(
            f"`cases` must be a case table, got {str(path)!r}, which {what}. {cure}"
        )
    ending = path.suffix.lower()
    if ending not in READERS:
        raise ValueError(
            f"`cases` must end in .csv, .tsv, .xlsx or .json, got {str(path)!r}. "
            "Save the table in one of these formats."
        )
    try:
        rows = READERS[ending](path)
    except (csv.Error, ValueError, RecursionError) as error:
        cure = "Save it again."
        if isinstance(error, UnicodeDecodeError):
            cure = "Save it again as UTF-8."
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ValueError(
            f"`cases` must be a readable table, got {str(path)!r}: {reason}. {cure}"
        ) from error

    # Rows are numbered as in an editor; the records of JSON have no row of names.
    first = 0 if ending == ".json" else 1
    numbered = [(number, row) for number, row in enumerate(rows, first) if any(row)]
    columns = _columns(numbered, path)
    table = _named_by_case(columns, [number for number, _ in numbered[1:]], path)
    table["case"] = list(spelt_like(dict.fromkeys(table["case"]), cases))
    return table


def _refusal(rule: str, got: str, path: Path, cure: str) -> ValueError:
    return ValueError(f"`cases` must {rule}, got {got} in {str(path)!r}. {cure}")


def _columns(rows: list[tuple[int, list[str]]], path: Path) -> dict[str, list[str]]:
    """The entries of each column, from numbered rows of which the first has the names."""
    if not rows:
        raise _refusal("be a readable table", "nothing", path, "Fill the table.")
    (_, names), *rows = rows
    for number, row in rows:
        _check_length(row, len(names), number, path)
        _check_formulas(row, number, path)

    columns = []
    unnamed = []
    for n, name in enumerate(names):
        entries = [row[n] for _, row in rows]
        if name:
            columns.append((name, entries))
        # Spreadsheets leave behind columns that are empty from top to bottom.
        elif any(entries):
            unnamed.append(str(n + 1))

    if unnamed:
        got = f"none for column {name_some(unnamed)}"
        raise _refusal("have a name for every column", got, path, "Name it, or remove it.")
    if twice := repeated(name for name, _ in columns):
        raise _refusal("name every column once", f"{name_some(twice)} twice", path, "Rename one.")
    return dict(columns)


def _check_length(row: list[str], n_columns: int, number: int, path: Path) -> None:
    """Check that a row has an entry for every column, and no more."""
    cure = "Correct the row; put quotes around an entry that contains the separator."
    if len(row) > n_columns:
        got = f"{n_columns} for {len(row)} entries in row {number}"
        raise _refusal("have a name for every column", got, path, cure)
    if len(row) < n_columns:
        got = f"{len(row)} for {n_columns} columns in row {number}"
        raise _refusal("have an entry for every column", got, path, cure)


def _check_formulas(row: list[str], number: int, path: Path) -> None:
    """Check that no cell of a row has a formula that failed."""
    failed = list(filter(_FAILED_FORMULA.fullmatch, row))
    if failed:
        got = f"{failed[0]} in row {number}"
        cure = "Correct the formula, or leave the cell empty if the value is unknown."
        raise _refusal("have no formula that failed", got, path, cure)


def _named_by_case(
    columns: Mapping[str, list[str]], row_numbers: Sequence[int], path: Path
) -> pd.DataFrame:
    """The table with the column ``case``, in which every row names another case."""
    identifier = next((name for name in IDENTIFIERS if name in columns), None)
    if identifier is None:
        cure = (
            "Rename the column that names the cases (`case_id` and `participant_id` are "
            "understood, too)."
        )
        raise _refusal("have a column `case`", name_some(list(columns)), path, cure)

    cases = columns[identifier]
    if not cases:
        raise _refusal("have a row per case", "none", path, "Fill the table.")
    if "" in cases:
        got = f"an empty name in row {row_numbers[cases.index('')]}"
        raise _refusal("name every case", got, path, "Fill it in.")
    if twice := repeated(cases):
        raise _refusal("name every case once", f"{name_some(twice)} twice", path, "Remove a row.")

    table = {}
    for name, entries in columns.items():
        if name == identifier:
            table["case"] = entries
        else:
            table[name] = [MISSING if entry in EMPTY_ENTRIES else entry for entry in entries]
    return pd.DataFrame(table)


def check_cases(table: pd.DataFrame, cases: Collection[str], path: Path | None = None) -> None:
    """Check that a case table has a row for each of these cases; it may have more rows."""
    listed = set(table["case"])
    missing = sorted(set(cases) - listed)
    if not missing:
        return

    got = f"none for {name_some(missing)}"
    if others := sorted(listed - set(cases)):
        got += f" (other rows: {name_some(others, at_most=3)})"
    where = f" The table is {str(path)!r}." if path else ""
    raise ValueError(
        f"`cases` must have a row for every case, got {got}. Add the rows, or name the cases like "
        f"their label maps, without the file ending.{where}"
    )


def read_cases_of(
    path: Path, cases: Collection[str], *, others: Collection[str] = ()
) -> pd.DataFrame:
    """Read a case table that has a row for each of these cases, and maybe for ``others``."""
    table = read_cases(path, {*cases, *others})
    check_cases(table, cases, path)
    return table


def attributes_of(table: pd.DataFrame) -> list[str]:
    """The columns of a case table by which the cases can be divided."""
    return [str(column) for column in table.columns if column != "case"]


def notes_on_spelling(column: str, entries: Iterable[str]) -> list[str]:
    """Notes where entries may mean something else than they count as.

    They may mean the same though they count as different, as A and a, or 1 and 1.0, or be numbers
    with a decimal comma.

    Example:
        >>> notes_on_spelling("centre", ["Bonn", "bonn", "Lyon", "1", "01", "1.0"])[0][:71]
        'centre has entries that may mean the same: 01 = 1 = 1.0, Bonn = bonn. T'
    """
    spellings: dict[str, list[str]] = {}
    different = sorted(set(entries) - {MISSING})
    for entry in different:
        spellings.setdefault(_meaning(entry), []).append(entry)

    notes = []
    alike = [" = ".join(words) for words in spellings.values() if len(words) > 1]
    if alike:
        notes.append(
            f"{column} has entries that may mean the same: {name_some(alike)}. They count as "
            "different ones. If they are not, write them alike in the case table."
        )
    return notes + notes_on_decimal_commas(column, different)


def notes_on_decimal_commas(column: str, entries: Iterable[str]) -> list[str]:
    """A note where all entries of a column are numbers, some of which have a decimal comma."""
    numbers = sorted(set(entries) - {MISSING})
    with_comma = [entry for entry in numbers if "," in entry]
    if not with_comma or not all(map(_DECIMAL.fullmatch, numbers)):
        return []
    return [
        f"{column} has numbers with a decimal comma ({name_some(with_comma, at_most=3)}), which "
        "count as text. Write them with a decimal point in the case table."
    ]


def _meaning(entry: str) -> str:
    """What an entry means, whatever its case, spaces, underscores, leading zeros and ``.0``.

    Nor do characters without a width matter, or in which of Unicode's forms it is: an a with dots
    is one character or two.
    """
    words = unicodedata.normalize("NFKC", entry).casefold().replace("_", " ").split()
    return " ".join(
        re.sub(r"^0+(?=\d)|(?<=\d)\.0+$|[\u200b-\u200f\u2060\ufeff]", "", word) for word in words
    )


def dividing_attributes(table: pd.DataFrame) -> list[str]:
    """The columns that divide the cases of a table.

    They have at most ten different entries, of which two or more are those of several cases.
    """
    names = []
    for name in attributes_of(table):
        sizes = table[name].value_counts()
        if len(sizes) <= _MOST_STRATA and (sizes > 1).sum() > 1:
            names.append(name)
    return names
