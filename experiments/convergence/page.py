"""The page of the experiment on convergence."""

from itertools import product

import numpy as np
import pandas as pd

from experiments.convergence.studies import ALL_LABELS, Question
from experiments.curves.results import Roles, decision, differences, mean_of_rare, results_table
from experiments.factorial.effects import STATISTICS
from experiments.record import (
    collapse_rates,
    collapsed_trainings,
    methods_by_stratum,
    render,
    without_collapsed,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: What is shown of an ensemble: the statistics of Fidon et al. 2022, table 2, and how many cases
#: have a Dice of 0.
SHOWN = (*STATISTICS, "missed")
#: Points of Dice; plain training has converged if it rises by less in the last part of the
#: training.
CONVERGED = 0.5


def page_text(
    scores: pd.DataFrame,
    asked: Question,
    *,
    regrouped: pd.DataFrame | None = None,
    is_section: bool = False,
) -> str:
    """Text of the page or section above its table, from `scores_of` by the strata and, if there are any, by others."""
    found = differences(scores, asked.roles)
    roles = asked.roles
    study = asked.study
    iterations = asked.iterations
    at_the_end = scores[scores["iteration"] == iterations]
    collapsed = collapsed_trainings(at_the_end)
    of_label = found[found["label"] == roles.label]
    plain = of_label[of_label["method"] == roles.plain].pivot(
        index="iteration", columns="stratum", values="mean"
    )
    settled = round((1 - asked.settling) * iterations)
    rise = plain.loc[iterations, list(roles.strata)] - plain.loc[settled, list(roles.strata)]
    one_label = roles.label != ALL_LABELS
    labels = [str(roles.label)] if one_label else list(study.labels)
    rising = list(rise.index[rise >= CONVERGED])
    converged = not set(rising) & set(roles.rare)
    return render(
        "convergence/page",
        about=study.about,
        gaining=asked.gaining,
        limits=asked.limits,
        decision=decision(scores, roles, wrong_labels=asked.wrong_labels)[1:].to_dict("records"),
        n_rare=len(roles.rare),
        verdicts=_verdicts(scores, roles, iterations, converged=converged),
        rates=collapse_rates(at_the_end, collapsed, labels=labels) if len(collapsed) else [],
        verdicts_without=_verdicts(
            without_collapsed(scores, collapsed), roles, iterations, converged=converged
        ),
        rise=rise.to_dict(),
        since="In the last quarter" if asked.settling == 0.25 else "From the half to the end",
        rising=rising,
        label_words=f" for the {roles.label}" if one_label else "",
        late=[method for method in asked.late if method in set(scores["method"])],
        told=roles.told,
        plain=roles.plain,
        iterations=iterations,
        configuration=study.parent,
        visits=round(iterations * study.batch_size / sum(asked.n_train.values())),
        n_seeds=scores["seed"].nunique(),
        regrouped=None
        if regrouped is None
        else _at_the_end(differences(regrouped, roles), roles, iterations),
        regrouped_by=asked.regrouped[0],
        is_section=is_section,
    )


def percentiles_table(cases: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """`results_table` of `SHOWN`, each as a label, from a row per method, seed, stratum, label and test case."""
    rows = []
    cases = cases[cases["label"] == roles.label]
    for (method, seed, stratum), of in cases.groupby(["method", "seed", "stratum"], sort=False)[
        "dice"
    ]:
        # `differences` multiplies by 100 what are counts here.
        found = {**describe(of.to_numpy(dtype=np.float64)), "missed": (of == 0).sum() / 100}
        row = {
            "method": method,
            "seed": seed,
            "stratum": stratum,
            "iteration": 0,
            "p10": np.nan,
            "share": np.nan,
        }
        rows += [{**row, "label": name, "mean": found[name]} for name in SHOWN]
    table = results_table(differences(pd.DataFrame(rows), roles), roles)
    return table[["stratum", "label", "method", "seeds", "mean", f"- {roles.plain}"]]


def methods_by_statistic(table: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """A row per stratum and method of `percentiles_table`.

    Plain training's numbers, and differences to them.
    """
    texts = table[f"- {roles.plain}"].where(
        table["method"] != roles.plain, table["mean"].map("{:.1f}".format)
    )
    never = (table.groupby(["stratum", "label"])["mean"].transform("max") == 0) & (
        table["label"] == "missed"
    )
    wide = table.assign(text=texts.mask(never, "")).pivot(
        index=["stratum", "method"], columns="label", values="text"
    )
    order = list(product(roles.strata, table["method"].unique()))
    return wide.loc[order, list(SHOWN)].reset_index()


def _at_the_end(regrouped: pd.DataFrame, roles: Roles, last: int) -> pd.DataFrame:
    rows = regrouped[(regrouped["iteration"] == last) & (regrouped["label"] == roles.label)]
    return methods_by_stratum(results_table(rows, roles), roles.plain)


def _verdicts(
    scores: pd.DataFrame, roles: Roles, last: int, *, converged: bool
) -> list[dict[str, object]]:
    """`verdict` of each method but plain training that has a pair of seeds."""
    rows = differences(mean_of_rare(scores, roles), roles)
    if rows.empty:
        return []
    rows = rows[(rows["method"] != roles.plain) & rows["difference"].notna()]
    return [
        verdict(of_method, last, converged=converged)
        for _, of_method in rows.groupby("method", sort=False)
    ]


def verdict(rows: pd.DataFrame, last: int, *, converged: bool) -> dict[str, object]:
    """Where one method's gain on the rare strata is largest, and what is left of it at the end, in points.

    It ``says`` what the intervals say; ``end`` with ``low`` and ``high`` is the difference at the
    end, and ``largest`` the largest one, at its ``moment``.
    """
    largest = rows.sort_values("difference").iloc[-1]
    end = rows[rows["iteration"] == last].iloc[0]
    if end["low"] > 0:
        says = (
            "something is left"
            if converged
            else "a gain at the end, where plain training has not converged"
        )
    elif end["high"] < 0:
        says = "harm"
    else:
        says = "a gain of speed" if (rows["low"] > 0).any() else "no gain is shown"
    return {
        "method": end["method"],
        "moment": largest["iteration"],
        "largest": largest["difference"],
        "end": end["difference"],
        "low": end["low"],
        "high": end["high"],
        "says": says,
    }
