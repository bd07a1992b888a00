"""The logs that a training writes about its cases after every epoch: weights and losses."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class LogKind:
    """A kind of log."""

    file: str  # name of the file
    value: str  # column with the value of a case
    times: str  # column with how often the case was seen in the epoch


WEIGHTS = LogKind("weights.csv", "weight", "times_seen")
LOSSES = LogKind("hardness.csv", "loss", "draws")


@dataclass(frozen=True, eq=False)
class EpochLog:
    """The values of a log by epoch and case.

    The values are the mean weights of an epoch, or the stale losses at its end. Both tables have a
    row per epoch, ascending, and a column per case.
    """

    kind: LogKind
    values: pd.DataFrame  # NaN where a case has none
    times_seen: pd.DataFrame

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases."""
        return tuple(self.values.columns)

    @property
    def epochs(self) -> list[int]:
        """The epochs."""
        return [int(epoch) for epoch in self.values.index]

    @property
    def first_counted(self) -> int:
        """Position of the first epoch that counts.

        A network knows too little in the first third of its training.
        """
        return len(self.values) // 3


def read_logs(folder: Path, *, by: LogKind | None = None) -> tuple[EpochLog, EpochLog | None]:
    """Read the log to rank by, and the losses where they lie beside weights.

    Without ``by``, that is the log of losses if there is one, and else that of weights.
    """
    there = [kind for kind in (LOSSES, WEIGHTS) if (folder / kind.file).is_file()]
    if not there:
        raise FileNotFoundError(
            "`fold_folder` must hold hardness.csv or weights.csv, got neither in "
            f"{str(folder)!r}. Train with a trainer of `nnunet-dro trainers`, which writes the "
            "first; nnUNetTrainerL2RW also writes the second. Without them, rank by the "
            "validation Dice: --by dice."
        )
    kind = by or there[0]
    if kind not in there:
        raise FileNotFoundError(
            f"`by` must be what the training has logged, got {kind.value!r} but no {kind.file} in "
            f"{str(folder)!r}. Leave it out."
        )

    log = read_log(folder / kind.file, kind)
    if kind is WEIGHTS and LOSSES in there:
        return log, read_log(folder / LOSSES.file, LOSSES)
    return log, None


def logged_cases(folder: Path) -> set[str]:
    """The cases that hardness.csv in a fold's folder names; none if it cannot be read."""
    try:
        return set(read_log(folder / LOSSES.file, LOSSES).cases)
    except (OSError, ValueError):
        return set()


def mean_log(logs: Sequence[EpochLog]) -> EpochLog:
    """The mean over folds of logs of one kind.

    Weights are averaged over the times seen, losses over the folds. An epoch that a log leaves out,
    because it writes fewer than another one, is left out of the mean; its draws count for the next.
    """
    if len(logs) == 1:
        return logs[0]

    logs = _at_common_epochs(logs)
    kind = logs[0].kind
    counts = []  # how often a value of a fold counts in the mean
    products = []
    for log in logs:
        count = log.values.notna().astype("int64")
        if kind is WEIGHTS:
            count = count * log.times_seen
        counts.append(count)
        products.append(log.values * count)

    n = _added(counts)
    times_seen = _added(log.times_seen for log in logs)
    return EpochLog(kind, _added(products) / n.where(n > 0), times_seen.astype("int64"))


def _at_common_epochs(logs: Sequence[EpochLog]) -> list[EpochLog]:
    """The logs without the epochs that another one leaves out between its first and last ones."""
    epochs = sorted({epoch for log in logs for epoch in log.epochs})
    common = np.array(epochs)
    for log in logs:
        is_outside = (common < log.epochs[0]) | (common > log.epochs[-1])
        common = common[is_outside | np.isin(common, log.epochs)]
    if len(common) == len(epochs):
        return list(logs)

    result = []
    for log in logs:
        next_common = common[np.searchsorted(common, log.epochs)]
        times_seen = log.times_seen.groupby(next_common).sum()
        kept = log.values[log.values.index.isin(common)]
        result.append(EpochLog(log.kind, kept, times_seen))
    return result


def _added(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The sum of tables, epoch by epoch; a case that a table lacks adds nothing."""
    return pd.concat(tables).groupby(level=0).sum()


def read_log(path: Path, kind: LogKind) -> EpochLog:
    """Read a log.

    A last line or epoch that was cut off is left out, and of an entry that is duplicated, the last
    one counts.
    """
    complete, _, cut_line = path.read_bytes().rpartition(b"\n")
    columns: dict[Any, Any] = {
        "epoch": "int32",
        "case": "category",
        kind.value: "float32",
        kind.times: "int32",
    }
    try:
        rows = pd.read_csv(
            io.BytesIO(complete),
            usecols=list(columns),
            dtype=columns,
            # A case may be called NA; only an empty entry is a missing value.
            keep_default_na=False,
            na_values={kind.value: [""]},
            encoding="utf-8",
            encoding_errors="replace",
        )
    # pandas' own errors are ValueErrors, that of an empty file as well.
    except (ValueError, OverflowError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ValueError(
            f"`{kind.file}` must be a table of {', '.join(columns)}, got {str(path)!r}: {reason}. "
            "Remove the damaged rows, or train again."
        ) from error
    rows = _whole_epochs(rows, is_cut=bool(cut_line))
    if rows.empty:
        raise ValueError(
            f"`{kind.file}` must hold at least one epoch, got none in {str(path)!r}. Wait until "
            "the training has finished an epoch."
        )
    return _arranged(rows, path, kind)


def _whole_epochs(rows: pd.DataFrame, *, is_cut: bool) -> pd.DataFrame:
    """The rows without those of a last epoch that was cut off, as it is if a training is killed.

    Cases are in the same order in every epoch, so a whole one has the last case of the one before.
    Of a single epoch, only a line that was cut tells.
    """
    is_last = rows["epoch"] == rows["epoch"].max()
    before = rows[~is_last]
    is_whole = rows["case"][is_last].isin(before["case"].tail(1)).any()
    is_whole |= before.empty and not is_cut
    return rows if is_whole else before


def _arranged(rows: pd.DataFrame, path: Path, kind: LogKind) -> EpochLog:
    """The rows of a log as tables by epoch and case."""
    _check_finite(rows, path, kind)
    epochs, row_numbers = np.unique(rows["epoch"].to_numpy(), return_inverse=True)
    column_numbers, cases = pd.factorize(rows["case"])
    names = [str(case) for case in cases]

    def wide(column: str, missing: float) -> pd.DataFrame:
        table = np.full((len(epochs), len(cases)), missing)
        table[row_numbers, column_numbers] = rows[column]
        return pd.DataFrame(table, index=epochs, columns=names)

    return EpochLog(
        kind=kind,
        values=wide(kind.value, missing=np.nan),
        times_seen=wide(kind.times, missing=0).astype("int64"),
    )


def _check_finite(rows: pd.DataFrame, path: Path, kind: LogKind) -> None:
    if np.isinf(rows[kind.value]).any():
        got = "an infinite value"
    elif (rows[kind.times] < 0).any():
        got = "a negative number of times"
    else:
        return
    raise ValueError(
        f"`{kind.file}` must hold finite numbers, got {got} in {str(path)!r}. Remove the damaged "
        "rows, or train again."
    )
