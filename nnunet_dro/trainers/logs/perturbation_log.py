"""The log of generated batches: perturbations.csv, perturbation.png, and one line per epoch."""

import math
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nnunet_dro.files.atomic import replacing
from nnunet_dro.trainers.logs.epoch_rows import append_rows, entry, keep_rows_before
from nnunet_dro.trainers.logs.epoch_summary import PerturbationSummary
from nnunet_dro.trainers.logs.perturbation_plot import Example, plot_example
from nnunet_dro.trainers.perturbation import Perturbed

_COLUMNS = tuple(field.name for field in fields(PerturbationSummary))


class PerturbationLog:
    """Collects the perturbations of an epoch and writes their means and an example; an `EpochLog`.

    Args:
        steps: T, number of steps of the inner maximisation.
    """

    what = "perturbations"

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.summaries: list[PerturbationSummary] = []
        self.example: Example | None = None
        self._cases: list[Tensor] = []

    def record(self, step: Perturbed) -> None:
        """Add the numbers of one iteration. They stay on their device, so that the training does not wait for it."""
        columns = (
            step.change,
            step.feature_distance,
            step.surrogate_before,
            step.surrogate_after,
            step.n_rejected,
            step.is_non_finite.float(),
        )
        self._cases.append(torch.stack(columns, 1))

    def end_epoch(self, epoch: int, folder: Path) -> PerturbationSummary:
        """Append the epoch to perturbations.csv, and replace perturbation.png by its example.

        Args:
            epoch: Number of the epoch that ended, from 0.
            folder: Folder of the fold, where nnU-Net keeps its own log.

        Returns:
            The summary of the epoch.

        Raises:
            OSError: If a file cannot be written; ``summaries`` has the epoch all the same.
        """
        summary, example = self._summary(epoch), self.example
        self.summaries = [earlier for earlier in self.summaries if earlier.epoch < epoch] + [summary]
        self._cases, self.example = [], None
        row = [entry(value) if isinstance(value, float) else str(value) for value in astuple(summary)]
        append_rows(folder / "perturbations.csv", _COLUMNS, [row])
        if example is not None:
            with replacing(folder / "perturbation.png") as picture:
                plot_example(example, picture, title=f"{example.case}, epoch {summary.epoch}")
        return summary

    def _summary(self, epoch: int) -> PerturbationSummary:
        cases = torch.cat([*self._cases, torch.empty(0, 6, device=self._cases[0].device if self._cases else None)])
        change, distance, before, after, rejected, non_finite = cases.cpu().double().numpy().T
        return PerturbationSummary(
            epoch=epoch,
            mean_change=_mean(change),
            max_change=float(change.max()) if len(change) else math.nan,
            mean_feature_distance=_mean(distance),
            surrogate_before=_mean(before),
            surrogate_after=_mean(after),
            rejected_share=_mean(rejected) / self.steps,
            non_finite=int(non_finite.sum()),
        )

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Continue the files of an interrupted training, without its epochs from ``epoch`` on."""
        keep_rows_before(epoch, folder / "perturbations.csv", _COLUMNS)


def _mean(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan
