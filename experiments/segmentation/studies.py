"""The segmentation studies: their data, the strata that are rare in training, and the methods that are compared."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import render
from nnunet_dro.finetuning.schedule import LEARNING_RATE

#: Method to the trainer's name without its length; ``{by}`` is the column of the case table that has the groups.
TRAINERS = {
    BASELINE: "nnUNetTrainerHWS_beta0",
    "DRO": "nnUNetTrainerDRO",
    "beta10": "nnUNetTrainerHWS_beta10",
    "beta10_noIS": "nnUNetTrainerHWS_beta10_noIS",
    "beta100": "nnUNetTrainerHWS",
    "beta100_noIS": "nnUNetTrainerHWS_noIS",
    "beta10_chi2": "nnUNetTrainerHWS_beta10_chi2",
    "cvar0.1": "nnUNetTrainerHWS_cvar0.1",
    "GroupDRO": "nnUNetTrainerGroupDRO_{by}",
    "IW": "nnUNetTrainerIW_{by}",
    "la1": "nnUNetTrainerHWS_beta0_la1",
    "poly1": "nnUNetTrainerHWS_beta0_poly1",
}

#: Method to the method whose model it starts from, to be trained for a tenth of the iterations.
SOURCES = {f"{name}_finetuned": BASELINE for name in (BASELINE, "DRO", "beta10_noIS")}

#: The trainers of the study of finetuning, whose names say no learning rate, because the default is nnU-Net's.
FINETUNING_TRAINERS = {
    BASELINE: TRAINERS[BASELINE],
    **{name: TRAINERS[name.removesuffix("_finetuned")] for name in SOURCES},
    **{name: TRAINERS[name] for name in ("DRO", "beta10_noIS")},
}

#: The trainers of the search for the learning rate, of which 0.01 is nnU-Net's.
RATES_TRAINERS = {BASELINE: TRAINERS[BASELINE]} | {
    f"lr{rate}": TRAINERS["beta10_noIS"] + ("" if rate == "0.01" else f"_lr{rate}")
    for rate in ("0.01", "0.003", "0.001")
}

#: Training cases of the rare intensity ranges, and training, validation and test cases of the common one.
_HIPPOCAMPUS_RARE = {"rescaled": 4, "8bit": 6}
_HIPPOCAMPUS_COMMON = {"train": 96, "validation": 4, "test": 32}


def phantom_study(*, quick: bool) -> Study:
    """Study of phantoms whose rare pathology is a small, displaced, faint cerebellum; see `phantoms`."""
    if quick:
        counts, epochs, iterations = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3), 1, 4
    else:
        counts, epochs, iterations = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40), 10, 100
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
        about=render("segmentation/phantoms", train=counts.train, n_test=counts.test, size=SIZE),
        trainers=TRAINERS,
    )


def few_phantoms_study(*, quick: bool) -> Study:
    """Study of so few phantoms that the network learns them by heart; two of them are rare."""
    train = {"control": 8, "common": 4, "rare": 2} if quick else {"control": 18, "common": 4, "rare": 2}
    counts = Counts(train, validation=1 if quick else 4, test=3 if quick else 40)
    return replace(
        phantom_study(quick=quick),
        name="few-phantoms",
        title="Segmentation with a hidden stratum: few phantoms",
        dataset="Dataset912_FewPhantoms",
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={"train": train, "validation": counts.validation, "test": counts.test},
        about=render("segmentation/few_phantoms", train=train, n_test=counts.test),
    )


def finetuning_study(*, quick: bool) -> Study:
    """Study of the phantoms in which a plain training is continued for a tenth of its iterations; see `SOURCES`."""
    phantoms = phantom_study(quick=quick)
    return replace(
        phantoms,
        name="finetuning",
        title="Finetuning a plain training on a hidden stratum: phantoms",
        about=render("segmentation/finetuning", phantoms=phantoms, learning_rate=LEARNING_RATE, sources=SOURCES),
        trainers=FINETUNING_TRAINERS,
        factors=dict.fromkeys(SOURCES, 0.1),
        sources=SOURCES,
    )


def finetuning_rates_study(*, quick: bool) -> Study:
    """Study of the first learning rate of a finetuning, on the phantoms."""
    phantoms, methods = phantom_study(quick=quick), [name for name in RATES_TRAINERS if name != BASELINE]
    return replace(
        phantoms,
        name="finetuning-rates",
        title="The first learning rate of a finetuning: phantoms",
        about=render("segmentation/finetuning_rates", phantoms=phantoms),
        trainers=RATES_TRAINERS,
        factors=dict.fromkeys(methods, 0.1),
        sources=dict.fromkeys(methods, BASELINE),
    )


def hippocampus_study(data: Path, *, quick: bool) -> Study:
    """Study of MR images of the hippocampus in three intensity conventions, two of them made rare in training.

    Args:
        data: The raw dataset, whose ``cases.csv`` has the column ``intensity_range``.
        quick: Whether it is a smoke run.

    Raises:
        FileNotFoundError: If there is no such dataset.
        ValueError: If it lacks that column, or has too few cases of a range.
    """
    rare = {"rescaled": 2, "8bit": 2} if quick else _HIPPOCAMPUS_RARE
    common = {"train": 8, "validation": 1, "test": 3} if quick else _HIPPOCAMPUS_COMMON
    at_most = 3 if quick else None
    n_needed = {**{name: n_cases + 1 for name, n_cases in rare.items()}, "raw": sum(common.values())}
    hippocampus = read_hippocampus(data, n_needed=n_needed)

    def write(folder: Path, rng: np.random.Generator) -> None:
        write_hippocampus(folder, hippocampus, rare=rare, common=common, at_most=at_most, rng=rng)

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
        write=write,
        settings={"rare": rare, "common": common, "test_at_most": at_most},
        about=render("segmentation/hippocampus", rare=rare, common=common),
        trainers=TRAINERS,
    )
