"""Curves of the training cases over the epochs.

hardness.png is made of them, and drawn again after each epoch of a training.
"""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nnunet_dro.files.output_folder import replacing
from nnunet_dro.naming import plain
from nnunet_dro.trainers.log.epoch_log import Row

#: Colours for the named cases, which colour-blind people can tell apart (Okabe and Ito).
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")
#: More curves, or points of a curve, than these cannot be told apart.
_MOST_EPOCHS_DRAWN = 300
_MOST_CASES_DRAWN = 2000
#: Number of cases that a picture shows in colour, and the line of an epoch names.
_N_NAMED = 5


def save_picture(path: Path, draw: Callable[..., Figure], *data: object) -> None:
    """Draw and save a picture in matplotlib's own style.

    The plots of nnU-Net leave another style behind, with huge letters.
    """
    with matplotlib.rc_context(), replacing(path) as partial:
        matplotlib.rcdefaults()
        matplotlib.rcParams["text.parse_math"] = False  # names of cases may hold dollars
        draw(*data).savefig(partial, dpi=110)


def lowest(values: NDArray[np.floating]) -> list[int]:
    """Positions of the cases to name, which have a value, lowest first."""
    seen = np.flatnonzero(~np.isnan(values))
    order = np.argsort(values[seen], kind="stable")
    return [int(i) for i in seen[order][:_N_NAMED]]


def drawn_epochs(epochs: Collection[int]) -> NDArray[np.int64]:
    """The epochs to draw, ascending.

    These are all, or a few hundred evenly spaced ones with the first and the last among them.
    """
    ordered = np.array(sorted(epochs), dtype=np.int64)
    if len(ordered) <= _MOST_EPOCHS_DRAWN:
        return ordered

    positions = np.linspace(0, len(ordered) - 1, _MOST_EPOCHS_DRAWN)
    return ordered[np.unique(positions.round().astype(int))]


def draw_cases(
    axes: Axes,
    epochs: NDArray[np.int64],
    values: NDArray[np.floating],
    *,
    named: Mapping[int, str],
    apart: Collection[int] = (),
) -> None:
    """Draw a grey curve per case, the median of all cases, and named cases in colour.

    Args:
        axes: The panel to draw in.
        epochs: Numbers of the epochs, shape (n_epochs,).
        values: Values of the cases, shape (n_epochs, n_cases), NaN for a case without one.
        named: Texts for the legend by position of the case, at most as many as there are `COLOURS`.
        apart: Positions of cases that the caller draws.
    """
    # Many thousand curves are a grey area, however many are drawn.
    others = np.setdiff1d(np.arange(values.shape[1]), [*named, *apart])
    if len(others) > _MOST_CASES_DRAWN:
        evenly_spaced = np.linspace(0, len(others) - 1, _MOST_CASES_DRAWN)
        others = others[evenly_spaced.astype(int)]
    alpha = float(np.clip(30 / max(1, len(others)), 0.06, 0.5))
    draw_lines(axes, epochs, values, others, colour="0.35", alpha=alpha)

    with warnings.catch_warnings():
        # An epoch without any value has no median.
        warnings.simplefilter("ignore", RuntimeWarning)
        medians = np.nanmedian(values, axis=1)
    axes.plot(
        epochs,
        medians,
        color="black",
        linewidth=2,
        label="median of all cases",
    )

    for colour, (i, name) in zip(COLOURS, named.items(), strict=False):
        label = plain(name)
        if name.startswith("_"):  # a legend would leave it out
            label = f" {label}"
        axes.plot(
            epochs,
            values[:, i],
            color=colour,
            linewidth=1.6,
            marker=marker(epochs),
            label=label,
        )

    axes.autoscale_view()


