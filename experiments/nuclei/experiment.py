"""Rare modalities of cell nuclei: which way of drawing finds them, and what do others pay?

A training takes about four minutes of a processor core.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.figure import draw_curves
from experiments.curves.results import ScoredRun, decision, differences, results_table, scores_of
from experiments.datasets import nuclei as dataset
from experiments.datasets.nuclei import (
    N_TEST,
    N_TRAIN,
    Image,
    read_nuclei,
    read_table,
    split_nuclei,
)
from experiments.nuclei import methods, patches, training
from experiments.nuclei.methods import METHODS, PLAIN, ROLES
from experiments.nuclei.training import Run, train
from experiments.record import Experiment, Finished, Options, Page, methods_by_stratum, render

ITERATIONS = 4000
QUICK_ITERATIONS = 10
DATA = "The dataset of nuclei"


@lru_cache(maxsize=1)
def divided_images(data: Path, seed: int, quick: bool) -> tuple[list[Image], list[Image]]:
    """The training and the test images of a seed, read once for all its runs in a process."""
    n_test = dict.fromkeys(N_TEST, 2) if quick else N_TEST
    split = split_nuclei(read_table(data), rng=np.random.default_rng([seed, 0]), n_test=n_test)
    return read_nuclei(data, split["train"]), read_nuclei(data, split["test"])


def minutes(run: Run) -> float:
    """Minutes of a processor core that a training takes with its tests, about."""
    return 0.2 + run.iterations / 1000


def scores_of_runs(finished: Finished) -> pd.DataFrame:
    """`scores_of` of all runs."""
    return scores_of(
        ScoredRun.of(name, run, result, label="nucleus") for name, (run, result) in finished.items()
    )


def _runs(options: Options) -> list[Mapping[str, Run]]:
    read_table(options.data)
    iterations = QUICK_ITERATIONS if options.quick else ITERATIONS

    def run(method: str, seed: int) -> Run:
        return Run(METHODS[method], seed, iterations)

    return [options.runs_of(run)]


def make(options: Options, name: str, run: Run) -> Mapping[str, Any]:
    """Make a run on the images of its seed."""
    return asdict(train(run, *divided_images(options.data, run.seed, options.quick)))


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-all"]
    rule = decision(scores, ROLES)
    table = results_table(differences(scores, ROLES), ROLES)
    plain = scores[scores["method"] == PLAIN]
    last = plain[plain["iteration"] == plain["iteration"].max()]
    means = 100 * plain.pivot_table(index="stratum", columns="iteration", values="mean")
    # Points that plain training gains from the half to the end.
    rise = means.iloc[:, -1] - means.iloc[:, -2]
    trainers = scores.drop_duplicates("method").set_index("method")["trainer"]
    text = render(
        "nuclei/page",
        dataset,
        methods,
        patches,
        training,
        decision=rule[1:].to_dict("records"),
        n_rare=len(ROLES.rare),
        trainers=trainers.to_dict(),
        n_test=last.groupby("stratum")["n"].max().to_dict(),
        iterations=scores["iteration"].max(),
        n_seeds=scores["seed"].nunique(),
        rise={modality: rise[modality] for modality in ROLES.strata},
    )
    return Page(
        text,
        table,
        shown=methods_by_stratum(table, ROLES.plain),
        more={"-rule": rule},
        pictures={"": partial(draw_curves, scores, ROLES, N_TRAIN, cases="images")},
    )


EXPERIMENT = Experiment(
    name="nuclei",
    title="Rare modalities of cell nuclei",
    runs=_runs,
    make=make,
    minutes=minutes,
    tables=lambda finished, _: {"-all": scores_of_runs(finished)},
    page=_page,
    methods=dict.fromkeys(METHODS, True),
    data=DATA,
    formats={"-all": "%.4f", "-rule": "%.4f"},
)
