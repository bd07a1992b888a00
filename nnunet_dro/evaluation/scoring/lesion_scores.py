"""The scores of a label's lesions: a value per metric for the case, and a row per lesion."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray
from nnunet_dro.evaluation.scoring.components import Match, Matching, match_lesions
from nnunet_dro.evaluation.scoring.foreground import enclosing
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.instances import Instances, lesion_metrics
from nnunet_dro.evaluation.scoring.scoring import Scoring, ratio
from nnunet_dro.evaluation.scoring.surfaces import SurfaceDistances

#: The columns of lesions.csv before those of distances.
LESION_COLUMNS = (
    *("case", "label", "of", "lesion", "counted", "n_voxels", "volume_mm3", "x", "y", "z"),
    *("matched", "matched_with", "iou", "dice"),
)

#: Column of lesions.csv to the metric that needs it.
DISTANCE_COLUMNS = {"hd95": "lesion_hd95", "nsd": "lesion_nsd"}


def distance_columns(metrics: Collection[str]) -> list[str]:
    """The columns of distances where these metrics are computed."""
    return [column for column, metric in DISTANCE_COLUMNS.items() if metric in metrics]


def score_lesions(
    reference: BoolArray,
    prediction: BoolArray,
    scoring: Scoring,
    instances: Instances,
    grid: Grid,
    *,
    corner: Sequence[int],
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Scores of the lesions of one label.

    Args:
        reference: Where the reference has the label, in a box (z, y, x).
        prediction: The same of the prediction.
        scoring: The metrics and their options.
        instances: How lesions are found and matched.
        grid: The grid of the whole image.
        corner: The first voxel of the box in the image.

    Returns:
        The metrics on lesions with the numbers of lesions, and a row per lesion.
    """
    # NaN where no voxel size is known: lesions are then told from smaller ones by their voxels.
    voxel_mm3 = 1000 * grid.voxel_ml
    matching = match_lesions(
        reference,
        prediction,
        instances,
        voxel_mm3=float(np.nan_to_num(voxel_mm3, nan=1.0)),
    )
    columns = distance_columns(scoring.metrics)
    distances = {}
    for match in matching.matches:
        if columns and match.predicted:
            distances[match.lesion] = _distances(matching, match, scoring, grid)

    # The distances of a lesion that is missed or invented.
    penalties = {"hd95": scoring.lesion_penalty_mm(grid), "nsd": 0.0}
    penalties = {column: penalties[column] for column in columns}
    values = _values(matching, scoring, distances, penalties)

    rows = _rows_of_reference(
        matching,
        distances,
        penalties,
        corner,
        voxel_mm3,
    )
    rows += _rows_of_prediction(
        matching,
        columns,
        corner,
        voxel_mm3,
    )
    return values, rows


def _counts(matching: Matching) -> dict[str, float]:
    """How many lesions are in the reference, found, predicted and invented.

    Those of the reference that are not counted are left out, with what is matched with them alone.
    """
    n_invented = len(matching.invented)
    n_right = len(matching.rightly_predicted)
    return {
        "lesions_reference": len(matching.counted),
        "lesions_found": sum(bool(match.predicted) for match in matching.counted),
        "lesions_predicted": n_right + n_invented,
        "lesions_invented": n_invented,
    }


def _values(
    matching: Matching,
    scoring: Scoring,
    distances: Mapping[int, Mapping[str, float]],
    penalties: Mapping[str, float],
) -> dict[str, float]:
    """The metrics on lesions, and the numbers of lesions.

    With TP lesions of the reference found, FN missed, and FP predicted ones invented:

        recall = TP / (TP + FN)        rq = TP / (TP + FP / 2 + FN / 2)        pq = sq rq

    and sq is the mean IoU of the lesions found. Means of Dice and of distances are over TP + FN +
    FP lesions; those missed or invented have a Dice of 0, and the penalties as distances.
    """
    counts = _counts(matching)
    n_reference, n_found, n_predicted, n_invented = counts.values()
    n_all = n_reference + n_invented
    if n_all == 0:
        return counts | scoring.without_lesions()

    n_wrong = n_all - n_found  # missed or invented
    recall = ratio(n_found, n_reference)
    precision = ratio(n_predicted - n_invented, n_predicted)
    values = {
        "lesion_recall": recall,
        "lesion_precision": precision,
        "lesion_f1": 0.0,
        "sq": 0.0,
        "rq": n_found / (n_found + n_wrong / 2),
    }

    matches = [match for match in matching.counted if match.predicted]
    if matches:
        values["lesion_f1"] = 2 * precision * recall / (precision + recall)
        values["sq"] = math.fsum(match.iou for match in matches) / n_found
    values["pq"] = values["sq"] * values["rq"]
    values["lesion_dice"] = math.fsum(match.dice for match in matches) / n_all

    for column, penalty in penalties.items():
        metric = DISTANCE_COLUMNS[column]
        total = math.fsum(distances[match.lesion][column] for match in matches)
        values[metric] = (total + penalty * n_wrong) / n_all

    return counts | {metric: values[metric] for metric in lesion_metrics(scoring.metrics)}


