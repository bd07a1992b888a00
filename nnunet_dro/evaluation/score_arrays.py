"""The scores of a pair of label maps, a row per label, with rules for labels that a map lacks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nnunet_dro.choices import EmptyRule, choice_of
from nnunet_dro.evaluation.foreground import Box, Foreground
from nnunet_dro.evaluation.grid import IntegerArray, diagonal_mm
from nnunet_dro.evaluation.labels import Labels
from nnunet_dro.evaluation.metrics import METRICS, check_metrics

#: The distance that BraTS gives a label that is empty in one of reference and prediction, mm.
BRATS_DISTANCE_MM = 374.0

#: Voxel counts of a row.
COUNTS = ("n_reference", "n_prediction", "n_intersection")

_NAN = float("nan")


@dataclass(frozen=True)
class Scoring:
    """How a pair of label maps is scored.

    Attributes:
        metrics: Names from `METRICS`.
        nsd_tolerance_mm: Border voxels count as agreeing up to this distance, mm, > 0.
        empty: How to score a label that a map lacks. ``undefined``: a label in neither map has no value, one in a
            single map has Dice 0 and no distance. ``one``: a label in neither map has Dice 1 and distance 0. ``brats``:
            as ``one``, and a label in a single map has distance 374 mm. ``diagonal``: as ``undefined``, and a label in
            a single map has the length of the image's diagonal as distance.

    Raises:
        ValueError: If a value is not allowed.
    """

    metrics: tuple[str, ...] = ("dice",)
    nsd_tolerance_mm: float = 1.0
    empty: EmptyRule | str = EmptyRule.UNDEFINED

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", check_metrics(self.metrics))
        if not (np.isfinite(self.nsd_tolerance_mm) and self.nsd_tolerance_mm > 0):
            raise ValueError(f"`nsd_tolerance_mm` must be > 0, got {self.nsd_tolerance_mm!r}. Give millimetres.")
        object.__setattr__(self, "empty", choice_of(EmptyRule, self.empty, name="empty"))

    @property
    def columns(self) -> list[str]:
        """The columns of a row, after ``case``."""
        return ["label", *self.metrics, *COUNTS, "reference_ml", "prediction_ml"]

    def of_counts(
        self, n_reference: int, n_prediction: int, n_intersection: int, *, diagonal_mm: float = _NAN
    ) -> dict[str, float]:
        """The metrics that follow from counts alone; distances are among them only where a map lacks the label."""
        n_both = n_reference + n_prediction
        if n_both == 0:
            is_undefined = self.empty in (EmptyRule.UNDEFINED, EmptyRule.DIAGONAL)
            return {m: _NAN if is_undefined else float(METRICS[m].more_is_better) for m in self.metrics}
        values = {
            "dice": 2 * n_intersection / n_both,
            "iou": n_intersection / (n_both - n_intersection),
            "sensitivity": n_intersection / n_reference if n_reference else _NAN,
            "precision": n_intersection / n_prediction if n_prediction else _NAN,
            "nsd": 0.0,
        }
        distances = {EmptyRule.BRATS: BRATS_DISTANCE_MM, EmptyRule.DIAGONAL: diagonal_mm}
        distance = distances.get(EmptyRule(self.empty), _NAN)
        return {metric: values.get(metric, distance) for metric in self.metrics}

    def worst(self, diagonal_mm: float) -> dict[str, float]:
        """The values of a case without a prediction."""
        distance = BRATS_DISTANCE_MM if self.empty == EmptyRule.BRATS else diagonal_mm
        return {metric: 0.0 if METRICS[metric].more_is_better else distance for metric in self.metrics}


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
        spacing: Voxel size along the axes, mm; only distances depend on it.

    Returns:
        A row per label: ``label``, the metrics (NaN where undefined; see `Scoring`), and ``n_reference``,
        ``n_prediction`` and ``n_intersection`` (voxels).

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> reference, prediction = np.array([[1, 1, 0, 2]]), np.array([[1, 0, 0, 2]])
        >>> rows = score_case(reference, prediction, Labels({"liver": (1,), "tumour": (2,)}))
        >>> [(row["label"], round(row["dice"], 3)) for row in rows]
        [('liver', 0.667), ('tumour', 1.0)]
    """
    if reference.shape != prediction.shape:
        raise ValueError(f"`prediction` must be of the reference's shape {reference.shape}, got {prediction.shape}.")
    shape = (1,) * (3 - reference.ndim) + reference.shape
    reference, prediction = reference.reshape(shape), prediction.reshape(shape)
    size = (*(1.0,) * (3 - len(spacing)), *spacing)
    return score_volumes(
        Foreground.of(reference, prediction), reference, prediction, labels, scoring or Scoring(), size
    )


