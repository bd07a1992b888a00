"""The tables of strata: the statistics of every stratum, label and method."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.statistic_columns import (
    FOOTNOTES,
    N_OF_FEW,
    statistic_columns,
    values_of_few,
)
from nnunet_dro.evaluation.report.words import say, sentences
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, Failure
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import FEWEST_TO_READ, n_units, unit_of, whole
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Cell, Column, Table

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
    names: Sequence[str] = ("label", "stratum", "method"),
) -> Iterator[tuple[Metric, Table]]:
    """The metric and the table of each attribute and metric, metrics of one attribute together.

    The scores tell the unit of distances. ``names`` are the columns that say what a row is about,
    as rows are sorted by them; those that the frame does not have, and a single stratum, are left
    out.
    """
    failed_if = Failure.of(failure or DEFAULT_FAILURE)

    for attribute in strata["attribute"].unique():
        rows = strata[strata["attribute"] == attribute]

        shown = [name for name in names if name in strata]
        if attribute == ALL:
            shown = [name for name in shown if name != "stratum"]

        for name in rows["metric"].unique():
            metric = fmt.metric_named(str(name), scores)
            inside = rows[rows["metric"] == name]
            records = in_order(inside, shown)
            yield (
                metric,
                _strata_table(
                    records,
                    metric,
                    shown,
                    failed_if,
                ),
            )


def unit_of_rows(records: Sequence[Record]) -> str:
    """What numbers count: ``case``, or ``patient`` where patients count once."""
    is_patient = any(unit_of(record) == "patient" for record in records)
    return "patient" if is_patient else "case"


def in_order(frame: pd.DataFrame, names: Sequence[str]) -> list[Record]:
    """The rows sorted by columns, whose values have the order in which they first appear."""
    places = {}
    for name in names:
        values = frame[name].unique()
        places[name] = {value: n for n, value in enumerate(values)}

    def place(record: Record) -> list[int]:
        return [places[name][record[name]] for name in names]

    records: list[Any] = frame.to_dict("records")
    return sorted(records, key=place)


def name_columns(names: Iterable[str]) -> list[tuple[Column, Any]]:
    """Columns that say which label, stratum and method a row is about."""
    getters = {"stratum": _stratum_title}
    columns: list[tuple[Column, Any]] = []
    for name in names:
        column = Column(name.capitalize(), "name")
        columns.append((column, getters.get(name, itemgetter(name))))
    return columns


def _stratum_title(record: Record) -> str:
    return fmt.stratum_title(record["attribute"], record["stratum"])


def _strata_table(
    records: Sequence[Record], metric: Metric, names: Sequence[str], failure: Failure
) -> Table:
    """The table of the rows of one attribute and metric."""
    statistics = fmt.shown_statistics(metric)
    if all(map(values_of_few, records)):
        statistics = statistics[:N_OF_FEW]

    several = "method" in names
    columns = [
        *name_columns(names),
        (Column("n"), n_cell),
        *_failure_columns(records),
        *statistic_columns(records, metric, statistics, several=several),
    ]
    if any(map(values_of_few, records)):
        columns.append((Column("Values"), partial(_values, metric)))

    on_failures = []
    if any(record.get("n_failed", math.nan) >= 0 for record in records):
        bound = fmt.scaled(failure.bound, metric)
        title = f"{failure.comparison} {bound:g}"
        columns.append((Column(title), _share_failed))
        on_failures = sentences(
            "failing",
            title=title,
            unit=unit_of_rows(records),
            n=len(records),
            n_repeated=sum(whole(record, "n_trainings") > 0 for record in records),
        )

    attribute = fmt.attribute_title(str(records[0]["attribute"]))
    unit = fmt.unit_sign(metric)
    table = Table.of(
        f"{attribute}: {metric.title} ({unit})",
        columns,
        records,
        about=say("definitions", metric=metric, statistics=statistics, several=several),
        kind="strata",
    )
    marks = {mark for row in table.rows for cell in row for mark in cell.marks}
    on_marks = [f"{mark} {text}" for mark, text in FOOTNOTES.items() if mark in marks]
    return replace(
        table,
        notes=(*on_failures, *on_marks),
        notes_below=tuple(_on_intervals(records, statistics)),
    )


def _failure_columns(records: Sequence[Record]) -> Iterator[tuple[Column, Any]]:
    """The columns of labels that were missed or invented, where some were."""
    for name, column in _FAILURES.items():
        if any(whole(record, name) for record in records):
            yield column, partial(_n_failed, name)


def counted(column: str, record: Record) -> str:
    """A number of things, such as ``1,200``."""
    return f"{int(record[column]):,}"


def estimate_cell(column: str, metric: Metric, record: Record, *, signed: bool = False) -> Cell:
    """A number with its interval, or the one bound that there is."""
    value, low, high = fmt.estimate(record, column)
    ends = fmt.bounds(low, high, metric, signed=signed)
    return Cell(fmt.number(value, metric, signed=signed), tuple(filter(None, [ends])))


def n_cell(record: Record, *remarks: str, with_patients: bool = True) -> Cell:
    """The number of cases, and what there is to say of it."""
    n_patients = whole(record, "n_patients")
    n_undefined = whole(record, "n_undefined")

    below = []
    if n_patients and with_patients:
        below.append(count(n_patients, "patient"))
    if n_undefined:
        below.append(f"{n_undefined} undef.")
    if 0 < n_units(record) < FEWEST_TO_READ:
        below.append("few")
    below += filter(None, remarks)

    return Cell(str(whole(record, "n")), tuple(below))


def _n_failed(column: str, record: Record) -> Cell:
    n = whole(record, column)
    kind = "failed" if n else ""
    return Cell(str(n), kind=kind, strong=n > 0)


def _values(metric: Metric, record: Record) -> Cell:
    values = [fmt.number(value, metric) for value in values_of_few(record)]
    return Cell(", ".join(values), kind="values")


def _share_failed(record: Record) -> Cell:
    """How many cases failed, and the upper bound of their share."""
    n_failed = float(record.get("n_failed", math.nan))
    most = float(record.get("failure_high", math.nan))

    text = "" if math.isnan(n_failed) else str(int(n_failed))
    if math.isnan(most):
        return Cell(text)

    bound = f"≤ {100 * most:.1f} %"
    return Cell(text, (bound,))


def _on_intervals(records: Sequence[Record], statistics: Sequence[str]) -> list[str]:
    """What the brackets and signs below statistics mean, as far as there are any."""
    n_bounds = set()
    for record in records:
        for name in () if values_of_few(record) else statistics:
            _, *ends = fmt.estimate(record, name)
            n_bounds.add(sum(not math.isnan(end) for end in ends))
    return sentences("bounds", n_bounds=n_bounds)
