"""Tables in markdown."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.findings import all_notes, comparison_notes, findings
from nnunet_dro.evaluation.report.formatting import (
    against_baseline,
    attribute_title,
    change_bounds,
    counted,
    difference,
    difference_unit,
    metric_named,
    number,
    p_value,
    range_of_trainings,
    stratum_title,
    typical_change,
    unit_sign,
)
from nnunet_dro.evaluation.report.gains import verdicts
from nnunet_dro.evaluation.report.lesion_tables import HEADINGS, LesionTable, lesion_tables
from nnunet_dro.evaluation.report.strata_tables import INTERVAL, TYPICAL, Table, strata_tables
from nnunet_dro.evaluation.statistics.columns import STATISTICS

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison


def evaluation_markdown(evaluation: Evaluation) -> str:
    """The findings and the strata tables of an evaluation.

    Args:
        evaluation: The evaluation.

    Returns:
        Markdown that ends with a line break; names from files are escaped.
    """
    lines = [f"# {escape(evaluation.method)}", ""]
    lines += [
        f"- **{escape(found.title)}** ({escape(found.attribute)}): {escape(found.detail)}"
        for found in findings(evaluation)
    ]
    lines += _requirements(evaluation.about)
    lines += ["", *(f"> {escape(note)}  " for note in all_notes(evaluation.notes, evaluation.strata)), ""]
    for table in strata_tables(evaluation.strata, evaluation.scores, evaluation.about):
        lines += _strata_section(table, with_method=False)
    for of_lesions in lesion_tables(evaluation.lesion_sizes):
        lines += _lesion_section(of_lesions)
    return _joined(lines)


def comparison_markdown(comparison: "Comparison") -> str:
    """The verdicts, the differences and the strata tables of a comparison.

    Args:
        comparison: The comparison.

    Returns:
        Markdown that ends with a line break; names from files are escaped.
    """
    lines = [f"# {escape(against_baseline(comparison.methods))}", ""]
    for verdict in verdicts(comparison):
        lines.append(f"**{escape(verdict.method)}**: {escape(verdict.summary)}")
        lines += [
            "",
            *(f"- **{escape(f.title)}** ({escape(f.value)}): {escape(f.detail)}" for f in verdict.findings),
            "",
        ]
    lines += _requirements(comparison.about)
    lines += ["", *(f"> {escape(note)}  " for note in comparison_notes(comparison)), ""]
    lines += _differences(comparison)
    for table in strata_tables(comparison.strata, comparison.scores, comparison.about):
        lines += _strata_section(table, with_method=True)
    return _joined(lines)


def escape(text: str) -> str:
    """Text that markdown shows as it is, on one line, also inside a table and where HTML is allowed."""
    # Entities, not backslashes, for what begins HTML: every flavour of markdown knows them.
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#!$])", r"\\\1", flat)


def _requirements(about: Mapping[str, Any]) -> list[str]:
    lines = []
    for one in about.get("requirements", []):
        # Evaluations of earlier versions only say whether it passed.
        word = "met" if one["passed"] else f"**{one.get('verdict', 'not met')}**"
        lines.append(f"- Requirement {word}: {escape(one['line'])}")
    return lines


def _strata_section(table: Table, *, with_method: bool) -> list[str]:
    heading = f"{attribute_title(table.attribute)}: {table.metric.title} ({unit_sign(table.metric)})"
    names = ["Stratum", "Method", "Label"] if with_method else ["Stratum", "Label"]
    failures = ["missed", "invented"] if table.has_failures else []
    patients = ["patients"] if table.has_patients else []
    lines = [
        f"## {escape(heading)}",
        "",
        *_head(names, ["n", *patients, "undefined", *failures, *table.headings, *map(escape, table.further)]),
    ]
    for row in table.rows:
        stratum = stratum_title(table.attribute, row.stratum)
        first = [stratum, row.method, row.label] if with_method else [stratum, row.label]
        cells = [" ".join(filter(None, (cell.text + cell.marks, escape(cell.interval)))) for cell in row.cells]
        counts = [
            row.n,
            *([row.n_patients] if patients else []),
            row.n_undefined,
            *([row.n_missed, row.n_invented] if failures else []),
        ]
        lines.append(_line([*map(escape, first), *map(str, counts), *cells, *map(escape, table.further_of(row))]))
    return [
        *lines,
        "",
        *(
            line
            for note in (*table.on_intervals, *map(escape, table.on_failures), *table.footnotes)
            for line in (note, "")
        ),
    ]


def _lesion_section(table: LesionTable) -> list[str]:
    n_names = len(table.headings) - len(HEADINGS)
    lines = [f"## {escape(table.title)}", "", *_head(table.headings[:n_names], table.headings[n_names:])]
    rows = (_line([*map(escape, table.names(row)), *map(escape, row.cells_with_interval)]) for row in table.rows)
    return [*lines, *rows, ""]


def _differences(comparison: "Comparison") -> list[str]:
    lines: list[str] = []
    table = comparison.table
    for attribute in table["attribute"].unique():
        for name in table["metric"].unique():
            metric = metric_named(str(name), comparison.scores)
            rows = table[(table["attribute"] == attribute) & (table["metric"] == name)].to_dict("records")
            heading = f"{attribute_title(str(attribute))}: change of {metric.title} ({difference_unit(metric)})"
            columns = ["n", "Mean", STATISTICS[metric.tail].title, "Typical case", "Holm p", "wins / ties / losses"]
            lines += [f"## {escape(heading)}", "", *_head(["Stratum", "Label", "Method"], columns)]
            for row in rows:
                cells = []
                for statistic in ("mean", metric.tail):
                    value = float(row[f"{statistic}_difference"])
                    before, after = (number(float(row[f"{statistic}_{s}"]), metric) for s in ("baseline", "method"))
                    ends = escape(change_bounds(row, statistic, metric))
                    cell = f"{before} → {after}: {difference(value, metric)} {ends}".rstrip()
                    cells.append("; ".join(filter(None, (cell, range_of_trainings(row, statistic, metric)))))
                first = (stratum_title(str(attribute), str(row["stratum"])), str(row["label"]), str(row["method"]))
                record = " / ".join(str(int(row[column])) for column in ("wins", "ties", "losses"))
                p = escape(p_value(float(row["holm_p"])))
                cells.append(escape(typical_change(row, metric)))
                lines.append(_line([*map(escape, first), counted(row), *cells, p, record]))
            lines += ["", f"{INTERVAL} {TYPICAL}", ""]
    return lines


def _head(names: Sequence[str], numbers: Sequence[str]) -> list[str]:
    return [_line([*names, *numbers]), "|" + " --- |" * len(names) + " ---: |" * len(numbers)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _joined(lines: Sequence[str]) -> str:
    """Lines with at most one empty line between them."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
