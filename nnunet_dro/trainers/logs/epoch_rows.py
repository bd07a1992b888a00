"""CSV files with rows for every epoch: each epoch is complete and in the file once, even if the training is killed."""

import csv
import errno
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from nnunet_dro.files.atomic import replacing


def append_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Append the rows of an epoch; a new file starts with the names of the columns.

    Args:
        path: The CSV file.
        columns: Names of the columns; the first is ``epoch``.
        rows: Entries of each row, in the order of the columns.

    Raises:
        OSError: If not all rows could be written; the file is as it was before.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not path.exists():
        writer.writerow(columns)
    writer.writerows(rows)
    content = text.getvalue().encode()
    with path.open("ab", buffering=0) as file:
        start = file.tell()
        if file.write(content) != len(content):  # the disk is full; later epochs may fit again
            file.truncate(start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def keep_rows_before(epoch: int, path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Drop the rows that an interrupted training wrote from an epoch on, and an incomplete last line.

    Args:
        epoch: The epoch that the training starts with.
        path: The CSV file; it may be missing. A file with other columns is started again.
        columns: Names of the columns; the first is ``epoch``.

    Returns:
        The entries of the remaining rows.
    """
    if not path.exists():
        return []
    header, *lines = _complete_lines(path, columns)
    kept = [line for line in lines if int(line.split(",", 1)[0]) < epoch]
    with replacing(path) as partial:
        partial.write_text("".join([header, *kept]), encoding="utf-8", newline="")
    return list(csv.reader(kept))


def entry(value: float) -> str:
    """A number as an entry with six significant digits; NaN is an empty entry."""
    return "" if value != value else f"{value:.6g}"


def _complete_lines(path: Path, columns: Sequence[str]) -> list[str]:
    """Header and lines of a file, without an incomplete last line."""
    text = path.read_text(encoding="utf-8", errors="replace")
    # Only a line feed ends a row: names may contain characters that end lines in other alphabets.
    lines = [line + "\n" for line in text.split("\n")[:-1]]
    header = ",".join(columns) + "\n"
    return lines if lines[:1] == [header] else [header]
