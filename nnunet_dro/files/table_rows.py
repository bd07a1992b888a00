"""The rows of a table as text, names of columns and all: from CSV, TSV, XLSX or JSON."""

import csv
import datetime
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from nnunet_dro.files.json_file import read_json, without_twins
from nnunet_dro.naming import name_some

#: Columns that can name the cases; the first one that the table has does so.
IDENTIFIERS = ("case", "case_id", "participant_id")


def _read_text(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = file.readlines()

    separator = "\t" if path.suffix.lower() == ".tsv" else None
    # Excel writes and reads such a first line, which is no row of the table.
    declared = re.fullmatch(r'"?sep=(.)"?', lines[0].rstrip("\r\n")) if lines else None
    if declared:
        separator = declared[1]
        # The rows keep their numbers.
        lines[0] = "\n"
    if separator is None:
        separator = _separator_of(lines[0]) if lines else ","

    # Before the quotes of an entry there may be spaces.
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    return [_texts(row) for row in rows]


def _separator_of(names: str) -> str:
    """What separates the names of columns in the first line of a CSV file.

    It is the one that makes a name of the cases' column. Spreadsheets write semicolons where the
    decimal mark is a comma, and tabs into what is then called .csv.
    """
    separators = {}
    for separator in (",", ";", "\t"):
        rows = csv.reader([names], delimiter=separator, skipinitialspace=True)
        columns = _texts(next(rows, []))
        has_cases = any(name in columns for name in IDENTIFIERS)
        separators[separator] = (has_cases, len(columns))
    return max(separators, key=lambda separator: separators[separator])


def _read_xlsx(path: Path) -> list[list[str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns about styles and drop-down lists
            from openpyxl import load_workbook  # type: ignore[import-untyped]

            rows = _cells(load_workbook(path, read_only=True, data_only=True))
            rows_of_formulas = _cells(load_workbook(path, read_only=True))
            # Of these ranges, only the first cell has an entry, though all show it.
            merged = [str(cells) for cells in _sheet(load_workbook(path)).merged_cells.ranges]
    except ImportError as error:
        raise ValueError(
            "XLSX needs openpyxl; install it (pip install openpyxl) or use CSV"
        ) from error
    # openpyxl lets through whatever unzipping and XML raise on a damaged file.
    except Exception as error:
        raise ValueError(
            "it is not a complete spreadsheet, or has a chart sheet without a chart, which has to "
            f"be deleted ({error})"
        ) from error

    _check_formulas(rows_of_formulas, rows)
    if merged:
        raise ValueError(
            f"cells are merged ({name_some(merged, at_most=3)}). Unmerge them, and fill in each"
        )
    n_columns = max(map(len, rows), default=0)
    texts = []
    for row in rows:
        # Where a row ends, a spreadsheet shows empty cells.
        lacking = [""] * (n_columns - len(row))
        texts.append([_text_of_cell(cell) for cell in row] + lacking)
    return texts


def _cells(workbook: Any) -> list[Sequence[Any]]:
    """The cells of a spreadsheet by row."""
    with closing(workbook) as book:
        sheet = _sheet(book)
        # Some programs write a wrong size of the sheet, beyond which no cell would be read.
        sheet.reset_dimensions()
        return list(sheet.iter_rows())


def _sheet(book: Any) -> Any:
    """The first sheet that is not hidden; there always is one."""
    return next(sheet for sheet in book.worksheets if sheet.sheet_state == "visible")


def _check_formulas(rows_of_formulas: list[Sequence[Any]], rows: list[Sequence[Any]]) -> None:
    """Check that a spreadsheet program has computed all formulas."""
    not_computed = []
    for formulas, results in zip(rows_of_formulas, rows, strict=True):
        for formula, result in zip(formulas, results, strict=True):
            # A formula whose result is an empty text has the type of text.
            has_result = result.value is not None or result.data_type != "n"
            if formula.data_type == "f" and not has_result:
                not_computed.append(formula.coordinate)

    if not_computed:
        raise ValueError(
            f"formulas were never computed ({name_some(not_computed, at_most=3)}). Open it in a "
            "spreadsheet program, which computes them"
        )


def _text_of_cell(cell: Any) -> str:
    # Identifiers of many digits are stored as 1.2E+17.
    if isinstance(cell.value, float) and cell.value.is_integer():
        return str(int(cell.value))
    return _text(cell.value)


def _read_json(path: Path) -> list[list[str]]:
    content = read_json(path, encoding="utf-8-sig", object_pairs_hook=_stripped_names)
    is_mapping = isinstance(content, dict)
    parts = list(content.values()) if is_mapping else content
    if is_mapping and parts and all(isinstance(part, list) for part in parts):
        return _rows_of_columns(content)
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError(
            "it must be a list of records, or a mapping from cases to attributes or columns to "
            "entries"
        )

    # Records may lack attributes; the names are the first row.
    names = list(dict.fromkeys(name for record in parts for name in record))
    rows = [names, *(_texts(record.get(name) for name in names) for record in parts)]
    if is_mapping:
        # An attribute called `case` would duplicate that column, which is refused.
        rows = [[case, *row] for case, row in zip(["case", *content], rows, strict=True)]
    return rows


def _rows_of_columns(columns: Mapping[str, list[Any]]) -> list[list[str]]:
    """The rows of a mapping from columns to entries; the names are the first row."""
    if len({len(entries) for entries in columns.values()}) > 1:
        raise ValueError("its columns differ in length")
    rows = [_texts(row) for row in zip(*columns.values(), strict=True)]
    return [list(columns), *rows]


def _stripped_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name.strip(): value for name, value in without_twins(pairs).items()}


def _texts(row: Iterable[Any]) -> list[str]:
    return [_text(entry) for entry in row]


def _text(entry: Any) -> str:
    if entry is None or entry != entry:
        return ""
    if isinstance(entry, (dict, list)):
        raise ValueError(
            f"an entry has several values: {json.dumps(entry, ensure_ascii=False)[:40]}"
        )
    if isinstance(entry, bool):
        return str(entry).lower()
    if isinstance(entry, float) and entry.is_integer() and abs(entry) < 1e15:
        return str(int(entry))
    if isinstance(entry, datetime.datetime) and entry.time() == datetime.time():
        return entry.date().isoformat()
    # In the files that pandas writes, a carriage return alone would end the row.
    return str(entry).strip().replace("\r\n", "\n").replace("\r", "\n")


#: What reads the rows of a table, names and all, by the ending of the file.
READERS = {".csv": _read_text, ".tsv": _read_text, ".xlsx": _read_xlsx, ".json": _read_json}
