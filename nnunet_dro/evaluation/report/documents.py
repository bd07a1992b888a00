"""The report files of evaluations and comparisons, and what the terminal shows of them."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.comparison_page import comparison_html
from nnunet_dro.evaluation.report.equity_tables import equity_tables
from nnunet_dro.evaluation.report.evaluation_page import evaluation_html
from nnunet_dro.evaluation.report.failure_blocks import (
    MOST_METHODS,
    failure_sentences,
    failure_tables,
)
from nnunet_dro.evaluation.report.findings import (
    all_notes,
    comparison_notes,
    findings,
    requirement_count,
    requirement_notes,
)
from nnunet_dro.evaluation.report.formatting import against_baseline, metric_named
from nnunet_dro.evaluation.report.further_tables import difference_table, lesion_tables
from nnunet_dro.evaluation.report.gains import verdicts
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.report.page_parts import (
    MOST_PRINTED_ROWS,
    most_changed_labels,
    worst_labels,
)
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Block, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.latex import latex
from nnunet_dro.pages.markdown import markdown
from nnunet_dro.pages.terminal import printed

#: The most strata and labels with failures that the terminal lists.
_MOST_FAILURES = 10

#: The most findings that the terminal tells where its tables are cut short, too.
_MOST_FINDINGS = 20


def evaluation_reports(
    evaluation: Evaluation,
    gallery: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> dict[str, str]:
    """The reports of an evaluation: name (``report.html``, ``.md`` and ``.tex``) to content.

    Args:
        evaluation: What to report.
        gallery: Pictures of the worst cases, for the page.
        links: Case and label to an address in the viewer, for the page.
    """
    return {
        "report.html": evaluation_html(evaluation, gallery, links),
        "report.md": evaluation_markdown(evaluation),
        "report.tex": evaluation_latex(evaluation),
    }


def comparison_reports(comparison: Comparison) -> dict[str, str]:
    """The reports of a comparison: name to content; as `evaluation_reports`."""
    return {
        "report.html": comparison_html(comparison),
        "report.md": comparison_markdown(comparison),
        "report.tex": comparison_latex(comparison),
    }


def evaluation_markdown(evaluation: Evaluation) -> str:
    """The findings, the requirements and the tables of an evaluation.

    Names from files are escaped.
    """
    tables = strata_tables(evaluation.strata, evaluation.scores, evaluation.options.failure)
    blocks: list[Block] = [
        Heading(evaluation.method, 1),
        *requirement_count(evaluation.about),
        *findings(evaluation),
        *requirement_notes(evaluation.about),
        *map(Note, all_notes(evaluation.notes, evaluation.strata)),
        *(table for _, table in tables),
        *equity_tables(evaluation.strata, evaluation.scores),
        *lesion_tables(evaluation.lesion_sizes),
    ]
    return markdown(blocks)


def comparison_markdown(comparison: Comparison) -> str:
    """The verdicts, the differences and the strata tables of a comparison.

    As `evaluation_markdown`.
    """
    blocks: list[Block] = [
        Heading(against_baseline(comparison.methods), 1),
        *failure_sentences(comparison),
        *requirement_count(comparison.about),
        *failure_tables(comparison),
    ]

    for verdict in verdicts(comparison):
        blocks.append(Prose(f"{verdict.method}: {verdict.summary}"))
        blocks += verdict.findings
    blocks += requirement_notes(comparison.about)
    blocks += map(Note, comparison_notes(comparison))

    for _, rows in comparison.table.groupby("attribute", sort=False):
        blocks += _differences(comparison, rows, by_statistic=False)
    tables = strata_tables(comparison.strata, comparison.scores, comparison.failure)
    blocks += [table for _, table in tables]

    return markdown(blocks)


def evaluation_latex(evaluation: Evaluation) -> str:
    """A table per attribute and metric, in LaTeX with the packages booktabs and multirow.

    Names are escaped.
    """
    strata = evaluation.strata.assign(method=evaluation.method)
    tables = [
        *_as_in_papers(strata, evaluation.scores, evaluation.options.failure),
        *lesion_tables(evaluation.lesion_sizes),
    ]
    return latex(tables, *_on_protocol(evaluation.about))


def comparison_latex(comparison: Comparison) -> str:
    """A table per attribute and metric, with the rows of every method; as `evaluation_latex`.

    Numbers that improve on every other method by 5 percentage points or more are in bold.
    """
    tables = _as_in_papers(comparison.strata, comparison.scores, comparison.failure)
    return latex(list(tables), *_on_protocol(comparison.about))


def _as_in_papers(
    strata: pd.DataFrame, scores: pd.DataFrame, failure: str | None
) -> Iterator[Table]:
    """The tables of strata, with rows named as in Tables 2 and 3 of Fidon et al. 2022 (MELBA)."""
    for attribute, rows in strata.groupby("attribute", sort=False):
        names = ("label", "method") if attribute == ALL else ("stratum", "method", "label")
        for _, table in strata_tables(rows, scores, failure, names=names):
            yield table


def _on_protocol(about: Mapping[str, Any]) -> list[str]:
    """The protocol that a run was locked to, in a remark, if there was one."""
    if "protocol" not in about:
        return []
    sha256 = about["protocol"]["sha256"]
    return [f"made under the locked protocol with SHA-256 {sha256}"]


def evaluation_table(evaluation: Evaluation) -> RenderableType:
    """A table per attribute and metric, and the findings, for rich's console.

    Names from files are shown as they are, never read as markup; numbers that rest on too few cases
    are dim.
    """
    strata = evaluation.strata
    blocks: list[Block] = [*requirement_count(evaluation.about)]

    for attribute, rows in strata.groupby("attribute", sort=False):
        labels, left_out = worst_labels(
            strata,
            evaluation.worst,
            str(attribute),
            most_rows=MOST_PRINTED_ROWS,
        )
        shown = rows[rows["label"].isin(labels)]
        tables = strata_tables(shown, evaluation.scores, evaluation.options.failure)
        blocks += [table for _, table in tables]
        if left_out:
            blocks.append(Prose(left_out))

    blocks += lesion_tables(evaluation.lesion_sizes)
    blocks += _told(findings(evaluation), len(strata))
    blocks += map(Note, all_notes(evaluation.notes, strata))
    return printed(blocks)


def comparison_table(comparison: Comparison) -> RenderableType:
    """The differences and the verdicts of a comparison, for rich's console.

    A table per attribute, metric, statistic and method; of many methods, a row each.
    """
    table = comparison.table
    notes = map(Note, comparison_notes(comparison))
    blocks: list[Block] = [
        *failure_sentences(comparison),
        *requirement_count(comparison.about),
        *failure_tables(comparison, most_rows=_MOST_FAILURES),
    ]
    if len(comparison.methods) > MOST_METHODS:
        return printed([*blocks, *_many_methods(comparison), *notes])

    for attribute, rows in table.groupby("attribute", sort=False):
        labels, left_out = most_changed_labels(
            table,
            str(attribute),
            n_rows=len(table),
            most_rows=MOST_PRINTED_ROWS,
        )
        if left_out:
            blocks.append(Prose(left_out))
        shown = rows[rows["label"].astype(str).isin(labels)]
        blocks += _differences(comparison, shown, by_statistic=True)

    for verdict in verdicts(comparison):
        blocks.append(Prose(f"{verdict.method}: {verdict.summary}", kind=""))
        blocks += _told(verdict.findings, len(table))
    return printed([*blocks, *notes])


def _differences(
    comparison: Comparison, rows: pd.DataFrame, *, by_statistic: bool
) -> Iterator[Table]:
    """The tables of one attribute; a narrow terminal has room for one statistic in a table only."""
    for name in rows["metric"].unique():
        metric = metric_named(str(name), comparison.scores)
        inside = rows[rows["metric"] == name]

        together: list[tuple[str, ...]] = [("mean", metric.tail)]
        if by_statistic:
            together = [("mean",), (metric.tail,)]
        for statistics in together:
            for method in comparison.methods[1:]:
                yield difference_table(inside[inside["method"] == method], metric, statistics)


def _told(notes: Sequence[Note], n_rows: int) -> Iterator[Block]:
    """The findings that the terminal tells: all, unless its tables are cut short, too."""
    if n_rows <= MOST_PRINTED_ROWS:
        yield from notes
        return

    yield from notes[:_MOST_FINDINGS]
    n_others = len(notes) - _MOST_FINDINGS
    if n_others > 0:
        yield Prose(f"The other {n_others} findings are in report.md.")


def _many_methods(comparison: Comparison) -> Iterator[Block]:
    """A row per method: how many of its means are better, worse and undecided."""
    columns = [
        (Column("Method", "name"), itemgetter("method")),
        (Column("Better"), itemgetter("better")),
        (Column("Worse"), itemgetter("worse")),
        (Column("Undecided"), itemgetter("undecided")),
    ]
    for name, rows in comparison.table.groupby("metric", sort=False):
        metric = metric_named(str(name))

        records = []
        for method, inside in rows.groupby("method", sort=False):
            better = (inside["mean_difference_low"] > 0).sum()
            worse = (inside["mean_difference_high"] < 0).sum()
            if not metric.more_is_better:
                better, worse = worse, better
            records.append(
                {
                    "method": str(method),
                    "better": str(better),
                    "worse": str(worse),
                    "undecided": str(len(inside) - better - worse),
                }
            )
        title = f"{against_baseline(comparison.methods)}: mean {metric.title} per stratum and label"
        yield Table.of(title, columns, records)

    yield Prose(
        "Better and worse: the 95 % interval of the difference lies on one side of 0. "
        "Every difference is in report.html and comparison.csv. "
        "To put many methods in an order, use nnunet-dro rank.",
        kind="",
    )
