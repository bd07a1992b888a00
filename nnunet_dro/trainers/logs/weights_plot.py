"""The picture of the learnt weights during a training."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nnunet_dro.trainers.logs.case_curves import draw_cases, draw_lines, drawn_epochs, finish, marker, usual_style
from nnunet_dro.trainers.logs.epoch_summary import WeightsSummary

_N_NAMED = 5
#: Differs from the colours of the named cases and stands out from the grey of the others (Okabe and Ito).
_TRUSTED_COLOUR = "#56B4E9"


def plot_weights(
    means: Mapping[int, NDArray[np.float32]],
    times_seen: Mapping[int, NDArray[np.int32]],
    cases: Sequence[str],
    trusted: Collection[str],
    summaries: Sequence[WeightsSummary],
    path: Path,
) -> None:
    """Draw the running mean weights of all cases, and the shares of zero weights and of iterations without a step.

    Args:
        means: Mean weights by epoch, (n,), NaN for a case that was not seen.
        times_seen: How often each case was seen, (n,), by epoch.
        cases: Names of the n cases.
        trusted: Names of the cases that the weights are learnt from.
        summaries: One summary per epoch.
        path: PNG file to write.
    """
    with usual_style():
        _draw(means, times_seen, cases, trusted, summaries).savefig(path, dpi=110)


def running_means(
    means: Mapping[int, NDArray[np.float32]],
    times_seen: Mapping[int, NDArray[np.int32]],
    epochs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Mean weight of every case over all epochs so far, weighted by how often the case was seen.

    Args:
        means: Mean weights by epoch, (n,), NaN for a case that was not seen.
        times_seen: How often each case was seen, (n,), by epoch.
        epochs: The epochs to compute it for, ascending, shape (n_epochs,).

    Returns:
        Mean weights, shape (n_epochs, n), NaN until a case was seen.
    """
    n = len(next(iter(means.values())))
    sums, times = np.zeros(n), np.zeros(n)
    wanted, rows = set(epochs.tolist()), []
    for epoch in sorted(means):
        sums += np.where(times_seen[epoch] > 0, means[epoch], 0) * times_seen[epoch]
        times += times_seen[epoch]
        if epoch in wanted:
            with np.errstate(invalid="ignore"):
                rows.append(sums / times)
    return np.stack(rows)


def _draw(
    means: Mapping[int, NDArray[np.float32]],
    times_seen: Mapping[int, NDArray[np.int32]],
    cases: Sequence[str],
    trusted: Collection[str],
    summaries: Sequence[WeightsSummary],
) -> Figure:
    epochs = drawn_epochs(means)
    running = running_means(means, times_seen, epochs)
    figure = Figure(figsize=(11, 8), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _draw_weights(top, epochs, running, cases, trusted)

    numbers = [summary.epoch for summary in summaries]
    zero = [100 * summary.zero_share for summary in summaries]
    without = [100 * summary.n_without_step / max(1, summary.n_steps + summary.n_without_step) for summary in summaries]
    bottom.plot(numbers, zero, color="#0072B2", marker=marker(numbers), label="weights that are 0")
    bottom.plot(numbers, without, color="#D55E00", marker=marker(numbers), label="iterations without a step")
    bottom.set(ylabel="share (%)", ylim=(-2, 102))
    bottom.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    finish((top, bottom))
    return figure


def _draw_weights(
    axes: Axes, epochs: NDArray[np.int64], running: NDArray[np.float64], cases: Sequence[str], trusted: Collection[str]
) -> None:
    last = running[-1]
    lowest = sorted(np.flatnonzero(~np.isnan(last)).tolist(), key=lambda i: last[i])[:_N_NAMED]
    apart = [i for i, case in enumerate(cases) if case in trusted and i not in lowest]
    named = {i: f"{cases[i]}  {last[i]:.3f}{' (trusted)' if cases[i] in trusted else ''}" for i in lowest}
    axes.axhline(1, color="0.5", linestyle=":", label="plain training")
    draw_cases(axes, epochs, running, named=named, apart=apart)
    if apart:
        label = f"trusted cases ({len(apart)})"
        draw_lines(axes, epochs, running, apart, colour=_TRUSTED_COLOUR, alpha=0.9, width=1.1, label=label)
        axes.autoscale_view()
    axes.set(ylabel="mean weight so far", title="Weight of every training case; the lowest are named")
    axes.set_ylim(bottom=0)
    axes.legend(title="lowest at the last epoch", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