def draw_lines(
    axes: Axes,
    epochs: NDArray[np.int64],
    values: NDArray[np.floating],
    positions: Sequence[int] | NDArray[np.integer],
    *,
    colour: str,
    alpha: float,
    width: float = 0.7,
    label: str | None = None,
) -> None:
    """Draw the curves of some cases in the same way; a single epoch gives a dot per case."""
    lines = LineCollection(
        [np.column_stack([epochs, values[:, i]]) for i in positions],
        colors=colour,
        linewidths=width,
        alpha=alpha,
        label=label,
    )
    axes.add_collection(lines)

    # A line needs two epochs.
    if len(epochs) == 1:
        axes.scatter(
            np.full(len(positions), epochs[0]),
            values[0, positions],
            color=colour,
            s=6,
            alpha=alpha,
        )


def finish(panels: Sequence[Axes]) -> None:
    """Format the grid, the frame and the common axis of epochs of panels above one another."""
    panels[-1].set(xlabel="epoch")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in panels:
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)


def marker(epochs: Sequence[int] | NDArray[np.int64]) -> str:
    """The marker of a curve: a dot if there are too few epochs for a line."""
    return "o" if len(epochs) < 3 else ""


def draw_hardness(
    history: Mapping[int, NDArray[np.float32]],
    cases: Sequence[str],
    rows: Sequence[Row],
    n_items: int,
    items: str,
) -> Figure:
    """Draw the stale losses of all cases by epoch, and what follows from them for the draws.

    A panel has the effective number of items, and, in a training with importance weights, another
    has the share of those that were clipped.

    Args:
        history: Stale losses by epoch, arrays (n_cases,), NaN for a case without one.
        cases: Names of the cases.
        rows: The scalars of the epochs.
        n_items: Number of items that are drawn.
        items: What the items are: cases or sub-volumes.
    """
    epochs = drawn_epochs(history)
    losses = np.stack([history[epoch] for epoch in epochs])
    clipped = [100 * row["clipped_share"] for row in rows]
    is_weighted = not np.isnan(clipped).all()

    heights = [3, 1]
    if is_weighted:
        heights.append(1)
    figure = Figure(figsize=(11, 2 * sum(heights)), layout="constrained")
    panels = figure.subplots(
        len(heights),
        1,
        sharex=True,
        height_ratios=heights,
    )

    _draw_losses(panels[0], epochs, losses, cases)
    _draw_effective_items(panels[1], rows, n_items, items)
    if is_weighted:
        _draw_clipped_shares(panels[2], rows, clipped)
    finish(panels)
    return figure


def _draw_losses(
    axes: Axes, epochs: NDArray[np.int64], losses: NDArray[np.float32], cases: Sequence[str]
) -> None:
    last = losses[-1]
    named = {i: f"{cases[i]}  {last[i]:.3f}" for i in lowest(-last)}

    draw_cases(axes, epochs, losses, named=named)
    axes.set(
        ylabel="stale loss",
        title="Loss of every training case; the hardest are named",
    )
    axes.legend(
        title="hardest at the last epoch",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
    )


def _draw_effective_items(axes: Axes, rows: Sequence[Row], n_items: int, items: str) -> None:
    epochs = [int(row["epoch"]) for row in rows]
    effective = [row["effective_cases"] for row in rows]

    axes.plot(epochs, effective, color="#0072B2", marker=marker(epochs))
    axes.axhline(
        n_items,
        color="0.5",
        linestyle=":",
        label=f"all {n_items} {items}",
    )
    axes.set(
        ylabel=f"effective {items}\nexp(entropy of p)",
        ylim=(0, 1.08 * n_items),
    )
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
    )


def _draw_clipped_shares(axes: Axes, rows: Sequence[Row], percents: Sequence[float]) -> None:
    epochs = [int(row["epoch"]) for row in rows]
    highest = max(5.0, 1.1 * np.nanmax(percents))

    axes.plot(epochs, percents, color="#D55E00", marker=marker(epochs))
    axes.set(
        ylabel="weights that\nhit the clip (%)",
        ylim=(0, highest),
    )
