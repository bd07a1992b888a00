"""Run nnU-Net's commands, with their output in logs and no process left behind."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import NoReturn

from nnunet_dro.nnunet.watcher import Watcher

#: Signals that request termination: of a cluster at its time limit, and of a terminal that is
#: closed (not on Windows).
_TERMINATION = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextmanager
def _handled(
    numbers: Sequence[int], handler: Callable[[int, FrameType | None], object]
) -> Iterator[None]:
    """Handle signals with a function of our own.

    Only the main thread receives signals; in any other, the context does nothing.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            before[number] = signal.signal(number, handler)

    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class SafeStop(ExitStack):
    """A context in which Ctrl-C and requests to terminate wait until a stop does no damage.

    An interrupt in the middle of a transaction would leave a database locked. A second request is
    obeyed at once. Only the main thread receives signals; in any other, the context does nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked = threading.Event()
        self.enter_context(_handled((signal.SIGINT, *_TERMINATION), self._ask))

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()

    def check(self) -> None:
        """Stop here if a stop has been requested."""
        if self._asked.is_set():
            raise KeyboardInterrupt


@contextmanager
def termination_as_exit() -> Iterator[None]:
    """Make a request to terminate unwind the stack, as Ctrl-C does.

    Otherwise it would end this process at once.
    """

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    with _handled(_TERMINATION, leave):
        yield


#: How many of the last lines of a log an error shows.
N_LINES = 15

#: Seconds between two checks of a running command, and seconds that it has to end after being asked
#: to.
POLL_SECONDS = 0.5
GRACE_SECONDS = 15.0


class Device(str, Enum):
    """The device that nnU-Net computes on, as in its option ``-device``."""

    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


def best_device(wished: str | None) -> str:
    """The device that is wished for; without a wish, cuda if there is one, otherwise cpu.

    Raises:
        ValueError: If cuda is wished for and PyTorch finds no GPU.
    """
    import torch

    has_cuda = torch.cuda.is_available()
    if wished == "cuda" and not has_cuda:
        raise ValueError(
            "`device` must be available, got 'cuda', and PyTorch finds no GPU. Use --device cpu."
        )

    if wished:
        return wished
    return "cuda" if has_cuda else "cpu"


class CommandError(RuntimeError):
    """A command of nnU-Net failed; a negative exit code is the signal that ended it."""

    def __init__(self, command: str, exit_code: int, lines: Sequence[str], log: Path) -> None:
        printed = "".join(f"\n    {line}" for line in lines)
        super().__init__(
            f"{command} failed with exit code {exit_code}. It printed:{printed}\n"
            f"Everything is in {log}"
        )
        self.command = command
        self.exit_code = exit_code
        self.lines = list(lines)
        self.log = log

    def __reduce__(self) -> tuple[type["CommandError"], tuple[str, int, list[str], Path]]:
        """Pickle it by its arguments: it comes back from other processes."""
        return type(self), (self.command, self.exit_code, self.lines, self.log)


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def find_command(name: str) -> str:
    """Find one of nnU-Net's commands, in the environment of this Python before any other.

    Raises:
        FileNotFoundError: If there is no such command.
    """
    folders = [
        str(Path(sys.executable).parent),
        sysconfig.get_path("scripts"),
        os.environ.get("PATH", ""),
    ]
    program = shutil.which(name, path=os.pathsep.join(folders))
    if program is None:
        raise FileNotFoundError(
            f"`{name}` must be installed, got no such command. Install it: pip install nnunetv2"
        )
    return program


@dataclass(frozen=True)
class Command:
    """A command to run."""

    arguments: Sequence[str]  # name of the command, and its arguments
    log: Path  # file to which the command and its output are appended
    environment: Mapping[str, str]  # variables to add to the environment of this process


def run_command(
    arguments: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    while_running: Callable[[], None] = lambda: None,
    safe_stop: SafeStop | None = None,
) -> None:
    """Run a command until it ends: `run_commands` with one `Command`."""
    command = Command(arguments, log, environment)
    run_commands([command], while_running=while_running, safe_stop=safe_stop)


def run_commands(
    commands: Sequence[Command],
    *,
    while_running: Callable[[], None],
    safe_stop: SafeStop | None = None,
) -> None:
    """Run commands at the same time until all have ended.

    If one fails, or this function is interrupted, all commands and their children are ended: as if
    by Ctrl-C, and after a while by force. If this process is killed, they are ended as well.

    Args:
        commands: What to run.
        while_running: Called about twice a second.
        safe_stop: Holds requests to stop back until a call of ``while_running`` is over.

    Raises:
        CommandError: If a command fails.
        FileNotFoundError: If there is no such command.
    """
    programs = [find_command(command.arguments[0]) for command in commands]
    running: list[_Running] = []
    with nullcontext() if safe_stop else termination_as_exit():
        try:
            for command, program in zip(commands, programs, strict=True):
                running.append(_Running(command, program))
            _wait(running, while_running, safe_stop)
            failed = [started for started in running if started.process.returncode]
        finally:
            try:
                _stop([started.process for started in running if started.process.returncode != 0])
            finally:
                for started in running:
                    started.watcher.dismiss()
    if failed:
        if safe_stop:
            # What ends a whole job ends the commands, too, perhaps before it asks this process.
            time.sleep(POLL_SECONDS)
            safe_stop.check()
        raise failed[0].error()


class _Running:
    """A command that was started, in a process group of its own."""

    def __init__(self, command: Command, program: str) -> None:
        self.command = command
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **command.environment}

        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("a", encoding="utf-8") as file:
            file.write(f"$ {shlex.join(command.arguments)}\n")
            file.flush()
            self._start = file.tell()
            self.process = subprocess.Popen(
                [program, *command.arguments[1:]],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self.watcher = Watcher(self.process.pid)

    def error(self) -> CommandError:
        """The error of a command that has failed."""
        log = self.command.log
        lines = last_lines(log, start=self._start)
        return CommandError(self.command.arguments[0], self.process.returncode, lines, log)


def _wait(
    running: Sequence[_Running],
    while_running: Callable[[], None],
    safe_stop: SafeStop | None,
) -> None:
    """Wait until all commands have ended, or one has failed."""
    while unfinished := [started for started in running if started.process.poll() is None]:
        if any(started.process.returncode for started in running):
            return

        if safe_stop:
            safe_stop.check()
        while_running()
        for started in unfinished:
            with suppress(subprocess.TimeoutExpired):
                started.process.wait(timeout=POLL_SECONDS / len(unfinished))


def last_lines(log: Path, *, start: int = 0) -> list[str]:
    """The last lines of a log that are not empty, at most `N_LINES`.

    Args:
        log: The file.
        start: Position in bytes; what stands before it is left out.
    """
    printed = log.read_bytes()[start:].decode("utf-8", errors="replace")
    lines = [line.rstrip() for line in printed.splitlines()]
    return [line for line in lines if line][-N_LINES:]


def _stop(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """End commands as Ctrl-C would, and then whatever is left of them."""
    request = signal.SIGINT
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # As in the background of a script: then the commands ignore Ctrl-C, too.
        request = signal.SIGTERM

    try:
        for process in processes:
            if process.poll() is None:
                _signal(process, request)
        end = time.monotonic() + GRACE_SECONDS
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.0, end - time.monotonic()))
    finally:
        for process in processes:
            _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        for process in processes:
            process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Send a signal to a command and its children; on Windows, end the command."""
    if not hasattr(os, "killpg"):
        process.terminate()
        return

    # No process is left, or (on macOS) only processes that have ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
