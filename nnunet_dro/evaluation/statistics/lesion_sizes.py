"""Which lesions are found, by their volume: small ones are missed first."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.statistics.betting_bounds import bounded_share
from nnunet_dro.evaluation.statistics.intervals import TAIL
from nnunet_dro.evaluation.statistics.patients import patient_numbers
from nnunet_dro.evaluation.stratifying.stratify import divide

#: The columns of lesion_sizes.csv: names, then numbers.
NUMBERS = (
    "n_lesions",
    "n_cases",
    "n_found",
    "n_invented",
    "recall",
    "recall_low",
    "recall_high",
    "dice_of_found",
)
COLUMNS = ("attribute", "stratum", "label", "unit", "volume", *NUMBERS)


def lesion_sizes(
    lesions: pd.DataFrame,
    strata: "Mapping[str, pd.Series[str]]",
    *,
    patient_of_case: "pd.Series[str] | None" = None,
    n_resamples: int = 2000,
) -> pd.DataFrame:
    """How many lesions are found, by decades of their volume.

    A row per attribute, stratum, label and range of volumes that has lesions: ``unit`` (mm3, or
    voxels where no voxel size is known), ``volume`` (``10 to 100`` holds 10 and not 100),
    ``n_lesions`` (of the reference), ``n_cases`` (that have them), ``n_found``, ``n_invented``
    (predicted, matched with none), ``recall`` (found per lesion) and ``dice_of_found`` (their
    mean). The lesions of a case, or of a patient, are not independent: the 95 % interval of the
    recall is that of cases, or patients, with several lesions each (`bounded_share`); there is none
    where ``n_resamples`` is 0.
    """
    sized = _with_decades(lesions[lesions["counted"].astype(bool)])
    cases = sorted(sized["case"].unique().tolist())
    number_of_case = pd.Series(patient_numbers(patient_of_case, cases), index=cases)
    sized = sized.assign(
        patient=sized["case"].map(number_of_case),
        label=pd.Categorical(sized["label"], categories=lesions["label"].unique()),
    )

    rows = []
    for place, group in _groups(sized, strata, cases):
        numbers = _numbers(group, with_intervals=n_resamples > 0)
        if numbers["n_lesions"] or numbers["n_invented"]:
            rows.append(place | numbers)

    return pd.DataFrame(rows, columns=list(COLUMNS))


def _groups(
    sized: pd.DataFrame, strata: "Mapping[str, pd.Series[str]]", cases: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """What names a row of the table, and the lesions that belong there."""
    for attribute, stratum_of_case in strata.items():
        codes, names = divide(stratum_of_case, cases, attribute=attribute)
        code_of_case = dict(zip(cases, codes, strict=True))
        stratum = sized["case"].map(code_of_case).rename("stratum")
        # By the types of pandas, a key is no more than hashable.
        groups: Any = sized.groupby([stratum, "label", "decade"], observed=True)

        for (code, label, decade), group in groups:
            smallest = 10**decade if decade else 0
            place = {
                "attribute": attribute,
                "stratum": names[code],
                "label": label,
                "unit": group["unit"].iloc[0],
                "volume": f"{smallest} to {10 ** (decade + 1)}",
            }
            yield place, group


def _numbers(group: pd.DataFrame, *, with_intervals: bool) -> dict[str, float]:
    """`NUMBERS` of the lesions of one stratum, label and range of volumes."""
    is_matched = group["matched"].astype(bool)
    is_reference = group["of"] == "reference"
    is_prediction = group["of"] == "prediction"
    reference = group[is_reference]
    found_lesions = group[is_reference & is_matched]

    recall = float("nan")
    if len(reference):
        recall = len(found_lesions) / len(reference)
    numbers = {
        "n_lesions": len(reference),
        "n_cases": reference["case"].nunique(),
        "n_found": len(found_lesions),
        # Predicted lesions that are matched count with the lesions that they are matched with.
        "n_invented": int((is_prediction & ~is_matched).sum()),
        "recall": recall,
        "dice_of_found": float(found_lesions["dice"].mean()),
    }
    if with_intervals and reference["patient"].nunique() > 1:
        by_patient = is_matched[is_reference].groupby(reference["patient"])
        numbers["recall_low"], numbers["recall_high"] = bounded_share(
            by_patient.sum().to_numpy(dtype=np.float64),
            by_patient.size().to_numpy(dtype=np.float64),
            tail=TAIL,
        )
    return numbers


def _with_decades(lesions: pd.DataFrame) -> pd.DataFrame:
    """The lesions whose volume is known, with its unit and its decade.

    The decade is 1 for volumes of 10 to 100, and 0 for all below 10.
    """
    column = "volume_mm3"
    unit = "mm3"
    if lesions["volume_mm3"].isna().all():
        column = "n_voxels"
        unit = "voxels"

    volumes = lesions[column].to_numpy(dtype=np.float64)
    is_known = ~np.isnan(volumes)
    at_least_1 = np.maximum(volumes[is_known], 1)
    decades = [max(0, math.floor(math.log10(volume))) for volume in at_least_1]
    return lesions[is_known].assign(decade=decades, unit=unit)
