"""The scores of a pair of label maps, a row per label, with rules for labels that a map lacks."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nnunet_dro.choices import EmptyRule, choice_of
from nnunet_dro.evaluation.scoring.foreground import Box, Foreground
from nnunet_dro.evaluation.scoring.grid import Grid, IntegerArray, diagonal_mm
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS, Instances, lesion_metrics, with_lesion_metrics
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.lesion_scores import LesionScoring, score_lesions
from nnunet_dro.evaluation.scoring.metrics import METRICS, check_metrics

#: The distance that BraTS gives a label that is empty in one of reference and prediction, mm.
BRATS_DISTANCE_MM = 374.0

#: Voxel counts of a row.
COUNTS = ("n_reference", "n_prediction", "n_intersection")

#: Numbers of a row that are no metrics, and all that may be in one.
_VOLUMES = ("reference_ml", "prediction_ml")
NUMBERS = (*METRICS, *COUNTS, *_VOLUMES, *LESION_COUNTS)

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
        instances: The labels that are compared lesion by lesion, and how; None for none. Where ``metrics`` has none on
            lesions, some are added.

    Raises:
        ValueError: If a value is not allowed, or a metric is on lesions and there are no instances.
    """

    metrics: tuple[str, ...] = ("dice",)
    nsd_tolerance_mm: float = 1.0
    empty: EmptyRule | str = EmptyRule.UNDEFINED
    instances: Instances | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", with_lesion_metrics(check_metrics(self.metrics), self.instances))
        if not (np.isfinite(self.nsd_tolerance_mm) and self.nsd_tolerance_mm > 0):
            raise ValueError(f"`nsd_tolerance_mm` must be > 0, got {self.nsd_tolerance_mm!r}. Give millimetres.")
        object.__setattr__(self, "empty", choice_of(EmptyRule, self.empty, name="empty"))

    @property
    def columns(self) -> list[str]:
        """The columns of a row, after ``case``."""
        counts = LESION_COUNTS if self.instances else ()
        return ["label", *self.metrics, *COUNTS, *_VOLUMES, *counts]

    def of_counts(
        self,
        n_reference: int,
        n_prediction: int,
        n_intersection: int,
        *,
        diagonal_mm: float = _NAN,
        voxel_ml: float = _NAN,
    ) -> dict[str, float]:
        """The metrics that follow from counts alone; distances are among them only where a map lacks the label."""
        of_voxels = [metric for metric in self.metrics if not METRICS[metric].on_lesions]
        n_both = n_reference + n_prediction
        if n_both == 0:
            return self._of_nothing(of_voxels)
        values = {
            "dice": 2 * n_intersection / n_both,
            "iou": n_intersection / (n_both - n_intersection),
            "sensitivity": n_intersection / n_reference if n_reference else _NAN,
            "precision": n_intersection / n_prediction if n_prediction else _NAN,
            "nsd": 0.0,
            **self.of_volumes(n_reference, n_prediction, voxel_ml),
        }
        distances = {EmptyRule.BRATS: BRATS_DISTANCE_MM, EmptyRule.DIAGONAL: diagonal_mm}
        distance = distances.get(EmptyRule(self.empty), _NAN)
        return {metric: values.get(metric, distance) for metric in of_voxels}

    def of_volumes(self, n_reference: int, n_prediction: int, voxel_ml: float) -> dict[str, float]:
        """The metrics on the volumes of a label, from its voxels in reference and prediction."""
        voxels = n_prediction - n_reference
        error, relative = voxels * voxel_ml, voxels / n_reference if n_reference else _NAN
        values = {
            "volume_error": error,
            "absolute_volume_error": abs(error),
            "relative_volume_error": relative,
            "absolute_relative_volume_error": abs(relative),
            "false_positive_volume": _NAN if n_reference else error,
        }
        return {name: value for name, value in values.items() if name in self.metrics}

    def _of_nothing(self, metrics: Iterable[str]) -> dict[str, float]:
        """The values where neither map has anything to compare; two volumes of 0 have a difference by every rule."""
        is_undefined = self.empty in (EmptyRule.UNDEFINED, EmptyRule.DIAGONAL)
        known = [METRICS[name] for name in metrics]
        return {m.name: _NAN if is_undefined and m.unit != "ml" else float(m.more_is_better) for m in known}

    def worst(self, grid: Grid, n_reference: int) -> dict[str, float]:
        """The values of a label of a case without a prediction, also of one that is compared lesion by lesion.

        Its volume is that of the whole image: hardly any prediction could be worse.
        """
        distance = BRATS_DISTANCE_MM if self.empty == EmptyRule.BRATS else grid.diagonal_mm
        of_lesions = self.lesion_penalty_mm(grid.diagonal_mm)
        values = {}
        for metric in (METRICS[name] for name in self.metrics):
            values[metric.name] = 0.0 if metric.more_is_better else of_lesions if metric.on_lesions else distance
        return values | self.of_volumes(n_reference, math.prod(grid.shape), grid.volume_of_voxel)

    def has_lesions(self, label: str) -> bool:
        """Whether a label is compared lesion by lesion."""
        return self.instances is not None and self.instances.covers(label)

    def of_label(self, label: str, values: Mapping[str, float]) -> dict[str, float]:
        """Those of some values that a label has: without the ones on lesions if its lesions are not compared."""
        if self.has_lesions(label):
            return dict(values)
        on_lesions = {*LESION_COUNTS, *lesion_metrics(self.metrics)}
        return {name: value for name, value in values.items() if name not in on_lesions}

    def lesion_penalty_mm(self, diagonal_mm: float) -> float:
        """The distance of a lesion that is missed or invented: that of BraTS, or the image's diagonal if asked for."""
        return diagonal_mm if self.empty == EmptyRule.DIAGONAL else BRATS_DISTANCE_MM

    def without_lesions(self) -> dict[str, float]:
        """The metrics on lesions and their counts where neither map has the label."""
        if self.instances is None:
            return {}
        return self._of_nothing(lesion_metrics(self.metrics)) | dict.fromkeys(LESION_COUNTS, 0)


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
    foreground, how = Foreground.of(reference, prediction), scoring or Scoring()
    voxel_ml = math.prod(size) / 1000
    rows = score_volumes(foreground, reference, prediction, labels, how, size, voxel_ml=voxel_ml)
    add_lesions(rows, foreground.boxes if how.instances else {}, reference, prediction, labels, how, size)
    return rows


