"""Which lesions are found, by their volume: small ones are missed first."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.statistics.intervals import TAIL
from nnunet_dro.evaluation.statistics.patients import clustered_mean
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
    seed: int = 0,
) -> pd.DataFrame:
    """How many lesions are found, by decades of their volume.

    A row per attribute, stratum, label and range of volumes that has lesions: ``unit`` (mm3, or
    voxels where no voxel size is known), ``volume`` (``10 to 100`` holds 10 and not 100),
    ``n_lesions`` (of the reference), ``n_cases`` (that have them), ``n_found``, ``n_invented``
    (predicted, matched with none), ``recall`` (found per lesion) and ``dice_of_found`` (their
    mean). The lesions of a case, or of a patient, are not independent: the 95 % interval of the
    recall is that of cases, or patients, with several values each.
    """
    sized = _sized(lesions[lesions["counted"].astype(bool)])
    cases = sorted(sized["case"].unique().tolist())
    of_case = (
        pd.Series(cases, index=cases) if patient_of_case is None else patient_of_case.reindex(cases)
    )
    patient = pd.Series(pd.factorize(of_case)[0], index=cases)
    labels = pd.Categorical(sized["label"], categories=lesions["label"].unique())
    sized = sized.assign(patient=sized["case"].map(patient), label=labels)
    rows = []
    for attribute, stratum_of_case in strata.items():
        codes, names = divide(stratum_of_case, cases, attribute=attribute)
        stratum = sized["case"].map(dict(zip(cases, codes, strict=True))).rename("stratum")
        for (code, label, decade), group in sized.groupby(
            [stratum, "label", "decade"], observed=True
        ):
            # Predicted lesions that are matched are told of by those that they are matched with.
            of_reference = group[group["of"] == "reference"]
            n_invented = int(
                (~group.loc[group["of"] == "prediction", "matched"].astype(bool)).sum()
            )
            if not len(of_reference) and not n_invented:
                continue
            found = of_reference[of_reference["matched"].astype(bool)]
            row = {
                "attribute": attribute,
                "stratum": names[code],
                "label": label,
                "unit": group["unit"].iloc[0],
            }
            row |= {
                "volume": f"{10**decade if decade else 0} to {10 ** (decade + 1)}",
                "n_invented": n_invented,
            }
            row |= {
                "n_lesions": len(of_reference),
                "n_cases": of_reference["case"].nunique(),
                "n_found": len(found),
            }
            row["recall"] = len(found) / len(of_reference) if len(of_reference) else float("nan")
            row["dice_of_found"] = float(found["dice"].mean())
            if n_resamples and of_reference["patient"].nunique() > 1:
                matched = of_reference["matched"].to_numpy(dtype=np.float64)
                limits = {"low": 0.0, "high": 1.0, "tail": TAIL}
                ends = clustered_mean(
                    matched,
                    of_reference["patient"].to_numpy(),
                    **limits,
                    n_resamples=n_resamples,
                    seed=seed,
                )
                row["recall_low"], row["recall_high"] = ends
            rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _sized(lesions: pd.DataFrame) -> pd.DataFrame:
    """The lesions with the decade of their volume.

    1 for volumes of 10 to 100, 0 for all below 10.
    """
    in_voxels = bool(lesions["volume_mm3"].isna().all())
    volumes = lesions["n_voxels" if in_voxels else "volume_mm3"].to_numpy(dtype=np.float64)
    known = ~np.isnan(volumes)
    decades = [max(0, math.floor(math.log10(volume))) for volume in np.maximum(volumes[known], 1)]
    return lesions[known].assign(decade=decades, unit="voxels" if in_voxels else "mm3")
