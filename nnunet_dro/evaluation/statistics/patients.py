"""Several cases of one patient: every patient counts once, with their mean or the worst of them.

Statistics, intervals, bounds and tests are then those of the patients, who are independent whatever
their number of cases has to do with their scores.

Source: Maier-Hein et al. 2024, Metrics reloaded: recommendations for image analysis validation
(values are aggregated over the cases of a patient before they are over patients).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray, IndexArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.naming import count, name_some

#: A side, a session, a time point or a small number at the end of a case's name.
_LAST_PART = re.compile(
    r"""
    (?:
        [_.-]                                               # after a separator:
        (?:(?:ses|scan|visit|time|tp|t|v|s|run)[_-]?)?
        (?:left|right|od|os|l|r|pre|post|[a-d]|\d{1,2})
    |
        (?<=\d)(?:left|right|od|os|l|r)                     # after a number: a side
    )$
    """,
    re.IGNORECASE | re.VERBOSE,
)

#: With more cases that share the first part of the name, that part rather names a centre or a data
#: set.
_MOST_CASES = 6


def patient_values(
    values: FloatArray, patients: IndexArray, *, worst_by: Metric | None = None
) -> FloatArray:
    """What every patient scores, shape (..., n_patients); NaN for one without any value.

    Args:
        values: Those of the cases, shape (..., n_cases); NaN is undefined.
        patients: The number of each case's patient, shape (n_cases,).
        worst_by: The metric, for the worst of a patient's cases: the smallest Dice, the largest
            distance, the error that is farthest from 0. None for the mean of its cases.
    """
    codes = np.unique(patients, return_inverse=True)[1]
    n_patients = int(codes.max(initial=-1)) + 1
    scores = np.full((*values.shape[:-1], n_patients), np.nan)
    for place in np.ndindex(values.shape[:-1]):
        is_defined = ~np.isnan(values[place])
        defined = values[place][is_defined]
        patient_of_each = codes[is_defined]
        if worst_by is None:
            counts = np.bincount(patient_of_each, minlength=n_patients)
            sums = np.bincount(patient_of_each, weights=defined, minlength=n_patients)
            np.divide(sums, counts, out=scores[place], where=counts > 0)
        else:
            worst_first = np.argsort(worst_by.goodness(defined), kind="stable")
            present, first = np.unique(patient_of_each[worst_first], return_index=True)
            scores[place][present] = defined[worst_first[first]]

    return scores


def patient_numbers(patient_of_case: "pd.Series[str] | None", cases: Sequence[str]) -> IndexArray:
    """The number of each case's patient, from 0 on, shape (n_cases,).

    None takes every case for another patient's.

    Raises:
        InputError: If a case has no patient.
    """
    if patient_of_case is None:
        return np.arange(len(cases), dtype=np.intp)
    patients = patient_of_case.reindex(pd.Index(cases))
    if patients.isna().any():
        raise InputError(
            "patient_of_case",
            must="name the patient of every case",
            got=f"none for {name_some(patients.index[patients.isna()].unique().tolist())}",
            cure="Add the cases; those of one patient have the same name there.",
        )
    return pd.factorize(patients)[0]


def worst_metric(name: str, score: PatientScore) -> Metric | None:
    """What `patient_values` takes for the metric of a column; None for the mean."""
    if score == PatientScore.MEAN:
        return None
    return METRICS[name]


def note_on_repeated_patients(cases: Sequence[str]) -> list[str]:
    """A sentence if the names of the cases look as if some patients had several.

    See `_LAST_PART`.
    """
    first_parts = [_LAST_PART.sub("", case) for case in cases]
    n_cases = Counter(
        first_part
        for case, first_part in zip(cases, first_parts, strict=True)
        if first_part != case
    )
    patients = {name: n for name, n in n_cases.items() if n > 1 and re.search(r"\d", name)}
    if not patients or max(patients.values()) > _MOST_CASES:
        return []

    alike = [
        case for case, first_part in zip(cases, first_parts, strict=True) if first_part in patients
    ]
    return [
        "Some names look like several cases of one patient "
        f"({name_some(alike, at_most=4)}). Intervals and tests take cases for independent "
        "unless --patient names the column of the patients."
    ]


def note_on_patients(patient_of_case: "pd.Series[str]", score: PatientScore) -> list[str]:
    """A sentence on how many patients there are, and what follows."""
    n_cases = len(patient_of_case)
    n_patients = patient_of_case.nunique()
    if n_cases == n_patients:
        return []
    which = "the mean" if score == PatientScore.MEAN else "the worst"
    return [
        f"The {n_cases} cases are of {count(n_patients, 'patient')} ({patient_of_case.name}). "
        f"Every patient counts once, with {which} of its cases: statistics, intervals and tests "
        "are those of the patients."
    ]


def note_on_divided_patients(
    patient_of_case: "pd.Series[str]", strata: "Mapping[str, pd.Series[str]]"
) -> list[str]:
    """A sentence on the patients who have cases in several strata, and what follows."""
    divided = []
    for attribute, stratum_of_case in strata.items():
        n_strata = stratum_of_case.astype(str).groupby(patient_of_case).nunique()
        n_divided = int((n_strata > 1).sum())
        if n_divided:
            divided.append(f"{n_divided} by {attribute}")
    if not divided:
        return []
    return [
        f"Some patients have cases in several strata ({', '.join(divided)}) and count in each. "
        "Intervals and tests of how far strata lie apart take them for different patients."
    ]
