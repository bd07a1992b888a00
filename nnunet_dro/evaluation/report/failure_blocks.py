"""New failures and recoveries of a comparison: the first thing that its readers see."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.changed_failures import NEW_FAILURE, ChangedFailures
from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.strata_tables import counted
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.failures import Failure
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count, name_some
from nnunet_dro.pages.document import Cell, Column, Prose, Table

#: The most rows of the table; comparison.csv has all.
_MOST_ROWS = 40

#: What tells the rows of the table from each other.
_PLACE = ("attribute", "stratum", "label", "method")

#: With more methods, the baseline among them, differences are counted instead of listed: nobody
#: reads hundreds of rows.
MOST_METHODS = 5


def failure_sentences(comparison: Comparison) -> list[Prose]:
    """How many fail with each method and with the baseline, and who is new, a sentence per method.

    Of many methods only that none fails. Nothing where the metric of the failure is not compared.
    """
    baseline, *others = comparison.methods
    condition = _condition(comparison)
    sentences = []
    all_failing: list[Record] = []
    for method in others:
        changes = [change for change in comparison.failing if change.key["method"] == method]
        if not changes:
            continue
        failing = _failing(changes)
        all_failing += failing
        sentence = say(
            "failures",
            labels=failing,
            baseline=baseline,
            method=method,
            condition=condition,
            most_counted=max(len(change.names) for change in changes),
            unit=_unit(comparison),
        )
        sentences.append(sentence)

    n_methods = len(comparison.methods)
    if n_methods > MOST_METHODS and (all_failing or not sentences):
        return []
    if n_methods > MOST_METHODS:
        sentences = [say("no_failures", condition=condition, n_methods=n_methods)]
    return [Prose(sentence, kind="first") for sentence in sentences]


def _failing(changes: Sequence[ChangedFailures]) -> list[Record]:
    """The labels with a failure, those with the most new ones first, with the new names."""
    labels: list[Any] = []
    for change in changes:
        counts = change.counts
        if counts["n_failed_baseline"] or counts["n_failed_method"]:
            labels.append({**change.key, **counts, "names": change.names[change.is_new]})

    # Several trainings are no pairs, and have no new failures.
    most = "n_failed_method" if changes[0].are_repeated else "new_failures"
    return sorted(labels, key=itemgetter(most), reverse=True)


def failure_tables(comparison: Comparison, *, most_rows: int = _MOST_ROWS) -> Iterator[Table]:
    """The strata and labels in which any case failed, a table per method.

    Of many methods a row per method and label, of all cases or the strata of the first attribute.
    """
    title = f"Failures ({_condition(comparison)})"
    baseline = comparison.methods[0]
    parts = []
    for method in comparison.methods[1:]:
        rows = _counted_rows(comparison, method)
        failing = rows[(rows["n_failed_baseline"] > 0) | (rows["n_failed_method"] > 0)]
        if len(comparison.methods) > MOST_METHODS:
            parts.append(failing[failing["attribute"].isin(rows["attribute"].head(1))])
        elif len(failing) > 1:
            yield _table(comparison, failing, most_rows, f"{title}, {method} against {baseline}")

    if parts and any(map(len, parts)):
        yield _table(comparison, pd.concat(parts), most_rows, f"{title} against {baseline}")


def _counted_rows(comparison: Comparison, method: str) -> pd.DataFrame:
    """The rows of a method that count failures; the rows of all cases together first."""
    table = comparison.table
    rows = table[(table["method"] == method) & table["n_counted"].notna()]
    is_divided = rows["attribute"] != ALL
    return pd.concat([rows[~is_divided], rows[is_divided]])


def _unit(comparison: Comparison) -> str:
    """What counts: ``case``, or ``patient``."""
    return "patient" if "n_patients" in comparison.table else "case"


def _condition(comparison: Comparison) -> str:
    """When a case has failed, in words: ``Dice < 50 %``."""
    failure = Failure.of(comparison.failure)
    metric = fmt.metric_named(failure.metric, comparison.scores)
    bound = fmt.scaled(failure.bound, metric)
    return f"{metric.title} {failure.comparison} {bound:.12g} {fmt.unit_sign(metric)}"


def _table(comparison: Comparison, rows: pd.DataFrame, most_rows: int, title: str) -> Table:
    """The strata and labels with a failure, of all cases first, then the most new ones."""
    change = rows["new_failures"].fillna(rows["n_failed_difference"])
    rows = rows.assign(change=change, is_part=rows["attribute"] != ALL)
    rows = rows.sort_values(["is_part", "change"], ascending=[True, False], kind="stable")
    are_paired = bool(rows["new_failures"].notna().any())

    baseline = comparison.methods[0]
    methods = rows["method"].unique()
    columns: list[tuple[Column, Any]] = []
    after = methods[0]
    if len(methods) > 1:
        after = "method"
        columns.append((Column("Method", "text"), lambda record: str(record["method"])))
    columns += [
        (Column("Label", "text"), lambda record: str(record["label"])),
        (Column("Stratum", "text"), fmt.stratum_of),
        (Column("n", is_minor=True), partial(counted, "n_counted")),
        (
            Column(baseline, above="Fail with", is_minor=are_paired),
            partial(counted, "n_failed_baseline"),
        ),
        (
            Column(after, above="Fail with", is_minor=are_paired),
            partial(counted, "n_failed_method"),
        ),
    ]
    if are_paired:
        columns += [
            (Column("Newly"), _new),
            (Column("Recovered"), partial(counted, "recoveries")),
            (Column("p"), lambda record: fmt.p_value(float(record["mcnemar_p"]))),
            (
                Column("Newly failing", "text", spare="column", is_minor=True),
                _newly_failing(comparison),
            ),
        ]

    return Table.of(
        title,
        columns,
        fmt.records(rows.head(most_rows)),
        notes=tuple(_notes(comparison, len(rows), most_rows, are_paired=are_paired)),
        kind="failures",
    )


def _notes(
    comparison: Comparison, n_rows: int, most_rows: int, *, are_paired: bool
) -> Iterator[str]:
    units = f"{_unit(comparison)}s"
    if are_paired:
        yield (
            f"n: {units} that count. p: McNemar's exact test of the {units} that fail with one "
            "method only, not corrected for the number of rows."
        )
    else:
        yield f"n: {units} that count; failures are those in all trainings together."
    if n_rows > most_rows:
        yield f"comparison.csv has {count(n_rows - most_rows, 'other row')} with a failure."


def _new(record: Record) -> Cell:
    """The number of new failures, in red where they are more than the recoveries."""
    is_worse = record["new_failures"] > record["recoveries"]
    kind = "worse" if is_worse else ""
    return Cell(counted("new_failures", record), kind=kind, strong=is_worse)


def _newly_failing(comparison: Comparison) -> Callable[[Record], str]:
    """The function of a row that names the cases or patients that fail with the method only."""
    failures = comparison.failures
    new = failures[failures["change"] == NEW_FAILURE]
    cases = new.groupby(list(_PLACE), sort=False)[_unit(comparison)].agg(list)
    names = {place: name_some(cases_there) for place, cases_there in cases.items()}
    return lambda record: names.get(tuple(record[column] for column in _PLACE), "")
