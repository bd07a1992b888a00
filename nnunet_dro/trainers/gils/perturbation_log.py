"""The log of generated batches: perturbations.csv, perturbation.png, and one line per epoch."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from nnunet_dro.trainers.gils.perturbation import Perturbed
from nnunet_dro.trainers.log.case_curves import save_picture
from nnunet_dro.trainers.log.epoch_log import Row, TrainingLog, entry

#: Colours of contours on grey, which colour-blind people can tell apart (Okabe and Ito).
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#D55E00", "#CC79A7")


class PerturbationLog(TrainingLog):
    """Collects the perturbations of an epoch, and writes their means and an example.

    It knows the cases of this process. Changes are root mean squares over voxels, of the normalised
    images and of the features. The surrogate is l at the original images and
    l - gamma/2 ||z - z_0||^2 at the generated ones. The last columns are the share of the steps
    that were taken back, and the number of cases with a loss, feature or gradient that was not
    finite.

    Args:
        steps: T of the inner maximisation.
    """

    what = "perturbations"
    file = "perturbations.csv"
    columns = (
        "epoch",
        "mean_change",
        "max_change",
        "mean_feature_distance",
        "surrogate_before",
        "surrogate_after",
        "rejected_share",
        "non_finite",
    )

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.example: Example | None = None
        self._shown: Example | None = None
        self._cases: list[Tensor] = []

    def record(self, step: Perturbed) -> None:
        """Add the numbers of one iteration.

        They stay on their device, so that the training does not wait for it.
        """
        all_but_images = fields(step)[1:]
        columns = [getattr(step, field.name).float() for field in all_but_images]
        self._cases.append(torch.stack(columns, 1))

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        cases = np.empty((0, 6))
        if self._cases:
            cases = torch.cat(self._cases).cpu().double().numpy()
        change, distance, before, after, n_rejected, non_finite = cases.T

        row: Row = {
            "epoch": epoch,
            "mean_change": _mean(change),
            "max_change": float(change.max()) if len(change) else math.nan,
            "mean_feature_distance": _mean(distance),
            "surrogate_before": _mean(before),
            "surrogate_after": _mean(after),
            "rejected_share": _mean(n_rejected) / self.steps,
            "non_finite": int(non_finite.sum()),
        }
        self._cases = []
        self._shown = self.example
        self.example = None
        return row, _line(row), [[entry(row[column]) for column in self.columns]]

    def _write_others(self, folder: Path) -> None:
        if self._shown is not None:
            title = f"{self._shown.case}, epoch {self.rows[-1]['epoch']}"
            save_picture(folder / "perturbation.png", draw_example, self._shown, title)


def _line(row: Row) -> str:
    if math.isnan(row["mean_change"]) and not row["non_finite"]:
        return "Perturbation: no batch was generated in this epoch"
    return (
        f"Perturbation: root mean square change of the images {row['mean_change']:.3g}, at most "
        f"{row['max_change']:.3g}, of the features {row['mean_feature_distance']:.3g}, "
        f"surrogate {row['surrogate_before']:.3f} -> {row['surrogate_after']:.3f}, "
        f"steps taken back {100 * row['rejected_share']:.0f} %, not finite {row['non_finite']}"
    )


def _mean(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


@dataclass(frozen=True)
class Example:
    """One slice of one case: the first channel of its images, and its labels, each of shape (a, b).

    With regions, the labels are the number of regions at each voxel.
    """

    case: str
    original: NDArray[np.float32]
    generated: NDArray[np.float32]
    labels: NDArray[np.int64]


def make_example(
    original: Tensor,
    generated: Tensor,
    target: Tensor,
    names: list[str],
    *,
    ignore_label: int | None,
    regions: bool,
) -> Example:
    """Pick a slice of a batch: that with most foreground, of the case with most foreground.

    Of several such slices it is the one nearest to the middle.
    """
    labels = _labels(target, ignore_label=ignore_label, regions=regions)
    case = int((labels > 0).flatten(1).sum(1).argmax())
    label_map = labels[case].cpu().numpy()
    before = original[case, 0].detach().cpu().numpy()
    after = generated[case, 0].detach().cpu().numpy()

    if label_map.ndim == 3:
        foreground = (label_map > 0).sum((1, 2))
        off_centre = np.abs(np.arange(len(foreground)) - (len(foreground) - 1) / 2)
        middle = np.lexsort((off_centre, -foreground))[0]
        before = before[middle]
        after = after[middle]
        label_map = label_map[middle]
    return Example(names[case], before.astype(np.float32), after.astype(np.float32), label_map)


def _labels(target: Tensor, *, ignore_label: int | None, regions: bool) -> Tensor:
    """A label for each voxel, 0 where none is known; with regions, how many of them there are."""
    if regions:
        if ignore_label is not None:
            target = target[:, :-1]  # the last channel masks the ignored voxels
        return target.long().sum(1)

    labels = target[:, 0].long()
    if ignore_label is not None:
        labels = labels.masked_fill(labels == ignore_label, 0)
    return labels


def draw_example(example: Example, title: str) -> Figure:
    """Draw the original, the generated image and their difference, with contours of the labels."""
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    panels = figure.subplots(1, 3)

    low, high = np.percentile(example.original, (0.5, 99.5))
    images = {"original": example.original, "generated": example.generated}
    for axes, (name, image) in zip(panels, images.items(), strict=False):
        grey = axes.imshow(image, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
        axes.set_title(name)
    figure.colorbar(grey, ax=panels[1], shrink=0.8)

    difference = example.generated - example.original
    largest = float(np.abs(difference).max()) or 1.0
    shown = panels[2].imshow(
        difference,
        cmap="RdBu_r",
        vmin=-largest,
        vmax=largest,
        interpolation="nearest",
    )
    root_mean_square = np.sqrt(np.square(difference).mean())
    panels[2].set_title(f"difference, root mean square {root_mean_square:.3g}")
    figure.colorbar(shown, ax=panels[2], shrink=0.8)

    for axes in panels:
        _outline(axes, example.labels)
        axes.set_axis_off()
    figure.suptitle(f"{title} (first channel, normalised as for training)", fontsize=11)
    return figure


def _outline(axes: Axes, labels: NDArray[np.int64]) -> None:
    """Draw the contour of each label, which needs a slice of at least two voxels in each axis."""
    if min(labels.shape) < 2:
        return

    for value in np.unique(labels[labels > 0]):
        mask = labels == value
        if not mask.all():
            colour = _COLOURS[(value - 1) % len(_COLOURS)]
            axes.contour(mask, levels=[0.5], colors=colour, linewidths=1.0)
