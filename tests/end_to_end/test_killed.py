"""A training that is killed, with nnU-Net's real command."""

import random
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
    """Four kills at random moments, during saves too; every start goes on from the last checkpoint."""
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
    for number in range(4):
        shutil.rmtree(folder / "validation", ignore_errors=True)
        log = here.root / f"killed_{number}.log"
        # Listed before the start: on a busy machine the new log may be there before the next line
        # runs.
        known = set(folder.glob("training_log_*.txt"))
        process = here.start(*train, log=log)
        started = wait_for_an_epoch(process, folder, known)
        time.sleep(moments.uniform(0.0, 0.8))
        assert process.poll() is None, "the training must still run when it is killed"
        # Read before the kill: the processes die one after the other, and one may complain of
        # another's death.
        text = log.read_text()
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        assert process.wait() == -signal.SIGKILL
        assert started, text[-3000:]
        assert "Error" not in text, text[max(0, text.find("Error") - 3000) :][:4000]
        assert not (folder / "checkpoint_final.pth").exists(), (
            "there must be something left to resume"
        )
    here.run(*train)
    check_fold(folder, n_epochs=n_epochs, n_cases=8)


def wait_for_an_epoch(process: ForkedCommand, folder: Path, known: set[Path]) -> bool:
    """Whether an epoch has begun in a log that is not among those known, within a minute."""
    for _ in range(600):
        logs = set(folder.glob("training_log_*.txt")) - known
        if any("\nEpoch" in path.read_text() or " Epoch " in path.read_text() for path in logs):
            return True
        if process.poll() is not None:
            return process.wait() == 0
        time.sleep(0.1)
    return False
