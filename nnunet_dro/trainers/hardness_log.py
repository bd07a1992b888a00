"""What a user sees of the hardness while training: hardness.csv, training.csv, hardness.png, one line per epoch."""

import csv
import errno
import io
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.atomic import replacing
from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import HardnessTable, Rule, effective_cases
from nnunet_dro.trainers.hardness_plot import plot_hardness
from nnunet_dro.trainers.weighted_loss import Step

_COLUMNS = ("epoch", "case", "loss", "probability", "draws")


@dataclass(frozen=True)
class EpochSummary:
    """Scalars of one epoch.

    Attributes:
        epoch: Counted from 0, as nnU-Net does.
        effective_cases: exp(entropy) of the sampling probabilities at the end of the epoch.
        clipped_share: Share of the epoch's importance weights that hit the clip, in [0, 1]; NaN without such weights.
        refused_losses: Losses of the epoch that were not finite and not stored.
        mean_loss: Mean of the stale losses; NaN while no case has one.
        robust_loss: What the table's rule makes small, of the stale losses (`Rule.robust_loss`).
        worst_5_percent_bound: Bound on the loss that 5 % of the cases exceed (`Rule.percentile_bound`); infinite where
            the rule gives none.
    """

    epoch: int
    effective_cases: float
    clipped_share: float
    refused_losses: int
    mean_loss: float = math.nan
    robust_loss: float = math.nan
    worst_5_percent_bound: float = math.nan


