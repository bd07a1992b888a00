"""One training: nnU-Net's own command, watched while it runs, and stopped with all its workers."""

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from nnunet_dro.nnunet.command import find_command
from nnunet_dro.nnunet.training_log import Epochs, log_files, read_epochs
from nnunet_dro.tuning.target import Target

#: Seconds between two looks at a training, and those it has to end after being asked to.
POLL_SECONDS, GRACE_SECONDS = 1.0, 15.0

#: How many of a log's last lines a failure quotes.
N_LINES = 5

_FINAL, _CHECKPOINTS = "checkpoint_final.pth", ("checkpoint_latest.pth", "checkpoint_best.pth")


class TrainingFailedError(RuntimeError):
    """A training that came to no result.

    Attributes:
        reason: Why, in one line.
        lines: The last it printed.
    """

    def __init__(self, reason: str, lines: list[str]) -> None:
        super().__init__(reason)
        self.reason, self.lines = reason, lines


def is_validated(fold: Path) -> bool:
    """Whether a training is over, its validation included: nnU-Net's summary.json is the last it writes."""
    return (fold / _FINAL).is_file() and (fold / "validation" / "summary.json").is_file()


def train(target: Target, trainer: str, *, device: str, log: Path, watch: Callable[[Epochs], None]) -> None:
    """Train and validate, or go on where an earlier start stopped; nothing is trained twice.

    Whatever ends this function before (Ctrl-C, what ``watch`` raises) ends the training and its workers.

    Args:
        target: The fold.
        trainer: After nnU-Net's ``-tr``.
        device: ``cpu``, ``cuda`` or ``mps``.
        log: The command and all it prints are appended to this file.
        watch: Called about once a second, and at the end, with what nnU-Net's log says.

    Raises:
        FileNotFoundError: If nnU-Net is not installed.
        TrainingFailedError: If the training fails, or ends without validation predictions.
    """
    fold = target.fold_folder(trainer)
    if is_validated(fold):
        watch(read_epochs(fold))
        return
    how: list[str] = []
    if (fold / _FINAL).is_file():
        how = ["--val"]
    elif any((fold / name).is_file() for name in _CHECKPOINTS):
        how = ["--c"]
    # A training that begins anew has nothing to do with what an earlier one logged.
    old = [] if how else log_files(fold)
    command = ["nnUNetv2_train", target.dataset, target.configuration, target.fold, "-tr", trainer]
    command += ["-p", target.plans, "-device", device, *how]
    _run(command, log, lambda: watch(read_epochs(fold, without=old)))
    if not is_validated(fold):
        reason = f"`{trainer}` must leave validation predictions, got none in {str(fold)!r}; see {str(log)!r}"
        raise TrainingFailedError(reason, _last_lines(log, 0))
    watch(read_epochs(fold, without=old))


def _run(command: list[str], log: Path, look: Callable[[], None]) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(command)}\n")
        file.flush()
        start = file.tell()
        process = subprocess.Popen(
            [find_command(command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        try:
            while not _has_ended(process, POLL_SECONDS):
                stop_if_asked()
                look()
        finally:
            if process.returncode != 0:
                _stop(process)
    if process.returncode != 0:
        lines = _last_lines(log, start)
        said = f": {lines[-1]}" if lines else ""
        reason = f"nnUNetv2_train ended with exit code {process.returncode}{said} (log: {log})"
        raise TrainingFailedError(reason, lines)


def _has_ended(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a training as Ctrl-C would, and then whatever is left of it."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGINT)
            _has_ended(process, GRACE_SECONDS)
    finally:
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    if not hasattr(os, "killpg"):
        process.terminate()
        return
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        # Nobody is left, or (macOS) none but the dead that nobody has looked at.
        return


def _last_lines(log: Path, start: int) -> list[str]:
    printed = log.read_bytes()[start:].decode("utf-8", errors="replace")
    return [line.strip() for line in printed.splitlines() if line.strip()][-N_LINES:]


_asked_to_stop = threading.Event()


@contextmanager
def stopping_at_safe_points() -> Iterator[None]:
    """Let Ctrl-C and a request to terminate (a cluster's time limit, a closed terminal) wait for `stop_if_asked`.

    An interrupt in the middle of a transaction would leave the database locked. A second one is not made to wait.
    """

    def ask(_number: int, _frame: FrameType | None) -> None:
        if _asked_to_stop.is_set():
            raise KeyboardInterrupt
        _asked_to_stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked_to_stop.clear()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked_to_stop.clear()


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if somebody asked to stop since the study began."""
    if _asked_to_stop.is_set():
        raise KeyboardInterrupt
