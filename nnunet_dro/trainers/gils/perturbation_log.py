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
from nnunet_dro.trainers.log.epoch_log import EpochLog, Row, entry

#: Colours of contours on grey, which colour-blind people can tell apart (Okabe and Ito).
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#D55E00", "#CC79A7")


class PerturbationLog(EpochLog):
    """Collects the perturbations of an epoch, over the cases of this process, and writes their means and an example.

    Changes are root mean squares over voxels, of the normalised images and of the features; the
    surrogate is l at the original images and l - gamma/2 ||z - z_0||^2 at the generated ones, where
    the last columns count the steps that were taken back and the cases for which a loss, feature or
    gradient was not finite. ``steps`` is T of the inner maximisation.
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
        columns = [
            getattr(step, field.name).float() for field in fields(step)[1:]
        ]  # all but the images
        self._cases.append(torch.stack(columns, 1))

    def _close(self, epoch: int) -> tuple[Row, str, Iterable[Sequence[object]]]:
        cases = torch.cat(
            [*self._cases, torch.empty(0, 6, device=self._cases[0].device if self._cases else None)]
        )
        change, distance, before, after, rejected, non_finite = cases.cpu().double().numpy().T
        largest = float(change.max()) if len(change) else math.nan
        means = (_mean(distance), _mean(before), _mean(after), _mean(rejected) / self.steps)
        values = (epoch, _mean(change), largest, *means, int(non_finite.sum()))
        row: Row = dict(zip(self.columns, values, strict=True))
        self._cases, self._shown, self.example = [], self.example, None
        return row, _line(row), [[entry(value) for value in values]]

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
    """One slice of one case.

    First channels, and labels (for regions their number at each voxel), shape (a, b).
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
    """Pick the slice with most foreground of the case with most foreground, of several the one nearest the middle."""
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
        before = before[s]
        after = after[s]
        label_map = label_map[s]
    return Example(names[i], before.astype(np.float32), after.astype(np.float32), label_map)


def draw_example(example: Example, title: str) -> Figure:
    """Draw the original, the generated image and their difference side by side, with contours of the reference."""
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
    shown = panels[2].imshow(
        difference, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest"
    )
    panels[2].set_title(f"difference, root mean square {np.sqrt(np.square(difference).mean()):.3g}")
    _outline(panels[2], example.labels)
    figure.colorbar(shown, ax=panels[2], shrink=0.8)
    for axes in panels:
        axes.set_axis_off()
    figure.suptitle(f"{title} (first channel, normalised as for training)", fontsize=11)
    return figure


def _outline(axes: Axes, labels: NDArray[np.int64]) -> None:
    if min(labels.shape) < 2:
        return
    for value in np.unique(labels[labels > 0]):
        mask = labels == value
        if not mask.all():
            axes.contour(
                mask, levels=[0.5], colors=_COLOURS[(value - 1) % len(_COLOURS)], linewidths=1.0
            )
