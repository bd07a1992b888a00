"""The picture of the experiment: test accuracy and training loss against epochs."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.digits.plan import RARE
from experiments.digits.results import METHODS, ROLES

#: Method to the colour of its curves.
_COLOURS = dict(zip(METHODS, ("#000000", "#999999", "#009E73", "#0072B2", "#D55E00"), strict=True))
#: Column of the epochs to the title of its panel; and to the column with what the sampler has of
#: it.
_PANELS = {
    "rare": f"accuracy on test {RARE}s (%)",
    "overall": "accuracy on all test images (%)",
    "loss": "mean training loss",
    "loss_sd": "standard deviation of the training loss",
}
_LAST_SEEN = {"loss": "stale_loss", "loss_sd": "stale_sd"}


def draw_curves(epochs: pd.DataFrame) -> Figure:
    """A row of panels per share of the rare digit, a colour per method, ERM dashed.

    Thin lines are those of the seeds.
    """
    shares = sorted(epochs["kept"].unique())
    figure = Figure(figsize=(15, 0.8 + 3.2 * len(shares)), layout="constrained")
    panels = figure.subplots(len(shares), len(_PANELS), sharex="row", sharey="col", squeeze=False)
    for row, share in zip(panels, shares, strict=True):
        rows = epochs[epochs["kept"] == share]
        for axes, (column, title) in zip(row, _PANELS.items(), strict=True):
            _draw_methods(axes, rows, column)
            axes.set_title(title, fontsize=10)
            axes.set_xlabel("epoch")
        row[0].set_ylabel(f"{share:g} % of the {RARE}s kept", fontsize=11)
        row[0].set_ylim(-2, 102)

    # The small betas have one share alone.
    legends = [axes.get_legend_handles_labels() for axes in panels[:, -1]]
    longest = max(legends, key=lambda legend: len(legend[0]))
    figure.legend(*longest, loc="outside lower center", ncols=6, frameon=False)
    return figure


def _draw_methods(axes: Axes, epochs: pd.DataFrame, column: str) -> None:
    for method, rows in epochs.groupby("method", sort=False):
        curves = rows.pivot(index="epoch", columns="seed", values=column)
        colour = _COLOURS[str(method)]
        style = "--" if method == ROLES.plain else "-"
        axes.plot(curves, color=colour, alpha=0.25, linewidth=0.6)
        axes.plot(
            curves.mean(axis=1),
            color=colour,
            linestyle=style,
            linewidth=1.6,
            label=method,
        )
        if column in _LAST_SEEN:
            axes.plot(
                rows.groupby("epoch")[_LAST_SEEN[column]].mean(),
                color=colour,
                linestyle=":",
                linewidth=1.4,
                label=f"{method}, as last drawn",
            )
