"""The datasets and methods of the experiment with wrong labels, as studies."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.label_noise.data import N_TRUSTED, SHARE, spoil_dataset
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import render

#: Method to the trainer's name without its length. DORO knows the share that is spoilt, and takes the worse half of
#: the rest: spoilt cases that it missed would make up more of a smaller part. DORO_warm draws uniformly for three
#: epochs first, so that a network that knows something decides what is set aside.
TRAINERS = {
    BASELINE: "nnUNetTrainerHWS_beta0",
    "DRO": "nnUNetTrainerHWS_beta10_noIS",
    "DORO": f"nnUNetTrainerHWS_cvar0.5_doro{SHARE}",
    "DORO_warm": f"nnUNetTrainerHWS_cvar0.5_doro{SHARE}_warmup3",
    "L2RW": "nnUNetTrainerL2RW",
}

#: Epochs and training iterations per epoch.
_LENGTH, _QUICK_LENGTH = (10, 60), (3, 4)


def phantom_study(*, quick: bool, rare: bool = False) -> Study:
    """Study of phantoms of the two pathologies that a plain training learns; see `phantoms`.

    Args:
        quick: Whether it is a smoke run.
        rare: Whether some training cases are of the rare pathology: right labels that are hard. They are spoilt and
            trusted as often as others. The test has none in either case.
    """
    train = {"control": 14, "common": 6} if quick else {"control": 80, "common": 20}
    if rare:
        n_rare = 4 if quick else 15
        train |= {"control": train["control"] - n_rare, "rare": n_rare}
    counts = Counts(train, validation=1 if quick else 4, test=2 if quick else 20)

    def write(folder: Path, rng: np.random.Generator) -> None:
        write_dataset(folder, counts, rng=rng)
        _leave_out(folder, "rare")

    about = {"size": SIZE, "rare": rare, "train": train, "n_test": 2 * counts.test, "pair": "grey and white matter"}
    return _study(
        write,
        quick=quick,
        name="rare-phantoms" if rare else "phantoms",
        dataset="Dataset915_NoisyRarePhantoms" if rare else "Dataset913_NoisyPhantoms",
        pair=(1, 2),
        labels=("grey_matter", "white_matter", "cerebellum"),
        settings={"train": train, "validation": counts.validation, "test": counts.test},
        about=_about("phantoms", **about),
    )


def hippocampus_study(data: Path, *, quick: bool) -> Study:
    """Study of MR images of the hippocampus in one intensity convention.

    Args:
        data: The raw dataset, whose ``cases.csv`` has the column ``intensity_range``.
        quick: Whether it is a smoke run.

    Raises:
        FileNotFoundError: If there is no such dataset.
        ValueError: If it lacks that column, or has too few cases.
    """
    counts = {"train": 20, "validation": 1, "test": 4} if quick else {"train": 100, "validation": 4, "test": 28}
    hippocampus = read_hippocampus(data, n_needed={"raw": sum(counts.values())})
    about = {"n_training": counts["train"], "n_test": counts["test"], "pair": "anterior and posterior"}
    return _study(
        lambda folder, rng: write_hippocampus(folder, hippocampus, rare={}, common=counts, at_most=None, rng=rng),
        quick=quick,
        name="hippocampus",
        dataset="Dataset914_NoisyHippocampus",
        pair=(1, 2),
        labels=hippocampus.labels,
        settings=counts,
        about=_about("hippocampus", **about),
    )


def _about(template: str, **values: object) -> str:
    return render(f"label_noise/{template}", share=SHARE, n_trusted=N_TRUSTED, **values)


def _study(
    write: Callable[[Path, np.random.Generator], None],
    *,
    quick: bool,
    name: str,
    dataset: str,
    pair: tuple[int, int],
    labels: tuple[str, ...],
    settings: Mapping[str, object],
    about: str,
) -> Study:
    epochs, iterations = _QUICK_LENGTH if quick else _LENGTH

    def write_spoilt(folder: Path, rng: np.random.Generator) -> None:
        right = folder.with_name(f"{folder.name}.right")
        shutil.rmtree(right, ignore_errors=True)
        write(right, rng)
        spoil_dataset(right, file_ending=".nii.gz", pair=pair, n_trusted=N_TRUSTED, rng=rng)
        right.rename(folder)

    return Study(
        name=name,
        title=f"Wrong labels: {name.replace('-', ' ')}",
        dataset=dataset,
        by="split",
        rare=(),
        common=("test",),
        labels=labels,
        epochs=epochs,
        iterations=iterations,
        write=write_spoilt,
        settings={**settings, "share": SHARE, "trusted": N_TRUSTED},
        about=about,
        trainers=TRAINERS,
    )


def _leave_out(folder: Path, pathology: str) -> None:
    """Take the test cases of a pathology out of a dataset of phantoms."""
    table = pd.read_csv(folder / "test_cases.csv", dtype=str)
    out = table["pathology"] == pathology
    for case in table["case"][out]:
        (folder / "imagesTs" / f"{case}_0000.nii.gz").unlink()
        (folder / "labelsTs" / f"{case}.nii.gz").unlink()
    table[~out].to_csv(folder / "test_cases.csv", index=False)
