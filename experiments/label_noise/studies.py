"""The datasets and methods of the experiment with wrong labels, as studies of the segmentation runner."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.label_noise.data import N_TRUSTED, SHARE, spoil_dataset
from experiments.segmentation.studies import BASELINE, Study

#: Method to the trainer's name without its length. DORO is told the share that is spoilt, and takes the worse half of
#: the rest: of a smaller part, more would be the spoilt cases it has missed. DORO_warm draws uniformly for three epochs
#: first, so that what is set aside is decided by losses of a network that knows something.
TRAINERS = {
    BASELINE: "nnUNetTrainerDRO_beta0",
    "DRO": "nnUNetTrainerDRO_beta10_noIS",
    "DORO": f"nnUNetTrainerDRO_cvar0.5_doro{SHARE}",
    "DORO_warm": f"nnUNetTrainerDRO_cvar0.5_doro{SHARE}_warmup3",
    "L2RW": "nnUNetTrainerL2RW",
}

#: Epochs and training iterations per epoch.
_LENGTH, _QUICK_LENGTH = (10, 60), (3, 4)

#: Why the main table is of phantoms.
_NOT_THE_HIPPOCAMPUS = (
    "The hippocampus data (`--data`) are not learnt well enough in trainings of this length to say what wrong labels "
    "cost: with right labels this network reaches a Dice of 46 in 1,000 iterations "
    "([segmentation-hippocampus.md](segmentation-hippocampus.md)), and a single two-dimensional training of 2,000 "
    "reached 62."
)

_SPOILT = (
    f"{100 * SHARE:.0f} % of the training cases have a wrong label map, a third of them each: *swapped* ({{pair}} "
    "exchanged), *shifted* along a diagonal by as little as brings the mean Dice with the right one below 0.5, and "
    f"*eroded* to the innermost third of each label's voxels. {N_TRUSTED} right ones are marked as trusted, which L2RW "
    "alone makes use of. Validation and test cases are right."
)


def phantom_study(*, quick: bool, rare: bool = False) -> Study:
    """Phantoms of the two pathologies that a plain training learns; see `phantoms`.

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
    n_test = 2 * counts.test

    def write(folder: Path, rng: np.random.Generator) -> None:
        write_dataset(folder, counts, rng=rng)
        _leave_out(folder, "rare")

    hardness = (
        "The rare ones are hard, and those whose labels are right are what a search for wrong labels may take for "
        "wrong; the test has none of them. "
        if rare
        else "So no right case is much harder than the others: what is hard is wrong. "
    )
    about = (
        f"Phantoms of a head ({SIZE} x {SIZE} x {SIZE} voxels; grey matter, white matter, cerebellum) as in "
        f"[segmentation-phantoms.md](segmentation-phantoms.md), {'with' if rare else 'without'} the rare pathology: "
        f"{sum(train.values())} for the training ({', '.join(f'{n} {name}' for name, n in train.items())}) and "
        f"{n_test} for the test. {hardness}"
    )
    return _study(
        write,
        quick=quick,
        name="rare-phantoms" if rare else "phantoms",
        dataset="Dataset915_NoisyRarePhantoms" if rare else "Dataset913_NoisyPhantoms",
        pair=(1, 2),
        pair_named="grey and white matter",
        labels=("grey_matter", "white_matter", "cerebellum"),
        settings={"train": train, "validation": counts.validation, "test": counts.test},
        about=about,
        reason=_NOT_THE_HIPPOCAMPUS,
    )


def hippocampus_study(data: Path, *, quick: bool) -> Study:
    """MR images of the hippocampus in one intensity convention.

    Args:
        data: The raw dataset, whose ``cases.csv`` has the column ``intensity_range``.
        quick: Whether it is a smoke run.

    Raises:
        FileNotFoundError: If the dataset is not there.
        ValueError: If it has not that column, or too few cases.
    """
    counts = {"train": 20, "validation": 1, "test": 4} if quick else {"train": 100, "validation": 4, "test": 28}
    hippocampus = read_hippocampus(data, n_needed={"raw": sum(counts.values())})
    about = (
        "Crops around the hippocampus of the Medical Segmentation Decathlon, Task04 (Simpson et al. 2019), labels "
        f"anterior and posterior, one intensity convention of the data alone (raw): {counts['train']} for the training "
        f"and {counts['test']} for the test. "
    )
    return _study(
        lambda folder, rng: write_hippocampus(folder, hippocampus, rare={}, common=counts, at_most=None, rng=rng),
        quick=quick,
        name="hippocampus",
        dataset="Dataset914_NoisyHippocampus",
        pair=(1, 2),
        pair_named="anterior and posterior",
        labels=hippocampus.labels,
        settings=counts,
        about=about,
    )


def _study(
    write: Callable[[Path, np.random.Generator], None],
    *,
    quick: bool,
    name: str,
    dataset: str,
    pair: tuple[int, int],
    pair_named: str,
    labels: tuple[str, ...],
    settings: Mapping[str, object],
    about: str,
    reason: str = "",
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
        about="\n\n".join(filter(None, (about + _SPOILT.format(pair=pair_named), reason))),
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