def _distances(matching: Matching, match: Match, scoring: Scoring, grid: Grid) -> dict[str, float]:
    """The distances between a lesion and what it is matched with."""
    boxes = [matching.reference.boxes[match.lesion - 1]]
    boxes += [matching.prediction.boxes[number - 1] for number in match.predicted]
    around = enclosing(boxes)

    lesion = matching.reference.numbers[around] == match.lesion
    predicted = np.isin(matching.prediction.numbers[around], match.predicted)

    with_nsd = "lesion_nsd" in scoring.metrics
    tolerance_mm = scoring.nsd_tolerance_mm if with_nsd else 0.0
    distances = SurfaceDistances.on(
        grid,
        lesion,
        predicted,
        at_least_mm=tolerance_mm,
    )

    values = {}
    if "lesion_hd95" in scoring.metrics:
        values["hd95"] = distances.hd95()
    if with_nsd:
        values["nsd"] = distances.nsd(tolerance_mm)
    return values


def _rows_of_reference(
    matching: Matching,
    distances: Mapping[int, Mapping[str, float]],
    penalties: Mapping[str, float],
    corner: Sequence[int],
    voxel_mm3: float,
) -> list[dict[str, Any]]:
    """A row per lesion of the reference; those that are missed have the penalties as distances."""
    rows = []
    for match, centre in zip(matching.matches, matching.reference.centres, strict=True):
        row = {
            "of": "reference",
            "lesion": match.lesion,
            "counted": match.counted,
            "n_voxels": match.n_voxels,
            **_place(match.n_voxels * voxel_mm3, centre, corner),
            "matched": bool(match.predicted),
            "matched_with": " ".join(map(str, match.predicted)),
            "iou": match.iou,
            "dice": match.dice,
            **distances.get(match.lesion, penalties),
        }
        rows.append(row)
    return rows


def _rows_of_prediction(
    matching: Matching, columns: Sequence[str], corner: Sequence[int], voxel_mm3: float
) -> list[dict[str, Any]]:
    """A row per predicted lesion; its overlap and distances stand in the rows of the reference."""
    rows = []
    rightly_predicted = set(matching.rightly_predicted)
    sizes = matching.prediction.n_voxels.tolist()
    for number, n_voxels in enumerate(sizes, 1):
        centre = matching.prediction.centres[number - 1]
        lesions = matching.matched.get(number, ())
        row = {
            "of": "prediction",
            "lesion": number,
            "counted": number in rightly_predicted or not lesions,
            "n_voxels": n_voxels,
            **_place(n_voxels * voxel_mm3, centre, corner),
            "matched": bool(lesions),
            "matched_with": " ".join(map(str, lesions)),
            **dict.fromkeys(("iou", "dice", *columns), math.nan),
        }
        rows.append(row)
    return rows


def _rounded(volume_mm3: float) -> float:
    """A volume with three decimals, or with four digits where it is small; NaN stays."""
    if volume_mm3 < 1:
        return float(f"{volume_mm3:.4g}")
    return round(volume_mm3, 3)


def _place(volume_mm3: float, centre: FloatArray, corner: Sequence[int]) -> dict[str, float]:
    """Volume and centre of a lesion, as a row has them.

    The centre is one in a box with this corner, and becomes one in the image.
    """
    z, y, x = centre + np.array(corner)
    return {
        "volume_mm3": _rounded(volume_mm3),
        "z": round(float(z)),
        "y": round(float(y)),
        "x": round(float(x)),
    }
