"""Several cases of one patient: intervals and tests in which the patients, not the cases, are independent.

With one case per patient everything here equals what `intervals` computes of the cases.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.mean_bounds import uniform_weights
from nnunet_dro.evaluation.order_statistics import percentile_bounds
from nnunet_dro.naming import name_some

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
CodeArray = npt.NDArray[np.intp]

#: A side, a session, a time point or a small number at the end of a case's name.
_LAST_PART = re.compile(
    r"[_.-](?:(?:ses|scan|visit|time|tp|t|v|s|run)[_-]?)?(?:left|right|l|r|pre|post|[a-d]|\d{1,2})$", re.IGNORECASE
)

#: With more cases that share the first part of the name, that part rather names a centre or a data set.
_MOST_CASES = 6


def clustered_percentile_bounds(
    values: FloatArray, patients: CodeArray, percent: float, *, tail: float
) -> tuple[float, float]:
    """Bounds of a percentile from the worst and the best case of every patient.

    A patient's smallest value is at most that of any of its cases. So the lower bound of the percentile of the
    patients' smallest values is one for a case drawn at random from a patient drawn at random, and likewise the upper
    bound of the largest values.

    Args:
        values: Shape (n,), finite.
        patients: The number of each case's patient, shape (n,).
        percent: The percentile, between 0 and 100.
        tail: The probability that each bound is wrong, at most.

    Returns:
        Lower and upper bound; NaN where there are too few patients.
    """
    n_patients = int(patients.max()) + 1
    smallest, largest = np.full(n_patients, np.inf), np.full(n_patients, -np.inf)
    np.minimum.at(smallest, patients, values)
    np.maximum.at(largest, patients, values)
    low = percentile_bounds(np.sort(smallest)[None], percent, tail=tail)[0, 0]
    high = percentile_bounds(np.sort(largest)[None], percent, tail=tail)[0, 1]
    return float(low), float(high)


def clustered_mean_and_std(
    values: FloatArray, patients: CodeArray, *, low: float, high: float, tail: float, n_resamples: int, seed: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bounds of the mean and the standard deviation of the cases, whose patients have random weights.

    As `bounded_mean_and_std`, with a weight per patient. The patient that is added has as many cases as the patient
    with the most, all of them as bad or as good as can be.

    Args:
        values: Shape (n,), between ``low`` and ``high``.
        patients: The number of each case's patient, shape (n,); every number from 0 on occurs.
        low: The least possible value.
        high: The largest possible value.
        tail: The probability that each bound is wrong.
        n_resamples: Number of draws of the weights.
        seed: Random seed of the draws.

    Returns:
        Lower and upper bound of the mean, and of the standard deviation.
    """
    centre = float(np.median(values))
    deviations = values - centre
    sums = np.stack([np.bincount(patients, weights=deviations**k) for k in (0, 1, 2)], axis=1)
    n_patients = len(sums)
    drawn, extra = np.empty((n_resamples, 3)), np.empty(n_resamples)
    for rows, weights in uniform_weights(n_patients, n_resamples, seed=seed):
        extra[rows], drawn[rows] = weights[:, 0], weights[:, 1:] @ sums
    extra = extra * sums[:, 0].max()

    def moments(added: float) -> tuple[FloatArray, FloatArray]:
        share = drawn[:, 0] + extra
        mean = (drawn[:, 1] + extra * added) / share
        return mean, np.maximum((drawn[:, 2] + extra * added**2) / share - mean**2, 0)

    (least, below), (most, above), (_, inside) = (moments(limit) for limit in (low - centre, high - centre, 0.0))
    mean = float(np.quantile(least, tail)) + centre, float(np.quantile(most, 1 - tail)) + centre
    farthest = max(np.quantile(below, 1 - tail), np.quantile(above, 1 - tail))
    std = float(np.sqrt(np.quantile(inside, tail))), float(np.sqrt(farthest))
    return (max(mean[0], low), min(mean[1], high)), std


def clustered_students_t(values: FloatArray, patients: CodeArray, *, tail: float) -> tuple[float, float]:
    """Bounds of the mean of the cases by Student's t, with the error between patients.

    Args:
        values: Shape (n,).
        patients: The number of each case's patient, shape (n,); at least two patients.
        tail: The probability that each bound is wrong, roughly.

    Returns:
        Lower and upper bound.

    Source: Cochran 1977, Sampling Techniques, section 9A.1 (the ratio estimator of clusters of unequal size).
    """
    from scipy.special import stdtrit

    mean = float(values.mean())
    of_patient = np.bincount(patients, weights=values - mean)
    k = len(of_patient)
    margin = float(stdtrit(k - 1, 1 - tail) * np.sqrt(k / (k - 1) * (of_patient**2).sum()) / len(values))
    return mean - margin, mean + margin


def patient_means(values: FloatArray, patients: CodeArray) -> FloatArray:
    """The mean of every patient's cases, shape (n_patients,); infinite values make their mean infinite."""
    counts = np.bincount(patients)
    return np.bincount(patients, weights=values)[counts > 0] / counts[counts > 0]


def note_on_repeated_patients(cases: Sequence[str]) -> list[str]:
    """A sentence if the names of the cases look as if some patients had several; see `_LAST_PART`."""
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
    n_cases, n_patients = (0, 0) if patient_of_case is None else (len(patient_of_case), patient_of_case.nunique())
    if n_cases == n_patients:
        return []
    return [
        f"The {n_cases} cases are of {n_patients} patients ({column}). Intervals and tests take the patients for "
        "independent; the bounds of percentiles are those of the patients' worst and best cases."
    ]
