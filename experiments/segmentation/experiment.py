"""Finetuning a plain nnU-Net on data with a known hidden stratum.

What do the rare cases gain, and what do others pay?
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from experiments.curves.figure import draw_differences
from experiments.curves.results import Roles, results_table
from experiments.datasets.phantoms import Counts, write_dataset
from experiments.nnunet_runs.data import Data
from experiments.nnunet_runs.results import (
    BASELINE,
    TrainingRun,
    Trainings,
    dice_differences,
    not_learnt,
    rows_by_seed,
)
from experiments.record import Experiment, Options, Page, methods_by_stratum, render
from nnunet_dro.model_folders.finetuning import LEARNING_RATE

#: Plain training, and the methods that are trained anew and from its model.
_PLAIN = "nnUNetTrainerHWS_beta0"
_ANEW = {"DRO": "nnUNetTrainerDRO_share0.5", "beta10_noIS": "nnUNetTrainerHWS_beta10_noIS"}
#: Method to the method whose model it starts from, to be trained for a tenth of the iterations.
SOURCES = {f"{name}_finetuned": BASELINE for name in (BASELINE, *_ANEW)}
_CONTINUED = {name: _ANEW.get(name.removesuffix("_finetuned"), _PLAIN) for name in SOURCES}
#: The trainers of all methods, whose names say no learning rate, because the default is
#: nnU-Net's.
FINETUNING_TRAINERS = {BASELINE: _PLAIN, **_CONTINUED, **_ANEW}


def finetuning(*, quick: bool) -> Trainings:
    """Phantoms on which a plain training is continued for a tenth of its iterations."""
    counts = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40)
    epochs = 10
    iterations = 100
    if quick:
        counts = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3)
        epochs = 1
        iterations = 4

    data = Data(
        dataset="Dataset910_Phantoms",
        by="pathology",
        rare=("rare",),
        common=("common", "control"),
        labels=("cerebellum",),
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={
            "train": dict(counts.train),
            "validation": counts.validation,
            "test": counts.test,
        },
    )
    return Trainings(
        name="finetuning",
        data=data,
        trainers=FINETUNING_TRAINERS,
        sources=SOURCES,
        epochs=epochs,
        iterations=iterations,
    )


def _make(options: Options, name: str, run: TrainingRun) -> Mapping[str, Any]:
    return finetuning(quick=options.quick).make(options, name, run)


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-seeds"]
    trainings = finetuning(quick=quick)
    data = trainings.data
    roles = Roles(BASELINE, "", common=data.common, rare=data.rare)
    table = results_table(dice_differences(scores, roles), roles)
    (label,) = data.labels
    shown_scores = scores[scores["label"] == label]
    draw = partial(draw_differences, dice_differences(shown_scores, roles), shown_scores, roles)
    text = render(
        "segmentation/finetuning",
        trainings=trainings,
        train=data.settings["train"],
        learning_rate=LEARNING_RATE,
        sources=SOURCES,
        baseline=BASELINE,
        n_seeds=scores["seed"].nunique(),
        not_learnt=not_learnt(scores, data),
    )
    return Page(
        text,
        table,
        shown=methods_by_stratum(table[table["label"] == label], BASELINE),
        pictures={"": draw},
    )


EXPERIMENT = Experiment(
    name="segmentation-finetuning",
    title="Phantoms",
    runs=lambda options: finetuning(quick=options.quick).runs(options),
    make=_make,
    minutes=lambda run: finetuning(quick=False).minutes(run.method, around=3.0),
    tables=lambda finished, options: {"-seeds": rows_by_seed(finished, add=options.add)},
    page=_page,
    seeds=range(3),
    methods=dict.fromkeys(FINETUNING_TRAINERS, True),
    section_of="nuclei-finetuning",
)
