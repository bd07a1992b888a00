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
    lowest,
    marker,
    save_picture,
)
from nnunet_dro.trainers.log.epoch_log import CaseLog, Row, entry

#: Differs from the colours of the named cases and stands out from the grey of the others (Okabe and
#: Ito).
_TRUSTED_COLOUR = "#56B4E9"


class WeightsLog(CaseLog):
    """Adds up the weights of the cases since the last epoch with rows, and writes their means.

    Weights are relative: the weight in the weighted mean times the number of cases in the batch, so
    that plain training has a weight of 1 for every case.
    """

    what = "weights"
    file = "weights.csv"
    columns = ("epoch", "case", "weight", "times_seen")

    def __init__(
        self, cases: Sequence[str], trusted: Collection[str], *, n_epochs: int | None = None
    ) -> None:
        super().__init__(cases, n_epochs=n_epochs)
        self.trusted = frozenset(trusted)
        self._start_sums()
        self._start_epoch()

    def _start_sums(self) -> None:
        self._sums = np.zeros(len(self.cases))
        self._seen = np.zeros(len(self.cases), dtype=np.int32)

    def _start_epoch(self) -> None:
        self._n_seen = 0
        self._n_steps = 0
        self._n_without_step = 0
        self._n_zero = 0

    def record(self, cases: CaseColumns) -> None:
        """Add the weights of one iteration, >= 0.

        An iteration whose weights are all 0 made no step, but its cases were seen. Where a weight
        is not finite, nothing is known of the others either, and there was no step.
        """
        positions = cases.indices.numpy()
        weights = cases.weights.numpy() * len(cases.weights)
        if not np.isfinite(weights).all():
            self._n_without_step += 1
            return

        np.add.at(self._sums, positions, weights)
        np.add.at(self._seen, positions, 1)
        self._n_seen += len(positions)
        self._n_zero += int((weights == 0).sum())
        if weights.any():
            self._n_steps += 1
        else:
            self._n_without_step += 1

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        times = self._seen.copy()
        means = self._sums / np.where(times, times, np.nan)
        self._remember(epoch, means, times)

        row: Row = {
            "epoch": epoch,
            "n_steps": self._n_steps,
            "n_without_step": self._n_without_step,
            "zero_share": self._n_zero / self._n_seen if self._n_seen else math.nan,
        }
        self._start_epoch()

        entries: list[Sequence[object]] = []
        if self._gets_rows(epoch):
            for case, mean, n in zip(self.cases, means, times, strict=True):
                entries.append((epoch, case, entry(mean), n))
            self._start_sums()
        return row, self._line(row), entries

    def _line(self, row: Row) -> str:
        n_iterations = row["n_steps"] + row["n_without_step"]
        parts = [f"{row['n_steps']} of {n_iterations} iterations made a step"]
        if not math.isnan(row["zero_share"]):
            parts.append(f"zero weights {100 * row['zero_share']:.1f} %")

        names = ", ".join(f"{case} ({weight:.3f})" for case, weight in self.lowest())
        parts.append(f"lowest so far: {names or 'none yet'}")
        return "Weights: " + ", ".join(parts)

    def _write_others(self, folder: Path) -> None:
        if not self._is_time_for_a_picture():
            return
        data = (self._history, self._times, self.cases, self.trusted, self.rows)
        with self.pace.drawing():
            save_picture(folder / "weights.png", draw_weights, *data)

    def lowest(self) -> list[tuple[str, float]]:
        """The five cases with the lowest mean weights over all epochs.

        The mean counts an epoch by how often the case was seen in it.
        """
        last_epoch = np.array([max(self._history)])
        (means,) = running_means(self._history, self._times, last_epoch)
        return [(self.cases[i], float(means[i])) for i in lowest(means)]

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint: the cases, the scalars of the epochs, and what has no rows yet.

        Other weights are not in it, because weights.csv has them.
        """
        return {
            "cases": list(self.cases),
            "epochs": list(self.rows),
            "sums_without_rows": dict(zip(self.cases, self._sums.tolist(), strict=True)),
            "times_without_rows": dict(zip(self.cases, self._seen.tolist(), strict=True)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint.

        If the training cases have changed since, the hardness table says so.
        """
        self.rows = []
        for row in state["epochs"]:
            # Rows of version 0.2 also have the cases with the lowest weights.
            self.rows.append({name: value for name, value in row.items() if name != "lowest"})

        # Version 0.3 wrote the rows of all epochs.
        sums = state.get("sums_without_rows", {})
        times = state.get("times_without_rows", {})
        self._sums = np.array([sums.get(case, 0.0) for case in self.cases])
        self._seen = np.array([times.get(case, 0) for case in self.cases], dtype=np.int32)
        self._start_epoch()


