"""The picture of a segmentation study: every method against the baseline, in every stratum."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.nnunet_runs.results import Results
from experiments.nnunet_runs.study import BASELINE
from experiments.segmentation.dice_table import SHOWN

_COLOURS = {"mean": "#1b4f72", "p10": "#ca6f1e", "p5": "#943126"}
_MARKERS = {"mean": "o", "p10": "s", "p5": "^"}
_SEEDS = "#85929e"


def draw(results: Results, table: pd.DataFrame, n_training: "pd.Series[int]") -> Figure:
    """Draw the differences to the baseline, percentage points of Dice.

    Args:
        results: The numbers of the seeds.
        table: From `summary_rows`.
        n_training: Training cases of each stratum.

    Returns:
        A panel per label (rows) and stratum (columns, the rare ones first); in it a line per method: the differences of
        mean, p10 and p5 with their 95 % intervals, and as dots the differences of the mean in each seed.
    """
    labels, strata = list(table["label"].unique()), results.study.strata
    methods = [method for method in results.methods if method != BASELINE]
    height = 0.42 * len(methods) + 1.0
    figure = Figure(figsize=(3.9 * len(strata) + 1.2, height * len(labels) + 0.9), layout="constrained")
    panels = figure.subplots(len(labels), len(strata), sharex="row", sharey=True, squeeze=False)
    for label, row in zip(labels, panels, strict=True):
        for stratum, panel in zip(strata, row, strict=True):
            rows = table[(table["label"] == label) & (table["stratum"] == stratum)].set_index("method")
            dice = results.dice[(results.dice["label"] == label) & (results.dice["stratum"] == stratum)]
            of_seeds = dice.groupby(["seed", "method"])["dice"].mean().unstack("method")
            _draw_panel(panel, rows, of_seeds, methods)
            values = (f"{statistic} {100 * rows.loc[BASELINE, statistic]:.1f}" for statistic in SHOWN)
            title = f"{label}, {stratum} ({n_training[stratum]} in training)\n{BASELINE}: {', '.join(values)}"
            panel.set_title(title, fontsize=9)
        row[0].set_yticks(range(len(methods)), methods, fontsize=9)
    panels[0][0].invert_yaxis()
    for panel in panels[-1]:
        panel.set_xlabel(f"Dice, percentage points more than {BASELINE}", fontsize=9)
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), fontsize=9, frameon=False)
    return figure


def _draw_panel(panel: Axes, rows: pd.DataFrame, of_seeds: pd.DataFrame, methods: list[str]) -> None:
    panel.axvline(0, color="black", linewidth=0.8)
    for offset, statistic in zip((-0.25, 0.0, 0.25), SHOWN, strict=True):
        name = f"{statistic}_difference"
        middle, low, high = (100 * rows.loc[methods, f"{name}{bound}"].to_numpy() for bound in ("", "_low", "_high"))
        lines = [position + offset for position in range(len(methods))]
        # Few seeds have no intervals.
        reach = np.nan_to_num([middle - low, high - middle])
        panel.errorbar(
            middle,
            lines,
            xerr=reach,
            color=_COLOURS[statistic],
            marker=_MARKERS[statistic],
            markersize=4,
            linestyle="none",
            linewidth=1.2,
            label=f"{statistic} [95 %]",
        )
    for position, method in enumerate(methods):
        gains = 100 * (of_seeds[method] - of_seeds[BASELINE]).dropna()
        label = "mean, each seed" if position == 0 else None
        panel.plot(gains, [position - 0.42] * len(gains), ".", color=_SEEDS, markersize=5, label=label)
    panel.grid(axis="x", color="#d5d8dc", linewidth=0.5)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8)
