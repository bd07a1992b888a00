"""The picture of what trainings know of their cases, beside that of the differences in Dice."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.spoilt_labels.spoiling import KINDS

#: Groups of training cases, from left to right, and their colours.
_GROUPS = ("trusted", "right", "rare", *KINDS)
_COLOURS = dict(
    zip(_GROUPS, ("#1b7837", "#2471a3", "#138d90", "#943126", "#ca6f1e", "#7d3c98"), strict=True)
)
#: More panels do not fit on a page beside each other.
_MOST_COLUMNS = 4


def draw_cases(cases: pd.DataFrame) -> Figure:
    """Draw every training case by what is wrong with it.

    What is drawn is its mean weight, its mean stale loss or its draws.
    """
    methods = cases["method"].unique()
    n_columns = min(_MOST_COLUMNS, len(methods))
    n_rows = math.ceil(len(methods) / n_columns)
    figure = Figure(figsize=(2.9 * n_columns, 3.6 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for panel in panels[len(methods) :]:
        panel.remove()
    for panel, method in zip(panels, methods, strict=False):
        _draw_panel(panel, cases[cases["method"] == method], str(method))
    return figure


def _draw_panel(panel: Axes, cases: pd.DataFrame, method: str) -> None:
    right = pd.Series(np.where(cases["rare"], "rare", "right"), index=cases.index)
    groups = cases["kind"].where(cases["kind"] != "clean", right)
    groups = groups.mask(cases["trusted"], "trusted")
    # Where the points of a group stand beside each other says nothing.
    rng = np.random.default_rng(0)
    for position, (name, colour) in enumerate(_COLOURS.items()):
        values = cases["value"][groups == name].dropna()
        places = position + rng.uniform(-0.28, 0.28, size=len(values))
        panel.plot(places, values, ".", color=colour, markersize=4, alpha=0.6)
        if len(values):
            panel.plot(
                [position - 0.36, position + 0.36],
                [values.median()] * 2,
                color="black",
                linewidth=1.5,
            )
    panel.set_xticks(range(len(_COLOURS)), list(_COLOURS), fontsize=8, rotation=25)
    panel.set_title(f"{method}, training cases", fontsize=10)
    words = {"weight": "mean weight", "loss": "mean stale loss", "draws": "draws"}
    panel.set_ylabel(words[cases["signal"].iloc[0]], fontsize=9)
    panel.axvspan(len(_COLOURS) - len(KINDS) - 0.5, len(_COLOURS) - 0.5, color="#f2f3f4", zorder=0)
    panel.set_axisbelow(True)
