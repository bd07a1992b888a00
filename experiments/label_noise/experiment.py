"""nnU-Net with wrong labels in the training data: what each training method makes of them.

Plain nnU-Net, also on those with right labels alone or continued on trusted ones, random weights,
and robust training are trained on phantoms of which 30 % have a spoilt label map, and tested on
cases with right labels.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.figure import draw_differences
from experiments.curves.results import decision, results_table
from experiments.label_noise import studies
from experiments.label_noise.studies import METHODS, RIGHT, TOLD, phantom_study, roles
from experiments.nnunet_runs.results import (
    ALL_LABELS,
    StudyRun,
    dice_differences,
    not_learnt,
    rows_by_seed,
    runs_of,
)
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import Experiment, Finished, Options, Page, methods_by_stratum, render
from experiments.spoilt_labels import separation
from experiments.spoilt_labels.figure import draw_cases
from experiments.spoilt_labels.percentiles import bound_table, gaps
from experiments.spoilt_labels.separation import N_FIRST, separation_rows, separation_table
from experiments.spoilt_labels.spoiling import NOISE_FILE
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


def _make(options: Options, name: str, run: StudyRun) -> Mapping[str, Any]:
    study = phantom_study(quick=options.quick)
    runs = run.of(study, options)
    result = runs.run(run.method)
    if run.method not in study.subsets:
        result["cases"] = training_cases(runs, run.method).to_dict("list")
    return result


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    cases = [pd.DataFrame(result["cases"]) for _, result in finished.values() if "cases" in result]
    return {
        "-seeds": rows_by_seed(finished, add=options.add),
        "-cases": pd.concat(cases, ignore_index=True),
    }


def page_table(scores: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The table of the page, from `rows_by_seed`.

    It has means and differences to the baseline, for `SHOWN_LABELS`.
    """
    rows = dice_differences(scores[scores["label"].isin(SHOWN_LABELS)], roles(study))
    orders = {"label": SHOWN_LABELS, "stratum": roles(study).strata, "method": list(study.trainers)}
    for column, order in orders.items():
        rows[column] = pd.Categorical(rows[column], pd.Index(order))
    rows = rows.sort_values(list(orders), ignore_index=True).astype(dict.fromkeys(orders, str))
    others = rows.columns.drop(["label", "stratum"])
    return results_table(rows[["label", "stratum", *others]], roles(study))


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-seeds"]
    cases = tables["-cases"]
    study = phantom_study(quick=quick)
    table = page_table(scores, study)
    all_labels = scores[scores["label"] == ALL_LABELS]
    draw = partial(
        draw_differences,
        dice_differences(all_labels, roles(study)),
        all_labels,
        roles(study),
    )
    # The networks are tested at the end only.
    methods = scores["method"].replace(BASELINE, "plain")
    renamed = scores.assign(method=methods, iteration=0, share=np.nan)
    rule = decision(renamed, replace(roles(study), plain="plain", told=TOLD), wrong_labels=True)

    return Page(
        page_text(scores, cases, study),
        table,
        shown=methods_by_stratum(table[table["label"] == ALL_LABELS], BASELINE),
        more={"-separation": separation_table(cases), "-bound": bound_table(cases), "-rule": rule},
        pictures={"": draw, "-cases": partial(draw_cases, cases)},
    )


EXPERIMENT = Experiment(
    name="label-noise",
    title="Wrong labels: phantoms",
    runs=lambda options: runs_of(phantom_study(quick=options.quick), options),
    make=_make,
    minutes=lambda run: phantom_study(quick=False).minutes(run.method),
    tables=_tables,
    page=_page,
    inputs={"-seeds": {}, "-cases": {"dtype": {"case": str}}},
    methods=METHODS,
    formats=dict.fromkeys(("-seeds", "-cases", "-separation", "-bound", "-rule"), "%.6g"),
)


def page_text(scores: pd.DataFrame, cases: pd.DataFrame, study: Study) -> str:
    """The text of the page above its table, from `rows_by_seed` and all `training_cases`."""
    rows = separation_rows(separation_table(cases))
    is_told = (rows["AUC"] >= CLEAR) & (rows[f"wrong of the first {N_FIRST}"] == f"{N_FIRST}.0")

    means = dice_differences(scores, roles(study))
    is_right_rare = (means["method"] == RIGHT) & means["stratum"].isin(study.rare)
    right_rare = means[is_right_rare].set_index("label")["mean"]

    baseline = cases[cases["method"] == BASELINE]
    is_clean = baseline["kind"] == "clean"
    return render(
        "label_noise/page",
        studies,
        separation,
        study=study,
        methods=[method for method in study.trainers if method in set(scores["method"])],
        n_seeds=scores["seed"].nunique(),
        unlearnt=unlearnt(scores, study),
        right_rare={label: right_rare[label] for label in study.labels if label in right_rare},
        learnt=LEARNT,
        not_learnt=not_learnt(scores, study),
        separation=rows[~is_told],
        told=rows.loc[is_told, "method"].tolist(),
        clear=CLEAR,
        bound=bound_table(cases),
        gaps=gaps,
        n_by_chance=N_FIRST * float((~is_clean).mean()),
        rare_share=float((baseline["rare"] & is_clean).mean()),
    )


def training_cases(runs: SeedRuns, method: str) -> pd.DataFrame:
    """What a training logged about its cases, and what is wrong with them: rows as of `rank_cases`.

    ``value`` is the mean weight or stale loss after the first third of the epochs, ``times_seen``
    and ``share`` are those of the draws of these epochs, for weights of the sum of the weights.
    """
    fold = runs.fold(method)
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

    noise = pd.read_csv(runs.raw / NOISE_FILE, dtype={"case": str}).set_index("case")
    table = pd.read_csv(runs.raw / "cases.csv", dtype=str).set_index("case")
    case = ranked["case"].astype(str)
    return pd.DataFrame(
        {
            "method": method,
            "seed": runs.seed,
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


def unlearnt(scores: pd.DataFrame, study: Study) -> list[str]:
    """Common strata that right labels do not teach, as "seed 2, control: cerebellum".

    The rare one is left out: it never gets there.
    """
    right = scores[(scores["method"] == RIGHT) & scores["label"].isin(study.labels)]
    low = right[right["stratum"].isin(study.common) & (right["mean"] <= LEARNT)]
    return [f"seed {row.seed}, {row.stratum}: {row.label}" for row in low.itertuples()]
