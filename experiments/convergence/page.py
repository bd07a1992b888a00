"""The page of the experiment on convergence."""

from itertools import product

import numpy as np
import pandas as pd

from experiments.convergence.questions import ALL_LABELS, Question
from experiments.curves.results import Roles, decision, differences, mean_of_rare, results_table
from experiments.factorial.effects import STATISTICS
from experiments.record import (
    SAME_TRAINING,
    collapse_rates,
    collapsed_trainings,
    methods_by_stratum,
    render,
    wide_table,
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
    other_cases: pd.DataFrame | None = None,
    limits: str = "Phantoms",
    is_section: bool = False,
) -> str:
    """Text of the page or section above its table.

    Args:
        scores: `scores_of` by the strata.
        asked: What is asked.
        regrouped: `scores_of` by other strata, if there are any.
        other_cases: `for_other_cases` of the scores, if the Dice of every case was kept.
        limits: What the data are.
        is_section: Whether it is a section of another page.
    """
    roles = asked.roles
    iterations = asked.iterations
    at_the_end = scores[scores["iteration"] == iterations]

    labels = list(asked.data.labels)
    label_words = ""
    if roles.label != ALL_LABELS:
        labels = [str(roles.label)]
        label_words = f" for the {roles.label}"

    rise = _rise_of_plain(scores, asked)
    since = "In the last quarter" if asked.settling == 0.25 else "From the half to the end"
    rising = list(rise.index[rise >= CONVERGED])
    converged = not set(rising) & set(roles.rare)

    rates = []
    collapsed = collapsed_trainings(at_the_end)
    kept = without_collapsed(scores, collapsed)
    if len(collapsed):
        rates = collapse_rates(at_the_end, collapsed, labels=labels)

    regrouped_table = None
    if regrouped is not None:
        regrouped_table = _at_the_end(differences(regrouped, roles), roles, iterations)

    seeds = scores.groupby("method", sort=False)["seed"].agg(set)
    n_seeds = scores["seed"].nunique()

    return render(
        "convergence/page",
        about=asked.about,
        gaining=asked.gaining,
        limits=limits,
        decision=decision(scores, roles, wrong_labels=asked.wrong_labels)[1:].to_dict("records"),
        n_rare=len(roles.rare),
        verdicts=_verdicts(scores, roles, iterations, converged=converged),
        rates=rates,
        verdicts_without=_verdicts(kept, roles, iterations, converged=converged),
        rise=rise.to_dict(),
        since=since,
        rising=rising,
        label_words=label_words,
        late=[method for method in asked.late if method in set(scores["method"])],
        told=roles.told,
        plain=roles.plain,
        iterations=iterations,
        configuration=asked.data.network.parent,
        visits=round(iterations * asked.data.network.batch_size / sum(asked.n_train.values())),
        n_seeds=n_seeds,
        fewer={method: sorted(some) for method, some in seeds.items() if len(some) < n_seeds},
        regrouped=regrouped_table,
        other_cases=_methods_by_stratum(other_cases),
        regrouped_by=asked.regrouped[0],
        is_section=is_section,
    )


def _rise_of_plain(scores: pd.DataFrame, asked: Question) -> "pd.Series[float]":
    """How much the Dice of plain training rises in the last part, by stratum, in points."""
    rows = differences(scores, asked.roles)
    is_plain = (rows["label"] == asked.roles.label) & (rows["method"] == asked.roles.plain)
    dice = rows[is_plain].pivot(index="iteration", columns="stratum", values="mean")
    settled = round((1 - asked.settling) * asked.iterations)
    strata = list(asked.roles.strata)
    return dice.loc[asked.iterations, strata] - dice.loc[settled, strata]