def score_volumes(
    foreground: Foreground,
    reference: IntegerArray,
    prediction: IntegerArray,
    labels: Labels,
    scoring: Scoring,
    spacing: tuple[float, ...],
    *,
    voxel_ml: float,
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
        values_of_counts = scoring.of_counts(*voxels, diagonal_mm=diagonal, voxel_ml=voxel_ml)
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
    from nnunet_dro.evaluation.scoring.surfaces import SurfaceDistances

    flat = _flat_axes(reference.shape)
    size = tuple(length for axis, length in enumerate(spacing) if axis not in flat)
    # Metrics of every distance need the whole neighbourhood.
    all_distances = not {"hd", "assd"}.isdisjoint(scoring.metrics)
    asked_up_to = np.inf if all_distances else scoring.nsd_tolerance_mm if "nsd" in scoring.metrics else 0.0
    for row in rows:
        values = labels.values[row["label"]]
        around = _around(boxes[value] for value in values if value in boxes)
        in_reference, in_prediction = _masks(around, reference, prediction, values, labels.ignore)
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


def add_lesions(
    rows: list[dict[str, Any]],
    boxes: Mapping[int, Box],
    reference: IntegerArray,
    prediction: IntegerArray,
    labels: Labels,
    scoring: Scoring,
    spacing: tuple[float, ...],
    *,
    has_spacing: bool = True,
) -> list[dict[str, Any]]:
    """Fill in the metrics on lesions, and list the lesions."""
    lesions: list[dict[str, Any]] = []
    if scoring.instances is None:
        return lesions
    rule, penalty_mm = scoring.instances.rule, scoring.lesion_penalty_mm(diagonal_mm(reference.shape, spacing))
    margin = rule.n_dilations if rule.name == "brats" else 0
    nothing = scoring.without_lesions()
    how = LesionScoring(scoring.instances, scoring.metrics, scoring.nsd_tolerance_mm, penalty_mm, nothing)
    flat = _flat_axes(reference.shape)
    for row in rows:
        if not scoring.has_lesions(label := row["label"]):
            continue
        row |= nothing
        if not (row["n_reference"] or row["n_prediction"]):
            continue
        values = labels.values[label]
        around = _around(boxes[value] for value in values if value in boxes)
        around = tuple(
            slice(max(0, s.start - margin), min(n, s.stop + margin))
            for s, n in zip(around, reference.shape, strict=True)
        )
        masks, corner = _masks(around, reference, prediction, values, labels.ignore), [side.start for side in around]
        of_case, of_lesions = score_lesions(
            *masks, how, spacing=spacing, flat=flat, corner=corner, has_spacing=has_spacing
        )
        row |= of_case
        lesions += [{"label": label} | lesion for lesion in of_lesions]
    return lesions


def _flat_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which distances are not measured.

    An axis of length 1 in the image (not in the box) is not counted as an axis, for otherwise a label one slice thick
    would be border all over. An image of one voxel keeps one axis.
    """
    return tuple(axis for axis, n in enumerate(shape) if n == 1)[:2]


def _masks(
    around: Box, reference: IntegerArray, prediction: IntegerArray, values: tuple[int, ...], ignore: int | None
) -> tuple[Any, Any]:
    """A label in a box of both maps; voxels that are ignored are not predicted."""
    in_reference, in_prediction = (_mask(of_map[around], values) for of_map in (reference, prediction))
    if ignore is not None:
        in_prediction &= reference[around] != ignore
    return in_reference, in_prediction


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
