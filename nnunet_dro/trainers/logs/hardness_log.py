"""The log of the hardness of the cases: hardness.csv, training.csv, hardness.png, and one line per epoch."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.files.atomic import replacing
from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import HardnessTable, effective_cases
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.data.subvolumes import Subvolumes
from nnunet_dro.trainers.logs.concentration import concentration_warnings, falls
from nnunet_dro.trainers.logs.epoch_rows import append_rows, entry, keep_rows_before
from nnunet_dro.trainers.logs.epoch_summary import HardnessSummary, TableSummary
from nnunet_dro.trainers.logs.hardness_plot import plot_hardness
from nnunet_dro.trainers.logs.training_csv import (
    group_column,
    group_scalars,
    robustness_of,
    staleness_of,
    write_summaries,
)

_COLUMNS = ("epoch", "case", "loss", "probability", "draws")

#: Number of items that the line of an epoch names, hardest first.
_N_HARDEST = 5

#: A stale loss that is older than so many passes over the data is named. Uniform draws leave none this old.
_OLD_IN_PASSES = 50

#: Number of sub-volumes that are listed after each epoch, hardest first.
_N_SUBVOLUMES_LISTED = 1000


class HardnessLog:
    """Counts the draws and clipped weights of an epoch, and writes the hardness of the cases; an `EpochLog`.

    Args:
        table: The table of stale losses.
        importance: The importance weights in use, or None.
        groups: Groups to report, as the group of each case by column of the case table.
        subvolumes: The sub-volumes, if they are the items of the table; None if these are cases. The loss of a case is
            then the mean loss of its items, its probability and draws are their sums.
    """

    what = "hardness"

    def __init__(
        self,
        table: HardnessTable,
        importance: ImportanceWeights | None,
        *,
        groups: Mapping[str, Sequence[str]] | None = None,
        subvolumes: Subvolumes | None = None,
    ) -> None:
        self.table = table
        self.importance = importance
        self.groups = groups or {}
        self.subvolumes = subvolumes
        self.cases = table.cases if subvolumes is None else subvolumes.cases
        #: What the table holds losses of, for messages.
        self.items = "cases" if subvolumes is None else "sub-volumes"
        self.summaries: list[HardnessSummary] = []
        self._history: dict[int, NDArray[np.float32]] = {}
        self._drawn: dict[int, NDArray[np.float32]] = {}
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._draws = np.zeros(len(self.table), dtype=np.int32)
        self._n_clipped = 0
        self._sum_of_weights, self._n_steps = 0.0, 0
        self._refused_before = self.table.refused

    def record(self, cases: CaseColumns) -> None:
        """Count the draws and clipped weights of one iteration."""
        np.add.at(self._draws, cases.indices, 1)
        self._n_clipped += int(cases.clipped.sum())
        self._sum_of_weights += float(cases.weights.numpy().mean())
        self._n_steps += 1

    def end_epoch(self, epoch: int, folder: Path) -> HardnessSummary:
        """Write the rows of the epoch, and the picture.

        Args:
            epoch: Number of the epoch that ended, from 0.
            folder: Folder of the fold, where nnU-Net keeps its own log.

        Returns:
            The summary of the epoch.

        Raises:
            OSError: If a file cannot be written; ``summaries`` has the epoch all the same.
        """
        probabilities = self.table.probabilities()
        draws, losses = self._per_case(self._draws), self._mean_losses()
        weighs = self.importance is not None
        self._history[epoch], self._drawn[epoch] = losses.astype(np.float32), draws.astype(np.float32)
        summary = HardnessSummary(
            epoch=epoch,
            effective_cases=effective_cases(probabilities),
            clipped_share=self._n_clipped / max(1, int(draws.sum())) if weighs else math.nan,
            refused_losses=self.table.refused - self._refused_before,
            mean_weight=self._sum_of_weights / self._n_steps if weighs and self._n_steps else math.nan,
            groups=group_scalars(self.groups, self.table, draws, losses),
            n_draws=int(draws.sum()),
            table=self._table_summary(),
            **robustness_of(self.table),
            **staleness_of(self.table),
            **(falls(self._history, self._drawn) if self.table.rule.needs_losses else {}),
        )
        self.summaries = [earlier for earlier in self.summaries if earlier.epoch < epoch] + [summary]
        self._start_epoch()
        columns = zip(self.cases, losses, self._per_case(probabilities), draws, strict=True)
        rows = ((epoch, case, entry(loss), f"{probability:.6g}", n) for case, loss, probability, n in columns)
        append_rows(folder / "hardness.csv", _COLUMNS, rows)
        write_summaries(folder / "training.csv", self.summaries)
        if self.subvolumes is not None:
            self._list_subvolumes(folder / "subvolumes.csv", probabilities)
        with replacing(folder / "hardness.png") as picture:
            plot_hardness(self._history, self.cases, self.summaries, picture)
        return summary

    def warnings(self) -> list[str]:
        """What the last epoch warns of; see `concentration_warnings`."""
        shares = {}
        if self.table.rule.needs_losses:
            for column, of_case in self.groups.items():
                for group, n in zip(*np.unique(np.asarray(of_case, dtype=str), return_counts=True), strict=True):
                    shares[group_column("draws", column, group)] = float(n / len(self.cases))
        return concentration_warnings(self.summaries, len(self.table), shares=shares)

    def _per_case(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of the values over the items of each case."""
        if self.subvolumes is None:
            return values
        sums = np.bincount(self.subvolumes.case_of, weights=values, minlength=len(self.cases))
        return sums.astype(values.dtype)

    def _mean_losses(self) -> NDArray[np.float64]:
        """Mean stale loss of each case over its items with a loss; NaN if there is none."""
        losses = self.table.losses
        if self.subvolumes is None:
            return losses
        known = ~np.isnan(losses)
        with np.errstate(invalid="ignore"):
            return np.asarray(self._per_case(np.where(known, losses, 0.0)) / self._per_case(known.astype(float)))

    def _table_summary(self) -> TableSummary:
        losses, names = self.table.losses, self.table.cases
        hardest = sorted(np.flatnonzero(~np.isnan(losses)), key=lambda i: -losses[i])[:_N_HARDEST]
        return TableSummary(
            n_items=len(names),
            n_unseen=self.table.n_unseen,
            hardest=tuple((names[i], float(losses[i])) for i in hardest),
            stalest=self._stalest(),
            outliers=tuple(names[i] for i in self.table.rule.outliers(losses)),
            items=self.items,
        )

    def _stalest(self) -> tuple[str, int] | None:
        ages, n_draws = self.table.staleness, int(self._draws.sum())
        if self.table.n_unseen or not n_draws or np.isnan(ages).all():
            return None
        oldest = int(np.nanargmax(ages))
        iterations_of_a_pass = len(self.table) * self._n_steps / n_draws
        if ages[oldest] <= _OLD_IN_PASSES * iterations_of_a_pass:
            return None
        return self.table.cases[oldest], int(ages[oldest])

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint: the table, and the scalars of the epochs."""
        return {"table": self.table.state_dict(), "epochs": [summary.state_dict() for summary in self.summaries]}

    def load_state_dict(self, state: Mapping[str, Any]) -> str | None:
        """Continue from a checkpoint; returns one line for the log if the training cases changed since."""
        changed = self.table.load_state_dict(state["table"])
        self.summaries = [HardnessSummary(**summary) for summary in state["epochs"]]
        self._start_epoch()
        return changed

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Continue the files of an interrupted training, without its epochs from ``epoch`` on.

        Args:
            epoch: The epoch that the training starts with.
            folder: Folder of the fold.
        """
        position = {case: i for i, case in enumerate(self.cases)}
        for number, case, loss, _, n in keep_rows_before(epoch, folder / "hardness.csv", _COLUMNS):
            losses = self._history.setdefault(int(number), np.full(len(position), np.nan, dtype=np.float32))
            draws = self._drawn.setdefault(int(number), np.zeros(len(position), dtype=np.float32))
            if case in position:
                draws[position[case]] = float(n)
                if loss:
                    losses[position[case]] = float(loss)

    def _list_subvolumes(self, path: Path, probabilities: NDArray[np.float64]) -> None:
        """Write the hardest sub-volumes at the end of the last epoch."""
        losses = self.table.losses
        hardest = np.argsort(-np.where(np.isnan(losses), -np.inf, losses), kind="stable")[:_N_SUBVOLUMES_LISTED]
        with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("subvolume", "loss", "probability"))
            for i in hardest:
                writer.writerow((self.table.cases[i], entry(losses[i]), f"{probabilities[i]:.6g}"))
