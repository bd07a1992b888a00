"""The datasets of the experiment with few data, and its runs: a smaller network, and a fold to tune on."""

import json
import shutil
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.nnunet_runs.plans import CONFIGURATION, PLANS_NAME
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import render
from nnunet_dro.atomic import replacing

#: Plain nnU-Net with twice the iterations: GI-LS makes two optimiser steps in each of its iterations.
TWICE = "ERM-twice"

#: The methods with options to tune, and what the names of their trainers begin with.
TUNED = {"LS": "nnUNetTrainerLS", "GI-LS": "nnUNetTrainerGILS"}

#: GI-LS with the trainer's own options, not tuned.
DEFAULT = "GI-LS-default"

#: Trainings of four times the length: plain nnU-Net, and GI-LS with the options that were tuned.
LONG, LONG_GILS = "ERM-long", "GI-LS-long"

#: Method to the factor by which its number of iterations is larger than that of the others.
FACTORS = {TWICE: 2, LONG: 4, LONG_GILS: 4}

#: All methods, the baseline first, and those of a smoke run.
METHODS, QUICK_METHODS = (BASELINE, TWICE, *TUNED, DEFAULT, LONG, LONG_GILS), (BASELINE, *TUNED)

#: Training cases, and how many of them the tuning holds out to score its trials.
N_TRAINING, N_HELD_OUT = 8, 2

#: nnU-Net's fold of the tuning; fold 0 trains with all of the training cases.
TUNING_FOLD = "1"

#: Small enough for an iteration of 20 to 40 ms on one processor core.
PATCH_SIZE, BATCH_SIZE = (24, 24, 24), 2

#: Epochs and training iterations per epoch. nnU-Net draws its curves after each epoch, which takes longer than ten
#: iterations: so few and long epochs.
_LENGTH, _QUICK_LENGTH = (5, 60), (1, 4)


def shrunken_plans(plans: Mapping[str, Any]) -> dict[str, Any]:
    """The plans of the experiments with a smaller patch and batch; shrinking them again changes nothing.

    Args:
        plans: From `experiment_plans`.

    Returns:
        New plans. A patch that is smaller already stays.
    """
    small = deepcopy(dict(plans))
    configuration = small["configurations"][CONFIGURATION]
    configuration["batch_size"] = BATCH_SIZE
    configuration["patch_size"] = [min(pair) for pair in zip(configuration["patch_size"], PATCH_SIZE, strict=True)]
    return small


def folds(cases: pd.DataFrame) -> list[dict[str, list[str]]]:
    """nnU-Net's splits: all training cases, and the training cases without those that the tuning holds out.

    Args:
        cases: The case table, with the columns ``case`` and ``split`` (train or validation).
    """
    train, validation = (sorted(cases["case"][cases["split"] == name]) for name in ("train", "validation"))
    held_out = train[:N_HELD_OUT]
    return [{"train": train, "val": validation}, {"train": train[N_HELD_OUT:], "val": held_out}]


@dataclass(frozen=True)
class FewDataRuns(SeedRuns):
    """All runs on the dataset of one seed, with the smaller network and the fold of the tuning."""

    def prepare(self, console: Console) -> None:
        """Write, plan and preprocess the dataset.

        Raises:
            CommandError: If nnU-Net's command fails.
        """
        super().prepare(console)
        plans_file = self.preprocessed / f"{PLANS_NAME}.json"
        plans = json.loads(plans_file.read_text(encoding="utf-8"))
        cases = pd.read_csv(self.raw / "cases.csv", dtype=str)
        for path, content in (
            (self.preprocessed / "splits_final.json", folds(cases)),
            (plans_file, shrunken_plans(plans)),
        ):
            with replacing(path) as partial:
                partial.write_text(json.dumps(content, indent=2), encoding="utf-8")

    def is_finished(self, method: str) -> bool:
        """Whether a method has been trained, predicted and evaluated with its present options."""
        return super().is_finished(method) and self.record(method)["trainer"] == self.study.trainer(method)

    def set_aside(self, method: str) -> None:
        """Forget a run with other options, so that the method is run again."""
        if not self.is_finished(method):
            (self.folder / "runs" / f"{method}.json").unlink(missing_ok=True)


