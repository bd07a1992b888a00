"""Section of `gpu_check.py` that runs nnU-Net's own commands on made images."""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nnunet_dro.nnunet.command import CommandError, run_command

DATASET = "Dataset901_Made"
N_CASES = 40
N_TRUSTED = 12
N_TRAINING = 32
TRAINERS = (
    "DRO_beta0",
    "DRO",
    "GroupDRO_centre",
    "L2RW",
    "GILS_T2",
    "DRO_sub1x2x2_hardPresent_la1",
)


class StoppedError(Exception):
    """Stops a training where a user might."""


class Project:
    """nnU-Net's three folders, and its commands in them."""

    def __init__(self, root: Path, findings: Any) -> None:
        self.root = root
        self.findings = findings
        self.raw = root / "raw" / DATASET
        self.plans = root / "preprocessed" / DATASET / "nnUNetPlans.json"
        self.log = root / "commands.log"
        is_gpu = findings.is_gpu
        self.environment = {
            "nnUNet_raw": str(root / "raw"),
            "nnUNet_preprocessed": str(root / "preprocessed"),
            "nnUNet_results": str(root / "results"),
            "nnUNet_n_proc_DA": "4" if is_gpu else "1",
            "nnUNet_def_n_proc": "2",
            "nnUNet_compile": "t" if is_gpu else "f",
        }

    def run(self, *words: str, until: Any = None) -> float:
        """Run a command, and stop it if ``until`` says so; returns the seconds it took."""

        def look() -> None:
            if until is not None and until():
                raise StoppedError

        start = time.monotonic()
        run_command(
            words, log=self.log, environment={**os.environ, **self.environment}, while_running=look
        )
        return time.monotonic() - start

    def fold(self, trainer: str) -> Path:
        """The folder of a trainer's results."""
        return self.root / "results" / DATASET / f"{trainer}__nnUNetPlans__2d" / "fold_0"

    def write_raw(self) -> None:
        """Two nested shapes in noise; every fourth image is dark on bright."""
        rng = np.random.default_rng(0)
        rows = ["case,centre,trusted"]
        y, x = np.mgrid[:128, :128]
        for folder in ("imagesTr", "labelsTr"):
            (self.raw / folder).mkdir(parents=True)
        for i in range(N_CASES):
            centre = rng.integers(40, 88, size=2)
            square = rng.integers(200, 900)
            label = ((y - centre[0]) ** 2 + (x - centre[1]) ** 2 < square).astype(np.uint8)
            label[(label > 0) & (y < x)] = 2
            contrast = -50.0 if i % 4 == 0 else 50.0
            image = np.clip(100 + contrast * label + rng.normal(0, 12, label.shape), 0, 255).astype(
                np.uint8
            )
            Image.fromarray(image).save(self.raw / "imagesTr" / f"case_{i:02d}_0000.png")
            Image.fromarray(label).save(self.raw / "labelsTr" / f"case_{i:02d}.png")
            rows.append(f"case_{i:02d},{'AB'[i % 4 == 0]},{'yes' if i < N_TRUSTED else 'no'}")
        (self.raw / "cases.csv").write_text("\n".join(rows) + "\n")
        description = {
            "channel_names": {"0": "MRI"},
            "labels": {"background": 0, "a": 1, "b": 2},
            "numTraining": N_CASES,
            "file_ending": ".png",
        }
        (self.raw / "dataset.json").write_text(json.dumps(description))

    def plan(self) -> None:
        """Plan and preprocess, with small batches and, without a GPU, a small network."""
        seconds = self.run("nnUNetv2_plan_and_preprocess", "-d", "901", "-c", "2d", "-np", "2")
        self.findings.check("train, plan and preprocess", self.plans.exists(), seconds=seconds)
        plans = json.loads(self.plans.read_text())
        configuration = plans["configurations"]["2d"]
        configuration["batch_size"] = 12 if self.findings.is_gpu else 4
        if not self.findings.is_gpu:
            configuration["architecture"]["arch_kwargs"].update(
                n_stages=3,
                features_per_stage=[4, 8, 16],
                kernel_sizes=[[3, 3]] * 3,
                strides=[[1, 1], [2, 2], [2, 2]],
                n_conv_per_stage=[1, 1, 1],
                n_conv_per_stage_decoder=[1, 1],
            )
        self.plans.write_text(json.dumps(plans))


def train(findings: Any) -> None:
    """Six trainers are stopped after an epoch, continue with --c, and predict."""
    root = Path(tempfile.mkdtemp(prefix="gpu-check-"))
    project = Project(root, findings)
    try:
        project.write_raw()
        project.plan()
        for name in TRAINERS:
            if not findings.is_late(f"train {name}"):
                try:
                    _train_one(project, name)
                except CommandError as error:
                    findings.check(f"train {name}", False, error=str(error)[:1500])
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _train_one(project: Project, name: str) -> None:
    findings = project.findings
    trainer = f"nnUNetTrainer{name}_3epochs_{40 if findings.is_gpu else 4}iters"
    fold = project.fold(trainer)
    words = ("nnUNetv2_train", "901", "2d", "0", "-tr", trainer, "-device", findings.device.type)
    start = time.monotonic()
    try:
        project.run(*words, until=(fold / "checkpoint_best.pth").exists)
        stopped = False
    except StoppedError:
        stopped = True
    first = time.monotonic() - start
    n_rows_before = _n_rows(fold)
    seconds = project.run(*words, "--c")
    numbers = [float(line.split("train_loss")[1]) for line in _log(fold) if "train_loss" in line]
    findings.check(
        f"train {name}",
        stopped
        and _n_rows(fold) == 3 * N_TRAINING
        and np.isfinite(numbers).all()
        and 0 not in numbers,
        seconds=first,
        seconds_continued=seconds,
        rows_when_stopped=n_rows_before,
        rows_at_the_end=_n_rows(fold),
        train_losses=numbers,
        seconds_of_epochs=[
            float(line.split("Epoch time:")[1].split()[0])
            for line in _log(fold)
            if "Epoch time" in line
        ],
    )
    for line in _log(fold):
        if "the weights are computed" in line:
            findings.note(f"train {name}", log=line.split("reweight: ")[1])
    output = project.root / "predicted" / name
    seconds = project.run(
        *(
            "nnUNetv2_predict",
            "-d",
            "901",
            "-c",
            "2d",
            "-f",
            "0",
            "-tr",
            trainer,
            "-device",
            findings.device.type,
        ),
        *("-i", str(project.raw / "imagesTr"), "-o", str(output), "-npp", "2", "-nps", "2"),
    )
    n_predicted = len(list(output.glob("*.png")))
    findings.check(f"predict {name}", n_predicted == N_CASES, seconds=seconds, images=n_predicted)


def _n_rows(fold: Path) -> int:
    table = fold / "hardness.csv"
    return len(table.read_text().splitlines()) - 1 if table.exists() else 0


def _log(fold: Path) -> list[str]:
    return [
        line
        for file in sorted(fold.glob("training_log_*.txt"))
        for line in file.read_text().splitlines()
    ]
