"""Whether size and contrast of a label explain its Dice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.inspection.doctor.columns import CONTRAST, DICE, TRAINING, VOXELS
from nnunet_dro.inspection.doctor.comparisons import BEHIND

#: Size and contrast of a label explain what is hard if they explain this share of the variance of
#: the ranks of the Dice of so many training cases.
EXPLAINED = 0.5
FEWEST_EXPLAINED = 30


@dataclass(frozen=True)
class Explanation:
    """How much of the Dice of a label is explained by its size and its contrast."""

    label: str
    share: float  # of the variance of the ranks of the Dice, in [0, 1]
    low: float  # mean Dice of the half of the training cases that are predicted to be low
    high: float  # mean Dice of the other half


def without_size_and_contrast(
    cases: pd.DataFrame, labels: Sequence[str]
) -> tuple[pd.DataFrame, list[Explanation]]:
    """The cases with a Dice from which what size and contrast predict is taken.

    Labels of which they explain little keep their Dice, and validation cases theirs. The others
    have an explanation each.
    """
    adjusted = cases.copy()
    is_training = (cases["set"] == TRAINING).to_numpy()
    explanations = []
    for label in labels:
        columns = [f"{measure}{label}" for measure in (DICE, VOXELS, CONTRAST)]
        if not set(columns) <= set(cases.columns):
            continue

        is_complete = is_training & cases[columns].notna().all(axis=1).to_numpy()
        if is_complete.sum() < FEWEST_EXPLAINED:
            continue

        measured = cases.loc[is_complete, columns]
        predicted, share = _predicted_ranks(measured)
        dice = measured[DICE + label].to_numpy(dtype=float)

        # How far apart the halves are that size and contrast predict to be low and high.
        is_low = predicted <= np.median(predicted)
        low = float(dice[is_low].mean())
        high = float("nan") if is_low.all() else float(dice[~is_low].mean())

        if share >= EXPLAINED and high - low >= BEHIND:
            explanations.append(Explanation(label, share, low, high))
            slope = np.polyfit(predicted, dice, 1)[0]
            predicted_dice = slope * (predicted - predicted.mean())
            adjusted.loc[is_complete, DICE + label] = dice - predicted_dice

    return adjusted, explanations


def _predicted_ranks(measured: pd.DataFrame) -> tuple[FloatArray, float]:
    """The ranks of the first column, less their mean, as those of the two others predict them.

    The prediction is linear in the ranks, by least squares, and never falls where one of them
    rises: where the large or the clear are hard, the small and the faint are not. Also returned is
    the share of the variance that it explains. Because any two columns explain some of it by
    chance, that is the adjusted one,

        1 - (1 - R^2) (n - 1) / (n - 3).
    """
    from scipy.optimize import nnls

    n = len(measured)
    ranks = measured.rank()
    centred = (ranks - ranks.mean()).to_numpy()
    observed = centred[:, 0]
    coefficients, _ = nnls(centred[:, 1:], observed)
    predicted = centred[:, 1:] @ coefficients

    # Equal values have no variance to explain.
    variance = max(float(np.var(observed)), 1e-12)
    unexplained = float(np.var(observed - predicted) / variance)
    return predicted, 1 - unexplained * (n - 1) / (n - 3)
