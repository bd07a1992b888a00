"""What the three logs have in common."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.gils.perturbation import Perturbed
from nnunet_dro.trainers.gils.perturbation_log import PerturbationLog
from nnunet_dro.trainers.l2rw.weights_log import WeightsLog
from nnunet_dro.trainers.log.hardness_log import HardnessLog
from tests.trainers.draws import cases_of_step, largest_file

CASES = ["case, one", "001", "NA", "d\u2028e"]
STEP = cases_of_step([0, 1], losses=[0.5, 0.25], weights=[1.0, 0.0])
ONES = torch.ones(2)
PERTURBED = Perturbed(torch.zeros(2, 1, 4, 4), ONES, ONES, ONES, ONES, ONES, ONES < 0)
LOGS = {
    "hardness": (lambda cases: HardnessLog(HardnessTable(cases, beta=10.0), None), STEP),
    "weights": (lambda cases: WeightsLog(cases, trusted=[]), STEP),
    "perturbations": (lambda cases: PerturbationLog(steps=2), PERTURBED),
}


@pytest.fixture(params=LOGS)
def what(request):
    return request.param


def log_with_epochs(what, folder, n_epochs, log=None, start=0):
    make, step = LOGS[what]
    log = log or make(CASES)
    for epoch in range(start, n_epochs):
        log.record(step)
        log.end_epoch(epoch, folder)
    return log


def resumed(what, folder, log, *, at):
    """Another log that goes on from the state of this one, if checkpoints have it."""
    other = LOGS[what][0](CASES)
    if hasattr(log, "state_dict"):
        other.load_state_dict(log.state_dict())
    other.keep_epochs_before(at, folder)
    return other


def epochs_in(path):
    return pd.read_csv(path)["epoch"].unique().tolist()


def test_an_epoch_is_written_and_said_in_one_line(tmp_path, what):
    log = LOGS[what][0](CASES)
    for epoch in range(2):
        log.record(LOGS[what][1])
        (line,) = log.end_epoch(epoch, tmp_path)
        assert "\n" not in line
        assert log.rows[-1]["epoch"] == epoch

    log.keep_epochs_before(1, tmp_path)

    assert epochs_in(tmp_path / log.file) == [0]


def test_a_file_that_cannot_be_written_is_a_warning(what):
    log = LOGS[what][0](CASES)
    log.record(LOGS[what][1])

    warning, line = log.end_epoch(3, Path("/does/not/exist"))

    assert warning.startswith(f"WARNING: could not write the {what} of this epoch: ")
    assert not line.startswith("WARNING")
    assert log.rows[-1]["epoch"] == 3


@pytest.mark.parametrize("tail", ["", "4,d,0.5", "4", '4,"case, o'])
def test_a_resumed_training_drops_later_epochs_and_a_torn_line(tmp_path, what, tail):
    (tmp_path / "whole").mkdir()
    whole = log_with_epochs(what, tmp_path / "whole", 6)
    first = log_with_epochs(what, tmp_path, 4)
    with (tmp_path / first.file).open("a") as file:
        file.write(tail)
    again = log_with_epochs(what, tmp_path, 6, log=resumed(what, tmp_path, first, at=3), start=3)

    names = epochs_in(tmp_path / first.file), epochs_in(tmp_path / "whole" / first.file)

    assert names == ([0, 1, 2, 3, 4, 5],) * 2
    # The rows of hardness depend on the losses, which are those of the fourth epoch.
    if what == "weights":
        expected = (tmp_path / "whole" / "weights.csv").read_bytes()
        assert (tmp_path / "weights.csv").read_bytes() == expected
        assert again.rows == whole.rows


def test_a_damaged_line_is_left_out_and_an_empty_file_gets_its_head(tmp_path, what):
    log = log_with_epochs(what, tmp_path, 2)
    path = tmp_path / log.file
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0\0,1\n" + b"".join(lines[1:]) + b"1,x\n")

    resumed(what, tmp_path, log, at=2)

    assert path.read_bytes() == b"".join(lines)

    path.write_bytes(b"")
    log_with_epochs(what, tmp_path, 3, log=log, start=2)

    assert path.read_bytes().splitlines(keepends=True)[0] == lines[0]


def test_a_new_training_starts_a_new_file(tmp_path, what):
    log = log_with_epochs(what, tmp_path, 2)
    log.keep_epochs_before(0, tmp_path)

    log_with_epochs(what, tmp_path, 1, log=log)

    assert epochs_in(tmp_path / log.file) == [0]


def test_a_file_of_something_else_is_not_continued(tmp_path, what):
    log = LOGS[what][0](CASES)
    (tmp_path / log.file).write_text("a,b\n1,2\n")

    log.keep_epochs_before(5, tmp_path)

    assert (tmp_path / log.file).read_text() == ",".join(log.columns) + "\n"


def test_a_full_disk_leaves_no_half_epoch(tmp_path, what):
    log = log_with_epochs(what, tmp_path, 2)
    path = tmp_path / log.file
    before = path.read_bytes()

    with largest_file(len(before) + 3):
        warning, _ = log.end_epoch(2, tmp_path)

    assert log.file in warning
    assert path.read_bytes() == before
    assert log.rows[-1]["epoch"] == 2, "the epoch is recorded all the same"

    log.end_epoch(3, tmp_path)
    assert epochs_in(path) == [0, 1, 3]


@pytest.mark.parametrize("n_cases", [1, 3, 3000])
@pytest.mark.parametrize("what", ["hardness", "weights"])
def test_a_picture_is_drawn_for_any_number_of_cases(tmp_path, what, n_cases):
    log = LOGS[what][0]([f"c{i}" for i in range(n_cases)])
    log.end_epoch(0, tmp_path)  # no case was seen yet

    for epoch in range(1, 3):
        values = np.random.default_rng(epoch).random(n_cases)
        log.record(cases_of_step(np.arange(n_cases), losses=values, weights=values))
        if what == "hardness":
            log.table.update(np.arange(n_cases), values)
        log.end_epoch(epoch, tmp_path)

    assert (tmp_path / f"{what}.png").read_bytes().startswith(b"\x89PNG")
