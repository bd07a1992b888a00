"""The commands of an experiment, real ones, in processes forked from one that has imported nnU-Net already."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnunet_dro.cli import app
from nnunet_dro.nnunet.command import CommandError, last_lines, run_command
from tests.command_server import CommandServer

_FOLDERS = ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results")


class ForkedCommands:
    """Takes the place of `run_command` for nnU-Net's commands and modules of the experiments."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, ...], CommandServer] = {}

    def __call__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        while_running: Callable[[], None] = lambda: None,
        safe_stop: object = None,
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        if not hasattr(os, "fork"):
            return run_command(arguments, log=log, environment=environment, while_running=while_running)
        if arguments[0] == "nnunet-dro":
            code = self._run_here(arguments[1:], log, environment)
        else:
            name = "python" if arguments[0].startswith("python") else arguments[0]
            whole = {**os.environ, **environment}
            root = Path(__file__).parents[2]
            files = (log, log)
            code = self._server(whole).start(name, *arguments[1:], environment=whole, folder=root, files=files).wait()
        while_running()
        if code:
            raise CommandError(arguments[0], code, last_lines(log), log)
        return None

    def _run_here(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
        """Run the package's own command in this process; what it starts is forked, too."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr("nnunet_dro.nnunet.training.run_command", self)
            result = CliRunner().invoke(app, list(arguments))
        log.write_text(result.output, encoding="utf-8")
        return result.exit_code

    def _server(self, environment: Mapping[str, str]) -> CommandServer:
        # One for each set of folders: older versions of nnU-Net read them when they are imported.
        key = tuple(environment[name] for name in _FOLDERS)
        if key not in self._servers:
            self._servers[key] = CommandServer(environment)
        return self._servers[key]

    def close(self) -> None:
        """End the processes that fork."""
        for server in self._servers.values():
            server.close()
