"""Dice against iterations as a picture."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.curves.results import Roles

_COLOURS = ("#000000", "#0072B2", "#D55E00", "#56B4E9", "#009E73", "#CC79A7", "#999999")
#: Line style and colour of each method, dashes being those of plain training. More methods than
#: colours have no lines for the seeds.
_STYLES = list(product(("-", ":", "-."), _COLOURS))


def draw_curves(
    scores: pd.DataFrame,
    roles: Roles,
    n_train: Mapping[str, int],
    *,
    cases: str = "cases",
    batch_size: Callable[[str], int] | None = None,
) -> Figure:
    """Mean Dice against iterations.

    There is a panel per stratum with a line per method, and thin ones for the seeds of few methods.
    Titles have the number of training cases of a stratum, which are called ``cases``. If the
    cases in a batch of each method are given, there are panels of the rare strata against their
    patches, too, and the axes are logarithmic.
    """
    if roles.label is not None:
        scores = scores[scores["label"] == roles.label]
    panels = [(stratum, "iteration", "iterations") for stratum in roles.strata]
    if batch_size is not None:
        drawn = scores["iteration"] * scores["method"].map(batch_size)
        scores = scores.assign(patches=drawn * scores["share"])
        panels += [(stratum, "patches", f"patches of {stratum}") for stratum in roles.rare]

    n_rows = 2 if len(panels) > 5 else 1
    n_columns = -(-len(panels) // n_rows)
    figure = Figure(figsize=(11, 0.6 + 3 * n_rows), layout="constrained")
    all_axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).ravel()
    for axes, (stratum, along, words) in zip(all_axes, panels, strict=False):
        _draw_lines(axes, scores[scores["stratum"] == stratum], along, plain=roles.plain)
        axes.set_title(f"{stratum}: {n_train[stratum]} training {cases}", fontsize=9)
        axes.set_xlabel(words)
        if batch_size is not None:
            axes.set_xscale("log", base=2)
    for axes in all_axes[len(panels) :]:
        axes.set_visible(False)

    all_axes[0].set(ylabel="Dice (%)", ylim=(-2, 102))
    figure.legend(
        *all_axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=6,
        frameon=False,
    )
    return figure


def _draw_lines(axes: Axes, scores: pd.DataFrame, along: str, *, plain: str) -> None:
    """The mean Dice of each method, and of its seeds where that leaves the lines apart."""
    by_method = scores.groupby("method", sort=False)
    styles = _STYLES[: by_method.ngroups]
    for (style, colour), (method, trainings) in zip(styles, by_method, strict=True):
        if by_method.ngroups <= len(_COLOURS):
            for _, training in trainings.groupby("seed"):
                axes.plot(
                    training[along],
                    100 * training["mean"],
                    color=colour,
                    alpha=0.25,
                    linewidth=0.7,
                )
        line_style = "--" if method == plain else style
        means = trainings.groupby("iteration", as_index=False).mean(numeric_only=True)
        axes.plot(
            means[along],
            100 * means["mean"],
            color=colour,
            linestyle=line_style,
            linewidth=1.5,
            marker="o",
            markersize=4,
            label=method,
        )


def draw_differences(changes: pd.DataFrame, scores: pd.DataFrame, roles: Roles) -> Figure:
    """`differences` of one moment and label.

    There is a panel per stratum with a row per method: its interval, and a dot per seed.
    """
    changes = changes[changes["method"] != roles.plain]
    figure = draw_intervals(changes, roles.strata, f"Dice - {roles.plain}, points")
    for axes, stratum in zip(figure.axes, roles.strata, strict=True):
        rows = scores[scores["stratum"] == stratum]
        means = rows.pivot(index="seed", columns="method", values="mean")
        for place, method in enumerate(changes["method"].unique()):
            by_seed = 100 * (means[method] - means[roles.plain])
            axes.plot(by_seed, [place] * len(by_seed), "o", color="0.6", markersize=4, zorder=1)
    return figure


def draw_intervals(changes: pd.DataFrame, strata: Sequence[str], words: str) -> Figure:
    """Differences with their intervals: a panel per stratum, a row per method.

    The words are below the axis.
    """
    methods = list(changes["method"].unique())
    rows = range(len(methods))
    figure = Figure(figsize=(11, 1.2 + min(0.45 * len(methods), 8)), layout="constrained")
    panels = figure.subplots(1, len(strata), sharey=True, squeeze=False)[0]
    for axes, stratum in zip(panels, strata, strict=True):
        intervals = changes[changes["stratum"] == stratum].set_index("method").loc[methods]
        axes.hlines(rows, intervals["low"], intervals["high"], color=_COLOURS[1], linewidth=2)
        axes.plot(intervals["difference"], rows, "D", color=_COLOURS[1], markersize=6)
        axes.axvline(0, color="0.3", linewidth=0.8)
        axes.set_title(stratum, fontsize=9)
        axes.set_xlabel(words)
    panels[0].set_yticks(rows, methods)
    panels[0].invert_yaxis()
    return figure
