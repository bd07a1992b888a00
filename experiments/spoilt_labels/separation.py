"""How well trainings separate wrong labels from right ones."""

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from experiments.spoilt_labels.spoiling import KINDS

#: Number of cases at the top of a ranking that are examined.
N_FIRST = 20


def separation_table(cases: pd.DataFrame) -> pd.DataFrame:
    """How well each training separates the wrong label maps from the right ones.

    There is a row per method, signal and seed. ``auc`` is the chance that a wrong case looks more
    suspicious than a right one (a lower weight, a higher loss, more draws; equal ones count half),
    trusted cases left out; ``auc_against_rare`` the same against right rare cases, ``auc_rare``
    that of a right rare case and another right one. ``found`` and ``found_rare`` count the wrong
    and the right rare ones of the first `N_FIRST`, ``share`` and ``share_rare`` are theirs of the
    draws (or weights), ``right_unseen`` counts right cases that were not drawn. A training with
    weights has a second row for its losses, without counts and shares.
    """
    rows: list[dict[str, object]] = []
    for (method, seed), run in cases.groupby(["method", "seed"], sort=False):
        signal = run["signal"].iloc[0]
        first = run.nsmallest(N_FIRST, "place")
        is_wrong = run["kind"] != "clean"
        is_right_rare = run["rare"] & ~is_wrong
        is_unseen = run["times_seen"] == 0
        rows.append(
            {
                "method": method,
                "seed": seed,
                "signal": signal,
                **_aucs(run, "value", higher=signal != "weight"),
                "found": is_wrong[first.index].sum(),
                "found_rare": is_right_rare[first.index].sum(),
                "share": run["share"][is_wrong].sum(),
                "share_rare": run["share"][is_right_rare].sum(),
                "right_unseen": (~is_wrong & is_unseen).sum(),
            }
        )
        if signal == "weight":
            aucs = _aucs(run, "loss", higher=True)
            rows.append({"method": method, "seed": seed, "signal": "loss", **aucs})
    return pd.DataFrame(rows)


def _aucs(run: pd.DataFrame, column: str, *, higher: bool) -> dict[str, float]:
    """The AUCs of a training, by a column whose ``higher`` or lower values are suspicious."""
    cases = run[~run["trusted"] & run[column].notna()]
    values = cases[column] if higher else -cases[column]
    is_right = cases["kind"] == "clean"
    right = values[is_right]
    rare = right[cases["rare"]]
    others = right[~cases["rare"]]
    wrong = values[~is_right]

    aucs = {
        "auc": harder(wrong, right),
        "auc_against_rare": harder(wrong, rare),
        "auc_rare": harder(rare, others),
    }
    for kind in KINDS:
        aucs[f"auc_{kind}"] = harder(values[cases["kind"] == kind], right)
    return aucs


def separation_rows(separation: pd.DataFrame) -> pd.DataFrame:
    """The page's table of how well trainings tell wrong from right: means over the seeds."""
    rows = []
    for (method, signal), seeds in separation.groupby(["method", "signal"], sort=False):
        row: dict[str, object] = {"method": method, "by": signal, "AUC": seeds["auc"].mean()}
        row["AUC, wrong against rare"] = seeds["auc_against_rare"].mean()
        for column, what in (("found", "wrong"), ("found_rare", "right but rare")):
            count = seeds[column].mean()
            row[f"{what} of the first {N_FIRST}"] = "–" if np.isnan(count) else f"{count:.1f}"
        rows.append(row)
    return pd.DataFrame(rows)


def harder(some: "pd.Series[float]", others: "pd.Series[float]") -> float:
    """The probability that one of some values is larger than one of the others.

    Equal ones count half. It is NaN if there are none.
    """
    n_pairs = len(some) * len(others)
    if n_pairs == 0:
        return float("nan")
    return float(mannwhitneyu(some, others).statistic) / n_pairs
