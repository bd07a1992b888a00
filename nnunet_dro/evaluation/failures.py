"""Labels that were missed altogether or invented: failures for which some metrics have no value."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.metrics import METRICS

BoolArray = npt.NDArray[np.bool_]

#: The kinds of failures.
KINDS = ("missed", "invented")

#: What each kind says of the label, in words.
IN_WORDS = {"missed": "missed", "invented": "predicted where the reference lacks it"}


def size_columns(metric: str) -> tuple[str, str]:
    """The columns that say how much of a label reference and prediction have: voxels, or lesions that are counted."""
    on_lesions = metric in METRICS and METRICS[metric].on_lesions
    return ("lesions_reference", "lesions_predicted") if on_lesions else ("n_reference", "n_prediction")


def failed_rows(scores: pd.DataFrame, metric: str = "dice") -> dict[str, BoolArray] | None:
    """Where a label was missed or invented.

    Args:
        scores: A row per case and label, with the `size_columns` of the metric (NaN: not known).
        metric: The metric to judge for: a metric on lesions knows those that are counted only.

    Returns:
        ``missed`` (the reference has the label, the prediction does not) and ``invented`` (the reverse), a bool per
        row; False where a count is not known. None where the scores have no counts.
    """
    columns = size_columns(metric)
    if not set(columns) <= set(scores.columns):
        return None
    reference, prediction = (scores[column].to_numpy(dtype=np.float64) for column in columns)
    return {"missed": (reference > 0) & (prediction == 0), "invented": (reference == 0) & (prediction > 0)}
