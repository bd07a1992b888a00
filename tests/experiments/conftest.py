import pytest
from rich.console import Console

from experiments.nnunet_runs import runs
from experiments.segmentation.__main__ import run
from tests.experiments.forked_commands import ForkedCommands
from tests.experiments.made_studies import NNUNet, tiny_study


@pytest.fixture
def nnunet(monkeypatch):
    stand_in = NNUNet()
    monkeypatch.setattr(runs, "run_command", stand_in)
    return stand_in


@pytest.fixture
def forked(monkeypatch):
    """Real commands that do not import nnU-Net one by one."""
    commands = ForkedCommands()
    monkeypatch.setattr(runs, "run_command", commands)
    yield commands
    commands.close()


@pytest.fixture
def start(tmp_path, nnunet):
    """Runs the tiny study in a folder of its own, and writes its page."""

    def run_tiny(methods=("beta10",), seeds=(0, 1), **changes):
        return run(
            tiny_study(**changes),
            work=tmp_path / "work",
            out=tmp_path / "out",
            seeds=seeds,
            methods=methods,
            console=Console(quiet=True),
        )

    return run_tiny
