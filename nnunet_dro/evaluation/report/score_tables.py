"""The sortable tables of the reports: every case and label with its scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.report.formatting import difference_unit, metric_title, shown
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.sortable_table import Column, SortableTable


def scores_table(
    scores: pd.DataFrame, metrics: Sequence[Metric], stratum_of_case: "Mapping[str, pd.Series[str]]"
) -> SortableTable:
    """The case table of an evaluation, a row per row of the scores, the worst value of the first metric first.

    Its columns: case, label, attributes, metrics, and the volumes that are columns of the scores.
    """
    columns = _names(scores, stratum_of_case)
    first = len(columns)
    for metric in metrics:
        kind = "volume" if metric.unit == "ml" else "number"
        columns.append(Column(metric_title(metric), kind, shown(scores[metric.name], metric)))
    for name, title in (("reference_ml", "Reference (ml)"), ("prediction_ml", "Prediction (ml)")):
        if name in scores.columns:
            columns.append(Column(title, "volume", scores[name].tolist()))
    return SortableTable(tuple(columns), _keys(scores), first, descending=not metrics[0].more_is_better)


def with_known_volumes(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores without columns of volumes that are not known of any case."""
    volumes = scores.columns.intersection(["reference_ml", "prediction_ml"])
    return scores.drop(columns=[name for name in volumes if scores[name].isna().all()])


@dataclass(frozen=True)
class Pairs:
    """The scores of several methods side by side."""

    rows: pd.DataFrame  # ``case`` and ``label``
    methods: tuple[str, ...]  # the baseline first
    #: Metric and method to a value per row, in shown units; NaN where undefined or not scored.
    values: Mapping[tuple[str, str], npt.NDArray[np.float64]]

    @classmethod
    def of(cls, scores: pd.DataFrame, metrics: Sequence[Metric], methods: Sequence[str]) -> "Pairs":
        """Pair the rows of a scores frame that has a column ``method``, in the order of the baseline's."""
        rows = scores[["case", "label"]].drop_duplicates().reset_index(drop=True)
        keys = pd.MultiIndex.from_frame(rows)
        values = {}
        for method in methods:
            of_method = scores[scores["method"] == method].set_index(["case", "label"])
            for metric in metrics:
                values[metric.name, method] = np.asarray(shown(of_method[metric.name].reindex(keys), metric))
        return cls(rows, tuple(methods), values)

    def most_changed(self, metric: str, n_rows: int) -> "Pairs":
        """The rows whose value of a metric differs most between any method and the baseline; all if there are few."""
        if len(self.rows) <= n_rows:
            return self
        baseline = self.values[metric, self.methods[0]]
        changes = np.stack([np.nan_to_num(np.abs(self.values[metric, m] - baseline)) for m in self.methods[1:]])
        kept = np.sort(np.argsort(-changes.max(axis=0), kind="stable")[:n_rows])
        values = {key: of_all[kept] for key, of_all in self.values.items()}
        return Pairs(self.rows.iloc[kept].reset_index(drop=True), self.methods, values)


def pairs_table(
    pairs: Pairs, metrics: Sequence[Metric], stratum_of_case: "Mapping[str, pd.Series[str]]"
) -> SortableTable:
    """The case table of a comparison, the case that lost most first.

    Its columns: case, label, attributes, then per metric the methods' values and their differences from the baseline.
    """
    columns = _names(pairs.rows, stratum_of_case)
    first = 0
    for metric in metrics:
        for method in pairs.methods:
            columns.append(Column(_method_title(metric, method), "number", pairs.values[metric.name, method].tolist()))
        for method in pairs.methods[1:]:
            change = pairs.values[metric.name, method] - pairs.values[metric.name, pairs.methods[0]]
            first = first or len(columns)
            columns.append(Column(_change_title(metric, method), "difference", change.tolist()))
    return SortableTable(tuple(columns), _keys(pairs.rows), first, descending=not metrics[0].more_is_better)


def pair_columns(table: SortableTable, metric: Metric, baseline: str, method: str) -> list[int]:
    """Indices of the columns of one pair of methods: baseline, method, difference."""
    titles = (_method_title(metric, baseline), _method_title(metric, method), _change_title(metric, method))
    return [table.column(title) for title in titles]


def _method_title(metric: Metric, method: str) -> str:
    return f"{metric_title(metric)}, {method}"


def _change_title(metric: Metric, method: str) -> str:
    return f"Change of {metric.title} ({difference_unit(metric)}), {method}"


def single_attributes(stratum_of_case: "Mapping[str, pd.Series[str]]") -> list[str]:
    """The attributes that are not the intersection of others, nor ``all``."""
    names = list(stratum_of_case)
    return [
        name for name in names if name != ALL and not ("," in name and all(part in names for part in name.split(",")))
    ]


def _keys(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Case and label of every row."""
    return list(zip(rows["case"], rows["label"], strict=True))


def _names(rows: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]") -> list[Column]:
    cases = rows["case"].astype(object)
    columns = [Column("Case", "text", cases.tolist())]
    columns.append(Column("Label", "text", rows["label"].astype(object).tolist(), filtered=True))
    for attribute in single_attributes(stratum_of_case):
        strata = cases.map(stratum_of_case[attribute].astype(object)).tolist()
        columns.append(Column(attribute, "text", strata, filtered=True))
    return columns
