"""How a pair of label maps is scored: the metrics, and the rules for labels that a map lacks."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nnunet_dro.choices import EmptyRule, choice_of
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.instances import (
    EVERY_LABEL,
    LESION_COUNTS,
    Instances,
    lesion_metrics,
    with_lesion_metrics,
)
from nnunet_dro.evaluation.scoring.metrics import BETTI_ERRORS, METRICS, check_metrics
from nnunet_dro.naming import spelt_like

#: The distance that BraTS gives a label that is empty in one of reference and prediction, mm.
BRATS_DISTANCE_MM = 374.0

#: Voxel counts of a row.
COUNTS = ("n_reference", "n_prediction", "n_intersection")

#: Numbers of a row that are no metrics, and all that may be in one.
_VOLUMES = ("reference_ml", "prediction_ml")
NUMBERS = (*METRICS, *COUNTS, *_VOLUMES, *LESION_COUNTS)


def ratio(part: float, whole: float) -> float:
    """A part of a whole; NaN where the whole is 0."""
    if whole == 0:
        return math.nan
    return part / whole


@dataclass(frozen=True)
class Scoring:
    """How a pair of label maps is scored.

    Attributes:
        metrics: Names from `METRICS`.
        nsd_tolerance_mm: Border voxels count as agreeing up to this distance, mm, > 0.
        empty: How to score a label that a map lacks. ``undefined``: a label in neither map has no
            value, one in a single map has Dice 0 and no distance. ``one``: a label in neither map
            has Dice 1 and distance 0. ``brats``: as ``one``, and a label in a single map has
            distance 374 mm. ``diagonal``: as ``undefined``, and a label in a single map has the
            length of the image's diagonal as distance.
        instances: The labels that are compared lesion by lesion, and how; None for none. Where
            ``metrics`` has none on lesions, some are added.

    Raises:
        ValueError: If a value is not allowed, or a metric is on lesions and there are no instances.
    """

    metrics: tuple[str, ...] = ("dice",)
    nsd_tolerance_mm: float = 1.0
    empty: EmptyRule | str = EmptyRule.UNDEFINED
    instances: Instances | None = None

    def __post_init__(self) -> None:
        metrics = with_lesion_metrics(check_metrics(self.metrics), self.instances)
        object.__setattr__(self, "metrics", metrics)

        if not (np.isfinite(self.nsd_tolerance_mm) and self.nsd_tolerance_mm > 0):
            raise ValueError(
                f"`nsd_tolerance_mm` must be > 0, got {self.nsd_tolerance_mm!r}. Give millimetres."
            )

        rule = choice_of(EmptyRule, self.empty, name="empty")
        object.__setattr__(self, "empty", rule)

    @property
    def columns(self) -> list[str]:
        """The columns of a row, after ``case``."""
        columns = ["label", *self.metrics, *COUNTS, *_VOLUMES]
        if self.instances:
            columns += LESION_COUNTS
        return columns

    def of_counts(
        self,
        n_reference: int,
        n_prediction: int,
        n_intersection: int,
        *,
        grid: Grid | None = None,
    ) -> dict[str, float]:
        """The metrics that follow from counts alone.

        Distances are among them only where a map lacks the label. Without a grid, volumes and the
        diagonal of the image are NaN.
        """
        metrics = [name for name in self.metrics if not METRICS[name].on_lesions]
        n_both = n_reference + n_prediction
        if n_both == 0:
            return self._of_nothing(metrics)

        voxel_ml = math.nan if grid is None else grid.volume_of_voxel
        values = {
            "dice": 2 * n_intersection / n_both,
            "iou": n_intersection / (n_both - n_intersection),
            "sensitivity": ratio(n_intersection, n_reference),
            "precision": ratio(n_intersection, n_prediction),
            "nsd": 0.0,
            "cldice": 0.0,
            # They follow from the map that has the label.
            **dict.fromkeys(BETTI_ERRORS, math.nan),
        }
        values |= self.of_volumes(n_reference, n_prediction, voxel_ml)
        distance = self._distance_to_nothing(grid)
        return {name: values.get(name, distance) for name in metrics}

    def of_volumes(self, n_reference: int, n_prediction: int, voxel_ml: float) -> dict[str, float]:
        """The metrics on the volumes of a label, from its voxels in reference and prediction."""
        n_more = n_prediction - n_reference
        error = n_more * voxel_ml
        relative = ratio(n_more, n_reference)
        values = {
            "volume_error": error,
            "absolute_volume_error": abs(error),
            "relative_volume_error": relative,
            "absolute_relative_volume_error": abs(relative),
            "false_positive_volume": math.nan if n_reference else error,
        }
        return {name: value for name, value in values.items() if name in self.metrics}

    def _distance_to_nothing(self, grid: Grid | None) -> float:
        """The distance of a label that a single map has, mm; NaN where the rule gives it none."""
        if self.empty == EmptyRule.BRATS:
            return BRATS_DISTANCE_MM
        if self.empty == EmptyRule.DIAGONAL and grid is not None:
            return grid.diagonal_mm
        return math.nan

    def _of_nothing(self, metrics: Iterable[str]) -> dict[str, float]:
        """The values where neither map has anything to compare."""
        is_undefined = self.empty in (EmptyRule.UNDEFINED, EmptyRule.DIAGONAL)
        values = {}
        for name in metrics:
            metric = METRICS[name]
            # Two volumes of 0 have a difference by every rule.
            if is_undefined and metric.unit != "ml":
                values[name] = math.nan
            else:
                values[name] = float(metric.more_is_better)
        return values

    def worst(self, grid: Grid, n_reference: int) -> dict[str, float]:
        """The values of a label of a case without a prediction.

        The metrics on lesions are among them. Its volume is that of the whole image: hardly any
        prediction could be worse. Differences of Betti numbers, which have no worst value, are NaN.
        """
        distance = BRATS_DISTANCE_MM if self.empty == EmptyRule.BRATS else grid.diagonal_mm
        values = {}
        for name in self.metrics:
            metric = METRICS[name]
            if metric.more_is_better:
                values[name] = 0.0
            elif metric.on_lesions:
                values[name] = self.lesion_penalty_mm(grid)
            elif name in BETTI_ERRORS:
                values[name] = math.nan
            else:
                values[name] = distance

        n_voxels = math.prod(grid.shape)
        return values | self.of_volumes(n_reference, n_voxels, grid.volume_of_voxel)

    def has_lesions(self, label: str) -> bool:
        """Whether a label is compared lesion by lesion."""
        labels = self.instances.labels if self.instances else ()
        return EVERY_LABEL in labels or label in spelt_like(dict.fromkeys(labels), [label])

    def of_label(self, label: str, values: Mapping[str, float]) -> dict[str, float]:
        """Those of some values that a label has.

        Where its lesions are not compared, those are the values that are not on lesions.
        """
        if self.has_lesions(label):
            return dict(values)
        on_lesions = {*LESION_COUNTS, *lesion_metrics(self.metrics)}
        return {name: value for name, value in values.items() if name not in on_lesions}

    def lesion_penalty_mm(self, grid: Grid) -> float:
        """The distance of a lesion that is missed or invented.

        It is that of BraTS, or the image's diagonal if asked for.
        """
        if self.empty == EmptyRule.DIAGONAL:
            return grid.diagonal_mm
        return BRATS_DISTANCE_MM

    def without_lesions(self) -> dict[str, float]:
        """The metrics on lesions and their counts where neither map has the label."""
        if self.instances is None:
            return {}
        values = self._of_nothing(lesion_metrics(self.metrics))
        return values | dict.fromkeys(LESION_COUNTS, 0)