def merge_labels(folder: Path, *, file_ending: str, name: str) -> None:
    """Make one label of all labels of a raw dataset, in place.

    Args:
        folder: The dataset.
        file_ending: File ending of the label maps.
        name: Name of the new label.
    """
    import SimpleITK

    for path in sorted(folder.glob(f"labelsT[rs]/*{file_ending}")):
        image = SimpleITK.ReadImage(str(path))
        merged = SimpleITK.GetImageFromArray((SimpleITK.GetArrayFromImage(image) > 0).astype(np.uint8))
        merged.CopyInformation(image)
        SimpleITK.WriteImage(merged, str(path))
    description = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    description["labels"] = {"background": 0, name: 1}
    (folder / "dataset.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def hippocampus_study(data: Path, *, quick: bool) -> Study:
    """Study of eight images of the hippocampus in one intensity convention, with test cases of this and of two others.

    Args:
        data: The raw dataset, whose ``cases.csv`` has the column ``intensity_range``.
        quick: Whether it is a smoke run.

    Raises:
        FileNotFoundError: If there is no such dataset.
        ValueError: If it lacks that column, or has too few cases of a range.
    """
    n_other, n_test = (2, 3) if quick else (20, 60)
    unseen, seen = {"8bit": 0, "rescaled": 0}, {"train": N_TRAINING, "validation": 1, "test": n_test}
    hippocampus = read_hippocampus(data, n_needed={**dict.fromkeys(unseen, n_other), "raw": sum(seen.values())})

    def write(folder: Path, rng: np.random.Generator) -> None:
        parts = folder.with_name(f"{folder.name}.two-labels")
        shutil.rmtree(parts, ignore_errors=True)
        write_hippocampus(parts, hippocampus, rare=unseen, common=seen, at_most=n_other, rng=rng)
        merge_labels(parts, file_ending=".nii.gz", name="hippocampus")
        parts.rename(folder)

    return _study(
        write,
        quick=quick,
        name="hippocampus",
        dataset="Dataset915_FewHippocampus",
        by="range",
        unseen=tuple(unseen),
        seen="raw",
        labels=("hippocampus",),
        settings={"train": N_TRAINING, "test": n_test, "test_of_others": n_other},
        about=render("few_data/hippocampus", n_training=N_TRAINING, n_test=n_test, n_other=n_other),
    )


def phantom_study(*, quick: bool) -> Study:
    """Study of eight phantoms of one pathology, with test cases of this and of two others; see `phantoms`."""
    counts = Counts({"control": N_TRAINING}, validation=1, test=2 if quick else 30)
    return _study(
        lambda folder, rng: write_dataset(folder, counts, rng=rng),
        quick=quick,
        name="phantoms",
        dataset="Dataset916_FewControls",
        by="pathology",
        unseen=("common", "rare"),
        seen="control",
        labels=("grey_matter", "white_matter", "cerebellum"),
        settings={"train": N_TRAINING, "test": counts.test},
        about=render("few_data/phantoms", size=SIZE, n_training=N_TRAINING, n_test=counts.test),
    )


def _study(write: Any, *, quick: bool, unseen: tuple[str, ...], seen: str, settings: Any, **same: Any) -> Study:
    epochs, iterations = _QUICK_LENGTH if quick else _LENGTH
    plain = "nnUNetTrainerHWS_beta0"
    return Study(
        title=f"Few data: {same['name']}",
        rare=unseen,
        common=(seen,),
        epochs=epochs,
        iterations=iterations,
        write=write,
        # What the runner records of itself has its own batch size.
        settings={**settings, "batch_size": BATCH_SIZE, "patch_size": list(PATCH_SIZE)},
        trainers={BASELINE: plain, TWICE: plain, LONG: plain, DEFAULT: TUNED["GI-LS"]},
        factors=FACTORS,
        **same,
    )
