import os
from pathlib import Path

import pytest
import torch

from experiments.convergence import training
from experiments.nnunet_runs import runs
from experiments.nnunet_runs.results import rows_by_seed
from experiments.record import Options
from nnunet_dro.nnunet.command import CommandError, last_lines
from tests.experiments.made_trainings import NNUNet, tiny_trainings
from tests.nnunet_project import server


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
    """Real commands for one seed, in processes forked from one that has imported nnU-Net already."""

    def run_forked(arguments, *, log, environment):
        whole = {**os.environ, **environment}
        log.parent.mkdir(parents=True, exist_ok=True)
        settings = {"environment": whole, "folder": Path(__file__).parents[2], "files": (log, log)}
        fork = server(Path(whole["nnUNet_results"]).parent)
        if code := fork.start(*arguments, **settings).wait():
            raise CommandError(arguments[0], code, last_lines(log), log)

    if hasattr(os, "fork"):
        for module in (runs, training):
            monkeypatch.setattr(module, "run_command", run_forked)


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
