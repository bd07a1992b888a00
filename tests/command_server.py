"""nnU-Net's commands, each in a process forked from one that has imported nnU-Net already.

What nnU-Net imports takes longer than most of what the tests ask of it. A forked command begins
where its program would begin after its imports: with its own arguments, environment, folder and
output, and with fresh random numbers. Processes that nnU-Net would spawn, to export predictions and
compute metrics, are forked for the same reason; names of files are sorted without any. Nor does a
forked training draw nnU-Net's progress.png, which takes longer than an epoch of the tests; one that
begins anew does. A forked fingerprint is of the 10,000 voxels of a case that nnU-Net draws by
default, not of 10^8 of all.

Read as a program, this file is the process that forks.
"""

import atexit
import gc
import importlib.metadata
import json
import multiprocessing.context
import os
import random
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from types import SimpleNamespace

#: Exit code of what has none yet.
_RUNS = 1_000


class CommandServer:
    """Runs commands one after the other, or at the same time.

    Args:
        environment: What the commands inherit; older versions of nnU-Net read it when they are
            imported.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        # With the project's root first, as a program that pytest starts would have it.
        root = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONPATH": path},
            text=True,
        )

    def run(
        self, command: str, *arguments: str, environment: Mapping[str, str], folder: Path
    ) -> subprocess.CompletedProcess:
        """Run a command to its end, by its bare name; what it printed is in the result."""
        with tempfile.TemporaryDirectory() as outputs:
            files = [Path(outputs) / name for name in ("stdout", "stderr")]
            forked = self.start(
                command, *arguments, environment=environment, folder=folder, files=files
            )
            code = forked.wait()
            printed = [file.read_text(encoding="utf-8", errors="replace") for file in files]
        return subprocess.CompletedProcess([command, *arguments], code, *printed)

    def start(
        self,
        command: str,
        *arguments: str,
        environment: Mapping[str, str],
        folder: Path,
        files: Sequence[Path],
    ) -> "ForkedCommand":
        """Start a command in a session of its own, with files for its standard output and its
        errors.

        The command is the name of an entry point, or ``python`` with ``-m`` and a module.
        """
        assert os.path.basename(command) == command, (
            "commands are found among the entry points, by name"
        )
        where = {
            "environment": dict(environment),
            "folder": str(folder),
            "files": list(map(str, files)),
        }
        return ForkedCommand(self, self._ask(words=[command, *arguments], **where))

    def _ask(self, **request: object) -> int:
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process that forks."""
        with self._process:
            # Its interpreter would take seconds to take apart what it imported.
            self._process.kill()


@dataclass
class ForkedCommand:
    """A command that was started.

    Attributes:
        pid: Process and session of the command.
        returncode: Its exit code, None while nobody has seen it end.
    """

    _server: CommandServer
    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, None while the command runs."""
        if self.returncode is None:
            code = self._server._ask(poll=self.pid)
            self.returncode = None if code == _RUNS else code
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code; a negative one is the signal that ended the command."""
        if timeout is not None:
            end = time.monotonic() + timeout
            while self.poll() is None:
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout)
                time.sleep(0.02)
        if self.returncode is None:
            self.returncode = self._server._ask(wait=self.pid)
        return self.returncode


def main() -> None:
    """Fork a process for each command on the standard input and print its number, or print the exit
    code of one."""
    # What is imported stays to the end: no garbage is looked for among it, neither here nor in the
    # forked commands, whose last look alone would take more than a second.
    gc.disable()
    import nnunet_dro.trainers.registry  # noqa: F401

    _do_less()
    gc.freeze()
    gc.enable()
    programs = {
        point.name: point for point in importlib.metadata.entry_points(group="console_scripts")
    }
    for line in sys.stdin:
        request = json.loads(line)
        if "words" not in request:
            is_poll = "poll" in request
            pid, status = os.waitpid(
                request["poll" if is_poll else "wait"], os.WNOHANG if is_poll else 0
            )
            print(os.waitstatus_to_exitcode(status) if pid else _RUNS, flush=True)
            continue
        name, *rest = request["words"]
        is_module = name.startswith("python")
        program = (
            partial(_run_module, rest)
            if is_module
            else partial(_run_program, programs[name].load())
        )
        child = os.fork()
        if child == 0:
            _become(request)
            _end(program)
        print(child, flush=True)


def _end(program: Callable[[], object]) -> None:
    """Run a program to its end, and end as the interpreter does, but take nothing apart before:
    what is imported here takes half a second.

    An error or an interruption falls through to the interpreter's own end.
    """
    try:
        code = program()
    except SystemExit as end:
        code = end.code
    if not isinstance(code, int | None):
        sys.exit(code)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _do_less() -> None:
    """Leave out nnU-Net's own picture of a training, which no test looks at, and the twelve
    processes that sort the names of its files; draw as many voxels of a case for a fingerprint as
    nnU-Net does unless it asks itself for more."""
    from nnunetv2.experiment_planning.dataset_fingerprint.fingerprint_extractor import (
        DatasetFingerprintExtractor,
    )
    from nnunetv2.training.logging import nnunet_logger
    from nnunetv2.utilities import utils

    one_by_one = SimpleNamespace(starmap=lambda call, words: list(starmap(call, words)))
    utils.Pool = lambda processes: nullcontext(one_by_one)
    # Versions before 2.7 have one logger, with another name.
    for name in ("LocalLogger", "nnUNetLogger"):
        if logger := getattr(nnunet_logger, name, None):
            logger.plot_progress_png = lambda self, output_folder: None
    draw = DatasetFingerprintExtractor.collect_foreground_intensities
    DatasetFingerprintExtractor.collect_foreground_intensities = staticmethod(
        lambda segmentation, images, **_: draw(segmentation, images)
    )


def _run_module(words: Sequence[str]) -> None:
    """What ``python -m module ...`` does."""
    option, module, *sys.argv[1:] = words
    assert option == "-m", "python runs modules only"
    # In place of the folder of this program.
    sys.path[0] = os.getcwd()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _run_program(program: Callable[[], object]) -> object:
    """What an entry point does; its modules are not found in the folder of this program."""
    sys.path[0] = os.path.dirname(sys.executable)
    return program()


def _become(request: dict) -> None:
    import numpy as np
    import torch

    contexts = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined]
    contexts["spawn"] = contexts["fork"]
    os.setsid()
    for number, file in zip((1, 2), request["files"], strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = request["words"]
    random.seed()
    np.random.seed()
    torch.seed()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
