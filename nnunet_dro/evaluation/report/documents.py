"""The report files of evaluations and comparisons, and what the terminal shows of them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from rich.console import RenderableType

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report.comparison_page import comparison_html
from nnunet_dro.evaluation.report.evaluation_page import evaluation_html
from nnunet_dro.evaluation.report.failure_blocks import MOST_METHODS, failure_tables
from nnunet_dro.evaluation.report.formatting import against_baseline, metric_named
from nnunet_dro.evaluation.report.further_tables import (
    difference_table,
    equity_tables,
    lesion_tables,
)
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.report.page_parts import (
    MOST_PRINTED_ROWS,
    most_changed_labels,
    worst_labels,
)
from nnunet_dro.evaluation.report.views import ComparisonView, EvaluationView
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
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
    view = EvaluationView.of(evaluation)
    return markdown(
        [
            Heading(evaluation.method, 1),
            *view.requirement_count,
            *view.findings,
            *view.requirements,
            *view.notes,
            *view.all_tables,
            *equity_tables(evaluation.equity, evaluation.scores),
            *lesion_tables(evaluation.lesion_sizes),
        ]
    )


def comparison_markdown(comparison: Comparison) -> str:
    """The verdicts, the differences and the strata tables of a comparison.

    As `evaluation_markdown`.
    """
    view = ComparisonView.of(comparison)
    blocks: list[Block] = [
        Heading(against_baseline(comparison.methods), 1),
        *view.failures,
        *view.requirement_count,
        *failure_tables(comparison),
    ]
    for verdict in view.verdicts:
        blocks.append(Prose(f"{verdict.method}: {verdict.summary}"))
        blocks += verdict.findings
    blocks += view.requirements
    blocks += view.notes

    for attribute in view.attributes:
        blocks += [
            difference_table(rows, metric, ("mean", metric.tail))
            for metric, rows in view.differences(attribute)
        ]
    return markdown([*blocks, *view.all_tables])


def evaluation_latex(evaluation: Evaluation) -> str:
    """A table per attribute and metric, in LaTeX with the packages booktabs and multirow.

    Names are escaped.
    """
    view = EvaluationView.of(evaluation)
    tables = [*view.paper_tables, *lesion_tables(evaluation.lesion_sizes)]
    return latex(tables, *_on_protocol(evaluation.about))


def comparison_latex(comparison: Comparison) -> str:
    """A table per attribute and metric, with the rows of every method; as `evaluation_latex`.

    Numbers that improve on every other method by 5 percentage points or more are in bold.
    """
    return latex(
        ComparisonView.of(comparison).paper_tables,
        *_on_protocol(comparison.about),
    )


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
    view = EvaluationView.of(evaluation)
    blocks: list[Block] = [*view.requirement_count]

    for attribute in view.attributes:
        labels, left_out = worst_labels(
            evaluation.strata,
            evaluation.worst,
            attribute,
            most_rows=MOST_PRINTED_ROWS,
        )
        blocks += [table for _, table in view.tables(attribute, labels)]
        if left_out:
            blocks.append(Prose(left_out))

    blocks += lesion_tables(evaluation.lesion_sizes)
    blocks += _told(view.findings, len(evaluation.strata))
    blocks += view.notes
    return printed(blocks)


def comparison_table(comparison: Comparison) -> RenderableType:
    """The differences and the verdicts of a comparison, for rich's console.

    A table per attribute, metric, statistic and method; of many methods, a row each.
    """
    view = ComparisonView.of(comparison)
    blocks: list[Block] = [
        *view.failures,
        *view.requirement_count,
        *failure_tables(comparison, most_rows=_MOST_FAILURES),
    ]
    if len(comparison.methods) > MOST_METHODS:
        return printed([*blocks, *_many_methods(comparison), *view.notes])

    n_rows = len(comparison.table)
    for attribute in view.attributes:
        labels, left_out = most_changed_labels(
            comparison.table,
            attribute,
            n_rows=n_rows,
            most_rows=MOST_PRINTED_ROWS,
        )
        if left_out:
            blocks.append(Prose(left_out))
        # A narrow terminal has room for one statistic in a table only.
        for metric, groups in groupby(view.differences(attribute, labels), key=itemgetter(0)):
            tables = [rows for _, rows in groups]
            for statistic in ("mean", metric.tail):
                blocks += [difference_table(rows, metric, (statistic,)) for rows in tables]

    for verdict in view.verdicts:
        blocks.append(Prose(f"{verdict.method}: {verdict.summary}", kind=""))
        blocks += _told(verdict.findings, n_rows)
    return printed([*blocks, *view.notes])


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
