"""The tables of strata: the statistics of every stratum, label and method."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.statistic_columns import (
    FOOTNOTES,
    N_OF_FEW,
    StatisticColumns,
    values_of_few,
)
from nnunet_dro.evaluation.report.words import say, sentences
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, Failure
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import FEWEST_TO_READ, n_units, unit_of, whole
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Cell, Column, Table

#: What a row is about.
NAMES = ("label", "stratum", "method")

#: The columns that are there where a label was missed or invented.
_FAILURES = {
    "n_missed": Column("missed", hint="label not predicted", is_minor=True),
    "n_invented": Column("inv.", hint="label predicted that the reference lacks", is_minor=True),
}


def strata_tables(
    strata: pd.DataFrame,
    scores: pd.DataFrame | None = None,
    failure: str | None = None,
    *,
    names: Sequence[str] = NAMES,
) -> Iterator[tuple[Metric, Table]]:
    """The metric and the table of each attribute and metric, metrics of one attribute together.

    The scores tell the unit of distances. ``names`` are the columns that say what a row is about,
    as rows are sorted by them; those that the frame does not have, and a single stratum, are left
    out.
    """
    shown = [name for name in names if name in strata]
    for rows in StrataRows.of(strata, scores, failure):
        yield rows.metric, rows.table(shown)


@dataclass(frozen=True, eq=False)
class StrataRows:
    """The rows of one attribute and metric, whose cells are the same in every document."""

    metric: Metric
    records: Sequence[Record]
    failed_if: Failure

    @classmethod
    def of(
        cls,
        strata: pd.DataFrame,
        scores: pd.DataFrame | None = None,
        failure: str | None = None,
        definitions: Mapping[str, str] | None = None,
    ) -> "list[StrataRows]":
        """The rows of every attribute and metric, metrics of one attribute together.

        Args:
            strata: A row per attribute, stratum, label and metric.
            scores: They tell the unit of distances.
            failure: When a case has failed.
            definitions: Those of metrics, by their names, with the options that they depend on;
                None for those without any.
        """
        failed_if = Failure.of(failure or DEFAULT_FAILURE)
        made = []
        for attribute in strata["attribute"].unique():
            inside = strata[strata["attribute"] == attribute]
            for name in inside["metric"].unique():
                metric = fmt.metric_named(str(name), scores, definitions)
                records = fmt.records(inside[inside["metric"] == name])
                made.append(cls(metric, records, failed_if))
        return made

    @cached_property
    def _statistics(self) -> StatisticColumns:
        statistics = fmt.shown_statistics(self.metric)
        if all(map(values_of_few, self.records)):
            statistics = statistics[:N_OF_FEW]
        return StatisticColumns(self.records, self.metric, statistics)

    @cached_property
    def _columns(self) -> list[tuple[Column, Sequence[Cell]]]:
        """The columns after the names, each with its cells."""
        columns: list[tuple[Column, Sequence[Cell]]] = [
            (Column("n"), [n_cell(record) for record in self.records]),
        ]
        for name, column in _FAILURES.items():
            if any(whole(record, name) for record in self.records):
                columns.append((column, [_n_failed(name, record) for record in self.records]))

        columns += self._statistics.columns
        listed = self._statistics.listed
        if any(listed):
            columns.append((Column("Values"), [_values(self.metric, values) for values in listed]))
        if self._has_failures:
            shares = [_share_failed(record) for record in self.records]
            columns.append((Column(self._failure_title), shares))
        return columns

    @cached_property
    def _has_failures(self) -> bool:
        return any(record.get("n_failed", math.nan) >= 0 for record in self.records)

    @property
    def _failure_title(self) -> str:
        bound = fmt.scaled(self.failed_if.bound, self.metric)
        return f"{self.failed_if.comparison} {bound:.12g}"

    @cached_property
    def _notes(self) -> tuple[str, ...]:
        """What the numbers of failures and the marks mean."""
        notes: list[str] = []
        if self._has_failures:
            notes += sentences(
                "failing",
                title=self._failure_title,
                unit=unit_of_rows(self.records),
                n=len(self.records),
                n_repeated=sum(whole(record, "n_trainings") > 0 for record in self.records),
            )
        marks: set[str] = set()
        for _, cells in self._statistics.columns:
            marks.update(*(cell.marks for cell in cells))
        notes += [f"{mark} {text}" for mark, text in FOOTNOTES.items() if mark in marks]
        return tuple(notes)

    def table(self, names: Sequence[str]) -> Table:
        """The table with rows that are named, and sorted, by some columns of the strata."""
        attribute = str(self.records[0]["attribute"])
        if attribute == ALL:
            names = [name for name in names if name != "stratum"]

        columns: list[tuple[Column, Sequence[Cell]]] = [
            (column, [Cell(name_of(record)) for record in self.records])
            for column, name_of in name_columns(names)
        ]
        columns += self._columns

        cells = list(zip(*(cells for _, cells in columns), strict=True))
        statistics = self._statistics
        methods = {record.get("method") for record in self.records}
        return Table(
            f"{fmt.attribute_title(attribute)}: {self.metric.title} ({fmt.unit_sign(self.metric)})",
            tuple(column for column, _ in columns),
            [cells[place] for place in order_by(self.records, names)],
            notes=self._notes,
            about=say(
                "definitions",
                metric=self.metric,
                statistics=statistics.statistics,
                several=len(methods) > 1,
            ),
            kind="strata",
            notes_below=tuple(sentences("bounds", n_bounds=statistics.n_bounds)),
        )


def unit_of_rows(records: Sequence[Record]) -> str:
    """What numbers count: ``case``, or ``patient`` where patients count once."""
    is_patient = any(unit_of(record) == "patient" for record in records)
    return "patient" if is_patient else "case"


def in_order(frame: pd.DataFrame, names: Sequence[str]) -> list[Record]:
    """The rows sorted by columns, whose values have the order in which they first appear."""
    records = fmt.records(frame)
    return [records[place] for place in order_by(records, names)]


def order_by(records: Sequence[Record], names: Sequence[str]) -> list[int]:
    """The places of rows as `in_order` sorts them."""
    columns = [np.array([record[name] for record in records], dtype=object) for name in names]
    ranks = [pd.factorize(values)[0] for values in columns]
    # The last key is the first to sort by.
    return np.lexsort(ranks[::-1]).tolist()


def name_columns(names: Iterable[str]) -> list[tuple[Column, Any]]:
    """Columns that say which label, stratum and method a row is about."""
    entry_of: dict[str, Any] = {
        "label": itemgetter("label"),
        "stratum": lambda record: fmt.stratum_title(record["attribute"], record["stratum"]),
        "method": itemgetter("method"),
    }
    return [(Column(name.capitalize(), "name"), entry_of[name]) for name in names]


def counted(column: str, record: Record) -> str:
    """A number of things, such as ``1,200``."""
    return f"{int(record[column]):,}"


def estimate_cell(column: str, metric: Metric, record: Record, *, signed: bool = False) -> Cell:
    """A number with its interval, or the one bound that there is."""
    value, low, high = fmt.estimate(record, column)
    ends = fmt.bounds(low, high, metric, signed=signed)
    return Cell(fmt.number(value, metric, signed=signed), tuple(filter(None, [ends])))


def n_cell(record: Record, *remarks: str) -> Cell:
    """The number of cases, and what there is to say of it."""
    n_patients = whole(record, "n_patients")
    n_undefined = whole(record, "n_undefined")

    below = []
    if n_patients:
        below.append(count(n_patients, "patient"))
    if n_undefined:
        below.append(f"{n_undefined} undef.")
    if 0 < n_units(record) < FEWEST_TO_READ:
        below.append("few")
    below += filter(None, remarks)

    return Cell(str(whole(record, "n")), tuple(below))


def _n_failed(column: str, record: Record) -> Cell:
    n = whole(record, column)
    return Cell(str(n), kind="failed" if n else "", strong=n > 0)


def _values(metric: Metric, values: Sequence[float]) -> Cell:
    return Cell(", ".join(fmt.number(value, metric) for value in values), kind="values")


def _share_failed(record: Record) -> Cell:
    """How many cases failed, and the upper bound of their share."""
    n_failed = float(record.get("n_failed", math.nan))
    most = float(record.get("failure_high", math.nan))

    text = "" if math.isnan(n_failed) else str(int(n_failed))
    if math.isnan(most):
        return Cell(text)

    bound = f"≤ {100 * most:.1f} %"
    return Cell(text, (bound,))
