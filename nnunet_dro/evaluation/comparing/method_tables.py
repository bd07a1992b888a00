"""The statistics and the scores of every method, beside the differences."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.comparing.comparison_table import Compared
from nnunet_dro.evaluation.comparing.known_statistics import known_statistics, merged_in_order
from nnunet_dro.evaluation.comparing.trainings import Trainings
from nnunet_dro.evaluation.scoring.failures import Failure, failed_rows, size_columns
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.statistics.columns import GUARANTEED, INTERVALS, STATISTICS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.samples import samples_of
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise

#: The counts that are sums over the trainings of a method; the others are those of its cases.
_SUMS = ("n_missed", "n_invented", "n_left_out", "n_failed")

#: What a prediction has of its own, so that it is the mean over the trainings, too.
_PREDICTED = ("n_prediction", "n_intersection", "prediction_ml")


def strata_of_methods(compared: Compared, *, failure: str, n_resamples: int) -> pd.DataFrame:
    """The statistics of every method, over the cases with a value in every training of every one.

    Of a method with several trainings they are the means of their statistics without intervals;
    missed and invented labels are counted over all of them.
    """
    trainings = compared.trainings
    values = _values_of_all(compared)

    parts = []
    for method, names in trainings.names.items():
        # Several trainings have no intervals in common.
        n_draws = n_resamples if len(names) == 1 else 0
        tables = []
        for name in names:
            evaluation = trainings.evaluations[name]
            own_statistics = known_statistics(
                evaluation,
                values[name],
                compared,
                failure=failure,
                with_intervals=n_draws > 0,
            )
            parts_of_table = [own_statistics]
            scores = _scores(evaluation, values[name], compared.ground)
            others = scores[~scores["label"].isin(own_statistics["label"])]
            if len(others):
                described = _described(others, compared, failure=failure, n_resamples=n_draws)
                _count_failures(described, compared, evaluation, failure)
                parts_of_table.append(described)
            tables.append(merged_in_order(parts_of_table, compared))

        part = _mean_table(tables)
        part.insert(0, "method", method)
        parts.append(part)

    return pd.concat(parts, ignore_index=True)


def _described(
    scores: pd.DataFrame, compared: Compared, *, failure: str, n_resamples: int
) -> pd.DataFrame:
    """The statistics of a training's scores."""
    return summarise(
        scores,
        compared.strata,
        metrics=compared.ground.metrics,
        patient_of_case=compared.patient_of_case,
        patient_score=compared.patient_score,
        failure=failure,
        n_resamples=n_resamples,
    )


def _count_failures(
    table: pd.DataFrame, compared: Compared, evaluation: Evaluation, failure: str
) -> None:
    """Count the failures by the values as they are: a missed label fails, whatever fills it in."""
    metric = Failure.of(failure).metric
    if metric not in compared.ground.metrics:
        return

    values = {metric: compared.ground.align(evaluation.scores, metric)}
    scores = _scores(evaluation, values, compared.ground)
    samples = samples_of(
        scores[scores["label"].isin(table["label"])],
        compared.strata,
        [metric],
        patient_of_case=compared.patient_of_case,
        patient_score=compared.patient_score,
        failure=Failure.of(failure),
    )
    is_metric = table["metric"] == metric
    table.loc[is_metric, "n_failed"] = [sample.counts["n_failed"] for sample in samples]
    # That of the values that are filled in is no bound of these.
    table.loc[is_metric, "failure_high"] = np.nan


def _values_of_all(compared: Compared) -> dict[str, dict[str, FloatArray]]:
    """Training to metric to its values, NaN where any other training has none."""
    trainings = compared.trainings
    values: dict[str, dict[str, FloatArray]] = {name: {} for name in trainings.evaluations}
    for metric in compared.ground.metrics:
        filled = compared.filled(metric, *trainings.names)
        undefined = np.isnan(list(filled.values())).any(axis=0)
        for name, values_of_training in filled.items():
            values[name][metric] = np.where(undefined, np.nan, values_of_training)
    return values


def _scores(
    evaluation: Evaluation, values: dict[str, FloatArray], ground: CommonGround
) -> pd.DataFrame:
    """Values as rows of scores, with the counts that tell which labels were missed or invented."""
    scores = evaluation.scores
    counts: list[str] = []
    if failed_rows(scores):
        counts += size_columns("dice")
    if ground.with_lesions:
        counts += [column for column in LESION_COUNTS if column in scores]

    columns = {metric: table.ravel() for metric, table in values.items()}
    for column in counts:
        columns[column] = ground.align(scores, column).ravel()

    names = {"case": ground.cases, "label": ground.labels}
    levels = [pd.CategoricalIndex(level, categories=level) for level in names.values()]
    rows = pd.MultiIndex.from_product(levels, names=list(names))
    return rows.to_frame(index=False).assign(**columns)


def _mean_table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The table of one training, or what several of them have on average."""
    mean = tables[0]
    if len(tables) > 1:
        for statistic in STATISTICS:
            mean[statistic] = np.mean([table[statistic] for table in tables], axis=0)
        for count in _SUMS:
            mean[count] = np.sum([table[count] for table in tables], axis=0)
        mean[[*INTERVALS, *GUARANTEED]] = np.nan
        mean["n_trainings"] = len(tables)
    return mean


def scores_of_methods(trainings: Trainings, ground: CommonGround) -> pd.DataFrame:
    """All methods' scores of the compared cases, with the column ``method`` first.

    They are means over the trainings of a method.
    """
    parts = []
    for method, names in trainings.names.items():
        tables = [trainings.evaluations[name].scores for name in names]
        part = tables[0].copy(deep=False)
        is_compared = part["case"].isin(ground.cases)
        if not is_compared.all():
            part = part[is_compared]
        if len(tables) > 1:
            part = part.assign(**_mean_columns(part, tables, (*ground.metrics, *_PREDICTED)))
        # The case table may have a column of this name.
        part = part.rename(columns={"method": "method (case table)"})
        part.insert(0, "method", method)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _mean_columns(
    part: pd.DataFrame, tables: Sequence[pd.DataFrame], columns: Sequence[str]
) -> dict[str, FloatArray]:
    """The means, over the trainings that have the columns, in the rows of ``part``."""
    rows = pd.MultiIndex.from_frame(part[["case", "label"]])
    indexed = [table.set_index(["case", "label"]) for table in tables]
    means = {}
    for column in columns:
        if all(column in table for table in indexed):
            values = [table[column].reindex(rows).to_numpy() for table in indexed]
            means[column] = np.mean(values, axis=0)
    return means