def percentiles_table(cases: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """`results_table` of `SHOWN`, each as a label.

    The cases have a row per method, seed, stratum, label and test case.
    """
    rows = []
    cases = cases[cases["label"] == roles.label]
    by_training = cases.groupby(["method", "seed", "stratum"], sort=False)["dice"]
    for (method, seed, stratum), dice in by_training:
        statistics = dict(describe(dice.to_numpy(dtype=np.float64)))
        # `differences` multiplies by 100 what are counts here.
        statistics["missed"] = (dice == 0).sum() / 100
        row = {
            "method": method,
            "seed": seed,
            "stratum": stratum,
            "iteration": 0,
            "p10": np.nan,
            "share": np.nan,
        }
        rows += [{**row, "label": name, "mean": statistics[name]} for name in SHOWN]
    table = results_table(differences(pd.DataFrame(rows), roles), roles)
    return table[["stratum", "label", "method", "seeds", "mean", f"- {roles.plain}"]]


def methods_by_statistic(table: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """A row per stratum and method of `percentiles_table`.

    It has the numbers of plain training, and the differences of the other methods to them.
    """
    differences_as_text = table[f"- {roles.plain}"]
    means_as_text = table["mean"].map("{:.1f}".format)
    texts = differences_as_text.where(table["method"] != roles.plain, means_as_text)

    # Where no method misses a case, a row of zeros says less than an empty one.
    largest = table.groupby(["stratum", "label"])["mean"].transform("max")
    never_missed = (table["label"] == "missed") & (largest == 0)
    texts = texts.mask(never_missed, "")

    wide = table.assign(text=texts).pivot(
        index=["stratum", "method"], columns="label", values="text"
    )
    order = list(product(roles.strata, table["method"].unique()))
    return wide.loc[order, list(SHOWN)].reset_index()


def _methods_by_stratum(other_cases: pd.DataFrame | None) -> pd.DataFrame | None:
    """A row per method, a column per stratum: the difference with the wider interval.

    None if there is none to show.
    """
    if other_cases is None or other_cases.empty:
        return None
    column = "trainings and cases"
    differences_as_text = other_cases[column].replace(*SAME_TRAINING)
    rows = other_cases.assign(**{column: differences_as_text})
    return wide_table(rows, "method", "stratum", column)


def _at_the_end(regrouped: pd.DataFrame, roles: Roles, last: int) -> pd.DataFrame:
    rows = regrouped[(regrouped["iteration"] == last) & (regrouped["label"] == roles.label)]
    return methods_by_stratum(results_table(rows, roles), roles.plain)


def _verdicts(
    scores: pd.DataFrame, roles: Roles, last: int, *, converged: bool
) -> list[dict[str, object]]:
    """`verdict` of each method that has a pair of seeds, but not of plain training anywhere."""
    rows = differences(mean_of_rare(scores, roles), roles)
    if rows.empty:
        return []
    is_plain = rows["method"].isin([roles.plain, *roles.plain_elsewhere.values()])
    rows = rows[~is_plain & rows["difference"].notna()]
    by_method = rows.groupby("method", sort=False)
    return [verdict(group, last, converged=converged) for _, group in by_method]


def verdict(rows: pd.DataFrame, last: int, *, converged: bool) -> dict[str, object]:
    """Where a method's gain on the rare strata is largest, and what is left of it at the end.

    It ``says`` what the intervals say; ``end`` with ``low`` and ``high`` is the difference at the
    end, and ``largest`` the largest one, at its ``moment``, all in points.
    """
    largest = rows.sort_values("difference").iloc[-1]
    end = rows[rows["iteration"] == last].iloc[0]
    if end["low"] > 0 and converged:
        says = "something is left"
    elif end["low"] > 0:
        says = "a gain at the end, where plain training has not converged"
    elif end["high"] < 0:
        says = "harm"
    elif (rows[["low", "high"]] == 0).all(axis=None):
        says = "the same training as plain"
    elif (rows["low"] > 0).any() and end["difference"] >= 0:
        says = "a gain of speed"
    else:
        says = "no gain is shown"
    return {
        "method": end["method"],
        "moment": largest["iteration"],
        "largest": largest["difference"],
        "end": end["difference"],
        "low": end["low"],
        "high": end["high"],
        "says": says,
    }
