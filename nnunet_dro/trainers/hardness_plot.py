"""The picture of a training's hardness."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nnunet_dro.trainers.epoch_summary import EpochSummary

_N_NAMED = 5
#: Colours that the colour-blind can tell apart (Okabe and Ito).
_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")
_MOST_EPOCHS_DRAWN = 300
_MOST_CASES_DRAWN = 2000


def plot_hardness(
    history: Mapping[int, NDArray[np.float32]],
    cases: Sequence[str],
    summaries: Sequence["EpochSummary"],
    path: Path,
) -> None:
    """Draw the stale loss of every case over the epochs, the effective number of cases, and the clipped weights if any.

    Args:
        history: Epoch to stale losses, (n,), NaN where a case has none.
        cases: Names of the n cases.
        summaries: One per epoch.
        path: PNG to write.
    """
    # nnU-Net's own plots leave their style, with letters for posters, in matplotlib's global settings.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        _draw(history, cases, summaries).savefig(path, dpi=110)


def _draw(
    history: Mapping[int, NDArray[np.float32]], cases: Sequence[str], summaries: Sequence["EpochSummary"]
) -> Figure:
    epochs = np.array(sorted(history))
    if len(epochs) > _MOST_EPOCHS_DRAWN:
        epochs = epochs[np.unique(np.linspace(0, len(epochs) - 1, _MOST_EPOCHS_DRAWN).round().astype(int))]
    losses = np.stack([history[epoch] for epoch in epochs])
    clipped = [100 * summary.clipped_share for summary in summaries]
    weighted = not np.isnan(clipped).all()
    ratios = (3, 1, 1) if weighted else (3, 1)
    figure = Figure(figsize=(11, 2 * sum(ratios)), layout="constrained")
    panels = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
    top, middle = panels[:2]

    _draw_losses(top, epochs, losses, cases)
    numbers = [summary.epoch for summary in summaries]
    middle.plot(numbers, [summary.effective_cases for summary in summaries], color="#0072B2", marker=_marker(numbers))
    middle.axhline(len(cases), color="0.5", linestyle=":", label=f"all {len(cases)} cases")
    middle.set(ylabel="effective cases\nexp(entropy of p)", ylim=(0, 1.08 * len(cases)))
    middle.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    if weighted:
        panels[2].plot(numbers, clipped, color="#D55E00", marker=_marker(numbers))
        panels[2].set(ylabel="weights that\nhit the clip (%)", ylim=(0, max(5.0, 1.1 * np.nanmax(clipped))))
    panels[-1].set(xlabel="epoch")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in panels:
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_losses(axes: Axes, epochs: NDArray[np.int64], losses: NDArray[np.float32], cases: Sequence[str]) -> None:
    last = losses[-1]
    seen = np.flatnonzero(~np.isnan(last))
    hardest = sorted(seen.tolist(), key=lambda i: -last[i])[:_N_NAMED]
    others = np.setdiff1d(np.arange(len(cases)), hardest)
    if len(others) > _MOST_CASES_DRAWN:
        others = others[np.linspace(0, len(others) - 1, _MOST_CASES_DRAWN).astype(int)]
    lines = [np.column_stack([epochs, losses[:, i]]) for i in others]
    alpha = float(np.clip(30 / max(1, len(others)), 0.06, 0.5))
    axes.add_collection(LineCollection(lines, colors="0.35", linewidths=0.7, alpha=alpha))
    if len(epochs) == 1:
        axes.scatter(np.full(len(others), epochs[0]), losses[0, others], color="0.35", s=6, alpha=alpha)
    with np.errstate(all="ignore"):
        median = np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in losses])
    axes.plot(epochs, median, color="black", linewidth=2, label="median of all cases")
    for colour, i in zip(_COLOURS, hardest, strict=False):
        label = f"{cases[i]}  {last[i]:.3f}"
        axes.plot(epochs, losses[:, i], color=colour, linewidth=1.6, marker=_marker(epochs), label=label)
    axes.autoscale_view()
    axes.set(ylabel="stale loss", title="Loss of every training case; the hardest are named")
    axes.legend(title="hardest at the last epoch", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _marker(epochs: Sequence[int] | NDArray[np.int64]) -> str:
    return "o" if len(epochs) < 3 else ""
