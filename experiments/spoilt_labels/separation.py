"""How well trainings separate wrong labels from right ones."""

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from experiments.spoilt_labels.spoiling import KINDS

#: Number of cases at the top of a ranking that are examined.
N_FIRST = 20


def separation_table(cases: pd.DataFrame) -> pd.DataFrame:
    """How well each training separates the wrong label maps from the right ones.

    A row per method, signal and seed.

    ``auc`` is the chance that a wrong case looks more suspicious than a right one (a lower weight,
    a higher loss, more draws; equal ones count half), trusted cases left out; ``auc_against_rare``
    the same against right rare cases, ``auc_rare`` that of a right rare case and another right one.
    ``found`` and ``found_rare`` count the wrong and the right rare ones of the first `N_FIRST`,
    ``share`` and ``share_rare`` are theirs of the draws (or weights), ``right_unseen`` counts right
    cases that were not drawn. A training with weights has a second row for its losses, without
    counts and shares.
    """
    rows: list[dict[str, object]] = []
    for (method, seed), of_run in cases.groupby(["method", "seed"], sort=False):
        signal = of_run["signal"].iloc[0]
        first = of_run.nsmallest(N_FIRST, "place")
        wrong = of_run["kind"] != "clean"
        right_rare = of_run["rare"] & ~wrong
        row = {"method": method, "seed": seed, "signal": signal} | _aucs(
            of_run, "value", higher=signal != "weight"
        )
        found = {
            "found": (first["kind"] != "clean").sum(),
            "found_rare": right_rare[first.index].sum(),
        }
        shares = {
            "share": of_run["share"][wrong].sum(),
            "share_rare": of_run["share"][right_rare].sum(),
        }
        unseen = (~wrong & (of_run["times_seen"] == 0)).sum()
        rows.append(row | found | shares | {"right_unseen": unseen})
        if signal == "weight":
            rows.append(
                {"method": method, "seed": seed, "signal": "loss"}
                | _aucs(of_run, "loss", higher=True)
            )
    return pd.DataFrame(rows)


def _aucs(of_run: pd.DataFrame, column: str, *, higher: bool) -> dict[str, float]:
    sign = 1 if higher else -1
    known = of_run[~of_run["trusted"] & of_run[column].notna()]
    values = sign * known[column]
    is_right = known["kind"] == "clean"
    right = values[is_right]
    rare = right[known["rare"]]
    others = right[~known["rare"]]
    wrong = values[~is_right]
    aucs = {
        "auc": harder(wrong, right),
        "auc_against_rare": harder(wrong, rare),
        "auc_rare": harder(rare, others),
    }
    return aucs | {f"auc_{kind}": harder(values[known["kind"] == kind], right) for kind in KINDS}


def separation_rows(separation: pd.DataFrame) -> pd.DataFrame:
    """The page's table of how well trainings tell wrong from right: means over the seeds."""
    rows = []
    for (method, signal), of_seeds in separation.groupby(["method", "signal"], sort=False):
        row: dict[str, object] = {"method": method, "by": signal, "AUC": of_seeds["auc"].mean()}
        row |= {"AUC, wrong against rare": of_seeds["auc_against_rare"].mean()}
        for column, what in (("found", "wrong"), ("found_rare", "right but rare")):
            count = of_seeds[column].mean()
            row[f"{what} of the first {N_FIRST}"] = "–" if np.isnan(count) else f"{count:.1f}"
        rows.append(row)
    return pd.DataFrame(rows)


def harder(some: "pd.Series[float]", others: "pd.Series[float]") -> float:
    """The probability that one of some values is larger than one of the others.

    Equal ones count half, NaN for none.
    """
    if not (len(some) and len(others)):
        return float("nan")
    return float(mannwhitneyu(some, others).statistic) / (len(some) * len(others))
