"""The page of the experiment with wrong labels."""

from collections.abc import Mapping

import pandas as pd

from experiments.label_noise.data import KINDS
from experiments.label_noise.results import N_FIRST
from experiments.nnunet_runs.dice_table import SHOWN, shown_table, told_rows
from experiments.nnunet_runs.page import not_learnt, time_table
from experiments.nnunet_runs.plans import BATCH_SIZE
from experiments.nnunet_runs.results import ALL_LABELS, Results
from experiments.nnunet_runs.study import BASELINE
from experiments.record import render

#: A column of the page's table of how well trainings separate wrong from right.
_WRONG_OF_FIRST = f"wrong of the first {N_FIRST}, by seed"


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """The table of the page: Dice in per cent, and the differences to the baseline as text.

    Args:
        table: From `dice_by_label`.
    """
    return shown_table(table, {"label": "label", "method": "method", "n_seeds": "seeds"}, [*SHOWN, "mean, seeds"])


def separation_rows(separation: pd.DataFrame) -> pd.DataFrame:
    """The page's table of how well trainings separate wrong from right: mean and range of the seeds.

    Args:
        separation: From `separation_table`.
    """
    rows = []
    for (method, signal), of_seeds in separation.groupby(["method", "signal"], sort=False):
        row: dict[str, object] = {"method": method, "by": signal, "AUC": of_seeds["auc"].mean()}
        row["AUC, seeds"] = f"{of_seeds['auc'].min():.2f} to {of_seeds['auc'].max():.2f}"
        row |= {f"AUC, {kind}": of_seeds[f"auc_{kind}"].mean() for kind in KINDS}
        if "auc_rare" in of_seeds:
            row["AUC, right but rare"] = of_seeds["auc_rare"].mean()
        for column, what in (("found", "wrong"), ("found_rare", "right but rare")):
            if column in of_seeds:
                found = of_seeds[column].dropna().astype(int)
                row[f"{what} of the first {N_FIRST}, by seed"] = ", ".join(map(str, found)) if len(found) else "–"
        shares = of_seeds["share"].dropna()
        row["share of wrong cases in the training"] = f"{100 * shares.mean():.0f} %" if len(shares) else "–"
        unseen = of_seeds["right_unseen"].dropna().astype(int)
        row["right cases not seen, by seed"] = ", ".join(map(str, unseen)) if len(unseen) else "–"
        rows.append(row)
    return pd.DataFrame(rows)


def page_text(
    results: Results,
    cases: pd.DataFrame,
    table: pd.DataFrame,
    separation: pd.DataFrame,
    *,
    failures: Mapping[str, str],
    name: str,
    quick: bool,
) -> str:
    """The text of the page above its table.

    Args:
        results: The numbers of the finished runs.
        cases: Rows of `training_cases` of every finished run.
        table: From `dice_by_label`.
        separation: From `separation_table`.
        failures: Runs that failed, and the reasons.
        name: Name of the page's files, without suffix.
        quick: Whether it is a smoke run; its numbers are not described in words.
    """
    shown = separation_rows(separation)
    told = told_rows(table)
    is_wrong = cases["kind"][cases["method"] == BASELINE] != "clean"
    return render(
        "label_noise/page",
        study=results.study,
        baseline=BASELINE,
        batch_size=BATCH_SIZE,
        quick=quick,
        shown=SHOWN,
        over_labels=[row for row in told if row["label"] == ALL_LABELS],
        by_label={
            method: [row for row in told if row["method"] == method and row["label"] != ALL_LABELS]
            for method in results.methods
        },
        separation=shown.to_dict("records"),
        kinds=KINDS,
        wrong_of_first=_WRONG_OF_FIRST,
        n_first=N_FIRST,
        not_learnt=not_learnt(results.dice),
        n_by_chance=N_FIRST * float(is_wrong.mean()),
        with_rare="auc_rare" in separation,
        name=name,
        separation_table=shown,
        all_labels=ALL_LABELS,
        times=time_table(results.times, results.methods, results.study),
        failures=failures,
    )
