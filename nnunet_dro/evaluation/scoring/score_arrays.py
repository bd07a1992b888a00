"""The scores of a pair of label maps, a row per label."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnunet_dro.arrays import BoolArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.foreground import Box, Foreground, Runs, enclosing
from nnunet_dro.evaluation.scoring.grid import Grid, IntegerArray
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.lesion_scores import score_lesions
from nnunet_dro.evaluation.scoring.metrics import BETTI_ERRORS, METRICS
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.scoring.surfaces import SurfaceDistances
from nnunet_dro.evaluation.scoring.topology import betti_errors, centreline_dice


@dataclass(frozen=True, eq=False)
class PairOfMaps:
    """Two label maps (z, y, x) on one grid, the labels to score in them, and how."""

    foreground: Foreground  # of both
    grid: Grid
    labels: Labels
    scoring: Scoring

    def around(self, label: str, margin: int = 0) -> Box:
        """The smallest box that holds a label in both maps, with a margin where there is room."""
        boxes = self.foreground.boxes
        values = self.labels.values[label]
        sides = enclosing(boxes[value] for value in values if value in boxes)

        box = []
        for side, length in zip(sides, self.foreground.shape, strict=True):
            begin = max(0, side.start - margin)
            box.append(slice(begin, min(length, side.stop + margin)))
        return tuple(box)

    def masks(self, label: str, around: Box) -> tuple[BoolArray, BoolArray]:
        """A label in a box of both maps that holds it; ignored voxels are not predicted."""
        values = self.labels.values[label]
        return self.foreground.masks(values, around, ignore=self.labels.ignore)


def score_case(
    reference: IntegerArray,
    prediction: IntegerArray,
    labels: Labels,
    scoring: Scoring | None = None,
    *,
    spacing: tuple[float, ...] = (1.0, 1.0, 1.0),
) -> list[dict[str, Any]]:
    """Scores of one case, a row per label.

    Args:
        reference: Label map (z, y, x) or (y, x).
        prediction: Label map, same shape.
        labels: The labels to score.
        scoring: The metrics and their options; default: Dice.
        spacing: Voxel size along the axes, mm; only distances and volumes depend on it.

    Returns:
        A row per label: ``label``, the metrics (NaN where undefined; see `Scoring`), and
        ``n_reference``, ``n_prediction`` and ``n_intersection`` (voxels).

    Raises:
        ValueError: If the shapes differ, or the background is part of a label.

    Example:
        >>> reference, prediction = np.array([[1, 1, 0, 2]]), np.array([[1, 0, 0, 2]])
        >>> rows = score_case(reference, prediction, Labels({"liver": (1,), "tumour": (2,)}))
        >>> [(row["label"], round(row["dice"], 3)) for row in rows]
        [('liver', 0.667), ('tumour', 1.0)]
    """
    if reference.shape != prediction.shape:
        raise InputError(
            "prediction",
            must=f"be of the reference's shape {reference.shape}",
            got=prediction.shape,
        )

    shape = (1,) * (3 - reference.ndim) + reference.shape
    reference = reference.reshape(shape)
    prediction = prediction.reshape(shape)
    z, y, x = (1.0,) * (3 - len(spacing)) + tuple(spacing)
    pair = PairOfMaps(
        foreground=Foreground.of(Runs.of(reference), Runs.of(prediction)),
        grid=Grid(shape, np.diag([x, y, z, 1.0])),
        labels=labels,
        scoring=scoring or Scoring(),
    )
    rows = score_volumes(pair)
    add_lesions(rows, pair)
    return rows


def score_volumes(pair: PairOfMaps) -> list[dict[str, Any]]:
    """The rows that `score_case` returns, without the metrics on lesions."""
    scoring = pair.scoring
    counts = pair.foreground.counts
    n_voxels = counts.n_voxels
    if pair.labels.ignore is not None:
        is_ignored = counts.reference == pair.labels.ignore
        n_voxels = np.where(is_ignored, 0, n_voxels)
    on_shape = any(METRICS[metric].on_shape for metric in scoring.metrics)

    rows = []
    for label, values in pair.labels.values.items():
        # Of the background, only what is near a label was counted.
        if 0 in values:
            raise InputError(
                "labels",
                must="be without the background, 0, to be scored",
                got=f"{values!r} for {label!r}",
                cure="Take it out of the label in dataset.json.",
            )
        in_reference = np.isin(counts.reference, values)
        in_prediction = np.isin(counts.prediction, values)
        in_both = in_reference & in_prediction
        n_reference = int(n_voxels[in_reference].sum())
        n_prediction = int(n_voxels[in_prediction].sum())
        n_intersection = int(n_voxels[in_both].sum())

        row: dict[str, Any] = {"label": label}
        row |= scoring.of_counts(
            n_reference,
            n_prediction,
            n_intersection,
            grid=pair.grid,
        )
        row |= {
            "n_reference": n_reference,
            "n_prediction": n_prediction,
            "n_intersection": n_intersection,
        }
        if on_shape and (n_reference or n_prediction):
            row |= _on_shape(pair, label)
        rows.append(row)
    return rows


def _on_shape(pair: PairOfMaps, label: str) -> dict[str, float]:
    """The metrics on the borders and the topology of a label that at least one map has."""
    metrics = pair.scoring.metrics
    in_reference, in_prediction = pair.masks(label, pair.around(label))

    values: dict[str, float] = {}
    if not set(metrics).isdisjoint(BETTI_ERRORS):
        errors = betti_errors(in_reference, in_prediction)
        values |= {name: error for name, error in errors.items() if name in metrics}
    if not (in_reference.any() and in_prediction.any()):
        return values

    if "cldice" in metrics:
        values["cldice"] = centreline_dice(in_reference, in_prediction, flat=pair.grid.flat)
    if any(METRICS[metric].on_surfaces for metric in metrics):
        values |= _distances(in_reference, in_prediction, pair)
    return values


def _distances(
    in_reference: BoolArray, in_prediction: BoolArray, pair: PairOfMaps
) -> dict[str, float]:
    """The surface metrics of a label that both maps have."""
    scoring = pair.scoring
    distances = SurfaceDistances.on(
        pair.grid,
        in_reference,
        in_prediction,
        at_least_mm=_needed_up_to_mm(scoring),
    )

    wanted = [
        metric for metric in ("hd95", "hd95_pooled", "hd", "assd") if metric in scoring.metrics
    ]
    values: dict[str, float] = {metric: getattr(distances, metric)() for metric in wanted}
    if "nsd" in scoring.metrics:
        values["nsd"] = distances.nsd(scoring.nsd_tolerance_mm)
    return values


def _needed_up_to_mm(scoring: Scoring) -> float:
    """The length up to which every distance has to be found, mm.

    Percentiles need no distance in particular.
    """
    if "hd" in scoring.metrics or "assd" in scoring.metrics:
        return math.inf
    if "nsd" in scoring.metrics:
        return scoring.nsd_tolerance_mm
    return 0.0


def add_lesions(rows: list[dict[str, Any]], pair: PairOfMaps) -> list[dict[str, Any]]:
    """Fill the metrics on lesions into rows, and list the lesions."""
    lesions: list[dict[str, Any]] = []
    scoring = pair.scoring
    if scoring.instances is None:
        return lesions

    rule = scoring.instances.rule
    margin = rule.n_dilations if rule.name == "brats" else 0
    for row in rows:
        label = row["label"]
        if not scoring.has_lesions(label):
            continue
        row |= scoring.without_lesions()
        if not (row["n_reference"] or row["n_prediction"]):
            continue

        around = pair.around(label, margin)
        in_reference, in_prediction = pair.masks(label, around)
        values, rows_of_lesions = score_lesions(
            in_reference,
            in_prediction,
            scoring,
            scoring.instances,
            pair.grid,
            corner=[side.start for side in around],
        )
        row |= values
        lesions += [{"label": label, **lesion} for lesion in rows_of_lesions]
    return lesions
