"""What documents read: the tables, findings, verdicts and notes of an evaluation or a comparison.

Terminal, Markdown, LaTeX, page and pack have them in common. Each is made when the first document
asks for it, and once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report.failure_blocks import failure_sentences
from nnunet_dro.evaluation.report.findings import (
    all_notes,
    comparison_notes,
    findings,
)
from nnunet_dro.evaluation.report.formatting import metrics_of
from nnunet_dro.evaluation.report.gains import MethodVerdict, method_verdicts
from nnunet_dro.evaluation.report.strata_tables import NAMES, StrataRows
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Note, Prose, Table

MetricTables = list[tuple[Metric, Table]]


@dataclass(frozen=True, eq=False)
class StrataView:
    """What an evaluation and a comparison have in common: strata, scores and requirements."""

    source: Evaluation | Comparison
    failure: str | None  # when a case has failed
    method: str | None = None  # the method of all rows; None where each says its own

    @cached_property
    def requirements(self) -> list[Note]:
        """The requirements, and whether they are met."""
        notes = []
        for outcome in self.source.about.get("requirements", []):
            # Evaluations of earlier versions only say whether a requirement passed.
            verdict = outcome.get("verdict", "not met")
            if outcome["passed"]:
                verdict = "met"
            notes.append(Note(outcome["line"], "requirement", verdict))
        return notes

    @property
    def requirement_count(self) -> list[Prose]:
        """How many requirements are met, in a sentence; nothing without any."""
        verdicts = [note.title for note in self.requirements]
        if not verdicts:
            return []
        return [Prose(say("requirement_count", verdicts=verdicts), kind="first")]

    @property
    def attributes(self) -> list[str]:
        """What divides the cases."""
        return [str(attribute) for attribute in self.source.strata["attribute"].unique()]

    def rows(self, attribute: str, labels: Sequence[str] | None = None) -> pd.DataFrame:
        """The rows of an attribute and of some labels; None for all."""
        return inside(self.source.strata, attribute, labels)

    @cached_property
    def _rows(self) -> dict[str, list[StrataRows]]:
        return {name: self._made(name) for name in self.attributes}

    def _made(self, attribute: str, labels: Sequence[str] | None = None) -> list[StrataRows]:
        rows = self.rows(attribute, labels)
        if self.method is not None:
            rows = rows.assign(method=self.method)
        return StrataRows.of(
            rows,
            self.source.scores,
            self.failure,
            self.source.about.get("definitions"),
        )

    @property
    def _names(self) -> list[str]:
        return [name for name in NAMES if name in self.source.strata]

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

    source: Evaluation

    @classmethod
    def of(cls, evaluation: Evaluation) -> "EvaluationView":
        """The view of an evaluation."""
        new = cls(evaluation, evaluation.options.failure, evaluation.method)
        view: EvaluationView = evaluation.computed.setdefault("view", new)
        return view

    @cached_property
    def findings(self) -> list[Note]:
        """The worst strata."""
        return findings(self.source)

    @cached_property
    def notes(self) -> list[Note]:
        """What readers need to know."""
        return [Note(text) for text in all_notes(self.source.notes, self.source.strata)]


@dataclass(frozen=True, eq=False)
class ComparisonView(StrataView):
    """What documents say of a comparison."""

    source: Comparison

    @classmethod
    def of(cls, comparison: Comparison) -> "ComparisonView":
        """The view of a comparison."""
        new = cls(comparison, comparison.failure)
        view: ComparisonView = comparison.computed.setdefault("view", new)
        return view

    @cached_property
    def metrics(self) -> list[Metric]:
        """The metrics that are compared."""
        return metrics_of(self.source.table, self.source.scores)

    @cached_property
    def failures(self) -> list[Prose]:
        """Who fails with each method, in sentences."""
        return failure_sentences(self.source)

    @cached_property
    def verdicts(self) -> list[MethodVerdict]:
        """How each method did."""
        return method_verdicts(self.source)

    @cached_property
    def notes(self) -> list[Note]:
        """What readers need to know."""
        return [Note(text) for text in comparison_notes(self.source)]

    def differences(
        self,
        attribute: str,
        labels: Sequence[str] | None = None,
    ) -> list[tuple[Metric, pd.DataFrame]]:
        """The rows of an attribute and some labels, those of one metric and method together."""
        rows = inside(self.source.table, attribute, labels)
        groups = []
        for metric in self.metrics:
            for method in self.source.methods[1:]:
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
