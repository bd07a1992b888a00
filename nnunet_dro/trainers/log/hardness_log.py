"""The log of the hardness of the cases.

It writes hardness.csv, training.csv and hardness.png, and one line per epoch.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.naming import count, name_some
from nnunet_dro.sampling import UNIFORM, HardnessTable
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.data.subvolumes import Subvolumes
from nnunet_dro.trainers.log import concentration, epoch_table
from nnunet_dro.trainers.log.case_curves import draw_hardness, lowest, save_picture
from nnunet_dro.trainers.log.epoch_log import CaseLog, Row, entry, write_rows

#: Number of suspected outliers that the line of an epoch names.
_N_OUTLIERS = 20

#: A stale loss that is older than so many passes over the data is named. Uniform draws leave none
#: this old.
_OLD_IN_PASSES = 50

#: Number of sub-volumes that are listed after each epoch, hardest first.
_N_SUBVOLUMES_LISTED = 1000


#: What the line of an epoch says of columns of training.csv that have a number.
_MINIMISED = {
    "mean_loss": "mean loss {:.3f}",
    "robust_loss": "robust loss {:.3f}",
    "worst_5_percent_bound": "at most 5 % of the cases above {:.3f}",
    "beta": "beta {:.4g}",
}


class HardnessLog(CaseLog):
    """Counts the draws and clipped weights of an epoch, and writes the hardness of the cases.

    Where sub-volumes are drawn, the hardness of a case is the mean of its sub-volumes, and the
    hardest of these are listed in a file of their own.
    """

    what = "hardness"
    file = "hardness.csv"
    columns = ("epoch", "case", "loss", "probability", "draws")

    def __init__(
        self,
        table: HardnessTable,
        importance: ImportanceWeights | None,
        *,
        groups: Mapping[str, Sequence[str]] | None = None,
        subvolumes: Subvolumes | None = None,
        n_epochs: int | None = None,
    ) -> None:
        cases = table.cases
        #: What the table holds losses of, for messages.
        self.items = "cases"
        if subvolumes is not None:
            cases = subvolumes.cases
            self.items = "sub-volumes"

        super().__init__(cases, n_epochs=n_epochs)
        self.table = table
        self.importance = importance
        self.groups = groups or {}
        self.subvolumes = subvolumes
        #: Draws of each case since the last epoch with rows.
        self._waiting = np.zeros(len(self.cases), dtype=np.int32)
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._draws = np.zeros(len(self.table), dtype=np.int32)
        self._n_clipped = 0
        self._sum_of_weights = 0.0
        self._n_steps = 0
        self._refused_before = self.table.refused

    def record(self, cases: CaseColumns) -> None:
        """Count the draws and clipped weights of one iteration."""
        np.add.at(self._draws, cases.indices, 1)
        self._n_clipped += int(cases.clipped.sum())
        self._sum_of_weights += float(cases.weights.numpy().mean())
        self._n_steps += 1

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        draws = self._per_case(self._draws)
        losses = self._mean_losses()
        self._waiting = self._waiting + draws
        self._remember(epoch, losses, self._waiting)

        row = self._row(epoch, draws, losses)
        line = self._line(row)
        self._start_epoch()

        entries: list[Sequence[object]] = []
        if self._gets_rows(epoch):
            probabilities = self._per_case(self.table.probabilities())
            columns = zip(self.cases, losses, probabilities, self._waiting, strict=True)
            for case, loss, p, n in columns:
                entries.append((epoch, case, entry(loss), entry(p), n))
            self._waiting = np.zeros(len(self.cases), dtype=np.int32)
        return row, line, entries

    def _row(self, epoch: int, draws: NDArray[np.int32], losses: NDArray[np.float64]) -> Row:
        """The scalars of an epoch, from the draws and the mean losses of the cases."""
        table = self.table
        row = epoch_table.row_of(table)
        row["epoch"] = epoch
        row["refused_losses"] = table.refused - self._refused_before
        if self.importance is not None:
            row["clipped_share"] = self._n_clipped / max(1, int(draws.sum()))
            if self._n_steps:
                row["mean_weight"] = self._sum_of_weights / self._n_steps

        # Of uniform draws, chance decides which cases had more.
        if table.rule.needs_losses and table.rule != UNIFORM:
            row |= concentration.falls(self._history, self._times)
        return row | epoch_table.row_of_groups(self.groups, table.rule, draws, losses)

    def _write_others(self, folder: Path) -> None:
        epoch_table.write_table(folder / "training.csv", self.rows)
        if self.subvolumes is not None:
            self._list_subvolumes(folder / "subvolumes.csv")

        if self._is_time_for_a_picture():
            data = (self._history, self.cases, self.rows, len(self.table), self.items)
            with self.pace.drawing():
                save_picture(folder / "hardness.png", draw_hardness, *data)

    def _warnings(self) -> list[str]:
        rule = self.table.rule
        shares: dict[concentration.Group, float] = {}
        if rule.needs_losses:
            shares = self._shares_of_groups()

        n_draws = sum(int(times.sum()) for times in self._times.values())
        return concentration.concentration_warnings(
            self.rows,
            len(self.table),
            rule=rule,
            items=self.items,
            shares=shares,
            n_draws=n_draws / len(self.rows),
        )

    def _shares_of_groups(self) -> dict[concentration.Group, float]:
        """Each group's share of the cases."""
        shares = {}
        for column, group_of_case in self.groups.items():
            share_of_group = pd.Series(group_of_case).value_counts(normalize=True)
            for group, share in share_of_group.sort_index().items():
                shares[column, str(group)] = float(share)
        return shares

    def _per_case(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of the values over the items of each case."""
        if self.subvolumes is None:
            return values

        sums = np.bincount(
            self.subvolumes.case_of,
            weights=values,
            minlength=len(self.cases),
        )
        return sums.astype(values.dtype)

    def _mean_losses(self) -> NDArray[np.float64]:
        """Mean stale loss of each case over its items with a loss; NaN if there is none."""
        losses = self.table.losses
        if self.subvolumes is None:
            return losses

        has_loss = ~np.isnan(losses)
        sums = self._per_case(np.where(has_loss, losses, 0.0))
        counts = self._per_case(has_loss.astype(float))
        return np.asarray(sums / np.where(counts, counts, np.nan))

    def _line(self, row: Row) -> str:
        """What nnU-Net's log says of an epoch."""
        # What is minimised, and how.
        parts = [
            text.format(row[column])
            for column, text in _MINIMISED.items()
            if math.isfinite(row[column])
        ]

        # What was drawn, and with which weights.
        n_effective = row["effective_cases"]
        parts.append(f"effective {self.items} {n_effective:.1f} of {len(self.table)}")
        clipped_share = row["clipped_share"]
        if not math.isnan(clipped_share):
            parts.append(f"clipped weights {100 * clipped_share:.1f} %")

        # Which losses the table has, and which it lacks.
        parts.append(f"refused losses {row['refused_losses']}")
        n_unseen = self.table.n_unseen
        if n_unseen:
            parts.append(f"never seen {n_unseen}")
        parts += self._stalest()
        parts += self._outliers()
        parts.append(self._hardest())
        return "Hardness: " + ", ".join(parts)

    def _stalest(self) -> list[str]:
        """The item with the oldest stale loss, if that is notably old."""
        table = self.table
        ages = table.staleness
        n_draws = int(self._draws.sum())
        if table.n_unseen or not n_draws or np.isnan(ages).all():
            return []

        oldest = int(np.nanargmax(ages))
        age = int(ages[oldest])
        iterations_of_a_pass = len(table) * self._n_steps / n_draws
        if age <= _OLD_IN_PASSES * iterations_of_a_pass:
            return []
        return [f"oldest loss {table.cases[oldest]} ({count(age, 'iteration')})"]

    def _outliers(self) -> list[str]:
        """The items that the rule sets aside, if there are any."""
        table = self.table
        outliers = [table.cases[i] for i in table.rule.outliers(table.losses)]
        if not outliers:
            return []

        return [f"set aside as suspected outliers: {name_some(outliers, at_most=_N_OUTLIERS)}"]

    def _hardest(self) -> str:
        """The items with the largest losses."""
        losses = self.table.losses
        descriptions = [f"{self.table.cases[i]} ({losses[i]:.3f})" for i in lowest(-losses)]
        return "hardest: " + (", ".join(descriptions) or "none yet")

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint: the table, the scalars of the epochs, and draws without rows."""
        waiting = dict(zip(self.cases, self._waiting.tolist(), strict=True))
        return {
            "table": self.table.state_dict(),
            "epochs": list(self.rows),
            "draws_without_rows": {case: n for case, n in waiting.items() if n},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> str | None:
        """Continue from a checkpoint, and return a line for the log if the cases changed since."""
        changed = self.table.load_state_dict(state["table"])
        self.rows = [epoch_table.saved_row(epoch) for epoch in state["epochs"]]
        waiting = state.get("draws_without_rows", {})  # version 0.3 wrote the rows of all epochs
        self._waiting = np.array([waiting.get(case, 0) for case in self.cases], dtype=np.int32)
        self._start_epoch()
        return changed

    def _list_subvolumes(self, path: Path) -> None:
        """Write the hardest sub-volumes at the end of the last epoch."""
        table = self.table
        probabilities = table.probabilities()
        losses = table.losses
        # Sub-volumes without a loss come last.
        hardness = np.where(np.isnan(losses), -np.inf, losses)
        hardest = np.argsort(-hardness, kind="stable")[:_N_SUBVOLUMES_LISTED]

        rows = [(table.cases[i], entry(losses[i]), entry(probabilities[i])) for i in hardest]
        write_rows(path, ("subvolume", "loss", "probability"), rows)
