"""Run one of nnU-Net's commands, with its output in a log and no process left behind."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from pathlib import Path

from nnunet_dro.nnunet.safe_stop import SafeStop, termination_as_exit

#: How many of the last lines of a log an error shows.
N_LINES = 15

#: Seconds between two checks of a running command, and seconds that it has to end after being asked to.
POLL_SECONDS, GRACE_SECONDS = 0.5, 15.0


class Device(str, Enum):
    """The device that nnU-Net computes on, as in its option ``-device``."""

    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


class CommandError(RuntimeError):
    """A command of nnU-Net failed.

    Attributes:
        command: Name of the command.
        exit_code: Exit code; a negative one is the signal that ended the command.
        lines: The last lines of the output.
        log: The file with the whole output.
    """

    def __init__(self, command: str, exit_code: int, lines: Sequence[str], log: Path) -> None:
        printed = "".join(f"\n    {line}" for line in lines)
        super().__init__(f"{command} failed with exit code {exit_code}. It printed:{printed}\nEverything is in {log}")
        self.command, self.exit_code, self.lines, self.log = command, exit_code, list(lines), log


def find_command(name: str) -> str:
    """Find one of nnU-Net's commands, in the environment of this Python before any other.

    Raises:
        FileNotFoundError: If the command is not installed.
    """
    folders = [str(Path(sys.executable).parent), sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise FileNotFoundError(f"`{name}` must be installed, got no such command. Install it: pip install nnunetv2")
    return found


def run_command(
    arguments: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    while_running: Callable[[], None],
    safe_stop: SafeStop | None = None,
) -> None:
    """Run a command until it ends.

    If this function is interrupted (by Ctrl-C, a request to terminate, or an error of ``while_running``), the command
    and its children are ended as well: as if by Ctrl-C, and after a while by force.

    Args:
        arguments: Name of the command, and its arguments.
        log: File to which the command and its output are appended.
        environment: Variables to add to the environment of this process.
        while_running: Function to call about twice a second.
        safe_stop: Context that holds back requests to stop; they are obeyed between two calls of ``while_running``.
            None to obey them at once.

    Raises:
        CommandError: If the command fails.
        FileNotFoundError: If the command is not installed.
    """
    command = [find_command(arguments[0]), *arguments[1:]]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file, nullcontext() if safe_stop else termination_as_exit():
        file.write(f"$ {shlex.join(arguments)}\n")
        file.flush()
        start = file.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                if safe_stop:
                    safe_stop.check()
                while_running()
                _has_ended(process, POLL_SECONDS)
        finally:
            if process.returncode != 0:
                _stop(process)
    if process.returncode != 0:
        raise CommandError(arguments[0], process.returncode, last_lines(log, start=start), log)


def last_lines(log: Path, *, start: int = 0) -> list[str]:
    """The last lines of a log that are not empty, at most `N_LINES`.

    Args:
        log: The file.
        start: Position in the file, in bytes; what comes before it does not count.
    """
    printed = log.read_bytes()[start:].decode("utf-8", errors="replace")
    return [line.rstrip() for line in printed.splitlines() if line.strip()][-N_LINES:]


def _has_ended(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a command as Ctrl-C would, and then whatever is left of it."""
    # Where this process ignores Ctrl-C, as in the background of a script, the command ignores it as well.
    is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    try:
        if process.poll() is None:
            _signal(process, signal.SIGTERM if is_ignored else signal.SIGINT)
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
        # No process is left, or (on macOS) only processes that have ended.
        return
