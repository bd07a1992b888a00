"""What the three logs have in common."""

from pathlib import Path

import pytest
import torch

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.logs.epoch_log import end_epoch
from nnunet_dro.trainers.logs.hardness_log import HardnessLog
from nnunet_dro.trainers.logs.perturbation_log import PerturbationLog
from nnunet_dro.trainers.logs.weights_log import WeightsLog
from nnunet_dro.trainers.perturbation import Perturbed
from tests.trainers.draws import cases_of_step

STEP = cases_of_step([0, 1], losses=[0.5, 0.25], weights=[1.0, 0.0])
ONES = torch.ones(2)
PERTURBED = Perturbed(torch.zeros(2, 1, 4, 4), ONES, ONES, ONES, ONES, ONES, ONES < 0)
LOGS = {
    "hardness": (lambda: HardnessLog(HardnessTable(["a", "b"]), None), STEP, "hardness.csv"),
    "weights": (lambda: WeightsLog(["a", "b"], []), STEP, "weights.csv"),
    "perturbations": (lambda: PerturbationLog(steps=2), PERTURBED, "perturbations.csv"),
}


@pytest.mark.parametrize("what", LOGS)
def test_an_epoch_is_written_and_said_in_one_line(tmp_path, what):
    make, step, file = LOGS[what]
    log, lines = make(), []
    for epoch in range(2):
        log.record(step)
        summary = end_epoch(log, epoch, tmp_path, report=lines.append)
        assert (summary.epoch, log.summaries[-1]) == (epoch, summary)
    assert lines == [summary.line() for summary in log.summaries]
    assert not any("\n" in line for line in lines)
    log.keep_epochs_before(1, tmp_path)
    epochs = [line.split(",")[0] for line in (tmp_path / file).read_text().splitlines()[1:]]
    assert set(epochs) == {"0"}


@pytest.mark.parametrize("what", LOGS)
def test_a_file_that_cannot_be_written_is_a_warning(what):
    make, step, _ = LOGS[what]
    log, lines = make(), []
    log.record(step)
    end_epoch(log, 3, Path("/does/not/exist"), report=lines.append)
    assert lines[0].startswith(f"WARNING: could not write the {what} of this epoch: ")
    assert lines[1:] == [log.summaries[-1].line()]
    assert log.summaries[-1].epoch == 3
