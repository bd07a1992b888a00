"""The scores of a pair of label maps, a row per label."""

from dataclasses import dataclass
from functools import reduce
from operator import ior
from typing import Any

import numpy as np

from nnunet_dro.evaluation.scoring.foreground import Box, Foreground, enclosing
from nnunet_dro.evaluation.scoring.grid import Grid, IntegerArray
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.lesion_scores import score_lesions
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.scoring.scoring import COUNTS, Scoring
from nnunet_dro.evaluation.scoring.surfaces import SurfaceDistances


@dataclass(frozen=True, eq=False)
class PairOfMaps:
    """Two label maps (z, y, x) on one grid, the labels to score in them, and how."""

    reference: IntegerArray
    prediction: IntegerArray
    foreground: Foreground  # of both
    grid: Grid
    labels: Labels
    scoring: Scoring

    def around(self, label: str, margin: int = 0) -> Box:
        """The smallest box that holds a label in both maps, with a margin where there is room."""
        boxes = self.foreground.boxes
        sides = enclosing(boxes[value] for value in self.labels.values[label] if value in boxes)
        return tuple(
            slice(max(0, side.start - margin), min(n, side.stop + margin))
            for side, n in zip(sides, self.reference.shape, strict=True)
        )

    def masks(self, label: str, around: Box) -> tuple[Any, Any]:
        """A label in a box of both maps; voxels that are ignored are not predicted."""
        values = self.labels.values[label]
        ignore = self.labels.ignore
        in_reference, in_prediction = (
            _mask(of_map[around], values) for of_map in (self.reference, self.prediction)
        )
        if ignore is not None:
            in_prediction &= self.reference[around] != ignore
        return in_reference, in_prediction


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
            ``n_reference``,
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
        raise ValueError(
            f"`prediction` must be of the reference's shape {reference.shape}, got {prediction.shape}."
        )
    shape = (1,) * (3 - reference.ndim) + reference.shape
    reference = reference.reshape(shape)
    prediction = prediction.reshape(shape)
    size = (*(1.0,) * (3 - len(spacing)), *spacing)
    foreground = Foreground.of(reference, prediction)
    grid = Grid(shape, np.diag([*size[::-1], 1.0]))
    pair = PairOfMaps(reference, prediction, foreground, grid, labels, scoring or Scoring())
    rows = score_volumes(pair)
    add_lesions(rows, pair)
    return rows


def score_volumes(pair: PairOfMaps) -> list[dict[str, Any]]:
    """As `score_case`, but for what is on lesions."""
    scoring = pair.scoring
    labels = pair.labels
    counts = pair.foreground.counts
    n_voxels = counts.n_voxels
    if labels.ignore is not None:
        n_voxels = np.where(counts.reference == labels.ignore, 0, n_voxels)
    on_surfaces = any(METRICS[metric].on_surfaces for metric in scoring.metrics)
    rows = []
    for name, values in labels.values.items():
        in_reference = np.isin(counts.reference, values)
        in_prediction = np.isin(counts.prediction, values)
        voxels = [
            int(n_voxels[where].sum())
            for where in (in_reference, in_prediction, in_reference & in_prediction)
        ]
        row: dict[str, Any] = {"label": name}
        row |= scoring.of_counts(*voxels, grid=pair.grid)
        row |= dict(zip(COUNTS, voxels, strict=True))
        rows.append(
            row | (_distances(pair, name) if on_surfaces and voxels[0] and voxels[1] else {})
        )
    return rows


def _distances(pair: PairOfMaps, label: str) -> dict[str, float]:
    """The surface metrics of a label that both maps have."""
    scoring = pair.scoring
    # Metrics of every distance need the whole neighbourhood.
    all_distances = not {"hd", "assd"}.isdisjoint(scoring.metrics)
    asked_up_to = (
        np.inf if all_distances else scoring.nsd_tolerance_mm if "nsd" in scoring.metrics else 0.0
    )
    distances = SurfaceDistances.on(
        pair.grid, *pair.masks(label, pair.around(label)), at_least_mm=asked_up_to
    )
    measured = {
        m: getattr(distances, m)()
        for m in ("hd95", "hd95_pooled", "hd", "assd")
        if m in scoring.metrics
    }
    return measured | (
        {"nsd": distances.nsd(scoring.nsd_tolerance_mm)} if "nsd" in scoring.metrics else {}
    )


def add_lesions(rows: list[dict[str, Any]], pair: PairOfMaps) -> list[dict[str, Any]]:
    """Fill in the metrics on lesions, and list the lesions."""
    lesions: list[dict[str, Any]] = []
    scoring = pair.scoring
    if scoring.instances is None:
        return lesions
    rule = scoring.instances.rule
    for row in rows:
        if not scoring.has_lesions(label := row["label"]):
            continue
        row |= scoring.without_lesions()
        if not (row["n_reference"] or row["n_prediction"]):
            continue
        around = pair.around(label, rule.n_dilations if rule.name == "brats" else 0)
        of_case, of_lesions = score_lesions(
            *pair.masks(label, around),
            scoring,
            scoring.instances,
            pair.grid,
            corner=[side.start for side in around],
        )
        row |= of_case
        lesions += [{"label": label} | lesion for lesion in of_lesions]
    return lesions


def _mask(values: IntegerArray, wanted: tuple[int, ...]) -> Any:
    # In place and one by one: a mask of a large volume has hundreds of megabytes.
    return reduce(ior, (values == value for value in wanted))
