import pytest
import torch

from experiments.nnunet_runs import runs
from experiments.nnunet_runs.results import rows_by_seed
from experiments.record import Options
from tests.experiments.made_trainings import NNUNet, tiny_trainings


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
def start(tmp_path, nnunet):
    """Runs tiny trainings in a folder of their own, and returns the rows of their seeds."""

    def run_tiny(methods=("ERM", "beta10"), seeds=(0, 1), add=False, **changes):
        trainings = tiny_trainings(**changes)
        options = Options(quick=False, seeds=seeds, methods=methods, data=tmp_path, work=tmp_path)
        finished = {}
        for stage in trainings.runs(options):
            for name, run in stage.items():
                finished[name] = run, trainings.make(options, name, run)
        return rows_by_seed(finished, add=add)

    return run_tiny
