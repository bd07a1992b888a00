"""The commands of an experiment, real ones, in processes forked from one that has imported nnU-Net already."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnunet_dro.nnunet.command import CommandError, last_lines, run_command
from tests.command_server import CommandServer

ROOT = Path(__file__).parents[2]


class ForkedCommands:
    """Takes the place of `run_command` for nnU-Net's commands and modules of the experiments."""

    def __init__(self) -> None:
        self._servers: dict[str, CommandServer] = {}

    def __call__(self, arguments: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        if not hasattr(os, "fork"):
            return run_command(arguments, log=log, environment=environment)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        name = "python" if arguments[0].startswith("python") else arguments[0]
        whole = {**os.environ, **environment}
        # One for each set of folders: older versions of nnU-Net read them when they are imported.
        folders = environment["nnUNet_raw"]
        if folders not in self._servers:
            self._servers[folders] = CommandServer(whole)
        server = self._servers[folders]
        code = server.start(name, *arguments[1:], environment=whole, folder=ROOT, files=(log, log)).wait()
        if code:
            raise CommandError(arguments[0], code, last_lines(log), log)
        return None

    def close(self) -> None:
        """End the processes that fork."""
        for server in self._servers.values():
            server.close()
