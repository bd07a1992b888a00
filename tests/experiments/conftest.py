import pytest
import torch

from experiments.nnunet_runs import runs
from experiments.nnunet_runs.results import rows_by_seed, runs_of
from experiments.record import Options
from tests.experiments.forked_commands import ForkedCommands
from tests.experiments.made_studies import NNUNet, tiny_study


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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
    """Runs the tiny study in a folder of its own, and returns the rows of its seeds."""

    def run_tiny(methods=("ERM", "beta10"), seeds=(0, 1), add=False, **changes):
        study, finished = tiny_study(**changes), {}
        options = Options(quick=False, seeds=seeds, methods=methods, data=tmp_path, work=tmp_path)
        for stage in runs_of(study, options):
            finished |= {name: (one, one.of(study, options).run(one.method)) for name, one in stage.items()}
        return rows_by_seed(finished, add=add)

    return run_tiny
