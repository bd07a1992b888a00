"""nnU-Net with wrong labels in the training data: what each training method makes of them.

Plain nnU-Net, also on those with right labels alone or continued on trusted ones, random weights,
and robust training are trained on phantoms of which 30 % have a spoilt label map, and tested on
cases with right labels.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.figure import draw_differences
from experiments.curves.results import decision, results_table
from experiments.datasets.phantoms import SIZE
from experiments.label_noise import trainings as methods
from experiments.label_noise.trainings import METHODS, RIGHT, TOLD, phantoms, roles
from experiments.nnunet_runs.data import Data
from experiments.nnunet_runs.results import (
    ALL_LABELS,
    BASELINE,
    SECONDS,
    TrainingRun,
    Trainings,
    dice_differences,
    not_learnt,
    rows_by_seed,
)
from experiments.record import Experiment, Finished, Options, Page, methods_by_stratum, render
from experiments.spoilt_labels import separation, spoiling
from experiments.spoilt_labels.figure import draw_cases
from experiments.spoilt_labels.percentiles import bound_table, gaps
from experiments.spoilt_labels.separation import N_FIRST, separation_rows, separation_table
from nnunet_dro.files.case_log import LOSSES, WEIGHTS
from nnunet_dro.inspection.suspects import rank_cases, read_logs

#: The labels of the page's table; the rare pathology differs in the cerebellum.
SHOWN_LABELS = (ALL_LABELS, "cerebellum")
#: Wrong cases are told from right ones if the AUC is at least this, and the first cases are all
#: wrong.
CLEAR = 0.995
#: Trainings are long enough if right labels alone give every label of the common strata a higher
#: mean Dice than this.
LEARNT = 0.8


def _make(options: Options, name: str, run: TrainingRun) -> Mapping[str, Any]:
    trainings = phantoms(quick=options.quick)
    result = trainings.make(options, name, run)
    if run.method not in trainings.folds:
        runs = trainings.of_seed(run, options)
        fold = trainings.model(runs, run.method)
        cases = training_cases(fold, runs.raw).to_dict("list")
        result["cases"] = {"method": run.method, "seed": run.seed, **cases}
    return result


def _minutes(run: TrainingRun) -> float:
    # A weight that is learnt takes a second step.
    seconds = 2 * SECONDS if run.method == "L2RW" else SECONDS
    return phantoms(quick=False).minutes(run.method, seconds=seconds)


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    cases = [pd.DataFrame(result["cases"]) for _, result in finished.values() if "cases" in result]
    return {
        "-seeds": rows_by_seed(finished, add=options.add),
        "-cases": pd.concat(cases, ignore_index=True),
    }


def page_table(scores: pd.DataFrame, data: Data) -> pd.DataFrame:
    """The table of the page, from `rows_by_seed`.

    It has means and differences to the baseline, for `SHOWN_LABELS`.
    """
    rows = dice_differences(scores[scores["label"].isin(SHOWN_LABELS)], roles(data))
    orders = {"label": SHOWN_LABELS, "stratum": roles(data).strata, "method": METHODS}
    for column, order in orders.items():
        rows[column] = pd.Categorical(rows[column], pd.Index(order))
    rows = rows.sort_values(list(orders), ignore_index=True).astype(dict.fromkeys(orders, str))
    others = rows.columns.drop(["label", "stratum"])
    return results_table(rows[["label", "stratum", *others]], roles(data))


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-seeds"]
    cases = tables["-cases"]
    trainings = phantoms(quick=quick)
    roles_of_data = roles(trainings.data)
    table = page_table(scores, trainings.data)
    all_labels = scores[scores["label"] == ALL_LABELS]
    changes = dice_differences(all_labels, roles_of_data)
    # The networks are tested at the end only.
    methods = scores["method"].replace(BASELINE, "plain")
    renamed = scores.assign(method=methods, iteration=0, share=np.nan)
    rule = decision(renamed, replace(roles_of_data, plain="plain", told=TOLD), wrong_labels=True)

    return Page(
        page_text(scores, cases, trainings),
        table,
        shown=methods_by_stratum(table[table["label"] == ALL_LABELS], BASELINE),
        more={"-separation": separation_table(cases), "-bound": bound_table(cases), "-rule": rule},
        pictures={
            "": partial(draw_differences, changes, all_labels, roles_of_data),
            "-cases": partial(draw_cases, cases),
        },
    )


EXPERIMENT = Experiment(
    name="label-noise",
    title="Wrong labels: phantoms",
    runs=lambda options: phantoms(quick=options.quick).runs(options),
    make=_make,
    minutes=_minutes,
    tables=_tables,
    page=_page,
    methods=dict.fromkeys(METHODS, True),
    formats=dict.fromkeys(("-seeds", "-cases", "-separation", "-bound", "-rule"), "%.6g"),
)


def page_text(scores: pd.DataFrame, cases: pd.DataFrame, trainings: Trainings) -> str:
    """The text of the page above its table, from `rows_by_seed` and all `training_cases`."""
    data = trainings.data
    rows = separation_rows(separation_table(cases))
    is_told = (rows["AUC"] >= CLEAR) & (rows[f"wrong of the first {N_FIRST}"] == f"{N_FIRST}.0")

    means = dice_differences(scores, roles(data))
    is_right_rare = (means["method"] == RIGHT) & means["stratum"].isin(data.rare)
    right_rare = means[is_right_rare].set_index("label")["mean"]

    baseline = cases[cases["method"] == BASELINE]
    is_clean = baseline["kind"] == "clean"
    return render(
        "label_noise/page",
        methods,
        separation,
        spoiling,
        trainings=trainings,
        data=data,
        size=SIZE,
        methods=set(scores["method"]),
        n_seeds=scores["seed"].nunique(),
        unlearnt=unlearnt(scores, data),
        right_rare={label: right_rare[label] for label in data.labels if label in right_rare},
        learnt=LEARNT,
        not_learnt=not_learnt(scores, data),
        separation=rows[~is_told],
        told=rows.loc[is_told, "method"].tolist(),
        clear=CLEAR,
        bound=bound_table(cases),
        gaps=gaps,
        n_by_chance=N_FIRST * float((~is_clean).mean()),
        rare_share=float((baseline["rare"] & is_clean).mean()),
    )


def training_cases(fold: Path, raw: Path) -> pd.DataFrame:
    """What a training logged about its cases, and what is wrong with them: rows as of `rank_cases`.

    ``value`` is the mean weight or stale loss after the first third of the epochs, ``times_seen``
    and ``share`` are those of the draws of these epochs, for weights of the sum of the weights.
    """
    has_weights = (fold / WEIGHTS.file).is_file()
    log, losses = read_logs(fold, by=WEIGHTS if has_weights else LOSSES)
    ranked = rank_cases(log, losses)

    counts = log.times_seen.iloc[log.first_counted :]
    values = ranked["loss"]
    if has_weights:
        counts = counts * log.values.iloc[log.first_counted :]
        values = ranked["score"]
    sums = counts.sum()
    shares = sums / sums.sum()

    noise = pd.read_csv(raw / spoiling.NOISE_FILE, dtype={"case": str}).set_index("case")
    table = pd.read_csv(raw / "cases.csv", dtype=str).set_index("case")
    case = ranked["case"].astype(str)
    return pd.DataFrame(
        {
            "case": case,
            "kind": noise["kind"].reindex(case).to_numpy(),
            "trusted": (table["trusted"] == "yes").reindex(case).to_numpy(),
            "rare": (table["pathology"] == "rare").reindex(case).to_numpy(),
            "place": np.arange(1, len(ranked) + 1),
            "signal": log.kind.value,
            "value": values,
            "loss": ranked["loss"],
            "times_seen": ranked["times_seen"],
            "share": shares.reindex(case).to_numpy(),
        }
    )


def unlearnt(scores: pd.DataFrame, data: Data) -> list[str]:
    """Common strata that right labels do not teach, as "seed 2, control: cerebellum".

    The rare one is left out: it never gets there.
    """
    right = scores[(scores["method"] == RIGHT) & scores["label"].isin(data.labels)]
    low = right[right["stratum"].isin(data.common) & (right["mean"] <= LEARNT)]
    return [f"seed {row.seed}, {row.stratum}: {row.label}" for row in low.itertuples()]
