"""CSV files that get rows after every epoch: no half epoch, and none twice, whatever happens to the training."""

import csv
import errno
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from nnunet_dro.atomic import replacing


def append_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Append the rows of an epoch; a new file begins with the names of the columns.

    Args:
        path: The CSV file.
        columns: Names; the first is ``epoch``.
        rows: The entries of each row, in the order of the columns.

    Raises:
        OSError: If not all of it could be written; the file is as it was before.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not path.exists():
        writer.writerow(columns)
    writer.writerows(rows)
    content = text.getvalue().encode()
    with path.open("ab", buffering=0) as file:
        start = file.tell()
        if file.write(content) != len(content):  # the disk is full: no half epoch, later ones may fit again
            file.truncate(start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def keep_rows_before(epoch: int, path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Drop the rows that an earlier, interrupted training wrote from an epoch on, and a last line that was cut off.

    Args:
        epoch: The epoch the training starts with.
        path: The CSV file; it need not be there. One with other columns is started anew.
        columns: Names; the first is ``epoch``.

    Returns:
        The entries of the rows that stay.
    """
    if not path.exists():
        return []
    header, *lines = _complete_lines(path, columns)
    kept = [line for line in lines if int(line.split(",", 1)[0]) < epoch]
    with replacing(path) as partial:
        partial.write_text("".join([header, *kept]), encoding="utf-8", newline="")
    return list(csv.reader(kept))


def entry(value: float) -> str:
    """A number as it is written, six significant digits; NaN is an empty entry."""
    return "" if value != value else f"{value:.6g}"


def _complete_lines(path: Path, columns: Sequence[str]) -> list[str]:
    """Lines of a file, with its header; a last line that was cut off is left out."""
    text = path.read_text(encoding="utf-8", errors="replace")
    # Only a line feed ends a row: names may hold what other alphabets end lines with.
    lines = [line + "\n" for line in text.split("\n")[:-1]]
    header = ",".join(columns) + "\n"
    return lines if lines[:1] == [header] else [header]
