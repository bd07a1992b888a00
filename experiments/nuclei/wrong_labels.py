"""What do wrong labels cost each way of training, and what happens to rare images beside them?

The images are those of nuclei. A training takes about two minutes of a processor core, with learnt
weights five; the fourteen of a seed about 40.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves import results as curves
from experiments.curves.figure import draw_differences
from experiments.datasets.nuclei import N_TRAIN_OF_TWO, read_table
from experiments.nuclei import experiment as nuclei
from experiments.nuclei import patches, training, wrong_labels_data
from experiments.nuclei import wrong_labels_training as trainings
from experiments.nuclei.methods import PLAIN
from experiments.nuclei.wrong_labels_data import COMMON, RARE, noisy_images
from experiments.record import Experiment, Finished, Options, Page, methods_by_stratum, render
from experiments.spoilt_labels.figure import draw_cases
from experiments.spoilt_labels.percentiles import bound_table, gaps
from experiments.spoilt_labels.separation import N_FIRST, separation_rows, separation_table
from experiments.spoilt_labels.spoiling import N_TRUSTED, N_TRUSTED_RARE, SHARE

ITERATIONS = 2000
#: The trainings are long enough if those on right labels only have this Dice of the common modality
#: on every seed.
LONG_ENOUGH = 80


def _runs(options: Options) -> list[Mapping[str, trainings.NoisyRun]]:
    read_table(options.data)
    iterations = nuclei.QUICK_ITERATIONS if options.quick else ITERATIONS

    def run(method: str, seed: int) -> trainings.NoisyRun:
        return replace(trainings.TRAININGS[method], seed=seed, iterations=iterations)

    return [options.runs_of(run)]


def _make(options: Options, name: str, run: trainings.NoisyRun) -> Mapping[str, Any]:
    images = noisy_images(options.data, run.seed, options.quick, run.share, run.n_trusted)
    return trainings.train_noisy(run, images)


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    cases = []
    for name, (run, content) in finished.items():
        # Those that saw no wrong labels have nothing to tell apart.
        if not run.right_only and not run.is_swept:
            cases.append(case_table(name, run, content))
    tables = {"-all": all_scores(finished)}
    if cases:
        tables["-cases"] = pd.concat(cases, ignore_index=True)
    return tables


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-all"]
    cases = tables["-cases"]
    separation = separation_table(cases)
    last = curves.at_the_end(scores)
    roles = trainings.ROLES
    table = curves.results_table(curves.differences(scores, roles), roles)
    return Page(
        page_text(scores, separation, bound_table(cases)),
        table,
        shown=methods_by_stratum(table, PLAIN),
        more={
            "-separation": separation,
            "-rule": curves.decision(scores, roles, wrong_labels=True),
            "-bound": bound_table(cases),
        },
        pictures={
            "": partial(draw_differences, curves.differences(last, roles), last, roles),
            "-cases": partial(draw_cases, cases),
        },
    )


EXPERIMENT = Experiment(
    name="nuclei-wrong-labels",
    title="Wrong labels among nuclei",
    runs=_runs,
    make=_make,
    # A weight that is learnt takes a second step.
    minutes=lambda run: nuclei.minutes(run) * (2.5 if run.weights == "learned" else 1),
    tables=_tables,
    page=_page,
    methods=dict.fromkeys(trainings.TRAININGS, True),
    data=nuclei.DATA,
    formats=dict.fromkeys(("-all", "-cases", "-separation", "-rule", "-bound"), "%.4f"),
)


def page_text(scores: pd.DataFrame, separation: pd.DataFrame, bound: pd.DataFrame) -> str:
    """The text of the page above its table.

    Args:
        scores: `all_scores`.
        separation: `separation_table`.
        bound: `bound_table`.
    """
    last = curves.at_the_end(scores)
    against: dict[str, dict[str, dict[str, str]]] = {}
    for baseline in set(last["method"]):
        against[baseline] = {}
        for stratum in trainings.ROLES.strata:
            against[baseline][stratum] = differences_at_the_end(last, baseline, stratum)
    means = 100 * last.groupby(["method", "stratum"])["mean"].mean()
    iterations = int(last["iteration"].iloc[0])
    return render(
        "nuclei/wrong_labels",
        patches,
        training,
        wrong_labels_data,
        trainings,
        means=means.unstack().to_dict("index"),
        against=against,
        length=length_check(scores, COMMON),
        long_enough=LONG_ENOUGH,
        separation=separation_rows(separation),
        n_first=N_FIRST,
        bound=bound,
        gaps=gaps,
        n_test=last.groupby("stratum")["n"].max().to_dict(),
        n_images=sum(N_TRAIN_OF_TWO.values()),
        n_trusted={COMMON: N_TRUSTED, RARE: N_TRUSTED_RARE},
        n_wrong=round(SHARE * sum(N_TRAIN_OF_TWO.values())),
        trainers={method: run.trainer for method, run in trainings.TRAININGS.items()},
        iterations=iterations,
        n_finetuning=max(1, iterations // trainings.FINETUNING_PART),
        rate=training.LEARNING_RATE,
        n_seeds=scores["seed"].nunique(),
    )


def differences_at_the_end(last: pd.DataFrame, baseline: str, stratum: str) -> dict[str, str]:
    """Differences of the other methods to one of them in a modality, as text, from `at_the_end`."""
    roles = curves.Roles(baseline, "", common=(stratum,), rare=())
    changes = curves.differences(last[last["stratum"] == stratum], roles)
    others = changes[changes["method"] != baseline].set_index("method")
    texts = {}
    for method, change in others[["difference", "low", "high"]].iterrows():
        texts[str(method)] = curves.shown_difference(*change)
    return texts


_CASE_COLUMNS = ["case", "modality", "kind", "trusted", "loss", "weight", "times_seen"]


def all_scores(finished: Finished) -> pd.DataFrame:
    """A row per method, seed, moment and modality, as from `scores_of`.

    Finetuned networks have the last moment alone.
    """
    scored = []
    for name, (run, content) in finished.items():
        scored.append(curves.ScoredRun.of(name, run, content, label="nucleus"))
        dice = content["finetuned"]
        if dice:
            modalities = {modality for _, modality, _, _ in dice}
            share = [(run.iterations, modality, np.nan) for modality in modalities]
            method = f"{name.rsplit('-', 1)[0]}, finetuned"
            finetuned = curves.ScoredRun.of(
                f"{method}-seed{run.seed}",
                run,
                {"dice": dice, "share": share},
                label="nucleus",
            )
            scored.append(finetuned)

    scores = curves.scores_of(scored).drop(columns="clipped_share")
    place = scores["method"].map(trainings.METHODS.index)
    ordered = scores.assign(place=place).sort_values(["seed", "place"], ignore_index=True)
    return ordered.drop(columns="place")


def case_table(name: str, run: trainings.NoisyRun, content: Mapping[str, Any]) -> pd.DataFrame:
    """A row per training image, with the columns of `label_noise.experiment.training_cases`."""
    cases = pd.DataFrame(content["cases"], columns=_CASE_COLUMNS)
    cases = cases.astype({"loss": float, "weight": float})
    method = name.rsplit("-", 1)[0]
    counted = cases["times_seen"]
    if run.weights == "learned":
        signal = "weight"
        value = cases["weight"]
        counted = counted * cases["weight"].fillna(0)
    elif method == "held_out":
        # Its draws say what its cross-validation knew.
        signal = "draws"
        value = cases["times_seen"]
    else:
        signal = "loss"
        value = cases["loss"]
    return cases.drop(columns=["modality", "weight"]).assign(
        method=method,
        seed=run.seed,
        rare=cases["modality"] == RARE,
        place=value.rank(method="first", ascending=signal == "weight"),
        signal=signal,
        value=value,
        share=counted / counted.sum(),
    )


def length_check(scores: pd.DataFrame, stratum: str) -> dict[str, float]:
    """What says whether the trainings are long enough, in points of Dice."""
    rows = scores[scores["stratum"] == stratum]
    means = 100 * rows.pivot_table(index="method", columns="iteration", values="mean")
    half, last = means.columns[-2:]
    right = rows[(rows["method"] == trainings.RIGHT) & (rows["iteration"] == last)]
    rises = means[last] - means[half]
    return {
        "lowest": 100 * right["mean"].min(),
        "rise": rises[trainings.RIGHT],
        "rise_plain": rises[PLAIN],
    }
