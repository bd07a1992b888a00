"""The methods of a comparison side by side: their statistics, their scores, and the cases that changed most."""

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.comparing.comparison_table import Compared
from nnunet_dro.evaluation.comparing.trainings import Trainings
from nnunet_dro.evaluation.scoring.failures import failed_rows, size_columns
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import COUNTS, GUARANTEED, INTERVALS, STATISTICS
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.stratifying.stratify import ALL

#: How many cases `changed_cases` has in each direction, for each method, metric and label.
N_CHANGED = 5

_CHANGED_COLUMNS = ("method", "metric", "label", "case", "baseline_value", "method_value", "difference")

#: The counts that are sums over the trainings of a method; the others are those of its cases.
_SUMS = tuple(name for name in COUNTS if name in ("n_missed", "n_invented", "n_left_out", "n_failed"))


def strata_of_methods(compared: Compared, *, failure: str, n_resamples: int, seed: int) -> pd.DataFrame:
    """The statistics of every method, over the cases with a value in every training of every method.

    Returns:
        As from `summarise`, with the column ``method`` first. Of a method with several trainings, the means of their
        statistics without intervals; missed and invented labels are counted over all of them.
    """
    trainings, ground = compared.trainings, compared.ground
    pairs = pd.MultiIndex.from_product([ground.cases, ground.labels], names=["case", "label"])
    complete = {m: compared.filled(m, *trainings.of_method) for m in ground.metrics}
    everywhere = {m: ~np.isnan(list(of_metric.values())).any(axis=0) for m, of_metric in complete.items()}
    parts = []
    for method, names in trainings.of_method.items():
        tables = []
        for name in names:
            columns = {m: np.where(everywhere[m], complete[m][name], np.nan).ravel() for m in ground.metrics}
            own = trainings.evaluations[name].scores
            counts = [*(size_columns("dice") if failed_rows(own) is not None else ())]
            counts += LESION_COUNTS if ground.with_lesions else ()
            columns |= {column: ground.align(own, column).ravel() for column in counts}
            of_training = summarise(
                pd.DataFrame(columns, index=pairs).reset_index(),
                compared.strata,
                metrics=ground.metrics,
                patient_of_case=compared.patient_of_case,
                failure=failure,
                n_resamples=n_resamples if len(names) == 1 else 0,
                seed=seed,
            )
            tables.append(of_training)
        part = tables[0] if len(tables) == 1 else _mean_of_tables(tables)
        part.insert(0, "method", method)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _mean_of_tables(tables: list[pd.DataFrame]) -> pd.DataFrame:
    part = tables[0].copy()
    for name in STATISTICS:
        part[name] = np.mean([table[name] for table in tables], axis=0)
    for name in _SUMS:
        part[name] = np.sum([table[name] for table in tables], axis=0)
    part[[*INTERVALS, *GUARANTEED]] = np.nan
    return part


def changed_cases(compared: Compared) -> pd.DataFrame:
    """The cases that changed most, by the mean over the trainings; see `Comparison.changed`."""
    trainings, ground, strata = compared.trainings, compared.ground, compared.strata
    # An attribute may have the name of a column.
    attributes = [a for a in strata if a != ALL] or list(strata)
    column_of = {a: f"{a} (stratum)" if a in _CHANGED_COLUMNS else a for a in attributes}
    stratum_of = {column_of[a]: strata[a].astype(str).to_dict() for a in attributes}
    baseline, *others = trainings.of_method
    rows = []
    for method in others:
        for metric in ground.metrics:
            filled = compared.filled(metric, baseline, method)
            # NaN where any training has no value.
            before, after = (
                np.mean([filled[name] for name in trainings.of_method[which]], axis=0) for which in (baseline, method)
            )
            for position, label in enumerate(ground.labels):
                differences = after[:, position] - before[:, position]
                gains = differences if METRICS[metric].more_is_better else -differences
                # A stable sort keeps the first of equal changes first.
                better = [i for i in np.argsort(-gains, kind="stable") if gains[i] > 0][:N_CHANGED]
                worse = [i for i in np.argsort(gains, kind="stable") if gains[i] < 0][:N_CHANGED]
                for i in (*better, *worse):
                    case, pair = ground.cases[i], (before[i, position], after[i, position])
                    fixed = (method, metric, label, case, *pair, differences[i])
                    stratum = {column: of_case[case] for column, of_case in stratum_of.items()}
                    rows.append(dict(zip(_CHANGED_COLUMNS, fixed, strict=True)) | stratum)
    return pd.DataFrame(rows, columns=[*_CHANGED_COLUMNS, *stratum_of])


def scores_of_methods(trainings: Trainings, ground: CommonGround) -> pd.DataFrame:
    """All methods' scores of the compared cases, with the column ``method`` first; means over their trainings."""
    parts = []
    for method, names in trainings.of_method.items():
        evaluations = [trainings.evaluations[name] for name in names]
        part = evaluations[0].scores[evaluations[0].scores["case"].isin(ground.cases)]
        if len(evaluations) > 1:
            keys = pd.MultiIndex.from_frame(part[["case", "label"]])
            others = [evaluation.scores.set_index(["case", "label"]) for evaluation in evaluations]
            predicted = ("n_prediction", "n_intersection", "prediction_ml")
            shared = [c for c in (*ground.metrics, *predicted) if all(c in other.columns for other in others)]
            means = {c: np.mean([other[c].reindex(keys).to_numpy() for other in others], axis=0) for c in shared}
            part = part.assign(**means)
        # The case table may have a column of this name.
        part = part.rename(columns={"method": "method (case table)"})
        part.insert(0, "method", method)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
