"""What the logs of a training have in common: files with rows for every epoch, and one line for nnU-Net's log."""

import csv
import errno
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from nnunet_dro.files.output_folder import replacing

#: The scalars of an epoch by their names; the first is ``epoch``.
Row = dict[str, float]


class EpochLog:
    """Collects the results of the iterations of an epoch, and writes files for the user at its end.

    Each epoch is complete and in the file once, even if the training is killed.

    Attributes:
        what: Name of what is logged, for messages.
        file: Name of the CSV file that gets rows for every epoch.
        columns: Names of its columns; the first is ``epoch``.
        rows: The scalars of each epoch so far.
    """

    what: ClassVar[str]
    file: ClassVar[str]
    columns: ClassVar[Sequence[str]]

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def end_epoch(self, epoch: int, folder: Path) -> list[str]:
        """Write the files of an epoch into the folder of the fold; returns lines for nnU-Net's log.

        A file that cannot be written only causes a warning: it is not worth a training.
        """
        row, line, entries = self._close(epoch)
        self.rows = [earlier for earlier in self.rows if earlier["epoch"] < epoch] + [row]
        lines = []
        try:
            append_rows(folder / self.file, self.columns, entries)
            self._write_others(folder)
        except OSError as error:
            lines.append(f"WARNING: could not write the {self.what} of this epoch: {error}")
        return [*lines, line, *self._warnings()]

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Continue the files of an interrupted training, without its epochs from ``epoch`` on."""
        self.rows = [row for row in self.rows if row["epoch"] < epoch]
        for entries in keep_rows_before(epoch, folder / self.file, self.columns):
            self._take_back(entries)

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        """The scalars of an epoch that ended, one line about it, and its rows of the file; begins the next epoch."""
        raise NotImplementedError

    def _write_others(self, folder: Path) -> None:
        """Write what the log has beside its file."""

    def _warnings(self) -> list[str]:
        """What the last epoch warns of."""
        return []

    def _take_back(self, entries: list[str]) -> None:
        """Continue with a row of the file."""


def append_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Append the rows of an epoch to a CSV file; a new file starts with the names of the columns.

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
    """Drop the rows of a CSV file from an epoch on, and an incomplete last line; returns the others.

    The file may be missing; one with other columns is started again.
    """
    if not path.exists():
        return []
    # Only a line feed ends a row: names may contain characters that end lines in other alphabets.
    lines = [line + "\n" for line in path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]]
    header = ",".join(columns) + "\n"
    is_ours = lines[:1] == [header]
    kept = [line for line in lines[1:] if int(line.split(",", 1)[0]) < epoch] if is_ours else []
    with replacing(path) as partial:
        partial.write_text("".join([header, *kept]), encoding="utf-8", newline="")
    return list(csv.reader(kept))


def entry(value: float) -> str:
    """A number as an entry with six significant digits; NaN is an empty entry."""
    return "" if value != value else f"{value:.6g}"
