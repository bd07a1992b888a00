"""The Dice of a predicted label map, for labels and for regions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.labels import Labels


def dice_by_label(reference: npt.NDArray[Any], prediction: npt.NDArray[Any], labels: Labels) -> Mapping[str, float]:
    """Dice of each label or region, 2 TP / (2 TP + FP + FN).

    Args:
        reference: Label map, any shape; values below 0, which nnU-Net's preprocessing puts outside of the image, are
            background.
        prediction: Label map, same shape.
        labels: The labels; voxels with its ignore value in the reference do not count.

    Returns:
        Name of the label to its Dice in [0, 1]: NaN where neither has it, 0 where one of the two has it.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> labels = Labels({"whole": (1, 2), "core": (2,)}, ignore=3)
        >>> dice_by_label(np.array([-1, 1, 2, 3]), np.array([0, 1, 1, 2]), labels)
        {'whole': 1.0, 'core': 0.0}
    """
    if reference.shape != prediction.shape:
        raise ValueError(
            f"the prediction must have the shape of the reference, {reference.shape}, got {prediction.shape}. "
            "Preprocess the dataset again."
        )
    counted = np.ones(reference.shape, dtype=bool) if labels.ignore is None else reference != labels.ignore
    found = {}
    for name, values in labels.values.items():
        true, predicted = np.isin(reference, values) & counted, np.isin(prediction, values) & counted
        volumes = int(true.sum()) + int(predicted.sum())
        found[name] = 2 * int((true & predicted).sum()) / volumes if volumes else float("nan")
    return found
