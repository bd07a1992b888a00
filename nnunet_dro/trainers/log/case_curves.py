"""Curves of the training cases over the epochs, and hardness.png, which is redrawn during a training."""

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
_MOST_EPOCHS_DRAWN = 300
_MOST_CASES_DRAWN = 2000
_N_NAMED = 5


def save_picture(path: Path, draw: Callable[..., Figure], *data: object) -> None:
    """Draw and save a picture in matplotlib's own style.

    NnU-Net's plots leave theirs, with huge letters, behind.
    """
    with matplotlib.rc_context(), replacing(path) as partial:
        matplotlib.rcdefaults()
        matplotlib.rcParams["text.parse_math"] = False  # names of cases may hold dollars
        draw(*data).savefig(partial, dpi=110)


def drawn_epochs(epochs: Collection[int]) -> NDArray[np.int64]:
    """The epochs to draw, ascending.

    All, or a few hundred evenly spaced ones including the first and the last.
    """
    ordered = np.array(sorted(epochs), dtype=np.int64)
    if len(ordered) <= _MOST_EPOCHS_DRAWN:
        return ordered
    return ordered[
        np.unique(np.linspace(0, len(ordered) - 1, _MOST_EPOCHS_DRAWN).round().astype(int))
    ]


def draw_cases(
    axes: Axes,
    epochs: NDArray[np.int64],
    values: NDArray[np.floating],
    *,
    named: Mapping[int, str],
    apart: Collection[int] = (),
) -> None:
    """Draw a grey curve per case, the median of all cases, and named cases in colour.

    The values have the shape (n_epochs, n_cases), NaN for a case without one. ``named`` has texts
    for the legend by position of the case, at most as many as there are `COLOURS`; the caller draws
    the cases that are ``apart``.
    """
    others = np.setdiff1d(np.arange(values.shape[1]), [*named, *apart])
    if len(others) > _MOST_CASES_DRAWN:
        others = others[np.linspace(0, len(others) - 1, _MOST_CASES_DRAWN).astype(int)]
    alpha = float(np.clip(30 / max(1, len(others)), 0.06, 0.5))
    draw_lines(axes, epochs, values, others, colour="0.35", alpha=alpha)
    with np.errstate(all="ignore"):
        median = np.array(
            [np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in values]
        )
    axes.plot(epochs, median, color="black", linewidth=2, label="median of all cases")
    for colour, (i, name) in zip(COLOURS, named.items(), strict=False):
        label = (
            f" {plain(name)}" if name.startswith("_") else plain(name)
        )  # a legend would leave it out
        axes.plot(
            epochs, values[:, i], color=colour, linewidth=1.6, marker=marker(epochs), label=label
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
    lines = [np.column_stack([epochs, values[:, i]]) for i in positions]
    axes.add_collection(
        LineCollection(lines, colors=colour, linewidths=width, alpha=alpha, label=label)
    )
    if len(epochs) == 1:
        axes.scatter(
            np.full(len(positions), epochs[0]), values[0, positions], color=colour, s=6, alpha=alpha
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
    """Draw the stale losses of all cases by epoch, the effective number of items, and the share of clipped weights."""
    epochs = drawn_epochs(history)
    losses = np.stack([history[epoch] for epoch in epochs])
    clipped = [100 * row["clipped_share"] for row in rows]
    weighted = not np.isnan(clipped).all()
    ratios = (3, 1, 1) if weighted else (3, 1)
    figure = Figure(figsize=(11, 2 * sum(ratios)), layout="constrained")
    panels = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
    top, middle = panels[:2]

    _draw_losses(top, epochs, losses, cases)
    numbers = [int(row["epoch"]) for row in rows]
    middle.plot(
        numbers, [row["effective_cases"] for row in rows], color="#0072B2", marker=marker(numbers)
    )
    middle.axhline(n_items, color="0.5", linestyle=":", label=f"all {n_items} {items}")
    middle.set(ylabel=f"effective {items}\nexp(entropy of p)", ylim=(0, 1.08 * n_items))
    middle.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    if weighted:
        panels[2].plot(numbers, clipped, color="#D55E00", marker=marker(numbers))
        panels[2].set(
            ylabel="weights that\nhit the clip (%)", ylim=(0, max(5.0, 1.1 * np.nanmax(clipped)))
        )
    finish(panels)
    return figure


def _draw_losses(
    axes: Axes, epochs: NDArray[np.int64], losses: NDArray[np.float32], cases: Sequence[str]
) -> None:
    last = losses[-1]
    seen = np.flatnonzero(~np.isnan(last))
    hardest = sorted(seen.tolist(), key=lambda i: -last[i])[:_N_NAMED]
    draw_cases(axes, epochs, losses, named={i: f"{cases[i]}  {last[i]:.3f}" for i in hardest})
    axes.set(ylabel="stale loss", title="Loss of every training case; the hardest are named")
    axes.legend(
        title="hardest at the last epoch",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
    )
