"""Wrong labels among nuclei: what do they cost each way of training, and what happens to rare images beside them?

A training takes about two minutes of a processor core, with learnt weights five; a seed has seven trainings and a
finetuning, about 18 minutes.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.curves import Roles, decision, differences, draw_differences, results_table, shown_difference
from experiments.datasets.nuclei import read_table
from experiments.nuclei import experiment as nuclei
from experiments.nuclei.training import BATCH, LEARNING_RATE, PATCH
from experiments.nuclei.wrong_labels_data import COMMON, N_TRAIN, RARE, NoisyImages, noisy_images
from experiments.nuclei.wrong_labels_methods import (
    FINETUNED,
    FINETUNING_RATE,
    L2RW,
    PLAIN,
    RANDOM,
    RIGHT,
    ROLES,
    TRAININGS,
    planned_runs,
)
from experiments.nuclei.wrong_labels_results import all_cases, all_scores, at_the_end, length_check
from experiments.nuclei.wrong_labels_training import FINETUNING_PART, PLAIN_TRAINER, NoisyRun, train_noisy
from experiments.record import Experiment, Options, Page, methods_by_stratum, render
from experiments.spoilt_labels.figure import draw_cases
from experiments.spoilt_labels.percentiles import bound_table, gaps
from experiments.spoilt_labels.separation import N_FIRST, separation_rows, separation_table
from experiments.spoilt_labels.spoiling import N_TRUSTED, N_TRUSTED_RARE, SHARE

ITERATIONS = 2000
#: The trainings are long enough if those on right labels only have this Dice of the common modality on every seed.
LONG_ENOUGH = 80


@lru_cache(maxsize=1)
def _images(data: Path, seed: int, quick: bool) -> NoisyImages:
    return noisy_images(data, read_table(data), seed, quick=quick)


def _runs(options: Options) -> list[Mapping[str, NoisyRun]]:
    read_table(options.data)
    return [planned_runs(options.seeds, nuclei.QUICK_ITERATIONS if options.quick else ITERATIONS, options.methods)]


def _make(options: Options, name: str, run: NoisyRun) -> Mapping[str, Any]:
    return asdict(train_noisy(run, _images(options.data, run.seed, options.quick)))


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores, cases = tables["-all"], tables["-cases"]
    separation = separation_table(cases)
    last, table = at_the_end(scores), results_table(differences(scores, ROLES), ROLES)
    seeds = sorted(scores["seed"].unique().tolist())
    return Page(
        page_text(scores, separation, bound_table(cases), n_seeds=len(seeds)),
        table,
        seeds,
        shown=methods_by_stratum(table, PLAIN),
        more={"-separation": separation, "-rule": decision(scores, ROLES, wrong_labels=True)}
        | {"-bound": bound_table(cases)},
        pictures={
            "": partial(draw_differences, differences(last, ROLES), last, ROLES),
            "-cases": partial(draw_cases, cases),
        },
    )


EXPERIMENTS = {
    "nuclei-wrong-labels": Experiment(
        name="nuclei-wrong-labels",
        title="Wrong labels among nuclei",
        runs=_runs,
        make=_make,
        # A weight that is learnt takes a second step.
        minutes=lambda run: nuclei.minutes(run) * (2.5 if run.weights == "learned" else 1),
        tables=lambda finished, _: {"-all": all_scores(finished), "-cases": all_cases(finished)},
        page=_page,
        inputs={"-all": {}, "-cases": {}},
        methods=tuple(TRAININGS),
        data=nuclei.DATA,
        formats=dict.fromkeys(("-all", "-cases", "-separation", "-rule", "-bound"), "%.4f"),
    )
}


def page_text(scores: pd.DataFrame, separation: pd.DataFrame, bound: pd.DataFrame, *, n_seeds: int) -> str:
    """The text of the page above its table, from `all_scores`, `separation_table` and `bound_table`."""
    last = at_the_end(scores)
    against = {
        baseline: {stratum: differences_at_the_end(last, baseline, stratum) for stratum in ROLES.strata}
        for baseline in (PLAIN, FINETUNED, RANDOM)
    }
    iterations = int(last["iteration"].iloc[0])
    return render(
        "nuclei/wrong_labels",
        means=last.groupby(["method", "stratum"])["mean"].mean().mul(100).unstack().to_dict("index"),
        against=against,
        length=length_check(scores, COMMON),
        long_enough=LONG_ENOUGH,
        separation=separation_rows(separation),
        bound=bound,
        gaps=gaps,
        n_first=N_FIRST,
        n_test=last.groupby("stratum")["n"].max().to_dict(),
        n_train=N_TRAIN,
        n_images=sum(N_TRAIN.values()),
        n_trusted={COMMON: N_TRUSTED, RARE: N_TRUSTED_RARE},
        n_wrong=round(SHARE * sum(N_TRAIN.values())),
        trainers={method: run.trainer for method, run in TRAININGS.items()},
        plain_trainer=PLAIN_TRAINER,
        iterations=iterations,
        n_finetuning=max(1, iterations // FINETUNING_PART),
        finetuning_rate=FINETUNING_RATE,
        rate=LEARNING_RATE,
        right=RIGHT,
        plain=PLAIN,
        finetuned=FINETUNED,
        l2rw=L2RW,
        random=RANDOM,
        common=COMMON,
        rare=RARE,
        n_seeds=n_seeds,
        patch=PATCH,
        batch=BATCH,
    )


def differences_at_the_end(last: pd.DataFrame, baseline: str, stratum: str) -> dict[str, str]:
    """Differences of the other methods to one of them in a modality, as text, from `at_the_end`."""
    found = differences(last[last["stratum"] == stratum], Roles(baseline, "", common=(stratum,), rare=()))
    rows = found[found["method"] != baseline].to_dict("records")
    return {row["method"]: shown_difference(row["difference"], row["low"], row["high"]) for row in rows}
