"""Several cases of one patient: every patient counts once, with the mean of its cases.

Statistics, intervals, bounds and tests are then those of the patients, who are independent whatever
their number of cases has to do with their scores.

Source: Maier-Hein et al. 2024, Metrics reloaded: recommendations for image analysis validation
(values are aggregated over the cases of a patient before they are over patients).
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.statistics.sample_bounds import uniform_weights
from nnunet_dro.naming import name_some

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
CodeArray = npt.NDArray[np.intp]

#: A side, a session, a time point or a small number at the end of a case's name.
_LAST_PART = re.compile(
    r"(?:[_.-](?:(?:ses|scan|visit|time|tp|t|v|s|run)[_-]?)?(?:left|right|od|os|l|r|pre|post|[a-d]|\d{1,2})"
    r"|(?<=\d)(?:left|right|od|os|l|r))$",
    re.IGNORECASE,
)

_MOST_CASES = 6  # With more cases that share the first part of the name, that part rather names a centre or a data set.


def patient_values(values: FloatArray, patients: CodeArray) -> FloatArray:
    """The mean of every patient's cases with a value, shape (..., n_patients).

    NaN for a patient without any.
    """
    codes = np.unique(patients, return_inverse=True)[1]
    n_patients = int(codes.max(initial=-1)) + 1
    means = np.full((*values.shape[:-1], n_patients), np.nan)
    for place in np.ndindex(values.shape[:-1]):
        defined = ~np.isnan(values[place])
        counts = np.bincount(codes[defined], minlength=n_patients)
        sums = np.bincount(codes[defined], weights=values[place][defined], minlength=n_patients)
        np.divide(sums, counts, out=means[place], where=counts > 0)
    return means


def clustered_mean(
    values: FloatArray,
    clusters: CodeArray,
    *,
    low: float,
    high: float,
    tail: float,
    n_resamples: int,
    seed: int,
) -> tuple[float, float]:
    """As `bounded_mean` with a weight per cluster.

    The added one has as many values as the largest.
    """
    codes = np.unique(clusters, return_inverse=True)[1]
    centre = float(np.median(values))
    sums = np.stack([np.bincount(codes), np.bincount(codes, weights=values - centre)], axis=1)
    drawn = np.empty((n_resamples, 2))
    extra = np.empty(n_resamples)
    for rows, weights in uniform_weights(len(sums), n_resamples, seed=seed):
        extra[rows], drawn[rows] = weights[:, 0], weights[:, 1:] @ sums
    extra = extra * sums[:, 0].max()
    ends = [
        float(np.quantile((drawn[:, 1] + extra * (limit - centre)) / (drawn[:, 0] + extra), p))
        + centre
        for limit, p in ((low, tail), (high, 1 - tail))
    ]
    return max(ends[0], low), min(ends[1], high)


def note_on_repeated_patients(cases: Sequence[str]) -> list[str]:
    """A sentence if the names of the cases look as if some patients had several.

    See `_LAST_PART`.
    """
    patients = Counter(_LAST_PART.sub("", case) for case in cases if _LAST_PART.search(case))
    several = {name: n for name, n in patients.items() if n > 1 and re.search(r"\d", name)}
    if not several or max(several.values()) > _MOST_CASES:
        return []
    names = name_some([case for case in cases if _LAST_PART.sub("", case) in several], at_most=4)
    return [
        f"Some names look like several cases of one patient ({names}). Intervals and tests take cases for independent "
        "unless --patient names the column of the patients."
    ]


def note_on_patients(column: str, patient_of_case: "pd.Series[str] | None") -> list[str]:
    """A sentence on how many patients there are, and what follows."""
    n_cases, n_patients = (
        (0, 0) if patient_of_case is None else (len(patient_of_case), patient_of_case.nunique())
    )
    if n_cases == n_patients:
        return []
    return [
        f"The {n_cases} cases are of {n_patients} patients ({column}). Every patient counts once, with the mean of its "
        "cases: statistics, intervals and tests are those of the patients."
    ]