def running_means(
    means: Mapping[int, NDArray[np.float32]],
    times_seen: Mapping[int, NDArray[np.int32]],
    epochs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Mean weight of every case up to each epoch, shape (n_epochs, n); NaN until it was seen.

    Args:
        means: Mean weights of the cases in each epoch, shape (n,).
        times_seen: How often each case was seen in each epoch, shape (n,).
        epochs: The epochs to give the means of, ascending.
    """
    ordered = sorted(means)
    n_seen = np.stack([times_seen[epoch] for epoch in ordered])
    weights = np.where(n_seen > 0, np.stack([means[epoch] for epoch in ordered]), 0)
    sums = np.cumsum(weights * n_seen, axis=0)
    times = np.cumsum(n_seen, axis=0)
    return (sums / np.where(times, times, np.nan))[np.isin(ordered, epochs)]


def draw_weights(
    means: Mapping[int, NDArray[np.float32]],
    times_seen: Mapping[int, NDArray[np.int32]],
    cases: Sequence[str],
    trusted: Collection[str],
    rows: Sequence[Row],
) -> Figure:
    """Draw the running mean weights of all cases.

    Below them are the shares of zero weights and of iterations without a step.
    """
    epochs = drawn_epochs(means)
    running = running_means(means, times_seen, epochs)
    figure = Figure(figsize=(11, 8), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _draw_weights(top, epochs, running, cases, trusted)
    _draw_shares(bottom, rows)
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
    first = lowest(last)
    apart = [i for i, case in enumerate(cases) if case in trusted and i not in first]
    named = {}
    for i in first:
        mark = " (trusted)" if cases[i] in trusted else ""
        named[i] = f"{cases[i]}  {last[i]:.3f}{mark}"

    axes.axhline(1, color="0.5", linestyle=":", label="plain training")
    draw_cases(axes, epochs, running, named=named, apart=apart)
    if apart:
        draw_lines(
            axes,
            epochs,
            running,
            apart,
            colour=_TRUSTED_COLOUR,
            alpha=0.9,
            width=1.1,
            label=f"trusted cases ({len(apart)})",
        )
        axes.autoscale_view()
    axes.set(
        ylabel="mean weight so far",
        title="Weight of every training case; the lowest are named",
    )
    axes.set_ylim(bottom=0)
    axes.legend(
        title="lowest at the last epoch",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
    )


def _draw_shares(axes: Axes, rows: Sequence[Row]) -> None:
    epochs = [int(row["epoch"]) for row in rows]
    zero = [100 * row["zero_share"] for row in rows]
    without = []
    for row in rows:
        n_iterations = row["n_steps"] + row["n_without_step"]
        without.append(100 * row["n_without_step"] / max(1, n_iterations))

    dots = marker(epochs)
    axes.plot(epochs, zero, color="#0072B2", marker=dots, label="weights that are 0")
    axes.plot(epochs, without, color="#D55E00", marker=dots, label="iterations without a step")
    axes.set(ylabel="share (%)", ylim=(-2, 102))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
