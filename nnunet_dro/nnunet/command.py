"""Run one of nnU-Net's commands: its output goes into a log, and no process is left behind."""

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

#: How many of a log's last lines an error shows.
N_LINES = 15

#: Seconds between two looks at a running command, and those it has to end after being asked to.
POLL_SECONDS, GRACE_SECONDS = 0.5, 15.0


class Device(str, Enum):
    """Where nnU-Net computes, as its option ``-device`` says it."""

    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


class CommandError(RuntimeError):
    """A command of nnU-Net failed.

    Attributes:
        command: Its name.
        exit_code: Its exit code; negative for the signal that ended it.
        lines: The last lines that it printed.
        log: The file with everything that it printed.
    """

    def __init__(self, command: str, exit_code: int, lines: Sequence[str], log: Path) -> None:
        printed = "".join(f"\n    {line}" for line in lines)
        super().__init__(f"{command} failed with exit code {exit_code}. It printed:{printed}\nAll: {log}")
        self.command, self.exit_code, self.lines, self.log = command, exit_code, list(lines), log


def find_command(name: str) -> str:
    """The path of one of nnU-Net's commands, in the environment of this Python before any other.

    Raises:
        FileNotFoundError: If it is not installed.
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
    """Run a command to its end.

    Whatever ends this function before (Ctrl-C, a request to terminate, what ``while_running`` raises) ends the command
    and its children: as Ctrl-C would, and after a while by force.

    Args:
        arguments: The command's name and its arguments.
        log: The command and all it prints are appended to this file.
        environment: Added to this process's environment.
        while_running: Called about twice a second.
        safe_stop: The context that holds back requests to stop; the command runs until it is asked for them here, about
            twice a second. None to stop at once.

    Raises:
        CommandError: If it fails.
        FileNotFoundError: If it is not installed.
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
    """The last lines of a log that are not empty.

    Args:
        log: The file.
        start: Position in the file, in bytes, before which nothing counts.

    Returns:
        At most `N_LINES`.
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
    # Where Ctrl-C is ignored, as behind `&` in a script, the command ignores it, too.
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
        # Nobody is left, or (macOS) none but the dead that nobody has looked at.
        return
