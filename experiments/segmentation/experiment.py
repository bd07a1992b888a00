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
from experiments.nnunet_runs.results import (
    StudyRun,
    dice_differences,
    not_learnt,
    rows_by_seed,
    runs_of,
)
from experiments.nnunet_runs.study import BASELINE, Costs, Study
from experiments.record import Experiment, Options, Page, methods_by_stratum, render
from nnunet_dro.model_folders.finetuning import LEARNING_RATE

#: Plain training, and the methods that are trained anew and from its model.
_PLAIN = "nnUNetTrainerHWS_beta0"
_ANEW = {"DRO": "nnUNetTrainerDRO_share0.5", "beta10_noIS": "nnUNetTrainerHWS_beta10_noIS"}
#: Method to the method whose model it starts from, to be trained for a tenth of the iterations.
SOURCES = {f"{name}_finetuned": BASELINE for name in (BASELINE, *_ANEW)}
_CONTINUED = {name: _ANEW.get(name.removesuffix("_finetuned"), _PLAIN) for name in SOURCES}
#: The trainers of the study of finetuning, whose names say no learning rate, because the default is
#: nnU-Net's.
FINETUNING_TRAINERS = {BASELINE: _PLAIN, **_CONTINUED, **_ANEW}


def finetuning_study(*, quick: bool) -> Study:
    """Phantoms on which a plain training is continued for a tenth of its iterations."""
    counts = Counts({"control": 456, "common": 120, "rare": 24}, validation=4, test=40)
    epochs = 10
    iterations = 100
    costs = Costs(minutes_around=3.0)
    if quick:
        counts = Counts({"control": 8, "common": 4, "rare": 2}, validation=1, test=3)
        epochs = 1
        iterations = 4
        costs = Costs()

    return Study(
        name="finetuning",
        dataset="Dataset910_Phantoms",
        by="pathology",
        rare=("rare",),
        common=("common", "control"),
        labels=("cerebellum",),
        epochs=epochs,
        iterations=iterations,
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={
            "train": dict(counts.train),
            "validation": counts.validation,
            "test": counts.test,
        },
        trainers=FINETUNING_TRAINERS,
        factors=dict.fromkeys(SOURCES, 0.1),
        sources=SOURCES,
        costs=costs,
    )


def _make(options: Options, name: str, run: StudyRun) -> Mapping[str, Any]:
    return run.of(finetuning_study(quick=options.quick), options).run(run.method)


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-seeds"]
    study = finetuning_study(quick=quick)
    roles = Roles(BASELINE, "", common=study.common, rare=study.rare)
    table = results_table(dice_differences(scores, roles), roles)
    label = study.labels[0]
    shown_scores = scores[scores["label"] == label]
    draw = partial(draw_differences, dice_differences(shown_scores, roles), shown_scores, roles)
    text = render(
        "segmentation/finetuning",
        study=study,
        train=study.settings["train"],
        learning_rate=LEARNING_RATE,
        sources=SOURCES,
        baseline=BASELINE,
        n_seeds=scores["seed"].nunique(),
        not_learnt=not_learnt(scores, study),
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
    runs=lambda options: runs_of(finetuning_study(quick=options.quick), options),
    make=_make,
    minutes=lambda run: finetuning_study(quick=False).minutes(run.method),
    tables=lambda finished, options: {"-seeds": rows_by_seed(finished, add=options.add)},
    page=_page,
    inputs={"-seeds": {}},
    seeds=range(3),
    methods=tuple(FINETUNING_TRAINERS),
    page_name="finetuning",
    is_section=True,
)
