"""The numbers of the trainings, compared on the same splits."""

from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from experiments.imbalanced_pair.training import METHODS, Outcome, Run


def compared(results: Sequence[tuple[Run, Outcome]]) -> pd.DataFrame:
    """A row per run: its ``error`` (per cent), and that minus the errors of plain and resample on the same split."""
    rows = pd.DataFrame([{**asdict(run), **asdict(outcome), "n_rare": run.n_rare} for run, outcome in results])
    # The noise of single precision would decide which of two equal errors is lower.
    rows[["rare", "common"]] = rows[["rare", "common"]].round(4)
    rows["error"] = (rows["rare"] + rows["common"]) / 2
    keys = ["learning_rate", "ratio", "seed"]
    for other in ("plain", "resample"):
        errors = rows[rows["method"] == other].set_index(keys)["error"].rename("theirs")
        rows[f"minus {other}"] = rows["error"] - rows.join(errors, on=keys)["theirs"]
    rows["lost"] = rows[["rare", "common"]].max(axis=1) == 100
    rows["method"] = pd.Categorical(rows["method"], METHODS)
    return rows.sort_values([*keys, "method"], ignore_index=True)


def results_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per learning rate, ratio and method, the means over the splits, from the rows of `compared`."""
    groups = rows.groupby(["learning_rate", "ratio", "method"], observed=True)
    names = ["rare", "common", "halfway", "minus plain", "minus resample", "weight", "effective"]
    means = groups[["n_rare", "error", *names]].mean().reset_index()
    return pd.DataFrame(
        {
            "rate": [f"{rate:g}" for rate in means["learning_rate"]],
            "ratio": [f"{ratio}:1" for ratio in means["ratio"]],
            "4s": means["n_rare"].astype(int),
            "method": means["method"].astype(str),
            "error": means["error"],
            "sd": groups["error"].std().to_numpy(),
            "by split": [", ".join(f"{error:.1f}" for error in group) for _, group in groups["error"]],
            "4s wrong": means["rare"],
            "9s wrong": means["common"],
            "lost": groups["lost"].sum().to_numpy(),
            **{name: means[name] for name in names[2:]},
        }
    )


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """What the page shows: the errors at the ratio of the table's end."""
    rows = table[table["ratio"] == table["ratio"].iloc[-1]]
    return rows[["rate", "ratio", "method", "error", "minus plain", "minus resample"]]
