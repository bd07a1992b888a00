"""nnU-Net's commands, each in a process forked from one that has imported nnU-Net already.

What nnU-Net imports takes longer than most of what the tests ask of it. A forked command begins where its program
would begin after its imports: with its own arguments, environment, folder and output, and with fresh random numbers.

Read as a program, this file is the process that forks.
"""

import importlib.metadata
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path


class CommandServer:
    """Runs commands one after the other.

    Args:
        environment: What the commands inherit; older versions of nnU-Net read it when they are imported.
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
        assert os.path.basename(command) == command, "commands are found among the entry points, by name"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as outputs:
            files = [os.path.join(outputs, name) for name in ("stdout", "stderr")]
            words = [command, *arguments]
            request = {"words": words, "environment": dict(environment), "folder": str(folder), "files": files}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            printed = [Path(file).read_text(encoding="utf-8", errors="replace") for file in files]
        return subprocess.CompletedProcess(words, code, *printed)

    def close(self) -> None:
        """End the process that forks."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def main() -> None:
    """Fork a process for each request on the standard input, and print its exit code."""
    import nnunet_dro.trainers.registry  # noqa: F401

    programs = {point.name: point for point in importlib.metadata.entry_points(group="console_scripts")}
    for line in sys.stdin:
        request = json.loads(line)
        program = programs[request["words"][0]].load()
        child = os.fork()
        if child == 0:
            _become(request)
            # Falls through to the interpreter's own end, as a program does.
            sys.exit(program())
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(request: dict) -> None:
    import numpy as np
    import torch

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
