"""The log of learnt weights: weights.csv, weights.png, and one line per epoch."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.log.case_curves import (
    draw_cases,
    draw_lines,
    drawn_epochs,
    finish,
    marker,
    save_picture,
)
from nnunet_dro.trainers.log.epoch_log import CaseLog, Row, entry

#: Number of cases that the line of an epoch and the picture name, lowest first.
_N_NAMED = 5
#: Differs from the colours of the named cases and stands out from the grey of the others (Okabe and
#: Ito).
_TRUSTED_COLOUR = "#56B4E9"


class WeightsLog(CaseLog):
    """Adds up the cases' weights in an epoch and writes their means.

    Relative ones, 1 for all in plain training.
    """

    what = "weights"
    file = "weights.csv"
    columns = ("epoch", "case", "weight", "times_seen")

    def __init__(self, cases: Sequence[str], trusted: Collection[str]) -> None:
        super().__init__(cases)
        self.trusted = frozenset(trusted)
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._sums = np.zeros(len(self.cases))
        self._seen = np.zeros(len(self.cases), dtype=np.int32)
        self._n_steps = self._n_without_step = self._n_zero = 0

    def record(self, cases: CaseColumns) -> None:
        """Add the weights of one iteration, finite and >= 0.

        If all are 0, it made no step, but its cases were seen.
        """
        where = cases.indices.numpy()
        given = cases.weights.numpy() * len(cases.weights)
        np.add.at(self._sums, where, given)
        np.add.at(self._seen, where, 1)
        self._n_zero += int((given == 0).sum())
        self._n_steps += bool(given.any())
        self._n_without_step += not given.any()

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        with np.errstate(invalid="ignore"):
            means = self._sums / self._seen
            times = self._seen
        self._history[epoch], self._times[epoch] = means.astype(np.float32), times
        n_seen = int(times.sum())
        row: Row = {
            "epoch": epoch,
            "n_steps": self._n_steps,
            "n_without_step": self._n_without_step,
            "zero_share": self._n_zero / n_seen if n_seen else math.nan,
        }
        self._start_epoch()
        columns = zip(self.cases, means, times, strict=True)
        return row, self._line(row), [(epoch, case, entry(mean), n) for case, mean, n in columns]

    def _line(self, row: Row) -> str:
        parts = [
            f"{row['n_steps']} of {row['n_steps'] + row['n_without_step']} iterations made a step"
        ]
        if not math.isnan(row["zero_share"]):
            parts.append(f"zero weights {100 * row['zero_share']:.1f} %")
        lowest = ", ".join(f"{case} ({weight:.3f})" for case, weight in self.lowest())
        return "Weights: " + ", ".join([*parts, f"lowest so far: {lowest or 'none yet'}"])

    def _write_others(self, folder: Path) -> None:
        data = (self._history, self._times, self.cases, self.trusted, self.rows)
        save_picture(folder / "weights.png", draw_weights, *data)

    def lowest(self) -> list[tuple[str, float]]:
        """The five cases with the lowest mean weights over all epochs, weighted by how often they were seen."""
        means = running_means(self._history, self._times, np.array([max(self._history)]))[-1]
        seen = np.flatnonzero(~np.isnan(means))
        return [
            (self.cases[i], float(means[i]))
            for i in seen[np.argsort(means[seen], kind="stable")][:_N_NAMED]
        ]

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint: the cases, and the scalars of the epochs.

        The weights are in weights.csv.
        """
        return {"cases": list(self.cases), "epochs": list(self.rows)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint.

        That the training cases changed since is said by the hardness table.
        """
        # Those of version 0.2 have the cases with the lowest weights too.
        self.rows = [
            {name: value for name, value in row.items() if name != "lowest"}
            for row in state["epochs"]
        ]
        self._start_epoch()


def running_means(
    means: Mapping[int, NDArray[np.float32]],
    times_seen: Mapping[int, NDArray[np.int32]],
    epochs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Mean weight of every case up to each epoch, by how often it was seen, (n_epochs, n).

    NaN until it was seen.
    """
    n = len(next(iter(means.values())))
    sums = np.zeros(n)
    times = np.zeros(n)
    wanted = set(epochs.tolist())
    rows = []
    for epoch in sorted(means):
        sums += np.where(times_seen[epoch] > 0, means[epoch], 0) * times_seen[epoch]
        times += times_seen[epoch]
        if epoch in wanted:
            with np.errstate(invalid="ignore"):
                rows.append(sums / times)
    return np.stack(rows)


def draw_weights(
    means: Mapping[int, NDArray[np.float32]],
    times_seen: Mapping[int, NDArray[np.int32]],
    cases: Sequence[str],
    trusted: Collection[str],
    rows: Sequence[Row],
) -> Figure:
    """Draw the running mean weights of all cases, and the shares of zero weights and of iterations without a step."""
    epochs = drawn_epochs(means)
    running = running_means(means, times_seen, epochs)
    figure = Figure(figsize=(11, 8), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _draw_weights(top, epochs, running, cases, trusted)

    numbers = [int(row["epoch"]) for row in rows]
    zero = [100 * row["zero_share"] for row in rows]
    without = [
        100 * row["n_without_step"] / max(1, row["n_steps"] + row["n_without_step"]) for row in rows
    ]
    bottom.plot(numbers, zero, color="#0072B2", marker=marker(numbers), label="weights that are 0")
    bottom.plot(
        numbers, without, color="#D55E00", marker=marker(numbers), label="iterations without a step"
    )
    bottom.set(ylabel="share (%)", ylim=(-2, 102))
    bottom.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    finish((top, bottom))
    return figure


def _draw_weights(
    axes: Axes,
    epochs: NDArray[np.int64],
    running: NDArray[np.float64],
    cases: Sequence[str],
    trusted: Collection[str],
) -> None:
    last = running[-1]
    lowest = sorted(np.flatnonzero(~np.isnan(last)).tolist(), key=lambda i: last[i])[:_N_NAMED]
    apart = [i for i, case in enumerate(cases) if case in trusted and i not in lowest]
    named = {
        i: f"{cases[i]}  {last[i]:.3f}{' (trusted)' if cases[i] in trusted else ''}" for i in lowest
    }
    axes.axhline(1, color="0.5", linestyle=":", label="plain training")
    draw_cases(axes, epochs, running, named=named, apart=apart)
    if apart:
        label = f"trusted cases ({len(apart)})"
        draw_lines(
            axes, epochs, running, apart, colour=_TRUSTED_COLOUR, alpha=0.9, width=1.1, label=label
        )
        axes.autoscale_view()
    axes.set(
        ylabel="mean weight so far", title="Weight of every training case; the lowest are named"
    )
    axes.set_ylim(bottom=0)
    axes.legend(
        title="lowest at the last epoch", loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False
    )
