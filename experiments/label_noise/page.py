"""The page of the experiment with wrong labels."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.curves import results_table, shown_difference, verdict
from experiments.label_noise.results import LEARNT, dice_differences, unlearnt
from experiments.label_noise.studies import FINETUNED, FINETUNING_RATE, RIGHT, roles
from experiments.nnunet_runs.page import not_learnt
from experiments.nnunet_runs.results import ALL_LABELS
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import render
from experiments.spoilt_labels.separation import N_FIRST, separation_rows

#: The labels of the page's table; the rare pathology differs in the cerebellum.
SHOWN_LABELS = (ALL_LABELS, "cerebellum")


def page_table(scores: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The table of the page: means over the seeds and differences to the baseline, for `SHOWN_LABELS`.

    Args:
        scores: From `rows_by_seed`.
        study: The study.
    """
    found = dice_differences(scores[scores["label"].isin(SHOWN_LABELS)], study)
    # In one order, whatever the order of the file.
    found["stratum"] = pd.Categorical(found["stratum"], roles(study).strata)
    found["label"] = pd.Categorical(found["label"], SHOWN_LABELS)
    found["method"] = pd.Categorical(found["method"], list(study.trainers))
    found = found.sort_values(["label", "stratum", "method"], ignore_index=True)
    return results_table(found[["label", "stratum", *found.columns.drop(["label", "stratum"])]], roles(study))


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the rare stratum's hard label; the means over the labels are in the text."""
    rows = table[table["stratum"].isin([table["stratum"].iloc[-1]])]
    if "label" in rows:  # a table about one label has no such column
        rows = rows[rows["label"] != ALL_LABELS].drop(columns="label")
    return rows.drop(columns="stratum")


def page_text(
    scores: pd.DataFrame,
    cases: pd.DataFrame,
    separation: pd.DataFrame,
    study: Study,
    *,
    failures: Mapping[str, str],
    name: str,
) -> str:
    """The text of the page above its table.

    Args:
        scores: From `rows_by_seed`.
        cases: Rows of `training_cases` of every finished run on all cases.
        separation: From `separation_table`.
        study: The study.
        failures: Runs that failed, and the reasons.
        name: Name of the page's files, without suffix.
    """
    methods = [method for method in study.trainers if method in set(scores["method"])]
    found = dice_differences(scores, study)
    verdicts = _verdicts(found[found["label"] == ALL_LABELS])
    minutes = scores.drop_duplicates(["method", "seed"]).groupby("method")["cpu_seconds"].mean() / 60
    of_baseline = cases[cases["method"] == BASELINE]
    return render(
        "label_noise/page",
        study=study,
        strata=roles(study).strata,
        baseline=BASELINE,
        right=RIGHT,
        finetuned=FINETUNED,
        finetuning_rate=FINETUNING_RATE,
        methods=methods,
        verdicts=verdicts,
        by_verdict=_by_verdict(verdicts, [method for method in methods if method not in (BASELINE, RIGHT)]),
        n_seeds=scores["seed"].nunique(),
        has_right=RIGHT in methods,
        unlearnt=unlearnt(scores, study),
        right_rare=_mean_of_rare(found[found["method"] == RIGHT], study),
        learnt=LEARNT,
        not_learnt=not_learnt(scores[scores["label"].isin(study.labels)].assign(dice=scores["mean"])),
        minutes={method: minutes[method] for method in methods},
        separation_table=separation_rows(separation),
        n_first=N_FIRST,
        n_by_chance=N_FIRST * float((of_baseline["kind"] != "clean").mean()),
        rare_share=float((of_baseline["rare"] & (of_baseline["kind"] == "clean")).mean()),
        name=name,
        failures=failures,
    )


def _mean_of_rare(found: pd.DataFrame, study: Study) -> dict[str, float]:
    """Label to the mean Dice of the rare stratum, in points."""
    rows = found[found["stratum"].isin(study.rare) & found["label"].isin(study.labels)]
    return dict(zip(rows["label"], rows["mean"], strict=True))


def _verdicts(found: pd.DataFrame) -> dict[str, dict[str, dict[str, object]]]:
    """Method to stratum to the mean Dice and what its difference to the baseline says."""
    verdicts: dict[str, dict[str, dict[str, object]]] = {}
    for row in found.to_dict("records"):
        difference = shown_difference(*(float(row[column]) for column in ("difference", "low", "high")))
        entry = {"mean": row["mean"], "difference": difference, "says": verdict(row["low"], row["high"])}
        verdicts.setdefault(str(row["method"]), {})[str(row["stratum"])] = entry
    return verdicts


def _by_verdict(
    verdicts: Mapping[str, Mapping[str, Mapping[str, object]]], methods: Sequence[str]
) -> dict[str, dict[str, list[str]]]:
    """Stratum to verdict to the methods of which it is true."""
    found: dict[str, dict[str, list[str]]] = {}
    for method in methods:
        for stratum, entry in verdicts[method].items():
            found.setdefault(stratum, {}).setdefault(str(entry["says"]), []).append(method)
    return found
