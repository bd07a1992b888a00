"""How much of what is hard is explained by the size and the contrast of a label: such cases cannot be learnt better."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

#: Size and contrast explain what is hard if they explain this share of the variance of the ranks of the Dice of so many
#: training cases.
EXPLAINED, FEWEST = 0.5, 30


@dataclass(frozen=True)
class Explanation:
    """How much of the Dice of a label is explained by its size and its contrast.

    Attributes:
        label: The label.
        share: Share of the variance of the ranks of the Dice, in [0, 1].
        low: Mean Dice of the half of the training cases that size and contrast predict to be low.
        high: Mean Dice of the other half.
    """

    label: str
    share: float
    low: float
    high: float


def without_size_and_contrast(
    cases: pd.DataFrame, columns: Sequence[str], is_training: npt.NDArray[np.bool_], *, difference: float
) -> tuple[pd.DataFrame, Explanation | None]:
    """The cases with a Dice from which what size and contrast predict is taken, and how much that is.

    The prediction is linear in the ranks of both. Labels of which they were not measured, or explain little, keep their
    Dice.

    Args:
        cases: A row per case, with the columns ``voxels_<label>`` and ``contrast_<label>`` beside the Dice.
        columns: The columns with the Dice, ``dice_<label>``.
        is_training: Whether a row is a training case; the others keep their Dice.
        difference: How much lower the half that is predicted to be low must be, Dice.

    Returns:
        The rows with that Dice, and the label that is explained best; None if none is.
    """
    adjusted, found = cases.copy(), []
    for column in columns:
        label = column.removeprefix("dice_")
        names = [f"voxels_{label}", f"contrast_{label}"]
        if not set(names) <= set(cases.columns):
            continue
        complete = is_training & cases[[column, *names]].notna().all(axis=1).to_numpy()
        n = int(complete.sum())
        if n < FEWEST:
            continue
        ranks = cases.loc[complete, [column, *names]].rank().to_numpy()
        dice, predictors = ranks[:, 0], np.column_stack([ranks[:, 1:], np.ones(n)])
        predicted = predictors @ np.linalg.lstsq(predictors, dice, rcond=None)[0]
        # As of any two numbers, some of it is chance.
        share = 1 - float(np.var(dice - predicted) / max(float(np.var(dice)), 1e-12)) * (n - 1) / (n - 3)
        values = cases.loc[complete, column].to_numpy(dtype=float)
        is_low = predicted <= np.median(predicted)
        low, high = float(values[is_low].mean()), float(values[~is_low].mean()) if not is_low.all() else float("nan")
        if share >= EXPLAINED and high - low >= difference:
            found.append(Explanation(label, share, low, high))
            slope = np.polyfit(predicted, values, 1)[0]
            adjusted.loc[complete, column] = values - slope * (predicted - predicted.mean())
    return adjusted, max(found, key=lambda explanation: explanation.share, default=None)
