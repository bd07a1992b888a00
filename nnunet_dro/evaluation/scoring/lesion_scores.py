"""The scores of a label's lesions: a value per metric for the case, and a row per lesion."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from nnunet_dro.evaluation.scoring.components import BoolArray, Match, Matching, match_lesions
from nnunet_dro.evaluation.scoring.foreground import enclosing
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS, Instances, lesion_metrics
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.scoring.surfaces import SurfaceDistances

_NAN = float("nan")

#: The columns of lesions.csv before those of distances.
LESION_COLUMNS = (
    *("case", "label", "of", "lesion", "counted", "n_voxels", "volume_mm3", "x", "y", "z"),
    *("matched", "matched_with", "iou", "dice"),
)

DISTANCE_COLUMNS = {
    "hd95": "lesion_hd95",
    "nsd": "lesion_nsd",
}  # Column of lesions.csv to the metric that needs it.


def lesion_columns(metrics: Collection[str]) -> list[str]:
    """The columns of lesions.csv where these metrics are computed."""
    return [
        *LESION_COLUMNS,
        *(column for column, metric in DISTANCE_COLUMNS.items() if metric in metrics),
    ]


def score_lesions(
    reference: BoolArray,
    prediction: BoolArray,
    scoring: Scoring,
    instances: Instances,
    grid: Grid,
    *,
    corner: Sequence[int],
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Scores of the lesions of one label, in a box whose first voxel in the image is ``corner``."""
    voxel_mm3 = float(np.prod(grid.spacing))
    penalty_mm = scoring.lesion_penalty_mm(grid)
    matching = match_lesions(reference, prediction, instances, voxel_mm3=voxel_mm3)
    distances = {
        match.lesion: _distances(matching, match, scoring, grid)
        for match in matching.matches
        if match.predicted
        and any(metric in scoring.metrics for metric in DISTANCE_COLUMNS.values())
    }
    volume = _NAN if grid.affine is None else voxel_mm3
    rows = _rows(
        matching, scoring, distances, penalty_mm=penalty_mm, corner=corner, voxel_mm3=volume
    )
    return _values(matching, scoring, distances, penalty_mm), rows


def _values(
    matching: Matching,
    scoring: Scoring,
    distances: Mapping[int, Mapping[str, float]],
    penalty_mm: float,
) -> dict[str, float]:
    lesions = matching.counted
    found = [match for match in lesions if match.predicted]
    n_invented = len(matching.invented)
    n_right = len(matching.rightly_predicted)
    counts = dict(
        zip(
            LESION_COUNTS, (len(lesions), len(found), n_right + n_invented, n_invented), strict=True
        )
    )
    n_all = len(lesions) + n_invented
    if not n_all:
        return counts | scoring.without_lesions()
    recall = len(found) / len(lesions) if lesions else _NAN
    precision = n_right / (n_right + n_invented) if n_right + n_invented else _NAN
    rq = len(found) / (len(found) + (n_invented + len(lesions) - len(found)) / 2)
    sq = math.fsum(match.iou for match in found) / len(found) if found else 0.0
    values = {
        "lesion_recall": recall,
        "lesion_precision": precision,
        "lesion_f1": 2 * precision * recall / (precision + recall) if found else 0.0,
        "pq": sq * rq,
        "sq": sq,
        "rq": rq,
        "lesion_dice": math.fsum(match.dice for match in found) / n_all,
    }
    for column, metric in DISTANCE_COLUMNS.items():
        if metric in scoring.metrics:
            penalty = 0.0 if METRICS[metric].more_is_better else penalty_mm
            of_found = math.fsum(distances[match.lesion][column] for match in found)
            values[metric] = (of_found + penalty * (n_all - len(found))) / n_all
    return counts | {metric: values[metric] for metric in lesion_metrics(scoring.metrics)}


def _distances(matching: Matching, match: Match, scoring: Scoring, grid: Grid) -> dict[str, float]:
    """The distances between a lesion and what it is matched with."""
    boxes = [matching.reference.boxes[match.lesion - 1]]
    boxes += [matching.prediction.boxes[number - 1] for number in match.predicted]
    around = enclosing(boxes)
    lesion = matching.reference.numbers[around] == match.lesion
    predicted = np.isin(matching.prediction.numbers[around], match.predicted)
    up_to = scoring.nsd_tolerance_mm if "lesion_nsd" in scoring.metrics else 0.0
    measured = SurfaceDistances.on(grid, lesion, predicted, at_least_mm=up_to)
    values = {"nsd": measured.nsd(up_to)} if "lesion_nsd" in scoring.metrics else {}
    return values | ({"hd95": measured.hd95()} if "lesion_hd95" in scoring.metrics else {})


def _rows(
    matching: Matching,
    scoring: Scoring,
    distances: Mapping[int, Mapping[str, float]],
    *,
    penalty_mm: float,
    corner: Sequence[int],
    voxel_mm3: float,
) -> list[dict[str, Any]]:
    asked = [column for column, metric in DISTANCE_COLUMNS.items() if metric in scoring.metrics]
    missed = {"hd95": penalty_mm, "nsd": 0.0}
    rows = []
    for match, centre in zip(matching.matches, matching.reference.centres, strict=True):
        row = {
            "of": "reference",
            "lesion": match.lesion,
            "counted": match.counted,
            "n_voxels": match.n_voxels,
        }
        row |= _place(match.n_voxels * voxel_mm3, centre, corner)
        row |= {
            "matched": bool(match.predicted),
            "matched_with": " ".join(map(str, match.predicted)),
        }
        row |= {"iou": match.iou, "dice": match.dice}
        rows.append(row | {column: distances.get(match.lesion, missed)[column] for column in asked})
    right = set(matching.rightly_predicted)
    invented = set(matching.invented)
    predicted = zip(matching.prediction.n_voxels.tolist(), matching.prediction.centres, strict=True)
    for number, (n_voxels, centre) in enumerate(predicted, 1):
        counted = number in right or number in invented
        row = {"of": "prediction", "lesion": number, "counted": counted, "n_voxels": n_voxels}
        row |= _place(n_voxels * voxel_mm3, centre, corner)
        row |= {"matched": number not in invented}
        row |= {"matched_with": " ".join(map(str, matching.matched.get(number, ())))}
        rows.append(row | dict.fromkeys(("iou", "dice", *asked), _NAN))
    return rows


def _place(volume_mm3: float, centre: Any, corner: Sequence[int]) -> dict[str, float]:
    voxel = (round(float(along) + start) for along, start in zip(centre, corner, strict=True))
    return {"volume_mm3": round(volume_mm3, 3)} | dict(zip("zyx", voxel, strict=True))
