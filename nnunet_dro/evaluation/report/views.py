"""What documents read: the tables, findings, verdicts and notes of an evaluation or a comparison.

Terminal, Markdown, LaTeX, page and pack have them in common. Each is made when the first document
asks for it, and once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.failure_blocks import failure_sentences
from nnunet_dro.evaluation.report.findings import (
    all_notes,
    comparison_notes,
    findings,
    requirement_count,
    requirement_notes,
)
from nnunet_dro.evaluation.report.formatting import metrics_of
from nnunet_dro.evaluation.report.further_tables import equity_tables, lesion_tables
from nnunet_dro.evaluation.report.gains import Verdict, verdicts
from nnunet_dro.evaluation.report.strata_tables import NAMES, StrataRows
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Note, Prose, Table

MetricTables = list[tuple[Metric, Table]]


@dataclass(frozen=True, eq=False)
class StrataView:
    """The strata, the scores and the requirements of an evaluation, or of all compared methods."""

    about: Mapping[str, Any]
    strata: pd.DataFrame
    scores: pd.DataFrame
    failure: str | None  # when a case has failed

    @cached_property
    def requirements(self) -> list[Note]:
        """The requirements, and whether they are met."""
        return requirement_notes(self.about)

    @cached_property
    def requirement_count(self) -> list[Prose]:
        """How many requirements are met; nothing without any."""
        return requirement_count(self.about)

    @cached_property
    def attributes(self) -> list[str]:
        """What divides the cases."""
        return [str(attribute) for attribute in self.strata["attribute"].unique()]

    def rows(self, attribute: str, labels: Sequence[str] | None = None) -> pd.DataFrame:
        """The rows of an attribute and of some labels; None for all."""
        return inside(self.strata, attribute, labels)

    @property
    def method(self) -> str | None:
        """The method of all rows; None where each says its own."""
        return None

    @cached_property
    def _rows(self) -> dict[str, list[StrataRows]]:
        return {name: self._made(name) for name in self.attributes}

    def _made(self, attribute: str, labels: Sequence[str] | None = None) -> list[StrataRows]:
        rows = self.rows(attribute, labels)
        if self.method is not None:
            rows = rows.assign(method=self.method)
        return StrataRows.of(rows, self.scores, self.failure)

    @property
    def _names(self) -> list[str]:
        return [name for name in NAMES if name in self.strata]

    def tables(self, attribute: str, labels: Sequence[str]) -> MetricTables:
        """The tables of an attribute and some labels, each with its metric."""
        n_labels = self.rows(attribute)["label"].nunique()
        made = self._made(attribute, labels) if len(labels) < n_labels else self._rows[attribute]
        return [(rows.metric, rows.table(self._names)) for rows in made]

    @property
    def all_tables(self) -> list[Table]:
        """The tables of all attributes and labels."""
        return [rows.table(self._names) for made in self._rows.values() for rows in made]

    @property
    def paper_tables(self) -> list[Table]:
        """The same with rows named as in Tables 2 and 3 of Fidon et al. 2022 (MELBA)."""
        tables = []
        for attribute, made in self._rows.items():
            names = ("label", "method") if attribute == ALL else ("stratum", "method", "label")
            tables += [rows.table(names) for rows in made]
        return tables


@dataclass(frozen=True, eq=False)
class EvaluationView(StrataView):
    """What documents say of an evaluation."""

    evaluation: Evaluation

    @property
    def method(self) -> str:
        """The method of all rows."""
        return self.evaluation.method

    @classmethod
    def of(cls, evaluation: Evaluation) -> "EvaluationView":
        """The view of an evaluation."""
        new = cls(
            evaluation.about,
            evaluation.strata,
            evaluation.scores,
            evaluation.options.failure,
            evaluation,
        )
        view: EvaluationView = evaluation.computed.setdefault("view", new)
        return view

    @cached_property
    def findings(self) -> list[Note]:
        """The worst strata."""
        return findings(self.evaluation)

    @cached_property
    def notes(self) -> list[Note]:
        """What readers need to know."""
        return [Note(text) for text in all_notes(self.evaluation.notes, self.strata)]

    @cached_property
    def lesion_tables(self) -> list[Table]:
        """The lesions by volume, a table per attribute."""
        return lesion_tables(self.evaluation.lesion_sizes)

    @cached_property
    def equity_tables(self) -> list[Table]:
        """How far the strata lie apart, a table per attribute."""
        return equity_tables(self.evaluation.equity, self.scores)

    def equity_of(self, attribute: str, labels: Sequence[str]) -> list[Table]:
        """The table of an attribute and some labels, if anything divides the cases."""
        return equity_tables(inside(self.evaluation.equity, attribute, labels), self.scores)


@dataclass(frozen=True, eq=False)
class ComparisonView(StrataView):
    """What documents say of a comparison."""

    comparison: Comparison

    @classmethod
    def of(cls, comparison: Comparison) -> "ComparisonView":
        """The view of a comparison."""
        new = cls(
            comparison.about,
            comparison.strata,
            comparison.scores,
            comparison.failure,
            comparison,
        )
        view: ComparisonView = comparison.computed.setdefault("view", new)
        return view

    @cached_property
    def metrics(self) -> list[Metric]:
        """The metrics that are compared."""
        return metrics_of(self.comparison.table, self.scores)

    @cached_property
    def failures(self) -> list[Prose]:
        """Who fails with each method, in sentences."""
        return failure_sentences(self.comparison)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """How each method did."""
        return verdicts(self.comparison)

    @cached_property
    def notes(self) -> list[Note]:
        """What readers need to know."""
        return [Note(text) for text in comparison_notes(self.comparison)]

    def differences(
        self,
        attribute: str,
        labels: Sequence[str] | None = None,
    ) -> list[tuple[Metric, pd.DataFrame]]:
        """The rows of an attribute and some labels, those of one metric and method together."""
        rows = inside(self.comparison.table, attribute, labels)
        groups = []
        for metric in self.metrics:
            for method in self.comparison.methods[1:]:
                is_meant = (rows["metric"] == metric.name) & (rows["method"] == method)
                if is_meant.any():
                    groups.append((metric, rows[is_meant]))
        return groups


def inside(
    table: pd.DataFrame, attribute: str, labels: Sequence[str] | None = None
) -> pd.DataFrame:
    """The rows of an attribute and some labels; None for all."""
    rows = table[table["attribute"] == attribute]
    if labels is None:
        return rows
    return rows[rows["label"].astype(str).isin(labels)]
