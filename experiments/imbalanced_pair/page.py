"""The page of the experiment, and its picture."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.imbalanced_pair.plan import PUBLISHED_LENGTH, RATES, TUNING_SEED
from experiments.imbalanced_pair.training import METHODS, Run
from experiments.record import render

_COLOURS = dict(zip(METHODS, ("#000000", "#E69F00", "#009E73", "#CC79A7", "#999999", "#0072B2"), strict=True))


def draw_errors(rows: pd.DataFrame) -> Figure:
    """Test error against the ratio: a panel per learning rate, a colour per method, mean and range of the splits."""
    rates = sorted(rows["learning_rate"].unique())
    figure = Figure(figsize=(2 + 4.5 * len(rates), 4.4), layout="constrained")
    panels = figure.subplots(1, len(rates), sharey=True, squeeze=False)[0]
    for axes, rate in zip(panels, rates, strict=True):
        here = rows[rows["learning_rate"] == rate]
        for i, method in enumerate(METHODS):
            errors = here[here["method"] == method].groupby("ratio")["error"].agg(["mean", "min", "max"])
            spread = [errors["mean"] - errors["min"], errors["max"] - errors["mean"]]
            # A few per cent aside, so that the bars can be told apart.
            ratios = errors.index.to_numpy() * 1.035 ** (i - (len(METHODS) - 1) / 2)
            axes.errorbar(
                ratios, errors["mean"], spread, fmt="o-", ms=4, capsize=2, color=_COLOURS[method], label=method
            )
        ratios = sorted(here["ratio"].unique())
        axes.set(title=f"learning rate {rate:g}", xlabel="9s for each 4 in training", xscale="log", ylim=(-1, 54))
        axes.set_xticks(ratios, [str(ratio) for ratio in ratios])
        axes.minorticks_off()
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("test error (%)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def page_text(rows: pd.DataFrame, run: Run) -> str:
    """The text of the page above its table.

    Args:
        rows: From `compared`.
        run: Any of the trainings.
    """
    return render(
        "imbalanced_pair/page",
        run=run,
        findings=[{"rate": rate, **_findings(here)} for rate, here in rows.groupby("learning_rate")],
        worst=rows["ratio"].max(),
        n_rare=rows["n_rare"].min(),
        n_splits=rows["seed"].nunique(),
        gentle=PUBLISHED_LENGTH / run.steps,
        tuned=rows["learning_rate"].max(),
        tried=RATES,
        tuning_seed=TUNING_SEED,
    )


def _findings(rows: pd.DataFrame) -> dict[str, object]:
    """The errors of one learning rate, and what they say about L2RW."""
    worst, l2rw = rows["ratio"].max(), rows[rows["method"] == "L2RW"]
    means = rows.groupby(["ratio", "method"], observed=True)["error"].mean()
    others = means[worst].drop("L2RW")
    counts = l2rw.groupby("ratio")["effective"].mean()
    return {
        "errors": _errors_at(rows),
        "even": means[1, "L2RW"],
        "worst": means[worst, "L2RW"],
        "plain": others["plain"],
        "best": others.idxmin(),
        "best_error": others.min(),
        "minus": {other: _paired(l2rw, other) for other in ("plain", "resample")},
        "n_lost": l2rw["lost"].sum(),
        "n_trainings": len(l2rw),
        "fewest": counts.min(),
        "most": counts.max(),
    }


def _paired(rows: pd.DataFrame, other: str) -> list[dict[str, object]]:
    """How a method's errors differ from another's on the same splits, by ratio."""
    return [
        {"ratio": ratio, "spread": _spread(here), "n_lower": (here < 0).sum(), "n": len(here)}
        for ratio, here in rows.groupby("ratio")[f"minus {other}"]
    ]


def _spread(values: pd.Series) -> str:
    return f"{values.mean():.1f} ({values.min():.1f} to {values.max():.1f})"


def _errors_at(rows: pd.DataFrame) -> pd.DataFrame:
    """The errors of one learning rate, a row per method and a column per ratio."""
    cells = rows.groupby(["method", "ratio"], observed=True)["error"].agg(_spread).unstack()
    cells.columns = [f"{ratio}:1" for ratio in cells.columns]
    return cells.reset_index().astype(str)
