"""A training that is killed, with nnU-Net's real command."""

import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.command_server import ForkedCommand
from tests.end_to_end.folds import check_fold

pytestmark = pytest.mark.slow


def test_a_training_that_is_killed_again_and_again_resumes(project):
    """Three kills at random moments, during saves too; every start goes on from the last checkpoint."""
    here = project("labels")
    n_epochs = 20
    name = f"nnUNetTrainerHWS_beta10_{n_epochs}epochs_2iters"
    folder = here.fold_folder(name, "2d_small")
    train = [
        "nnUNetv2_train",
        str(here.dataset_id),
        "2d_small",
        "0",
        "-tr",
        name,
        "-device",
        "cpu",
        "--c",
    ]
    moments = random.Random(0)
    first_epochs = []
    for number in range(3):
        shutil.rmtree(folder / "validation", ignore_errors=True)
        log = here.root / f"killed_{number}.log"
        log.touch()
        process = here.start(*train, log=log)
        epochs = two_epochs(process, log)
        time.sleep(moments.uniform(0.0, 0.4))
        assert process.poll() is None, "the training must still run when it is killed"
        # Read before the kill: the processes die one after the other, and one may complain of
        # another's death.
        text = log.read_text()
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        assert process.wait() == -signal.SIGKILL
        assert len(epochs) >= 2, text[-3000:]
        assert "Error" not in text, text[max(0, text.find("Error") - 3000) :][:4000]
        assert not (folder / "checkpoint_final.pth").exists(), (
            "there must be something left to resume"
        )
        first_epochs.append(epochs[0])

    first_epochs.append(begun_epochs(here.run(*train).stdout)[0])

    assert 0 == first_epochs[0] < first_epochs[1] <= first_epochs[2] <= first_epochs[3]
    check_fold(folder, n_epochs=n_epochs, n_cases=8)


def two_epochs(process: ForkedCommand, log: Path) -> list[int]:
    """The epochs that a start has begun as soon as there are two, or what there are in ten minutes."""
    for _ in range(12_000):
        epochs = begun_epochs(log.read_text())
        if len(epochs) >= 2 or process.poll() is not None:
            break
        time.sleep(0.05)
    return epochs


def begun_epochs(text: str) -> list[int]:
    return [int(number) for number in re.findall(r" Epoch (\d+)", text)]
