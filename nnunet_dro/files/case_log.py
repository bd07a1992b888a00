"""The logs that a training writes about its cases after every epoch: weights.csv and hardness.csv."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


@dataclass(frozen=True)
class LogKind:
    """A kind of log: its file, and the columns with the value of a case and how often it was seen in the epoch."""

    file: str
    value: str
    times: str


WEIGHTS = LogKind("weights.csv", "weight", "times_seen")
HARDNESS = LogKind("hardness.csv", "loss", "draws")


@dataclass(frozen=True, eq=False)
class EpochLog:
    """The values of a log, one per epoch and case: mean weights of the epoch, or stale losses at its end."""

    kind: LogKind
    cases: tuple[str, ...]  # in the order of the file
    epochs: npt.NDArray[np.int64]  # ascending
    values: npt.NDArray[np.float32]  # shape (n_epochs, n_cases), NaN where a case has none
    times_seen: npt.NDArray[np.int32]  # same shape

    @property
    def first_counted(self) -> int:
        """Position of the first epoch that counts; in the first third, a network knows too little."""
        return len(self.epochs) // 3


def read_logs(folder: Path, *, by: str | None = None) -> tuple[EpochLog, EpochLog | None]:
    """Read the log to rank the cases by, and the losses in addition to weights.

    ``by`` is ``loss``, ``weight``, or None for losses if there are any, else weights.
    """
    kinds = [kind for kind in (HARDNESS, WEIGHTS) if by in (None, kind.value)]
    if not kinds:
        raise ValueError(f"`by` must be loss or weight, got {by!r}. Leave it out to rank by losses if there are any.")
    there = [kind for kind in (HARDNESS, WEIGHTS) if (folder / kind.file).is_file()]
    if not there:
        raise FileNotFoundError(
            f"`fold_folder` must hold hardness.csv or weights.csv, got neither in {str(folder)!r}. Train with a "
            "trainer of `nnunet-dro trainers`, which writes the first; nnUNetTrainerL2RW also writes the second. "
            "Without them, rank by the validation Dice: --by dice."
        )
    kind = next((kind for kind in kinds if kind in there), None)
    if kind is None:
        raise FileNotFoundError(
            f"`by` must be what the training has logged, got {by!r} but no {kinds[0].file} in {str(folder)!r}. Leave "
            "it out."
        )
    log = read_log(folder / kind.file, kind)
    with_losses = kind is WEIGHTS and HARDNESS in there
    return log, read_log(folder / HARDNESS.file, HARDNESS) if with_losses else None


def mean_log(logs: Sequence[EpochLog]) -> EpochLog:
    """The mean over folds of logs of one kind; weights are averaged over the times seen, losses over the folds."""
    if len(logs) == 1:
        return logs[0]
    kind = logs[0].kind
    cases = tuple(dict.fromkeys(case for log in logs for case in log.cases))
    epochs = np.unique(np.concatenate([log.epochs for log in logs]))
    column = {case: n for n, case in enumerate(cases)}
    sums, weights = np.zeros((2, len(epochs), len(cases)))
    times = np.zeros(sums.shape, dtype=np.int32)
    for log in logs:
        place = np.ix_(np.searchsorted(epochs, log.epochs), np.array([column[case] for case in log.cases]))
        counts = np.where(np.isnan(log.values), 0, log.times_seen if kind is WEIGHTS else 1)
        sums[place] += np.nan_to_num(log.values) * counts
        weights[place] += counts
        times[place] += log.times_seen
    values = np.where(weights > 0, sums / np.maximum(weights, 1), np.nan).astype(np.float32)
    return EpochLog(kind, cases, epochs, values, times)


def read_log(path: Path, kind: LogKind) -> EpochLog:
    """Read a log; an incomplete last line is left out, and of an entry that is duplicated, the last one counts."""
    content = path.read_bytes()
    complete = io.BytesIO(content)
    complete.truncate(content.rfind(b"\n") + 1)
    del content
    columns: dict[Any, Any] = {"epoch": "int32", "case": "category", kind.value: "float32", kind.times: "int32"}
    try:
        rows = pd.read_csv(
            complete,
            usecols=list(columns),
            dtype=columns,
            # A case may be called NA; only an empty entry is a missing value.
            keep_default_na=False,
            na_values={kind.value: [""]},
            encoding="utf-8",
            encoding_errors="replace",
        )
    except (ValueError, OverflowError) as error:  # pandas' own errors are ValueErrors, that of an empty file as well
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        cure = "Remove the damaged rows, or train again."
        rule = f"a table of {', '.join(columns)}"
        raise ValueError(f"`{kind.file}` must be {rule}, got {str(path)!r}: {reason}. {cure}") from error
    if rows.empty:
        cure = "Wait until the training has finished an epoch."
        raise ValueError(f"`{kind.file}` must hold at least one epoch, got none in {str(path)!r}. {cure}")
    return _arranged(rows, path, kind)


def _arranged(rows: pd.DataFrame, path: Path, kind: LogKind) -> EpochLog:
    epochs, row = np.unique(rows["epoch"].to_numpy(), return_inverse=True)
    codes, cases = pd.factorize(rows["case"])
    given, seen = rows[kind.value].to_numpy(dtype=np.float32), rows[kind.times].to_numpy()
    if np.isinf(given).any() or (seen < 0).any():
        got = "an infinite value" if np.isinf(given).any() else "a negative number of times"
        cure = "Remove the damaged rows, or train again."
        raise ValueError(f"`{kind.file}` must hold finite numbers, got {got} in {str(path)!r}. {cure}")
    values = np.full((len(epochs), len(cases)), np.nan, dtype=np.float32)
    times = np.zeros(values.shape, dtype=np.int32)
    values[row, codes], times[row, codes] = given, seen
    return EpochLog(kind, tuple(str(case) for case in cases), epochs.astype(np.int64), values, times)
