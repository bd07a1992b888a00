"""Labels that were missed altogether or invented: failures for which some metrics have no value."""

import numpy as np
import numpy.typing as npt
import pandas as pd

BoolArray = npt.NDArray[np.bool_]

#: The kinds of failures.
KINDS = ("missed", "invented")

#: What each kind says of the label, in words.
IN_WORDS = {"missed": "missed", "invented": "predicted where the reference lacks it"}


def failed_rows(scores: pd.DataFrame) -> dict[str, BoolArray] | None:
    """Where a label was missed or invented.

    Args:
        scores: A row per case and label, with ``n_reference`` and ``n_prediction`` (voxels; NaN: not known).

    Returns:
        ``missed`` (the reference has the label, the prediction does not) and ``invented`` (the reverse), a bool per
        row; False where a count is not known. None where the scores have no counts.
    """
    if not {"n_reference", "n_prediction"} <= set(scores.columns):
        return None
    reference, prediction = (scores[f"n_{which}"].to_numpy(dtype=np.float64) for which in ("reference", "prediction"))
    return {"missed": (reference > 0) & (prediction == 0), "invented": (reference == 0) & (prediction > 0)}
