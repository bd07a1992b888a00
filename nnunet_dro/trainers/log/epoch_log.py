"""What the logs of a training have in common.

Files with rows for every epoch, and one line for nnU-Net's log.
"""

import csv
import errno
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.files.output_folder import replacing

Row = dict[str, float]  # The scalars of an epoch by their names; the first is ``epoch``.


class EpochLog:
    """Collects the results of an epoch, and writes them at its end.

    Whole and once, even if the training is killed.
    """

    what: ClassVar[str]  # name of what is logged, for messages
    file: ClassVar[str]  # name of the CSV file that gets rows for every epoch
    columns: ClassVar[Sequence[str]]  # of the file; the first is ``epoch``

    def __init__(self) -> None:
        self.rows: list[Row] = []  # the scalars of each epoch so far

    def end_epoch(self, epoch: int, folder: Path) -> list[str]:
        """Write the files of an epoch, and return lines for nnU-Net's log.

        What cannot be written is a warning.
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
        """The scalars of an epoch that ended, one line about it, and its rows of the file.

        Begins the next epoch.
        """
        raise NotImplementedError

    def _write_others(self, folder: Path) -> None:
        """Write what the log has beside its file."""

    def _warnings(self) -> list[str]:
        """What the last epoch warns of."""
        return []

    def _take_back(self, entries: list[str]) -> None:
        """Continue with a row of the file."""


class CaseLog(EpochLog):
    """A log of cases: its columns begin with the epoch, the case and its value, and end with how often it was drawn."""

    def __init__(self, cases: Sequence[str]) -> None:
        super().__init__()
        self.cases = tuple(cases)
        self._position = {case: i for i, case in enumerate(self.cases)}
        #: The values, NaN for a case without one, and the numbers of draws, arrays (n,) by epoch.
        self._history: dict[int, NDArray[np.float32]] = {}
        self._times: dict[int, NDArray[np.int32]] = {}

    def _take_back(self, entries: list[str]) -> None:
        (epoch, case, value, *_, times), n = entries, len(self.cases)
        values_of = self._history.setdefault(int(epoch), np.full(n, np.nan, dtype=np.float32))
        times_of = self._times.setdefault(int(epoch), np.zeros(n, dtype=np.int32))
        if (i := self._position.get(case)) is not None:
            values_of[i], times_of[i] = float(value or "nan"), int(times)


def append_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Append rows to a CSV file, all or none (OSError).

    A new file starts with the names of the columns.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not path.exists() or not path.stat().st_size:
        writer.writerow(columns)
    writer.writerows(rows)
    content = text.getvalue().encode("utf-8", "surrogateescape")
    with path.open("ab", buffering=0) as file:
        start = file.tell()
        if file.write(content) != len(content):  # the disk is full; later epochs may fit again
            file.truncate(start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, whole or not at all."""
    with replacing(path) as partial:
        append_rows(partial, columns, rows)


def keep_rows_before(epoch: int, path: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    """Drop the rows of a CSV file from an epoch on and damaged ones, and yield the others.

    Other columns begin anew.
    """
    if not path.exists():
        return
    form: Any = {"encoding": "utf-8", "errors": "surrogateescape"}
    # Only a line feed ends a row: names may contain characters that end lines in other alphabets.
    with (
        replacing(path) as partial,
        path.open(newline="\n", **form) as before,
        partial.open("w", newline="", **form) as after,
    ):
        after.write(header := ",".join(columns) + "\n")
        for line in before if before.readline() == header else ():
            row = next(csv.reader([line])) if line.endswith("\n") and "\0" not in line else []
            if len(row) == len(columns) and row[0].isdecimal() and int(row[0]) < epoch:
                after.write(line)
                yield row


def entry(value: float) -> str:
    """A number as an entry with six significant digits; NaN is an empty entry."""
    return "" if value != value else f"{value:.6g}"
