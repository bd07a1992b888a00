"""The two segmentation studies: their data, the strata that are rare in training, and the methods that are compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.phantoms import SIZE, Counts, write_dataset

#: The method all others are compared with.
BASELINE = "ERM"

#: Method to the trainer's name without its length; ``{by}`` is the column of the case table that has the groups.
TRAINERS = {
    BASELINE: "nnUNetTrainerDRO_beta0",
    "beta10": "nnUNetTrainerDRO_beta10",
    "beta10_noIS": "nnUNetTrainerDRO_beta10_noIS",
    "beta100": "nnUNetTrainerDRO",
    "beta100_noIS": "nnUNetTrainerDRO_noIS",
    "beta10_chi2": "nnUNetTrainerDRO_beta10_chi2",
    "cvar0.1": "nnUNetTrainerDRO_cvar0.1",
    "GroupDRO": "nnUNetTrainerGroupDRO_{by}",
    "IW": "nnUNetTrainerIW_{by}",
    "la1": "nnUNetTrainerDRO_beta0_la1",
    "poly1": "nnUNetTrainerDRO_beta0_poly1",
}


@dataclass(frozen=True)
class Study:
    """A dataset with a stratum that is rare in training, and how long networks are trained on it.

    Attributes:
        name: Of folders and files.
        title: Heading of the page.
        dataset: Name of the nnU-Net dataset.
        by: Column of the case tables with the strata. No underscore: it becomes part of trainers' names.
        rare: The strata that are rare in training.
        common: The others.
        labels: The labels the page's table is about; the figure and the CSV file have all.
        epochs: Length of every training.
        iterations: Training iterations per epoch.
        write: Writes the raw dataset of a seed (``cases.csv``, ``test_cases.csv`` in it) into a folder.
        settings: What a work folder's runs were made with; another setting needs another folder.
        about: What the page says of the data, markdown.
        trainers: Method to the trainer's name without its length, as in `TRAINERS`; the baseline first.
    """

    name: str
    title: str
    dataset: str
    by: str
    rare: tuple[str, ...]
    common: tuple[str, ...]
    labels: tuple[str, ...]
    epochs: int
    iterations: int
    write: Callable[[Path, np.random.Generator], object]
    settings: Mapping[str, object]
    about: str
    trainers: Mapping[str, str] = field(default_factory=lambda: TRAINERS)

    @property
    def strata(self) -> tuple[str, ...]:
        """All strata, the rare ones first."""
        return self.rare + self.common

    def trainer(self, method: str) -> str:
        """What follows nnU-Net's ``-tr``."""
        return f"{self.trainers[method].format(by=self.by)}_{self.epochs}epochs_{self.iterations}iters"


def phantom_study(*, quick: bool) -> Study:
    """Phantoms whose rare pathology is a small, displaced, faint cerebellum; see `phantoms`."""
    if quick:
        counts, epochs, iterations = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3), 1, 4
    else:
        counts, epochs, iterations = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40), 10, 100
    n_training = sum(counts.train.values())
    shares = ", ".join(f"{n} {pathology}" for pathology, n in counts.train.items())
    return Study(
        name="phantoms",
        title="Segmentation with a hidden stratum: phantoms",
        dataset="Dataset910_Phantoms",
        by="pathology",
        rare=("rare",),
        common=("common", "control"),
        labels=("cerebellum",),
        epochs=epochs,
        iterations=iterations,
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={"train": dict(counts.train), "validation": counts.validation, "test": counts.test},
        about=(
            f"Each seed has a dataset of its own: {n_training} training phantoms ({shares}) and {counts.test} test "
            f"phantoms of each pathology, {SIZE} x {SIZE} x {SIZE} voxels with grey matter, white matter and "
            "cerebellum. The common pathology has wide ventricles; the rare one has them, too, and its cerebellum is "
            "small, displaced into the neck and only a little brighter than the tissue around it, while the others' is "
            "in its place and the brightest of all. Place, size, shape, contrast, noise and bias field vary in all. "
            "The table is about the cerebellum.\n\n"
            "The setting was searched for, with single trainings on another draw (seed 100), until plain nnU-Net "
            "failed the rare pathology and beta10_noIS did not: its mean Dice there was 0.0 and 56.2 per cent. Three "
            "settings were looked at before and left. With a usual cerebellum that is less bright and with small "
            "ventricles in the rare pathology, its cases are not harder on the whole and were not drawn much more "
            "often: 35.6 and 52.1 after 800 iterations, 48.8 and 48.7 after 1,200 (beta10 and beta100_noIS were far "
            "behind plain nnU-Net in every pathology after 800). With a gland in the neck of the other phantoms, "
            "which looks much like the displaced cerebellum, plain nnU-Net had 52.8, and 69.9 on the controls; "
            "beta10_noIS was not tried. With a displaced cerebellum darker than the neck, plain nnU-Net had 0.2, and "
            "beta10_noIS had learnt no cerebellum when the training ended, not even the usual one. These are single "
            "trainings, and whether and when one finds the cerebellum is chance in part: they do not tell the settings "
            "apart for sure. The seeds of this page played no part in the search."
        ),
    )


