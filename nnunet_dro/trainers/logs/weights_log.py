"""The log of learnt weights: weights.csv, weights.png, and one line per epoch."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.files.atomic import replacing
from nnunet_dro.naming import name_some, repeated
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.logs.epoch_rows import append_rows, entry, keep_rows_before
from nnunet_dro.trainers.logs.epoch_summary import WeightsSummary
from nnunet_dro.trainers.logs.weights_plot import plot_weights

_COLUMNS = ("epoch", "case", "weight", "times_seen")


class WeightsLog:
    """Adds up the weights of the cases in an epoch, and writes their means; an `EpochLog`.

    Weights are relative: the weight in the weighted mean times the number of cases in the batch, so that plain training
    has a weight of 1 for every case.

    Args:
        cases: Names of the training cases, unique, in the order of the indices.
        trusted: Names of the cases that the weights are learnt from; they have a colour of their own in the picture.

    Raises:
        ValueError: If there is no case, a name is duplicated, or a trusted case is not among the cases.

    Source of the weights: Ren et al. 2018, Learning to Reweight Examples for Robust Deep Learning, Algorithm 1.
    """

    what = "weights"

    def __init__(self, cases: Sequence[str], trusted: Collection[str]) -> None:
        self.cases = tuple(cases)
        self.trusted = frozenset(trusted)
        if not self.cases:
            raise ValueError("`cases` must name at least one training case, got none. Check the fold's split.")
        if twice := repeated(self.cases):
            raise ValueError(f"`cases` must be unique, got {name_some(twice)} twice. Remove one.")
        if strangers := sorted(self.trusted - set(self.cases)):
            raise ValueError(f"`trusted` must be among the cases, got {name_some(strangers)}. Check their names.")
        self.summaries: list[WeightsSummary] = []
        self._means: dict[int, NDArray[np.float32]] = {}
        self._times: dict[int, NDArray[np.int32]] = {}
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._sums = np.zeros(len(self.cases))
        self._seen = np.zeros(len(self.cases), dtype=np.int32)
        self._n_steps = self._n_without_step = self._n_zero = 0

    def record(self, cases: CaseColumns) -> None:
        """Add the weights of one iteration.

        If all weights are 0, the iteration made no step; its cases count as seen, with a weight of 0.

        Args:
            cases: Their ``indices`` are positions in the training cases and may contain duplicates. Their ``weights``
                are those in the weighted mean, >= 0.

        Raises:
            ValueError: If the shapes differ, a position is out of range, or a weight is negative or not finite;
                nothing is counted then.
        """
        where, given = cases.indices.numpy(), cases.weights.numpy() * len(cases.weights)
        if where.ndim != 1 or where.shape != given.shape or not len(where):
            got = f"{where.shape} and {given.shape}"
            raise ValueError(f"`indices` and `weights` must be of one shape (b,), got {got}. Give one weight per case.")
        if where.min() < 0 or where.max() >= len(self.cases):
            got = f"{where.min()} to {where.max()}"
            raise ValueError(f"`indices` must be 0 to {len(self.cases) - 1}, got {got}. Give positions in `cases`.")
        if not (np.isfinite(given).all() and (given >= 0).all()):
            cure = "Set negative ones to 0, as Ren et al. 2018 do."
            raise ValueError(f"`weights` must be finite and >= 0, got {given.tolist()!r}. {cure}")
        np.add.at(self._sums, where, given)
        np.add.at(self._seen, where, 1)
        self._n_zero += int((given == 0).sum())
        self._n_steps += bool(given.any())
        self._n_without_step += not given.any()

    def end_epoch(self, epoch: int, folder: Path) -> WeightsSummary:
        """Write the rows of the epoch, and the picture.

        Args:
            epoch: Number of the epoch that ended, from 0.
            folder: Folder of the fold, where nnU-Net keeps its own log.

        Returns:
            The summary of the epoch.

        Raises:
            OSError: If a file cannot be written; ``summaries`` has the epoch all the same.
        """
        with np.errstate(invalid="ignore"):
            means, times = self._sums / self._seen, self._seen
        self._means[epoch], self._times[epoch] = means.astype(np.float32), times
        n_seen = int(times.sum())
        summary = WeightsSummary(
            epoch=epoch,
            n_steps=self._n_steps,
            n_without_step=self._n_without_step,
            zero_share=self._n_zero / n_seen if n_seen else math.nan,
            lowest=self._lowest(),
        )
        self.summaries = [earlier for earlier in self.summaries if earlier.epoch < epoch] + [summary]
        self._start_epoch()
        columns = zip(self.cases, means, times, strict=True)
        append_rows(folder / "weights.csv", _COLUMNS, ((epoch, case, entry(mean), n) for case, mean, n in columns))
        with replacing(folder / "weights.png") as picture:
            plot_weights(self._means, self._times, self.cases, self.trusted, self.summaries, picture)
        return summary

    def _lowest(self) -> tuple[tuple[str, float], ...]:
        """The five cases with the lowest mean weights over all epochs, weighted by how often they were seen."""
        sums, times = np.zeros(len(self.cases)), np.zeros(len(self.cases), dtype=np.int64)
        for epoch, means in self._means.items():
            sums += np.where(self._times[epoch] > 0, means, 0) * self._times[epoch]
            times += self._times[epoch]
        seen = np.flatnonzero(times)
        overall = sums[seen] / times[seen]
        order = np.argsort(overall, kind="stable")[:5]
        return tuple((self.cases[seen[i]], float(overall[i])) for i in order)

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint: the cases, and the scalars of the epochs. The weights are in weights.csv."""
        return {"cases": list(self.cases), "epochs": [asdict(summary) for summary in self.summaries]}

    def load_state_dict(self, state: Mapping[str, Any]) -> str | None:
        """Continue from a checkpoint; returns one line for the log if the training cases changed since."""
        self.summaries = [
            WeightsSummary(**{**epoch, "lowest": tuple((case, weight) for case, weight in epoch["lowest"])})
            for epoch in state["epochs"]
        ]
        self._start_epoch()
        known, here = set(state["cases"]), set(self.cases)
        new, gone = sorted(here - known), sorted(known - here)
        if not new and not gone:
            return None
        return (
            f"The training cases changed since the checkpoint: {len(new)} new ({name_some(new)}), "
            f"{len(gone)} gone ({name_some(gone)})."
        )

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Continue the files of an interrupted training, without its epochs from ``epoch`` on.

        Args:
            epoch: The epoch that the training starts with.
            folder: Folder of the fold.
        """
        self.summaries = [summary for summary in self.summaries if summary.epoch < epoch]
        position = {case: i for i, case in enumerate(self.cases)}
        self._means, self._times = {}, {}
        for number, case, weight, seen in keep_rows_before(epoch, folder / "weights.csv", _COLUMNS):
            means = self._means.setdefault(int(number), np.full(len(position), np.nan, dtype=np.float32))
            times = self._times.setdefault(int(number), np.zeros(len(position), dtype=np.int32))
            if weight and case in position:
                means[position[case]], times[position[case]] = float(weight), int(seen)