class HardnessLog:
    """Counts an epoch's draws and weights, and writes what a user looks at.

    Args:
        table: The table of stale losses.
        importance: The importance weights in use, or None.
    """

    def __init__(self, table: HardnessTable, importance: ImportanceWeights | None) -> None:
        self.table = table
        self.importance = importance
        self.summaries: list[EpochSummary] = []
        self._history: dict[int, NDArray[np.float32]] = {}
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._draws = np.zeros(len(self.table), dtype=np.int32)
        self._n_clipped = 0
        self._refused_before = self.table.refused

    def record(self, step: Step) -> None:
        """Count the draws and the clipped weights of one iteration."""
        np.add.at(self._draws, step.indices, 1)
        self._n_clipped += step.n_clipped

    def end_epoch(self, epoch: int, folder: Path) -> EpochSummary:
        """Write the epoch's rows and the picture.

        Args:
            epoch: The epoch that ended, counted from 0.
            folder: Of the fold, where nnU-Net keeps its own log.

        Returns:
            The epoch's scalars.

        Raises:
            OSError: If a file cannot be written; the epoch is recorded all the same.
        """
        probabilities = self.table.probabilities()
        losses = self.table.losses
        draws = self._draws
        summary = EpochSummary(
            epoch=epoch,
            effective_cases=effective_cases(probabilities),
            clipped_share=math.nan if self.importance is None else self._n_clipped / max(1, int(draws.sum())),
            refused_losses=self.table.refused - self._refused_before,
            **_robustness(losses[~np.isnan(losses)], self.table.rule),
        )
        self.summaries = [earlier for earlier in self.summaries if earlier.epoch < epoch] + [summary]
        self._history[epoch] = losses.astype(np.float32)
        self._start_epoch()
        self._append_rows(folder / "hardness.csv", epoch, losses, probabilities, draws)
        self._write_summaries(folder / "training.csv")
        with replacing(folder / "hardness.png") as picture:
            plot_hardness(self._history, self.table.cases, self.summaries, picture)
        return summary

    def line(self, summary: EpochSummary) -> str:
        """One line for nnU-Net's log."""
        losses = self.table.losses
        n = len(losses)
        hardest = sorted(np.flatnonzero(~np.isnan(losses)), key=lambda i: -losses[i])[:5]
        named = ", ".join(f"{self.table.cases[i]} ({losses[i]:.3f})" for i in hardest)
        parts = []
        if not math.isnan(summary.mean_loss):
            parts.append(f"mean loss {summary.mean_loss:.3f}, robust loss {summary.robust_loss:.3f}")
        if math.isfinite(summary.worst_5_percent_bound):
            parts.append(f"at most 5 % of the cases above {summary.worst_5_percent_bound:.3f}")
        parts += [f"effective cases {summary.effective_cases:.1f} of {n}"]
        if self.importance is not None:
            parts.append(f"clipped weights {100 * summary.clipped_share:.1f} %")
        parts.append(f"refused losses {summary.refused_losses}")
        if self.table.n_unseen:
            parts.append(f"never seen {self.table.n_unseen}")
        with_loss = np.flatnonzero(~np.isnan(losses))
        if len(with_loss) and len(outliers := with_loss[self.table.rule.outliers(losses[with_loss])]):
            names = ", ".join(self.table.cases[i] for i in outliers[:20])
            more = f" and {len(outliers) - 20} more" if len(outliers) > 20 else ""
            parts.append(f"set aside as suspected outliers: {names}{more}")
        return "Hardness: " + ", ".join([*parts, f"hardest: {named or 'none yet'}"])

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries: the table and the epochs' scalars."""
        return {"table": self.table.state_dict(), "epochs": [asdict(summary) for summary in self.summaries]}

    def load_state_dict(self, state: Mapping[str, Any]) -> str | None:
        """Go on from a checkpoint; returns one line for the log if the training cases changed since."""
        changed = self.table.load_state_dict(state["table"])
        self.summaries = [EpochSummary(**summary) for summary in state["epochs"]]
        self._start_epoch()
        return changed

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Drop what an earlier, interrupted training wrote from ``epoch`` on, and take over what is before.

        Args:
            epoch: The epoch the training starts with.
            folder: Of the fold.
        """
        path = folder / "hardness.csv"
        if not path.exists():
            return
        text = _complete_lines(path)
        kept = [line for line in text[1:] if int(line.split(",", 1)[0]) < epoch]
        with replacing(path) as partial:
            partial.write_text("".join([*text[:1], *kept]), encoding="utf-8", newline="")
        position = {case: i for i, case in enumerate(self.table.cases)}
        for number, case, loss, *_ in csv.reader(kept):
            losses = self._history.setdefault(int(number), np.full(len(position), np.nan, dtype=np.float32))
            if loss and case in position:
                losses[position[case]] = float(loss)

    def _write_summaries(self, path: Path) -> None:
        """A row per epoch; written anew each time, so it is always that of the checkpoint's training."""
        with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(field.name for field in fields(EpochSummary))
            for summary in self.summaries:
                values = asdict(summary).values()
                writer.writerow("" if isinstance(v, float) and math.isnan(v) else f"{v:.6g}" for v in values)

    def _append_rows(
        self,
        path: Path,
        epoch: int,
        losses: NDArray[np.float64],
        probabilities: NDArray[np.float64],
        draws: NDArray[np.int32],
    ) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not path.exists():
            writer.writerow(_COLUMNS)
        for case, loss, probability, n in zip(self.table.cases, losses, probabilities, draws, strict=True):
            writer.writerow((epoch, case, "" if np.isnan(loss) else f"{loss:.6g}", f"{probability:.6g}", n))
        rows = text.getvalue().encode()
        with path.open("ab", buffering=0) as file:
            start = file.tell()
            if file.write(rows) != len(rows):  # the disk is full: no half epoch, later ones may fit again
                file.truncate(start)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def _robustness(losses: NDArray[np.float64], rule: Rule) -> dict[str, float]:
    if not len(losses):
        return {}
    return {
        "mean_loss": float(losses.mean()),
        "robust_loss": rule.robust_loss(losses),
        "worst_5_percent_bound": rule.percentile_bound(losses, share=0.05),
    }


def _complete_lines(path: Path) -> list[str]:
    """Lines of a hardness.csv, with its header; a last line that was cut off is left out."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
    header = ",".join(_COLUMNS) + "\n"
    return lines if lines[:1] == [header] else [header]
