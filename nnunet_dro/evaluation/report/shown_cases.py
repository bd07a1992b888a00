"""What the page of an evaluation shows of its cases: all that fits, or else the worst.

The rows of its table, the labels of its tables and figures, and how many dots these have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.report import page_parts as parts
from nnunet_dro.evaluation.report.formatting import column_kind, metric_title, shown
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.patients import patient_values, worst_metric
from nnunet_dro.pages.html import SortableColumn, SortableTable

#: The columns of volumes, and their titles.
_VOLUMES = {"reference_ml": "Reference (ml)", "prediction_ml": "Prediction (ml)"}


@dataclass(frozen=True)
class ShownCases:
    """The cases of an evaluation on its page."""

    evaluation: Evaluation
    metrics: Sequence[Metric]
    scores: pd.DataFrame  # numbered as the rows of the table; -1 for those that are not in it
    table: SortableTable
    labels: Mapping[str, Sequence[str]]  # attribute to the labels that are shown
    left_out: Mapping[str, str]  # attribute to a sentence on the labels that are not; or no text
    n_dots: int  # the dots of the first metric, if none were left out
    most_dots: int | None  # the most dots of a stratum and label; None for all

    @classmethod
    def of(cls, evaluation: Evaluation, metrics: Sequence[Metric]) -> "ShownCases":
        """Choose the labels, the dots, and the rows of the table."""
        strata = evaluation.strata
        labels = {}
        left_out = {}
        for attribute in map(str, strata["attribute"].unique()):
            labels[attribute], left_out[attribute] = parts.worst_labels(
                strata,
                evaluation.worst,
                attribute,
                most_rows=parts.MOST_STRATA_ROWS,
            )

        n_dots = _n_dots(evaluation.scores, labels)
        most_dots = None
        if n_dots > parts.MOST_DOTS:
            n_rows = _n_rows_of_figures(strata, labels)
            most_dots = max(20, parts.MOST_DOTS // max(n_rows, 1))

        volumes = evaluation.scores.columns.intersection(list(_VOLUMES))
        is_unknown = evaluation.scores[volumes].isna().all()
        scores = evaluation.scores.drop(columns=volumes[is_unknown])
        kept = np.arange(len(scores))
        if len(scores) > parts.MOST_CASE_ROWS:
            kept = _kept_rows(
                scores,
                metrics[0],
                labels,
                evaluation.stratum_of_case,
                most_dots,
            )
        row_numbers = np.full(len(scores), -1)
        row_numbers[kept] = np.arange(len(kept))

        return cls(
            evaluation,
            metrics,
            scores.set_axis(row_numbers),
            _table(scores.iloc[kept], metrics, evaluation.stratum_of_case),
            labels,
            left_out,
            n_dots,
            most_dots,
        )

    @cached_property
    def scores_by_label(self) -> dict[str, pd.DataFrame]:
        """Label to its scores."""
        return {
            str(label): rows
            for label, rows in self.scores.groupby("label", sort=False, observed=True)
        }

    def units(self, label: str, attribute: str, metric: Metric) -> pd.DataFrame:
        """What statistics are of: the scores of a label, or a row per patient and stratum.

        The row of a patient is that of its worst case, with what the patient scores.
        """
        scores = self.scores_by_label[label]
        patient_of_case = self.evaluation.patient_of_case
        if patient_of_case is None:
            return scores

        stratum_of_case = self.evaluation.stratum_of_case[attribute].astype(str)
        places = [scores["case"].map(stratum_of_case), scores["case"].map(patient_of_case)]
        codes = scores.groupby(places, sort=False).ngroup().to_numpy(dtype=np.intp)
        values = scores[metric.name].to_numpy(dtype=np.float64)
        worst_by = worst_metric(metric.name, self.evaluation.options.patient_score)
        values_of_patients = patient_values(values, codes, worst_by=worst_by)

        worst_first = np.argsort(metric.goodness(values), kind="stable")
        _, first = np.unique(codes[worst_first], return_index=True)
        return scores.iloc[worst_first[first]].assign(**{metric.name: values_of_patients})

    @property
    def unit(self) -> str:
        """What a dot is: ``case``, or ``patient``."""
        return "case" if self.evaluation.patient_of_case is None else "patient"

    @property
    def has_volumes(self) -> bool:
        """Whether the volumes of references are known."""
        return "reference_ml" in self.scores

    @property
    def about_table(self) -> str:
        """What the table has."""
        n_left_out = len(self.scores) - len(self.table.keys)
        return say(
            "case_table",
            metric=self.metrics[0],
            n_rows=len(self.scores),
            n_left_out=n_left_out,
            most_rows=parts.MOST_CASE_ROWS,
        )


def _n_dots(scores: pd.DataFrame, labels: Mapping[str, Sequence[str]]) -> int:
    """The dots of a figure of one metric for every attribute."""
    n_rows = scores["label"].value_counts()
    return sum(int(n_rows[label]) for shown_labels in labels.values() for label in shown_labels)


def _n_rows_of_figures(strata: pd.DataFrame, labels: Mapping[str, Sequence[str]]) -> int:
    """The strata of every label and attribute: the rows of those figures."""
    n_strata = strata.groupby("attribute")["stratum"].nunique()
    return sum(
        len(shown_labels) * int(n_strata[attribute]) for attribute, shown_labels in labels.items()
    )


def _kept_rows(
    scores: pd.DataFrame,
    metric: Metric,
    labels: Mapping[str, Sequence[str]],
    stratum_of_case: "Mapping[str, pd.Series[str]]",
    most_dots: int | None,
) -> npt.NDArray[np.int64]:
    """The rows of a table that is too long for all: those with a dot, then the worst others."""
    values = scores[metric.name].to_numpy(dtype=np.float64)
    worst_first = np.argsort(metric.goodness(values), kind="stable")
    ranked = scores[["case", "label"]].iloc[worst_first]
    ranked = ranked.assign(place=worst_first)

    most = most_dots or len(scores)
    drawn = []
    for attribute, shown_labels in labels.items():
        inside = ranked[ranked["label"].isin(shown_labels)]
        stratum_names = stratum_of_case[attribute].astype(object)
        strata = inside["case"].map(stratum_names)
        groups = inside.groupby([strata, "label"], observed=True)
        drawn.append(groups.head(most)["place"])

    n_kept = max(parts.MOST_CASE_ROWS, pd.concat(drawn).nunique())
    rows = pd.unique(pd.concat([*drawn, ranked["place"]]))
    return rows[:n_kept].astype(np.int64)


def _table(
    scores: pd.DataFrame,
    metrics: Sequence[Metric],
    stratum_of_case: "Mapping[str, pd.Series[str]]",
) -> SortableTable:
    """The worst value of the first metric first.

    Case, label, attributes, metrics, and the volumes that are known.
    """
    columns = parts.case_columns(scores, stratum_of_case)
    first_metric = len(columns)

    for metric in metrics:
        values = shown(scores[metric.name], metric)
        columns.append(SortableColumn(metric_title(metric), column_kind(metric), values))
    columns += [
        SortableColumn(title, "volume", scores[name])
        for name, title in _VOLUMES.items()
        if name in scores
    ]

    return SortableTable(
        tuple(columns),
        list(zip(scores["case"], scores["label"], strict=True)),
        first_metric,
        descending=not metrics[0].more_is_better,
    )
