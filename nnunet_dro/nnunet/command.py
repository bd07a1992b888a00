"""Run one of nnU-Net's commands: output into a log, and no process left behind."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

#: How many of a log's last lines an error shows.
N_LINES = 15

#: Seconds between two looks at a running command, and those it has to end after being asked to.
POLL_SECONDS, GRACE_SECONDS = 0.5, 5.0


class DemoError(RuntimeError):
    """A command of nnU-Net failed."""


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
    arguments: Sequence[str], *, environment: Mapping[str, str], log: Path, while_running: Callable[[], None]
) -> None:
    """Run a command to its end.

    Whatever ends this function before (Ctrl-C, an error, a request to terminate) ends the command and its children.

    Args:
        arguments: The command's name and its arguments.
        environment: Added to this process's environment.
        log: The command and all it prints are appended to this file.
        while_running: Called about twice a second.

    Raises:
        DemoError: If it fails; the message has the last lines of its output and the log's path.
        FileNotFoundError: If it is not installed.
    """
    command = [find_command(arguments[0]), *arguments[1:]]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(arguments)}\n")
        file.flush()
        start = file.tell()
        with (
            _termination_as_exit(),
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            ) as process,
        ):
            try:
                while process.poll() is None:
                    while_running()
                    _wait(process, POLL_SECONDS)
            finally:
                _stop(process)
    if process.returncode != 0:
        printed = log.read_bytes()[start:].decode("utf-8", errors="replace")
        lines = [line for line in printed.splitlines() if line.strip()][-N_LINES:]
        ending = "\n".join(f"    {line}" for line in lines)
        raise DemoError(f"{arguments[0]} failed with exit code {process.returncode}. It printed:\n{ending}\nAll: {log}")


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a command and its worker processes, if they are still there."""
    if process.poll() is not None:
        return
    for end, kill in ((process.terminate, signal.SIGTERM), (process.kill, getattr(signal, "SIGKILL", signal.SIGTERM))):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, kill)
        else:
            end()
        if _wait(process, GRACE_SECONDS):
            return


@contextmanager
def _termination_as_exit() -> Iterator[None]:
    """Let a request to terminate unwind the stack, as Ctrl-C does, instead of ending this process at once."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
