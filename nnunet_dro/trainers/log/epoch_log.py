"""What the logs of a training have in common.

Each writes rows of a CSV file after every epoch, and one line in nnU-Net's log.
"""

import csv
import errno
import io
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.files.output_folder import replacing
from nnunet_dro.trainers.log.pace import PicturePace, epochs_per_entry

Row = dict[str, float]  # The scalars of an epoch by their names; the first is ``epoch``.


class TrainingLog:
    """Collects the results of an epoch, and writes them at its end.

    An epoch is written whole or not at all, and only once, even if the training is killed.
    """

    what: ClassVar[str]  # name of what is logged, for messages
    file: ClassVar[str]  # name of the CSV file that gets rows for every epoch
    columns: ClassVar[Sequence[str]]  # of the file; the first is ``epoch``

    def __init__(self) -> None:
        self.rows: list[Row] = []  # the scalars of each epoch so far

    def end_epoch(self, epoch: int, folder: Path) -> list[str]:
        """Write the files of an epoch, and return lines for nnU-Net's log.

        A file that cannot be written does not end the training: one of the lines is a warning.
        """
        row, line, entries = self._close(epoch)
        self.rows = [*self._rows_before(epoch), row]

        lines = []
        try:
            append_rows(folder / self.file, self.columns, entries)
            self._write_others(folder)
        except OSError as error:
            lines.append(f"WARNING: could not write the {self.what} of this epoch: {error}")
        return [*lines, line, *self._warnings()]

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Continue the files of an interrupted training, without its epochs from ``epoch`` on."""
        self.rows = self._rows_before(epoch)
        path = folder / self.file
        for entries in keep_rows_before(epoch, path, self.columns):
            self._take_back(entries)

    def _rows_before(self, epoch: int) -> list[Row]:
        return [row for row in self.rows if row["epoch"] < epoch]

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        """End an epoch, and begin to collect the next one.

        Returns:
            The scalars of the epoch, one line about it, and its rows of the CSV file.
        """
        raise NotImplementedError

    def _write_others(self, folder: Path) -> None:
        """Write the files that the log has besides its CSV file."""

    def _warnings(self) -> list[str]:
        """The warnings that the last epoch gives rise to."""
        return []

    def _take_back(self, entries: list[str]) -> None:
        """Continue with a row of the CSV file, written before the training was interrupted."""


class CaseLog(TrainingLog):
    """A log of cases.

    Its columns begin with the epoch, the case and its value, and end with how often the case was
    drawn. Where many cases are trained for many epochs, only some of these get rows: those whose
    number `epochs_per_entry` divides, and the last one.

    Args:
        cases: Names of the cases.
        n_epochs: Number of epochs of the training; None to write all of them.
    """

    def __init__(self, cases: Sequence[str], *, n_epochs: int | None = None) -> None:
        super().__init__()
        self.cases = tuple(cases)
        self._every = epochs_per_entry(len(self.cases), n_epochs)
        self._last_epoch = None if n_epochs is None else n_epochs - 1
        self._position = {case: i for i, case in enumerate(self.cases)}
        #: The values, NaN for a case without one, and the numbers of draws, arrays (n,) by epoch.
        self._history: dict[int, NDArray[np.float32]] = {}
        self._times: dict[int, NDArray[np.int32]] = {}
        #: The last epoch if it has no rows.
        self._without_rows: int | None = None
        self.pace = PicturePace()

    def _is_time_for_a_picture(self) -> bool:
        """Whether the epoch that was closed last has rows and the last picture is long ago."""
        epoch = int(self.rows[-1]["epoch"])
        is_time = self._gets_rows(epoch) and self.pace.is_due
        return is_time or epoch == self._last_epoch

    def _remember(self, epoch: int, values: NDArray[np.float64], times: NDArray[np.int32]) -> None:
        """Put an epoch in the history, in the place of the one before it if that got no rows.

        So the history is what the rows of a training that is resumed tell, and the last epoch.

        Args:
            epoch: The epoch.
            values: The values of the cases, shape (n,).
            times: How often each was drawn since the last epoch with rows, shape (n,).
        """
        if self._without_rows is not None:
            del self._history[self._without_rows]
            del self._times[self._without_rows]

        self._history[epoch] = values.astype(np.float32)
        self._times[epoch] = times
        self._without_rows = None if self._gets_rows(epoch) else epoch

    def _gets_rows(self, epoch: int) -> bool:
        """Whether the cases get rows at the end of an epoch."""
        return epoch % self._every == 0 or epoch == self._last_epoch

    def _take_back(self, entries: list[str]) -> None:
        number, case, value, *_, times = entries
        epoch = int(number)
        n_cases = len(self.cases)
        if epoch not in self._history:
            self._history[epoch] = np.full(n_cases, np.nan, dtype=np.float32)
            self._times[epoch] = np.zeros(n_cases, dtype=np.int32)

        # A case that has left the training since is still in the file.
        if case in self._position:
            i = self._position[case]
            self._history[epoch][i] = float(value or "nan")
            self._times[epoch][i] = int(times)


def append_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Append rows to a CSV file, all or none.

    A new file starts with the names of the columns.

    Raises:
        OSError: If the file cannot be written, or the disk is full.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    is_new = not path.exists() or not path.stat().st_size
    if is_new:
        writer.writerow(columns)
    writer.writerows(rows)
    content = text.getvalue().encode("utf-8", "surrogateescape")

    with path.open("ab", buffering=0) as file:
        start = file.tell()
        n_written = file.write(content)
        if n_written != len(content):  # the disk is full; later epochs may fit again
            file.truncate(start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, whole or not at all."""
    with replacing(path) as partial:
        append_rows(partial, columns, rows)


def keep_rows_before(epoch: int, path: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    """Drop the rows of a CSV file from an epoch on, and damaged ones, and yield the others.

    A file with other columns, which another version wrote, is begun anew.
    """
    if not path.exists():
        return

    header = ",".join(columns) + "\n"
    # Only a line feed ends a row: names may contain characters that end lines in other alphabets.
    with (
        replacing(path) as partial,
        path.open(newline="\n", encoding="utf-8", errors="surrogateescape") as before,
        partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as after,
    ):
        after.write(header)
        first_line = before.readline()
        if first_line != header:
            return

        for line in before:
            row = _entries_of_line(line)
            is_whole = len(row) == len(columns) and row[0].isdecimal()
            if is_whole and int(row[0]) < epoch:
                after.write(line)
                yield row


def _entries_of_line(line: str) -> list[str]:
    """The entries of a line of a CSV file; none if the line was not written to its end."""
    if not line.endswith("\n") or "\0" in line:
        return []
    return next(csv.reader([line]))


def entry(value: float) -> str:
    """A number as an entry with six significant digits; NaN is an empty entry."""
    if math.isnan(value):
        return ""
    return f"{value:.6g}"
