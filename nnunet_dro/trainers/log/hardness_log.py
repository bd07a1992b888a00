"""The log of the hardness of the cases.

Hardness.csv, training.csv, hardness.png, and one line per epoch.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import ByWeight, EarnedBall, HardnessTable
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.data.subvolumes import Subvolumes
from nnunet_dro.trainers.log import epoch_table
from nnunet_dro.trainers.log.case_curves import draw_hardness, save_picture
from nnunet_dro.trainers.log.epoch_log import CaseLog, Row, entry, write_rows

# Number of items that the line of an epoch names, hardest first, and of outliers.
_N_HARDEST = 5
_N_OUTLIERS = 20

#: A stale loss that is older than so many passes over the data is named. Uniform draws leave none
#: this old.
_OLD_IN_PASSES = 50

_N_SUBVOLUMES_LISTED = (
    1000  # Number of sub-volumes that are listed after each epoch, hardest first.
)


class HardnessLog(CaseLog):
    """Counts the draws and clipped weights of an epoch, and writes the hardness of cases, or of their sub-volumes."""

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
    ) -> None:
        super().__init__(table.cases if subvolumes is None else subvolumes.cases)
        self.table = table
        self.importance = importance
        self.groups = groups or {}
        self.subvolumes = subvolumes
        #: What the table holds losses of, for messages.
        self.items = "cases" if subvolumes is None else "sub-volumes"
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._draws = np.zeros(len(self.table), dtype=np.int32)
        self._n_clipped = 0
        self._sum_of_weights, self._n_steps = 0.0, 0
        self._refused_before = self.table.refused

    def how_cases_are_drawn(self, *, uniformly: bool) -> str:
        """One line for the log at the start of a training."""
        table = self.table
        importance = self.importance
        cases = f"{len(table)} {self.items} ({table.n_unseen} never seen)"
        if uniformly:
            return f"Cases are drawn uniformly: {cases}"
        clip = (
            "none"
            if importance is None
            else f"clipped to [{importance.low:g}, {importance.high:g}]"
        )
        static = f"Cases are drawn by {'weight' if isinstance(table.rule, ByWeight) else 'group'}"
        what = "Hardness weighted sampling" if table.rule.needs_losses else static
        return (
            f"{what}: {cases}, {table.rule}, importance weights {clip}, momentum of the losses {table.momentum:g}, "
            f"share of uniform draws {table.exploration:g}"
        )

    def what_earned_nothing(self) -> str | None:
        """One line for the log at the end of a training, if an earned share has come to nothing.

        Else None.
        """
        table = self.table
        if (
            not isinstance(table.rule, EarnedBall)
            or table.rule.beta
            or table.n_unseen
            or len(table) == 1
        ):
            return None
        hardest = np.argsort(-np.nan_to_num(table.losses, nan=-np.inf))[:3]
        return (
            "In the end cases were drawn uniformly, because next to nothing is found of the hardest ones: "
            f"{', '.join(f'{table.cases[i]} (loss {table.losses[i]:.2f})' for i in hardest)}. They may be too small or "
            "faint to be learnt, or wrongly labelled: look at them with `nnunet-dro suspects`. If they are neither, "
            "nnUNetTrainerDRO_share0.5 draws them more often all the same."
        )

    def record(self, cases: CaseColumns) -> None:
        """Count the draws and clipped weights of one iteration."""
        np.add.at(self._draws, cases.indices, 1)
        self._n_clipped += int(cases.clipped.sum())
        self._sum_of_weights += float(cases.weights.numpy().mean())
        self._n_steps += 1

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        draws = self._per_case(self._draws)
        losses = self._mean_losses()
        self._history[epoch], self._times[epoch] = losses.astype(np.float32), draws
        rule = self.table.rule
        weighs = self.importance is not None
        row = epoch_table.row_of(
            epoch,
            self.table,
            n_refused=self.table.refused - self._refused_before,
            clipped_share=self._n_clipped / max(1, int(draws.sum())) if weighs else math.nan,
            mean_weight=self._sum_of_weights / self._n_steps
            if weighs and self._n_steps
            else math.nan,
            falls=epoch_table.falls(self._history, self._times) if rule.needs_losses else {},
        )
        row |= epoch_table.row_of_groups(self.groups, rule, draws, losses)
        line = self._line(row)
        self._start_epoch()
        columns = zip(
            self.cases, losses, self._per_case(self.table.probabilities()), draws, strict=True
        )
        return row, line, [(epoch, case, entry(loss), entry(p), n) for case, loss, p, n in columns]

    def _write_others(self, folder: Path) -> None:
        epoch_table.write_table(folder / "training.csv", self.rows)
        if self.subvolumes is not None:
            self._list_subvolumes(folder / "subvolumes.csv")
        save_picture(
            folder / "hardness.png",
            draw_hardness,
            self._history,
            self.cases,
            self.rows,
            len(self.table),
            self.items,
        )

    def _warnings(self) -> list[str]:
        shares = {}
        if self.table.rule.needs_losses:
            for column, of_case in self.groups.items():
                for group, n in zip(
                    *np.unique(np.asarray(of_case, dtype=str), return_counts=True), strict=True
                ):
                    shares[epoch_table.group_column("draws", column, group)] = float(
                        n / len(self.cases)
                    )
        n_draws = {epoch: int(draws.sum()) for epoch, draws in self._times.items()}
        return epoch_table.concentration_warnings(
            self.rows,
            len(self.table),
            rule=self.table.rule,
            items=self.items,
            shares=shares,
            n_draws=n_draws,
        )

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
            return np.asarray(
                self._per_case(np.where(known, losses, 0.0)) / self._per_case(known.astype(float))
            )

    def _line(self, row: Row) -> str:
        losses = self.table.losses
        names = self.table.cases
        parts = []
        if not math.isnan(row["mean_loss"]):
            parts.append(f"mean loss {row['mean_loss']:.3f}, robust loss {row['robust_loss']:.3f}")
        if math.isfinite(bound := row["worst_5_percent_bound"]):
            parts.append(f"at most 5 % of the cases above {bound:.3f}")
        if math.isfinite(row["beta"]):
            parts.append(f"beta {row['beta']:.4g}")
        parts.append(f"effective {self.items} {row['effective_cases']:.1f} of {len(names)}")
        if not math.isnan(row["clipped_share"]):
            parts.append(f"clipped weights {100 * row['clipped_share']:.1f} %")
        parts.append(f"refused losses {row['refused_losses']}")
        if n_unseen := self.table.n_unseen:
            parts.append(f"never seen {n_unseen}")
        parts += self._stalest()
        if outliers := [names[i] for i in self.table.rule.outliers(losses)]:
            more = f" and {len(outliers) - _N_OUTLIERS} more" if len(outliers) > _N_OUTLIERS else ""
            parts.append(
                f"set aside as suspected outliers: {', '.join(outliers[:_N_OUTLIERS])}{more}"
            )
        hardest = sorted(np.flatnonzero(~np.isnan(losses)), key=lambda i: -losses[i])[:_N_HARDEST]
        parts.append(
            f"hardest: {', '.join(f'{names[i]} ({losses[i]:.3f})' for i in hardest) or 'none yet'}"
        )
        return "Hardness: " + ", ".join(parts)

    def _stalest(self) -> list[str]:
        """The item with the oldest stale loss, if that is notably old."""
        ages = self.table.staleness
        n_draws = int(self._draws.sum())
        if self.table.n_unseen or not n_draws or np.isnan(ages).all():
            return []
        oldest = int(np.nanargmax(ages))
        iterations_of_a_pass = len(self.table) * self._n_steps / n_draws
        if ages[oldest] <= _OLD_IN_PASSES * iterations_of_a_pass:
            return []
        return [f"oldest loss {self.table.cases[oldest]} ({int(ages[oldest])} iterations)"]

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint: the table, and the scalars of the epochs."""
        return {"table": self.table.state_dict(), "epochs": list(self.rows)}

    def load_state_dict(self, state: Mapping[str, Any]) -> str | None:
        """Continue from a checkpoint.

        Returns one line for the log if the training cases changed since.
        """
        changed = self.table.load_state_dict(state["table"])
        self.rows = [epoch_table.saved_row(epoch) for epoch in state["epochs"]]
        self._start_epoch()
        return changed

    def _list_subvolumes(self, path: Path) -> None:
        """Write the hardest sub-volumes at the end of the last epoch."""
        losses = self.table.losses
        probabilities = self.table.probabilities()
        hardest = np.argsort(-np.where(np.isnan(losses), -np.inf, losses), kind="stable")[
            :_N_SUBVOLUMES_LISTED
        ]
        rows = ((self.table.cases[i], entry(losses[i]), entry(probabilities[i])) for i in hardest)
        write_rows(path, ("subvolume", "loss", "probability"), rows)
