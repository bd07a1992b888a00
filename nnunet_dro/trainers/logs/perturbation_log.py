"""What a user sees of generated batches while training: perturbations.csv, perturbation.png, one line per epoch."""

import math
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from nnunet_dro.atomic import replacing
from nnunet_dro.trainers.logs.epoch_rows import append_rows, entry, keep_rows_before
from nnunet_dro.trainers.perturbation import Perturbed

#: Colours of contours that the colour-blind can tell apart, on grey (Okabe and Ito).
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#D55E00", "#CC79A7")


@dataclass(frozen=True)
class PerturbationSummary:
    """Scalars of one epoch, over the cases of this process.

    Attributes:
        epoch: Counted from 0, as nnU-Net does.
        mean_change: Mean over cases of the root mean square change of a voxel, in units of the normalised images
            (standard deviations, for most of nnU-Net's normalisations).
        max_change: Largest of these.
        mean_feature_distance: Mean over cases of the root mean square of ||z - z_0|| over voxels.
        surrogate_before: Mean of l, at the original images.
        surrogate_after: Mean of l - gamma/2 ||z - z_0||^2, at the generated ones.
        rejected_share: Share of the steps that were taken back, in [0, 1].
        non_finite: Cases for which a loss, feature or gradient was not finite.
    """

    epoch: int
    mean_change: float
    max_change: float
    mean_feature_distance: float
    surrogate_before: float
    surrogate_after: float
    rejected_share: float
    non_finite: int

    def line(self) -> str:
        """One line for nnU-Net's log."""
        return (
            f"Perturbation: root mean square change of the images {self.mean_change:.3g}, at most "
            f"{self.max_change:.3g}, of the features {self.mean_feature_distance:.3g}, "
            f"surrogate {self.surrogate_before:.3f} -> {self.surrogate_after:.3f}, "
            f"steps taken back {100 * self.rejected_share:.0f} %, not finite {self.non_finite}"
        )


_COLUMNS = tuple(field.name for field in fields(PerturbationSummary))


@dataclass(frozen=True)
class Example:
    """One slice of one case, on the CPU; a, b are its height and width.

    Attributes:
        case: Its name.
        original: First channel before, shape (a, b).
        generated: First channel after.
        labels: Label map, 0 for background; overlapping regions are counted.
    """

    case: str
    original: NDArray[np.float32]
    generated: NDArray[np.float32]
    labels: NDArray[np.int64]


class PerturbationLog:
    """Collects an epoch's perturbations and writes what a user looks at.

    Args:
        steps: T of the inner maximisation.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.example: Example | None = None
        self._cases: list[Tensor] = []

    def record(self, perturbed: Perturbed) -> None:
        """Remember the numbers of one batch; they stay on their device, so that nobody waits for it."""
        columns = (
            perturbed.change,
            perturbed.feature_distance,
            perturbed.surrogate_before,
            perturbed.surrogate_after,
            perturbed.n_rejected,
            perturbed.is_non_finite.float(),
        )
        self._cases.append(torch.stack(columns, 1))

    def end_epoch(self, epoch: int) -> PerturbationSummary:
        """The epoch's scalars; what is recorded from now on belongs to the next."""
        cases = torch.cat([*self._cases, torch.empty(0, 6, device=self._cases[0].device if self._cases else None)])
        change, distance, before, after, rejected, non_finite = cases.cpu().double().numpy().T
        self._cases = []
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

    def write(self, summary: PerturbationSummary, folder: Path) -> None:
        """Append to perturbations.csv, and replace perturbation.png by the epoch's example.

        Raises:
            OSError: If a file cannot be written.
        """
        example, self.example = self.example, None
        row = [entry(value) if isinstance(value, float) else str(value) for value in astuple(summary)]
        append_rows(folder / "perturbations.csv", _COLUMNS, [row])
        if example is not None:
            with replacing(folder / "perturbation.png") as picture:
                plot_example(example, picture, title=f"{example.case}, epoch {summary.epoch}")

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Drop what an earlier, interrupted training wrote from ``epoch`` on."""
        keep_rows_before(epoch, folder / "perturbations.csv", _COLUMNS)


def make_example(
    original: Tensor, generated: Tensor, target: Tensor, names: list[str], *, ignore_label: int | None, regions: bool
) -> Example:
    """The slice with most foreground of the case that has most; of several the one nearest to the middle.

    Args:
        original: Batch before, shape (b, channels, *spatial), two or three spatial axes.
        generated: Batch after.
        target: Reference of full resolution, shape (b, 1, *spatial), or (b, regions [+ 1 to ignore], *spatial).
        names: Of the b cases.
        ignore_label: Is no foreground. With regions any value says that the last channel marks what to ignore.
        regions: Whether the target has regions.
    """
    if regions:
        labels = (target if ignore_label is None else target[:, :-1]).long().sum(1)
    else:
        labels = target[:, 0].long()
        if ignore_label is not None:
            labels = labels.masked_fill(labels == ignore_label, 0)
    i = int((labels > 0).flatten(1).sum(1).argmax())
    before, after, label_map = (
        values.detach().cpu().numpy() for values in (original[i, 0], generated[i, 0], labels[i])
    )
    if label_map.ndim == 3:
        foreground = (label_map > 0).sum((1, 2))
        off_centre = np.abs(np.arange(len(foreground)) - (len(foreground) - 1) / 2)
        s = np.lexsort((off_centre, -foreground))[0]
        before, after, label_map = before[s], after[s], label_map[s]
    return Example(names[i], before.astype(np.float32), after.astype(np.float32), label_map)


def plot_example(example: Example, path: Path, *, title: str) -> None:
    """Draw original, generated and difference side by side, with the contours of the reference.

    Args:
        example: What to draw.
        path: PNG to write.
        title: Above the picture.
    """
    # nnU-Net's own plots leave their style, with letters for posters, in matplotlib's global settings.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(12, 4.4), layout="constrained")
        panels = figure.subplots(1, 3)
        low, high = np.percentile(example.original, (0.5, 99.5))
        difference = example.generated - example.original
        largest = float(np.abs(difference).max()) or 1.0
        for axes, image, name in zip(
            panels, (example.original, example.generated), ("original", "generated"), strict=False
        ):
            grey = axes.imshow(image, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
            axes.set_title(name)
            _outline(axes, example.labels)
        figure.colorbar(grey, ax=panels[1], shrink=0.8)
        shown = panels[2].imshow(difference, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
        panels[2].set_title(f"difference, root mean square {np.sqrt(np.square(difference).mean()):.3g}")
        _outline(panels[2], example.labels)
        figure.colorbar(shown, ax=panels[2], shrink=0.8)
        for axes in panels:
            axes.set_axis_off()
        figure.suptitle(f"{title} (first channel, normalised as for training)", fontsize=11)
        figure.savefig(path, dpi=110)


def _outline(axes: Axes, labels: NDArray[np.int64]) -> None:
    if min(labels.shape) < 2:
        return
    for value in np.unique(labels[labels > 0]):
        mask = labels == value
        if not mask.all():
            axes.contour(mask, levels=[0.5], colors=_COLOURS[(value - 1) % len(_COLOURS)], linewidths=1.0)


def _mean(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan
