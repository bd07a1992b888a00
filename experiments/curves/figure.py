"""Dice against iterations as a picture."""

from collections.abc import Mapping, Sequence
from itertools import product

import pandas as pd
from matplotlib.figure import Figure

from experiments.curves.results import Roles

_COLOURS = ("#000000", "#0072B2", "#D55E00", "#56B4E9", "#009E73", "#CC79A7", "#999999")
#: Line style and colour of each method; more methods than colours have no lines for the seeds.
_STYLES = list(product(("-", ":"), _COLOURS))


def draw_curves(
    scores: pd.DataFrame,
    roles: Roles,
    n_train: Mapping[str, int],
    *,
    cases: str = "cases",
    batch_size: int = 0,
) -> Figure:
    """Mean Dice against iterations.

    A panel per stratum, a line per method, and thin ones for the seeds of few.

    Titles have the number of training cases of a stratum, which are called ``cases``. If the
    patches of an iteration are given, there are panels of the rare strata against their patches,
    too, and the axes are logarithmic.
    """
    if roles.label is not None:
        scores = scores[scores["label"] == roles.label]
    drawn = [(stratum, "iteration", "iterations") for stratum in roles.strata]
    if batch_size:
        scores = scores.assign(patches=scores["iteration"] * batch_size * scores["share"])
        drawn += [(stratum, "patches", f"patches of {stratum}") for stratum in roles.rare]
    n_rows = 2 if len(drawn) > 5 else 1
    n_columns = -(-len(drawn) // n_rows)
    figure = Figure(figsize=(11, 0.6 + 3 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).ravel()
    for axes, (stratum, along, words) in zip(panels, drawn, strict=False):
        here = scores[scores["stratum"] == stratum]
        by_method = here.groupby("method", sort=False)
        for (style, colour), (method, of) in zip(
            _STYLES[: by_method.ngroups], by_method, strict=True
        ):
            if by_method.ngroups <= len(_COLOURS):
                for _, run in of.groupby("seed"):
                    axes.plot(
                        run[along], 100 * run["mean"], color=colour, alpha=0.25, linewidth=0.7
                    )
            mean = (
                of.groupby("iteration")[[along, "mean"] if along != "iteration" else ["mean"]]
                .mean()
                .reset_index()
            )
            line = {"color": colour, "linestyle": "--" if method == roles.plain else style}
            axes.plot(
                mean[along],
                100 * mean["mean"],
                **line,
                linewidth=1.5,
                marker="o",
                markersize=4,
                label=method,
            )
        axes.set_title(f"{stratum}: {n_train[stratum]} training {cases}", fontsize=9)
        axes.set_xlabel(words)
        if batch_size:
            axes.set_xscale("log", base=2)
    for axes in panels[len(drawn) :]:
        axes.set_visible(False)
    panels[0].set(ylabel="Dice (%)", ylim=(-2, 102))
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )
    return figure


def draw_differences(found: pd.DataFrame, scores: pd.DataFrame, roles: Roles) -> Figure:
    """`differences` of one moment and label.

    A panel per stratum, a row per method with interval, a dot per seed.
    """
    found = found[found["method"] != roles.plain]
    figure = draw_intervals(found, roles.strata, f"Dice - {roles.plain}, points")
    for axes, stratum in zip(figure.axes, roles.strata, strict=True):
        means = scores[scores["stratum"] == stratum].pivot(
            index="seed", columns="method", values="mean"
        )
        for place, method in enumerate(found["method"].unique()):
            by_seed = 100 * (means[method] - means[roles.plain])
            axes.plot(by_seed, [place] * len(by_seed), "o", color="0.6", markersize=4, zorder=1)
    return figure


def draw_intervals(found: pd.DataFrame, strata: Sequence[str], words: str) -> Figure:
    """Differences with their intervals: a panel per stratum, a row per method.

    The words are below the axis.
    """
    methods = list(found["method"].unique())
    figure = Figure(figsize=(11, 1.2 + min(0.45 * len(methods), 8)), layout="constrained")
    panels = figure.subplots(1, len(strata), sharey=True, squeeze=False)[0]
    for axes, stratum in zip(panels, strata, strict=True):
        here = found[found["stratum"] == stratum].set_index("method").loc[methods]
        axes.hlines(range(len(methods)), here["low"], here["high"], color=_COLOURS[1], linewidth=2)
        axes.plot(here["difference"], range(len(methods)), "D", color=_COLOURS[1], markersize=6)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_title(stratum, fontsize=9)
        axes.set_xlabel(words)
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].invert_yaxis()
    return figure