def score_volumes(
    foreground: Foreground,
    reference: IntegerArray,
    prediction: IntegerArray,
    labels: Labels,
    scoring: Scoring,
    spacing: tuple[float, ...],
) -> list[dict[str, Any]]:
    """As `score_case`, for volumes (z, y, x) whose foreground has been found already."""
    counts = foreground.counts
    n_voxels = counts.n_voxels
    if labels.ignore is not None:
        n_voxels = np.where(counts.reference == labels.ignore, 0, n_voxels)
    diagonal = diagonal_mm(reference.shape, spacing)
    rows = []
    for name, values in labels.values.items():
        in_reference, in_prediction = np.isin(counts.reference, values), np.isin(counts.prediction, values)
        voxels = [int(n_voxels[where].sum()) for where in (in_reference, in_prediction, in_reference & in_prediction)]
        values_of_counts = scoring.of_counts(*voxels, diagonal_mm=diagonal)
        rows.append({"label": name} | values_of_counts | dict(zip(COUNTS, voxels, strict=True)))
    wanted = [metric for metric in scoring.metrics if METRICS[metric].on_surfaces]
    with_surfaces = [row for row in rows if row["n_reference"] and row["n_prediction"]] if wanted else []
    if with_surfaces:
        _add_distances(with_surfaces, foreground.boxes, reference, prediction, labels, scoring, spacing)
    return rows


def _add_distances(
    rows: list[dict[str, Any]],
    boxes: Mapping[int, Box],
    reference: IntegerArray,
    prediction: IntegerArray,
    labels: Labels,
    scoring: Scoring,
    spacing: tuple[float, ...],
) -> None:
    """Fill in the surface metrics of labels that both maps have."""
    from nnunet_dro.evaluation.surfaces import SurfaceDistances

    # An axis of length 1 in the image (not in the box) is not counted as an axis, for otherwise a label one slice thick
    # would be border all over. An image of one voxel keeps one axis.
    flat = tuple(axis for axis, n in enumerate(reference.shape) if n == 1)[:2]
    size = tuple(length for axis, length in enumerate(spacing) if axis not in flat)
    # Metrics of every distance need the whole neighbourhood.
    all_distances = not {"hd", "assd"}.isdisjoint(scoring.metrics)
    asked_up_to = np.inf if all_distances else scoring.nsd_tolerance_mm if "nsd" in scoring.metrics else 0.0
    for row in rows:
        values = labels.values[row["label"]]
        around = _around(boxes[value] for value in values if value in boxes)
        in_reference, in_prediction = (_mask(of_map[around], values) for of_map in (reference, prediction))
        if labels.ignore is not None:
            in_prediction &= reference[around] != labels.ignore
        masks = (np.squeeze(in_reference, flat), np.squeeze(in_prediction, flat))
        distances = SurfaceDistances(*masks, size, at_least_mm=asked_up_to)
        measured: dict[str, Callable[[], float]] = {
            "hd95": distances.hd95,
            "hd95_pooled": distances.hd95_pooled,
            "hd": distances.hd,
            "assd": distances.assd,
            "nsd": partial(distances.nsd, scoring.nsd_tolerance_mm),
        }
        row |= {metric: measured[metric]() for metric in scoring.metrics if metric in measured}


def _mask(values: IntegerArray, wanted: tuple[int, ...]) -> Any:
    mask = values == wanted[0]
    for value in wanted[1:]:
        mask |= values == value
    return mask


def _around(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of these."""
    return tuple(
        slice(min(side.start for side in sides), max(side.stop for side in sides)) for sides in zip(*boxes, strict=True)
    )
