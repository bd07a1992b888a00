"""The picture of the hardness of the cases during a training."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nnunet_dro.trainers.logs.case_curves import draw_cases, drawn_epochs, finish, marker, usual_style
from nnunet_dro.trainers.logs.epoch_summary import HardnessSummary

_N_NAMED = 5


def plot_hardness(
    history: Mapping[int, NDArray[np.float32]],
    cases: Sequence[str],
    summaries: Sequence[HardnessSummary],
    path: Path,
) -> None:
    """Draw the stale losses of all cases, the effective number of cases, and the share of clipped weights, if any.

    Args:
        history: Stale losses by epoch, (n,), NaN for a case without one.
        cases: Names of the n cases.
        summaries: One summary per epoch.
        path: PNG file to write.
    """
    with usual_style():
        _draw(history, cases, summaries).savefig(path, dpi=110)


def _draw(
    history: Mapping[int, NDArray[np.float32]], cases: Sequence[str], summaries: Sequence[HardnessSummary]
) -> Figure:
    epochs = drawn_epochs(history)
    losses = np.stack([history[epoch] for epoch in epochs])
    clipped = [100 * summary.clipped_share for summary in summaries]
    weighted = not np.isnan(clipped).all()
    ratios = (3, 1, 1) if weighted else (3, 1)
    figure = Figure(figsize=(11, 2 * sum(ratios)), layout="constrained")
    panels = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
    top, middle = panels[:2]

    _draw_losses(top, epochs, losses, cases)
    numbers = [summary.epoch for summary in summaries]
    middle.plot(numbers, [summary.effective_cases for summary in summaries], color="#0072B2", marker=marker(numbers))
    middle.axhline(len(cases), color="0.5", linestyle=":", label=f"all {len(cases)} cases")
    middle.set(ylabel="effective cases\nexp(entropy of p)", ylim=(0, 1.08 * len(cases)))
    middle.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    if weighted:
        panels[2].plot(numbers, clipped, color="#D55E00", marker=marker(numbers))
        panels[2].set(ylabel="weights that\nhit the clip (%)", ylim=(0, max(5.0, 1.1 * np.nanmax(clipped))))
    finish(panels)
    return figure


def _draw_losses(axes: Axes, epochs: NDArray[np.int64], losses: NDArray[np.float32], cases: Sequence[str]) -> None:
    last = losses[-1]
    seen = np.flatnonzero(~np.isnan(last))
    hardest = sorted(seen.tolist(), key=lambda i: -last[i])[:_N_NAMED]
    draw_cases(axes, epochs, losses, named={i: f"{cases[i]}  {last[i]:.3f}" for i in hardest})
    axes.set(ylabel="stale loss", title="Loss of every training case; the hardest are named")
    axes.legend(title="hardest at the last epoch", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
