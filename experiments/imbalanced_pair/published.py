"""The page and the picture of the trainings at the settings of the published code."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from experiments.imbalanced_pair.plan import PUBLISHED_METHODS, PUBLISHED_STEPS
from experiments.imbalanced_pair.training import N_TRUSTED, Run
from experiments.record import render

_COLOURS = dict(zip(PUBLISHED_METHODS, ("#000000", "#E69F00", "#009E73", "#CC79A7", "#0072B2"), strict=True))
_COLUMNS = ["images", "ratio", "n_rare", "seed", "method", "error", "rare", "common", "minus plain"]
_COLUMNS += ["minus resample", "weight", "effective"]


def published_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The CSV of all seeds, from `compared`: a row per condition (``images``, as on the page), seed and method."""
    rows = rows.assign(images=_condition(rows))
    return rows[_COLUMNS].sort_values(["images", "seed", "method"], ignore_index=True)


def published_table(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per condition and method: means over the splits, and the difference to resampling with its interval."""
    groups = rows.assign(images=_condition(rows)).groupby(["images", "method"], observed=True)
    table = groups[["error", "rare", "common", "weight", "effective"]].mean().reset_index()
    found = [_difference(here["minus resample"]) for _, here in groups]
    return pd.DataFrame(
        {
            "training images": table["images"],
            "method": table["method"].astype(str),
            "error": table["error"],
            "by split": [", ".join(f"{error:.1f}" for error in group) for _, group in groups["error"]],
            "4s wrong": table["rare"],
            "9s wrong": table["common"],
            "minus resample": [mean for mean, _, _ in found],
            "low": [low for _, low, _ in found],
            "high": [high for _, _, high in found],
            "weight": table["weight"],
            "effective": table["effective"],
        }
    )


def draw_published(rows: pd.DataFrame) -> Figure:
    """Test error: a panel per condition, a point per split, and a bar at the mean."""
    conditions = _condition(rows)
    names = sorted(conditions.unique())
    figure = Figure(figsize=(1.5 + 3.6 * len(names), 3.8), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), sharey=True, squeeze=False)[0], names, strict=True):
        here = rows[conditions == name]
        for place, method in enumerate(PUBLISHED_METHODS):
            errors = here.loc[here["method"] == method, "error"]
            beside = place + np.linspace(-0.15, 0.15, len(errors))
            axes.plot(beside, errors, "o", ms=4, color=_COLOURS[method], alpha=0.7)
            axes.hlines(errors.mean(), place - 0.3, place + 0.3, color=_COLOURS[method], linewidth=2)
        axes.set_title(name, fontsize=10)
        axes.set_xticks(range(len(PUBLISHED_METHODS)), PUBLISHED_METHODS, rotation=25, fontsize=9)
        axes.grid(axis="y", color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("test error (%)")
    figure.axes[0].set_ylim(bottom=0)
    return figure


def published_text(rows: pd.DataFrame, run: Run) -> str:
    """The text of the page above its table.

    Args:
        rows: From `compared`.
        run: Any of the trainings.
    """
    conditions = _condition(rows)
    findings = []
    for name, here in rows.groupby(conditions):
        errors = here.groupby("method", observed=True)["error"].mean().to_dict()
        l2rw = here[here["method"] == "L2RW"]
        findings.append(
            {
                "name": name,
                "errors": errors,
                "minus": {other: _difference(l2rw[f"minus {other}"]) for other in ("plain", "resample")},
                "lower": {other: int((l2rw[f"minus {other}"] < 0).sum()) for other in ("plain", "resample")},
            }
        )
    means = rows.groupby(["method", "ratio"], observed=True)["error"].mean().unstack()
    return render(
        "imbalanced_pair/published",
        run=run,
        steps=PUBLISHED_STEPS,
        n_trusted=N_TRUSTED,
        n_splits=rows["seed"].nunique(),
        least=rows["ratio"].min(),
        worst=rows["ratio"].max(),
        rises=(means[rows["ratio"].max()] - means[rows["ratio"].min()]).to_dict(),
        findings=findings,
    )


def _condition(rows: pd.DataFrame) -> pd.Series:
    """The name of the training images: the ratio, and how many 4s there are."""
    return rows["ratio"].astype(str) + ":1, " + rows["n_rare"].astype(str) + " 4s"


def _difference(values: pd.Series) -> tuple[float, float, float]:
    """Mean of paired differences, and Student's 95 % interval over the splits; 0 where all are 0."""
    mean = float(values.mean())
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std() / np.sqrt(len(values)))
    return mean, mean - half, mean + half
