"""Scores of label maps that can be counted by hand, from files, as the command computes them.

The label maps are a cube of 4 x 4 x 4 voxels of 1 x 1 x 2 mm, and

- *shifted*, the same cube one voxel further along the long side of the voxels (2 mm). Its surface
  has 64 - 8 = 56 voxels. Of those of the shifted cube, the 16 of the face that sticks out are 2 mm
  from the surface of the other; the 4 in the middle of the opposite face are inside of it, 1 mm
  from its side; the other 36 are on it.
- *half* of it, 4 x 4 x 2 voxels.
- *specks*, the cube and three voxels that are 8 mm from it, at the other end of the image: 59
  voxels are a surface, of which 56 are on that of the cube.
- nothing, where the label is *missed*, and *invented* and *absent*, where the reference is empty.

One more cube has no prediction, and is scored as failed.
"""

import math
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation import evaluate
from nnunet_dro.selfcheck.number import Number

_SPACING = (1.0, 1.0, 2.0)

_METRICS = (
    "dice",
    "iou",
    "sensitivity",
    "precision",
    "hd",
    "hd95",
    "hd95_pooled",
    "assd",
    "nsd",
    "volume_error",
    "relative_volume_error",
    "absolute_relative_volume_error",
    "false_positive_volume",
    "lesion_recall",
    "lesion_precision",
    "lesion_f1",
    "lesion_dice",
    "pq",
)

#: The scores of each case, counted by hand (see the head of this module).
_EXPECTED = {
    "shifted": {
        "dice": 48 / 64,
        "iou": 48 / 80,
        "sensitivity": 48 / 64,
        "precision": 48 / 64,
        "hd": 2,
        "hd95": 2,
        "hd95_pooled": 2,
        "assd": 36 / 56,
        "nsd": 40 / 56,
        "volume_error": 0,
    },
    # 32 voxels of 2 mm^3 are missing, 0.064 ml.
    "half": {
        "dice": 2 * 32 / (64 + 32),
        "iou": 32 / 64,
        "sensitivity": 32 / 64,
        "precision": 1,
        "volume_error": -0.064,
        "relative_volume_error": -32 / 64,
        "absolute_relative_volume_error": 32 / 64,
    },
    # The 95th percentile lies at 0.95 x 58 = 55.1, between the 56th distance, 0, and the 57th, 8.
    # Pooled it lies at 0.95 x 114 = 108.3, and 112 of the 115 distances are 0.
    "specks": {
        "dice": 2 * 64 / (64 + 67),
        "precision": 64 / 67,
        "hd": 8,
        "hd95": 0.1 * 8,
        "hd95_pooled": 0,
        "assd": 3 * 8 / 115,
        "nsd": 112 / 115,
        # One lesion is found, and one of two that are predicted is none.
        "lesion_recall": 1,
        "lesion_precision": 1 / 2,
        "lesion_f1": 2 / 3,
        "lesion_dice": (1 + 0) / 2,
        "pq": 1 / (1 + 1 / 2),
    },
    "invented": {"false_positive_volume": 0.128},
    # As bad as a prediction that fills the image, and as far as its corners are apart.
    "a missing prediction": {
        "dice": 0,
        "hd95": math.hypot(11, 11, 22),
        "volume_error": (12**3 - 64) * 0.002,
        "lesion_f1": 0,
    },
}

#: What each rule makes of a label that one or both maps lack: rule, case, metric and score.
_EMPTY = (
    ("undefined", "absent", "dice", math.nan),
    ("undefined", "absent", "hd95", math.nan),
    ("undefined", "missed", "dice", 0),
    ("undefined", "missed", "hd95", math.nan),
    ("undefined", "invented", "dice", 0),
    ("undefined", "invented", "hd95", math.nan),
    ("one", "absent", "dice", 1),
    ("one", "absent", "hd95", 0),
    ("one", "missed", "dice", 0),
    ("brats", "absent", "hd95", 0),
    ("brats", "missed", "hd95", 374),
    ("brats", "invented", "hd95", 374),
    # The image has 12 voxels a side, so that the centres of its corners are 11 apart.
    ("diagonal", "absent", "hd95", math.nan),
    ("diagonal", "missed", "hd95", math.hypot(11, 11, 22)),
)


def scores() -> Iterator[Number]:
    """The scores of the label maps, and of labels that a map lacks."""
    evaluated = cache(_evaluated)

    for case, expected in _EXPECTED.items():
        for metric, score in expected.items():
            computed = evaluated("undefined")[case][metric]
            yield Number("scores", f"{metric} of a cube and {case}", score, computed)

    for rule, case, metric, score in _EMPTY:
        name = f"{metric} of a label that is {case}, --empty {rule}"
        yield Number("scores", name, score, evaluated(rule)[case][metric])


def _evaluated(empty: str) -> dict[str, dict[str, float]]:
    """The scores of each case, from files, as the command computes them."""
    nothing = np.zeros((12, 12, 12), np.uint8)
    cube = nothing.copy()
    cube[4:8, 4:8, 4:8] = 1
    shifted = nothing.copy()
    shifted[5:9, 4:8, 4:8] = 1
    half = nothing.copy()
    half[4:6, 4:8, 4:8] = 1
    specks = cube.copy()
    specks[0, 4, 4:7] = 1
    pairs = {
        "shifted": (cube, shifted),
        "half": (cube, half),
        "specks": (cube, specks),
        "missed": (cube, nothing),
        "invented": (nothing, cube),
        "absent": (nothing, nothing),
    }

    with tempfile.TemporaryDirectory() as folder:
        references = Path(folder) / "reference"
        predictions = Path(folder) / "prediction"
        references.mkdir()
        predictions.mkdir()
        for case, (reference, prediction) in pairs.items():
            _write_label_map(reference, references / f"{case}.nii.gz")
            _write_label_map(prediction, predictions / f"{case}.nii.gz")
        _write_label_map(cube, references / "a missing prediction.nii.gz")
        table: pd.DataFrame = evaluate(
            references,
            predictions,
            metrics=_METRICS,
            empty=empty,
            missing="worst",
            instances=("*",),
            n_resamples=0,
        ).scores
    return {str(row["case"]): row for row in table.to_dict("records")}  # type: ignore[misc]


def _write_label_map(voxels: npt.NDArray[np.uint8], path: Path) -> None:
    import SimpleITK

    image = SimpleITK.GetImageFromArray(voxels)
    image.SetSpacing(_SPACING)
    SimpleITK.WriteImage(image, str(path))
