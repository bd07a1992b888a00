"""Dice against iterations as a picture."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from experiments.curves.results import Roles

_COLOURS = ("#000000", "#0072B2", "#D55E00", "#56B4E9", "#009E73", "#CC79A7", "#999999")


def draw_curves(
    scores: pd.DataFrame, roles: Roles, n_train: Mapping[str, int], *, cases: str = "cases", logarithmic: bool = False
) -> Figure:
    """Mean Dice against iterations: a panel per stratum, a colour per method, thin lines for the seeds.

    Args:
        scores: From `scores_of`; with several labels, those of the label of ``roles`` are drawn.
        roles: What the methods and the strata are.
        n_train: Training cases of each stratum.
        cases: What the cases are called.
        logarithmic: Whether each doubling of the iterations is as wide as the other.
    """
    if roles.label is not None:
        scores = scores[scores["label"] == roles.label]
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, len(roles.strata), sharey=True, squeeze=False)[0]
    for axes, stratum in zip(panels, roles.strata, strict=True):
        here = scores[scores["stratum"] == stratum]
        for colour, (method, of) in zip(_COLOURS, here.groupby("method", sort=False), strict=False):
            for _, run in of.groupby("seed"):
                axes.plot(run["iteration"], 100 * run["mean"], color=colour, alpha=0.25, linewidth=0.7)
            mean = of.groupby("iteration")["mean"].mean() * 100
            style = "--" if method == roles.plain else "-"
            axes.plot(mean.index, mean, color=colour, linestyle=style, linewidth=2, marker="o", label=method)
        axes.set_title(f"{stratum}: {n_train[stratum]} training {cases}", fontsize=9)
        axes.set_xlabel("iterations")
        if logarithmic:
            axes.set_xscale("log", base=2)
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set(ylabel="Dice (%)", ylim=(-2, 102))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure
