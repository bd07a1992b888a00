"""Statistics that the evaluation of a method has, so that its comparison need not compute them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.comparing.comparison_table import Compared
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE
from nnunet_dro.evaluation.statistics.columns import COUNTS, GUARANTEED, INTERVALS, STATISTICS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation

#: What a row is about.
_KEYS = ("attribute", "stratum", "label", "metric")

#: What it says of its values.
_DESCRIPTION = (*COUNTS, *STATISTICS, *INTERVALS, *GUARANTEED)


def known_statistics(
    evaluation: Evaluation,
    values: Mapping[str, FloatArray],
    compared: Compared,
    *,
    failure: str,
    with_intervals: bool,
) -> pd.DataFrame:
    """The statistics of the labels whose values are those of the evaluation itself.

    There are none if it was divided, or described, in another way.

    Args:
        evaluation: That of a training.
        values: Metric to the compared values of that training, shape (n_cases, n_labels).
        compared: What is compared.
        failure: When a case has failed.
        with_intervals: Whether the statistics have intervals.
    """
    table = evaluation.strata
    options = evaluation.options
    is_alike = (
        {*_DESCRIPTION} <= {*table.columns}
        and (options.n_resamples > 0) == with_intervals
        and (options.failure or DEFAULT_FAILURE) == failure
        and _has_same_patients(evaluation, compared)
        and _has_same_strata(evaluation, compared)
    )
    labels = _unchanged_labels(evaluation, values, compared.ground) if is_alike else []
    is_known = (
        table["label"].isin(labels)
        & table["attribute"].isin(compared.strata)
        & table["metric"].isin(values)
    )
    columns = {*_KEYS, "n_patients", *_DESCRIPTION}
    rows = table.loc[is_known, [name for name in table.columns if name in columns]]
    # As for the other labels: the bound of failures is that of an evaluation.
    return rows.assign(failure_high=np.nan)


def merged_in_order(tables: Sequence[pd.DataFrame], compared: Compared) -> pd.DataFrame:
    """Statistics of different labels in one table, whose rows are in the order of `summarise`."""
    rows = pd.concat([table for table in tables if len(table)], ignore_index=True)
    keys = (
        (*place.values(), metric)
        for place, _, _ in compared.places()
        for metric in compared.ground.metrics
    )
    ranks = {key: rank for rank, key in enumerate(keys)}
    order = np.argsort([ranks[key] for key in zip(*(rows[name] for name in _KEYS), strict=True)])
    return rows.iloc[order].reset_index(drop=True)


def _has_same_patients(evaluation: Evaluation, compared: Compared) -> bool:
    patient_of_case = evaluation.patient_of_case
    if patient_of_case is None or compared.patient_of_case is None:
        return patient_of_case is compared.patient_of_case
    is_score_same = evaluation.options.patient_score is compared.patient_score
    own = patient_of_case.reindex(compared.patient_of_case.index)
    return is_score_same and own.equals(compared.patient_of_case)


def _has_same_strata(evaluation: Evaluation, compared: Compared) -> bool:
    """Whether an evaluation has no other cases than those compared, in the same strata."""
    for attribute, stratum_of_case in compared.strata.items():
        own = evaluation.stratum_of_case.get(attribute)
        if own is None or len(own) != len(stratum_of_case):
            return False
        is_same = own.reindex(stratum_of_case.index).astype(str) == stratum_of_case.astype(str)
        if not is_same.all():
            return False
    return True


def _unchanged_labels(
    evaluation: Evaluation, values: Mapping[str, FloatArray], ground: CommonGround
) -> list[str]:
    """The labels that have the values of the evaluation in all cases and metrics."""
    is_unchanged = np.ones(len(ground.labels), dtype=bool)
    for metric, compared_values in values.items():
        own = ground.align(evaluation.scores, metric)
        is_same = (own == compared_values) | (np.isnan(own) & np.isnan(compared_values))
        is_unchanged &= is_same.all(axis=0)
    return np.array(ground.labels, dtype=object)[is_unchanged].tolist()
