"""A training that is killed, with nnU-Net's real command."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end.folds import check_fold
from tests.nnunet_project import environment

pytestmark = pytest.mark.slow


def test_a_training_that_is_killed_again_and_again_resumes(project):
    """Ten kills at random moments, during saves too; every start goes on from the last checkpoint."""
    here = project("labels")
    n_epochs = 60
    name = f"nnUNetTrainerHWS_beta10_{n_epochs}epochs_2iters"
    folder = here.fold_folder(name, "2d_small")
    train = ["nnUNetv2_train", str(here.dataset_id), "2d_small", "0", "-tr", name, "-device", "cpu", "--c"]
    program = Path(sys.executable).parent / train[0]
    moments = random.Random(0)
    for _ in range(10):
        shutil.rmtree(folder / "validation", ignore_errors=True)
        log = (here.root / "killed.log").open("w")
        process = subprocess.Popen(
            [program, *train[1:]],
            env=environment(here.root),
            stdout=log,
            stderr=log,
            cwd=here.root,
            start_new_session=True,
        )
        started = wait_for_an_epoch(process, folder)
        time.sleep(moments.uniform(0.0, 1.5))
        assert process.poll() is None, "the training must still run when it is killed"
        # Read before the kill: the processes die one after the other, and one may complain of another's death.
        text = (here.root / "killed.log").read_text()
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.wait()
        log.close()
        assert started, text[-3000:]
        assert "Error" not in text, text[max(0, text.find("Error") - 3000) :][:4000]
        assert not (folder / "checkpoint_final.pth").exists(), "there must be something left to resume"
    here.run(*train)
    check_fold(folder, n_epochs=n_epochs, n_cases=8)


def wait_for_an_epoch(process: subprocess.Popen, folder: Path) -> bool:
    known = set(folder.glob("training_log_*.txt"))
    for _ in range(600):
        logs = set(folder.glob("training_log_*.txt")) - known
        if any("\nEpoch" in path.read_text() or " Epoch " in path.read_text() for path in logs):
            return True
        if process.poll() is not None:
            return process.returncode == 0
        time.sleep(0.1)
    return False
