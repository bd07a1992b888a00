"""The report files of evaluations and comparisons, and what the terminal shows of them."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.comparison_page import comparison_html
from nnunet_dro.evaluation.report.evaluation_page import evaluation_html
from nnunet_dro.evaluation.report.findings import (
    all_notes,
    comparison_notes,
    findings,
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

#: With more methods, the baseline among them, the terminal counts the differences: nobody reads
#: hundreds of rows.
_MOST_METHODS = 5

_MOST_FINDINGS = (
    20  # The most findings that the terminal tells where its tables are cut short, too.
)


def evaluation_reports(
    evaluation: Evaluation,
    gallery: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> dict[str, str]:
    """The reports of an evaluation, ``report.html``, ``report.md`` and ``report.tex``.

    Name to content.
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
    blocks: list[Block] = [
        Heading(evaluation.method, 1),
        *findings(evaluation),
        *requirement_notes(evaluation.about),
    ]
    blocks += map(Note, all_notes(evaluation.notes, evaluation.strata))
    blocks += [
        table
        for _, table in strata_tables(
            evaluation.strata, evaluation.scores, evaluation.options.failure
        )
    ]
    return markdown([*blocks, *lesion_tables(evaluation.lesion_sizes)])


def comparison_markdown(comparison: Comparison) -> str:
    """The verdicts, the differences and the strata tables of a comparison.

    As `evaluation_markdown`.
    """
    blocks: list[Block] = [Heading(against_baseline(comparison.methods), 1)]
    for verdict in verdicts(comparison):
        blocks += [Prose(f"{verdict.method}: {verdict.summary}"), *verdict.findings]
    blocks += requirement_notes(comparison.about)
    blocks += map(Note, comparison_notes(comparison))
    for _, inside in comparison.table.groupby("attribute", sort=False):
        blocks += _differences(comparison, inside, by_statistic=False)
    strata = strata_tables(comparison.strata, comparison.scores, comparison.failure)
    return markdown([*blocks, *(table for _, table in strata)])


def evaluation_latex(evaluation: Evaluation) -> str:
    """A table per attribute and metric, in LaTeX with the packages booktabs and multirow.

    Names are escaped.
    """
    strata = evaluation.strata.assign(method=evaluation.method)
    return _as_in_papers(
        strata, evaluation, evaluation.options.failure, lesion_tables(evaluation.lesion_sizes)
    )


def comparison_latex(comparison: Comparison) -> str:
    """A table per attribute and metric with every method.

    Gains of 5 percentage points over all others are bold.
    """
    return _as_in_papers(comparison.strata, comparison, comparison.failure)


def _as_in_papers(
    strata: pd.DataFrame,
    result: Evaluation | Comparison,
    failure: str | None,
    others: Sequence[Table] = (),
) -> str:
    tables: list[Table] = []
    for attribute, inside in strata.groupby("attribute", sort=False):
        # As the rows of Tables 3 and 2 of Fidon et al. 2022 (MELBA) are named.
        names = ("label", "method") if attribute == ALL else ("stratum", "method", "label")
        tables += [table for _, table in strata_tables(inside, result.scores, failure, names=names)]
    locked = "made under the locked protocol with SHA-256 "
    remarks = [locked + result.about["protocol"]["sha256"]] if "protocol" in result.about else []
    return latex([*tables, *others], *remarks)


def evaluation_table(evaluation: Evaluation) -> RenderableType:
    """A table per attribute and metric, and the findings, for the console.

    Names are never read as markup.
    """
    strata = evaluation.strata
    blocks: list[Block] = []
    for attribute, inside in strata.groupby("attribute", sort=False):
        labels, left_out = worst_labels(
            strata, evaluation.worst, str(attribute), most_rows=MOST_PRINTED_ROWS
        )
        tables = strata_tables(
            inside[inside["label"].isin(labels)], evaluation.scores, evaluation.options.failure
        )
        blocks += [table for _, table in tables]
        blocks += [Prose(left_out)] if left_out else []
    blocks += [*lesion_tables(evaluation.lesion_sizes), *_told(findings(evaluation), len(strata))]
    return printed([*blocks, *map(Note, all_notes(evaluation.notes, evaluation.strata))])


def comparison_table(comparison: Comparison) -> RenderableType:
    """A table of differences per attribute, metric, statistic and method, and the verdicts, for rich's console."""
    table = comparison.table
    notes = [Note(text) for text in comparison_notes(comparison)]
    if len(comparison.methods) > _MOST_METHODS:
        return printed([*_many_methods(comparison), *notes])
    blocks: list[Block] = []
    for attribute, inside in table.groupby("attribute", sort=False):
        most = {"n_rows": len(table), "most_rows": MOST_PRINTED_ROWS}
        labels, left_out = most_changed_labels(table, str(attribute), **most)
        blocks += [Prose(left_out)] if left_out else []
        blocks += _differences(
            comparison, inside[inside["label"].astype(str).isin(labels)], by_statistic=True
        )
    for verdict in verdicts(comparison):
        blocks += [
            Prose(f"{verdict.method}: {verdict.summary}", kind=""),
            *_told(list(verdict.findings), len(table)),
        ]
    return printed([*blocks, *notes])


def _differences(
    comparison: Comparison, rows: pd.DataFrame, *, by_statistic: bool
) -> Iterator[Table]:
    """The tables of one attribute; a narrow terminal has room for one statistic in a table only."""
    for name in rows["metric"].unique():
        metric = metric_named(str(name), comparison.scores)
        for statistics in [("mean",), (metric.tail,)] if by_statistic else [("mean", metric.tail)]:
            for method in comparison.methods[1:]:
                of_method = rows[(rows["metric"] == name) & (rows["method"] == method)]
                yield difference_table(of_method, metric, statistics)


def _told(found: list[Note], n_rows: int) -> list[Block]:
    """The findings that the terminal tells."""
    n_told = len(found) if n_rows <= MOST_PRINTED_ROWS else _MOST_FINDINGS
    n_others = len(found) - n_told
    others = [Prose(f"The other {n_others} findings are in report.md.")] if n_others > 0 else []
    return [*found[:n_told], *others]


def _many_methods(comparison: Comparison) -> Iterator[Block]:
    """A row per method: how many of its means are better, worse and undecided."""
    for name, of_metric in comparison.table.groupby("metric", sort=False):
        metric = metric_named(str(name))
        records = []
        for method, rows in of_metric.groupby("method", sort=False):
            above = (rows["mean_difference_low"] > 0).sum()
            below = (rows["mean_difference_high"] < 0).sum()
            better, worse = (above, below) if metric.more_is_better else (below, above)
            records.append((str(method), str(better), str(worse), str(len(rows) - better - worse)))
        heads = [Column("Method", "name"), Column("Better"), Column("Worse"), Column("Undecided")]
        title = f"{against_baseline(comparison.methods)}: mean {metric.title} per stratum and label"
        yield Table.of(title, zip(heads, map(itemgetter, range(4)), strict=True), records)
    yield Prose(
        "Better and worse: the 95 % interval of the difference lies on one side of 0. Every difference is in "
        "report.html and comparison.csv. To put many methods in an order, use nnunet-dro rank.",
        kind="",
    )
