"""The samples that the rows of the strata frame describe: values of a stratum, label and metric."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.scoring.failures import Failure, failed_rows
from nnunet_dro.evaluation.scoring.instances import labels_with_lesions, lesion_metrics
from nnunet_dro.evaluation.statistics.patients import (
    patient_numbers,
    patient_values,
    worst_metric,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL, divide


@dataclass(frozen=True, eq=False)
class Sample:
    """The values that a row of the strata frame describes."""

    key: dict[str, str]  # attribute, stratum, label and metric
    values: FloatArray  # of the cases, or of the patients, where they count once
    counts: dict[str, float]  # how many cases or patients there are, and how many failed


def samples_of(
    scores: pd.DataFrame,
    strata: "Mapping[str, pd.Series[str]] | None",
    metrics: Sequence[str],
    *,
    patient_of_case: "pd.Series[str] | None" = None,
    patient_score: PatientScore = PatientScore.MEAN,
    failure: Failure,
) -> Iterator[Sample]:
    """The samples of the table, in its order; see `summarise`."""
    patient_of_row = None
    if patient_of_case is not None:
        patient_of_row = patient_numbers(patient_of_case, scores["case"].tolist())
    cases: list[str] = scores["case"].unique().tolist()
    if not strata:
        strata = {ALL: pd.Series(ALL, index=cases)}
    groups = _groups(scores, strata, cases)
    values = {metric: scores[metric].to_numpy(dtype=np.float64) for metric in metrics}
    failed = {metric: failed_rows(scores, metric) for metric in metrics}
    on_lesions = lesion_metrics(metrics)
    with_lesions = labels_with_lesions(scores)

    for key, inside in groups:
        patients = None
        if patient_of_row is not None:
            patients = patient_of_row[inside]
        for metric in metrics:
            if metric in on_lesions and key["label"] not in with_lesions:
                continue
            yield _sample(
                key | {"metric": metric},
                values[metric][inside],
                patients,
                {kind: rows[inside] for kind, rows in failed[metric].items()},
                failure,
                patient_score,
            )


def _groups(
    scores: pd.DataFrame, strata: "Mapping[str, pd.Series[str]]", cases: Sequence[str]
) -> Iterator[tuple[dict[str, str], IndexArray]]:
    """Attribute, stratum and label, and the rows of ``scores`` that belong there.

    In the order of the table.
    """
    case_of_row = pd.Index(cases).get_indexer(pd.Index(scores["case"]))
    label_of_row, labels = pd.factorize(scores["label"])

    for attribute, stratum_of_case in strata.items():
        codes, names = divide(stratum_of_case, cases, attribute=attribute)
        group_of_row = codes[case_of_row] * len(labels) + label_of_row
        groups = np.arange(len(names) * len(labels))

        # Sorted once and cut, instead of searched once per stratum and label.
        order = np.argsort(group_of_row, kind="stable")
        ends = np.searchsorted(group_of_row[order], groups, side="right")

        for group, inside in enumerate(np.split(order, ends[:-1])):
            key = {
                "attribute": attribute,
                "stratum": names[group // len(labels)],
                "label": labels[group % len(labels)],
            }
            yield key, inside


def _sample(
    key: dict[str, str],
    case_values: FloatArray,
    patients: IndexArray | None,
    failed: dict[str, BoolArray],
    failure: Failure,
    patient_score: PatientScore,
) -> Sample:
    """The sample of some cases.

    ``n_counted`` are those that can fail, and ``n_failed`` those of them that did.
    """
    values = case_values
    if patients is not None:
        worst_by = worst_metric(key["metric"], patient_score)
        values = patient_values(case_values, patients, worst_by=worst_by)

    counts: dict[str, float] = {
        "n": len(case_values),
        "n_undefined": int(np.isnan(case_values).sum()),
        "n_patients": int(np.count_nonzero(~np.isnan(values))),
    }
    for kind, rows in failed.items():
        counts[f"n_{kind}"] = int(np.count_nonzero(rows))

    if key["metric"] == failure.metric:
        has_failed = failure.of_cases(case_values, failed)
        if patients is not None:
            has_failed = patient_values(has_failed, patients)
        counts["n_failed"] = int(np.count_nonzero(has_failed > 0))
        counts["n_counted"] = int(np.count_nonzero(~np.isnan(has_failed)))
    return Sample(key, values, counts)