def few_phantoms_study(*, quick: bool) -> Study:
    """The phantoms with so few training cases that the network learns them by heart, two of them rare."""
    study = phantom_study(quick=quick)
    train = {"control": 8, "common": 4, "rare": 2} if quick else {"control": 18, "common": 4, "rare": 2}
    counts = Counts(train, validation=1 if quick else 4, test=3 if quick else 40)
    shares = ", ".join(f"{n} {pathology}" for pathology, n in train.items())
    return replace(
        study,
        name="few-phantoms",
        title="Segmentation with a hidden stratum: few phantoms",
        dataset="Dataset912_FewPhantoms",
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={"train": train, "validation": counts.validation, "test": counts.test},
        about=(
            f"The phantoms of [segmentation-phantoms.md](segmentation-phantoms.md), but {sum(train.values())} training "
            f"cases ({shares}) instead of 600, and as many iterations: each case is seen many times, and what is known "
            f"of the rare pathology is two cases. {counts.test} test phantoms of each pathology. The table is about "
            "the cerebellum."
        ),
    )


#: Training cases of the rare intensity ranges, and training, validation and test cases of the common one.
_HIPPOCAMPUS_RARE = {"rescaled": 4, "8bit": 6}
_HIPPOCAMPUS_COMMON = {"train": 96, "validation": 4, "test": 32}


def hippocampus_study(data: Path, *, quick: bool) -> Study:
    """MR images of the hippocampus with three intensity conventions, two of them made rare in training.

    Args:
        data: The raw dataset, whose ``cases.csv`` has the column ``intensity_range``.
        quick: Whether it is a smoke run.

    Raises:
        FileNotFoundError: If the dataset is not there.
        ValueError: If it has not that column, or too few cases of a range.
    """
    rare = {"rescaled": 2, "8bit": 2} if quick else _HIPPOCAMPUS_RARE
    common = {"train": 8, "validation": 1, "test": 3} if quick else _HIPPOCAMPUS_COMMON
    at_most = 3 if quick else None
    n_needed = {**{name: n_cases + 1 for name, n_cases in rare.items()}, "raw": sum(common.values())}
    hippocampus = read_hippocampus(data, n_needed=n_needed)

    def write(folder: Path, rng: np.random.Generator) -> None:
        write_hippocampus(folder, hippocampus, rare=rare, common=common, at_most=at_most, rng=rng)

    n_rare = " and ".join(f"{n} {name}" for name, n in rare.items())
    return Study(
        name="hippocampus",
        title="Segmentation with a hidden stratum: hippocampus",
        dataset="Dataset911_Hippocampus",
        by="range",
        rare=tuple(rare),
        common=("raw",),
        labels=hippocampus.labels,
        epochs=1 if quick else 10,
        iterations=4 if quick else 100,
        write=lambda folder, rng: write_hippocampus(
            folder, hippocampus, rare=rare, common=common, at_most=at_most, rng=rng
        ),
        settings={"rare": rare, "common": common, "test_at_most": at_most},
        about=(
            "Crops around the hippocampus of the Medical Segmentation Decathlon, Task04 (Simpson et al. 2019), labels "
            "anterior and posterior. The images come in three intensity conventions (8bit, raw, rescaled), a stratum "
            f"that nnU-Net is not told. Each seed draws its own training cases: {common['train']} raw, {n_rare}; of "
            f"the others, {common['test']} raw cases and all of the rare ranges are the test cases. The seeds share "
            "their test cases in part, so that the pooled intervals are too narrow. nnU-Net normalises each image by "
            "its mean and standard deviation, which hides the scale; what is left of the stratum is whatever else "
            "differs between the sources."
        ),
    )
