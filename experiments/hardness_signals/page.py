"""The page of the experiment on the signals of hardness, and its picture."""

import pandas as pd
from matplotlib.figure import Figure

from experiments.hardness_signals.measurement import POOLED, SIGNALS
from experiments.nnunet_runs.study import Study
from experiments.record import render


def draw(table: pd.DataFrame) -> Figure:
    """Shares of the variance between cases: a panel per size of patch, a line per signal, without and with momentum."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    sizes = table["patch"].unique()
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    colours = dict(zip((*SIGNALS, POOLED), ("#000000", "#0072B2", "#D55E00", "#009E73"), strict=True))
    for panel, size in zip(panels, sizes, strict=True):
        for signal, rows in table[table["patch"] == size].groupby("signal", sort=False):
            for momentum, style in ((0.0, "-"), (0.9, ":")):
                label = signal if momentum == 0 else f"{signal}, momentum {momentum:g}"
                share = 100 * rows[f"share, momentum {momentum:g}"]
                if share.notna().all():
                    panel.plot(rows["iterations"], share, style, marker="o", color=colours[str(signal)], label=label)
        panel.set(title=f"patch {size.replace('x', ' x ')}", xlabel="iterations", ylim=(0, 102))
        panel.grid(color="0.92")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("variance between cases (%)")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def page_text(table: pd.DataFrame, study: Study, *, n_draws: int) -> str:
    """The text of the page above its table.

    Args:
        table: From `signals_of_patches`, of all sizes of patch.
        study: The dataset, whose settings say how many cases of a stratum are for training.
        n_draws: About how often each case is drawn at a moment.
    """
    last = table[table["iterations"] == table["iterations"].max()]
    return render(
        "hardness_signals/slices" if table["patch"].iloc[0].count("x") == 1 else "hardness_signals/page",
        settings=study.settings,
        n_draws=n_draws,
        signals=[*SIGNALS, POOLED],
        last={size: rows.set_index("signal").to_dict("index") for size, rows in last.groupby("patch", sort=False)},
        columns=render("hardness_signals/columns"),
    )


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that the page shows."""
    left_out = ["sd between cases", "sd within a case", "share, momentum 0.5"]
    return table.drop(columns=left_out).dropna(axis="columns", how="all")
