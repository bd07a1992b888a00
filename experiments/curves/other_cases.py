"""Intervals of differences that hold for other trainings and for other test cases."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments.curves.results import (
    Roles,
    at_the_end,
    differences,
    mean_of_rare,
    shown_difference,
)

#: The columns of `for_other_cases`.
COLUMNS = ["stratum", "method", "seeds", "cases", "trainings", "trainings and cases"]


def for_other_cases(
    scores: pd.DataFrame, cases: pd.DataFrame, roles: Roles, *, case_columns: list[str]
) -> pd.DataFrame:
    """Differences to plain training at the end, with intervals of two kinds.

    As `nnunet-dro compare` of several trainings does, the interval for other trainings is widened
    by the one for other cases: the square of its half width is the sum of the squares of theirs
    (Zou and Donner 2008). Where every seed has test cases of its own, the first has a part of the
    second in it, so that the interval is too wide rather than too narrow.

    Args:
        scores: `scores_of` the trainings.
        cases: ``method``, ``seed``, ``stratum``, ``label``, ``case`` and ``dice`` in [0, 1] of
            every test case at the end.
        roles: What the methods and strata are.
        case_columns: Columns that tell test cases apart: ``case``, and ``seed``, too, where each
            seed makes its own and their names repeat.

    Returns:
        A row per stratum and method but plain training, and per method for "all rare", the mean
        over the rare strata, where these are several. They have `COLUMNS`: ``cases`` counts
        different test cases, ``trainings`` is the difference in points with its interval for other
        trainings, as text, and ``trainings and cases`` the same with the one for both.
    """
    scores = at_the_end(scores)
    scores = scores[scores["label"] == roles.label]
    changes = differences(scores, roles)
    members: dict[str, tuple[str, ...]] = {stratum: (stratum,) for stratum in roles.strata}
    if len(roles.rare) > 1:
        rare = differences(mean_of_rare(scores, roles), roles)
        changes = pd.concat([changes, rare.assign(stratum="all rare")], ignore_index=True)
        members["all rare"] = roles.rare

    dice = cases[cases["label"] == roles.label]
    rows = []
    for change in changes[changes["difference"].notna()].to_dict("records"):
        method = change["method"]
        baseline = roles.plain_elsewhere.get(method, roles.plain)
        if method != baseline:
            is_member = dice["stratum"].isin(members[change["stratum"]])
            half, n_cases = _half_for_cases(dice[is_member], method, baseline, case_columns)
            rows.append(_row(change, half, n_cases))
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(change: Mapping[str, Any], half_for_cases: float, n_cases: int) -> tuple[Any, ...]:
    """The entries of `COLUMNS` for a row of `differences`."""
    difference = change["difference"]
    half = np.hypot(change["high"] - difference, half_for_cases)
    # No mean Dice changes by more than 100 points.
    low, high = np.clip([change["low"], change["high"]], -100, 100)
    lower, higher = np.clip([difference - half, difference + half], -100, 100)
    return (
        change["stratum"],
        change["method"],
        change["seeds"],
        n_cases,
        shown_difference(difference, low, high),
        shown_difference(difference, lower, higher),
    )


def _half_for_cases(
    dice: pd.DataFrame, method: str, baseline: str, case_columns: list[str]
) -> tuple[float, int]:
    """Half the width of the interval for other test cases with these trainings, in points.

    The interval is Student's t. Seeds count alike, and so do strata. What a case adds to the
    difference in several seeds is summed first, because it is one case. The number of different
    cases is returned, too.
    """
    wide = dice.pivot(index=["seed", "stratum", "case"], columns="method", values="dice")
    change = 100 * (wide[method] - wide[baseline]).dropna()
    tests = change.groupby(["seed", "stratum"])
    weight = 1 / (tests.ngroups * tests.transform("size"))
    added = (weight * (change - tests.transform("mean"))).groupby(case_columns).sum()
    n = len(added)
    if n < 2:
        return np.nan, n
    error = np.sqrt(n / (n - 1) * (added**2).sum())
    return float(stats.t.ppf(0.975, n - 1) * error), n
