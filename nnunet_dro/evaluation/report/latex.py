"""Tables in LaTeX, in the form of Table 2 of Fidon et al. 2022 (MELBA): strata, methods, labels; booktabs."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.evaluation.report.lesion_tables import HEADINGS, LesionTable, lesion_tables
from nnunet_dro.evaluation.report.strata_tables import Row, Table, strata_tables
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.wording import NO_VALUE

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "†": r"\textsuperscript{\textdagger}",
    "‡": r"\textsuperscript{\textdaggerdbl}",
    "∞": r"$\infty$",
    "³": r"\textsuperscript{3}",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\rightarrow$",
    '"': r"\textquotedbl{}",
}


def evaluation_latex(evaluation: Evaluation) -> str:
    """A table per attribute and metric.

    Args:
        evaluation: The evaluation.

    Returns:
        LaTeX that needs the packages booktabs and multirow; names from files are escaped.
    """
    tables = [
        _table(table, [evaluation.method])
        for table in strata_tables(evaluation.strata, evaluation.scores, evaluation.about)
    ]
    lesions = map(_lesion_table, lesion_tables(evaluation.lesion_sizes))
    return _document([*tables, *lesions], evaluation.about)


def comparison_latex(comparison: "Comparison") -> str:
    r"""A table per attribute and metric, with the rows of every method.

    Args:
        comparison: The comparison.

    Returns:
        LaTeX that needs the packages booktabs and multirow; names from files are escaped. Numbers that improve on
        every other method by 5 percentage points or more are in bold.
    """
    tables = [
        _table(table, comparison.methods)
        for table in strata_tables(comparison.strata, comparison.scores, comparison.about)
    ]
    return _document(tables, comparison.about)


def escape(text: str) -> str:
    """Text that LaTeX typesets as it is, on one line."""
    flat = " ".join(text.split())
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda found: _SPECIAL[found.group()], flat)


def _document(tables: Sequence[str], about: Mapping[str, Any]) -> str:
    head = "% \\usepackage{booktabs,multirow}; names outside ASCII need XeLaTeX or LuaLaTeX\n"
    if "protocol" in about:
        head += f"% made under the locked protocol with SHA-256 {about['protocol']['sha256']}\n"
    return head + "\n".join(tables)


def _table(table: Table, methods: Sequence[str]) -> str:
    in_strata = table.attribute != ALL
    body = _by_stratum(table, methods) if in_strata else _by_label(table, methods)
    if in_strata:
        names = [r"\textbf{Stratum}", r"\textbf{Method}", r"\textbf{Label}"]
    else:
        names = [r"\textbf{Label}", r"\textbf{Method}"]
    headings = _headings(table)
    head = " & ".join([*names, *(rf"\textbf{{{heading}}}" for heading in headings)])
    columns = "l" * len(names) + "r" * len(headings)
    lines = [
        r"\begin{table}[tb]",
        r"  \centering",
        rf"  \caption{{{_caption(table, methods)}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        rf"    {head} \\",
        r"    \midrule",
        *(f"    {line}" for line in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _lesion_table(table: LesionTable) -> str:
    n_names = len(table.headings) - len(HEADINGS)
    head = " & ".join(rf"\textbf{{{escape(heading)}}}" for heading in table.headings)
    body = [[*table.names(row), *row.cells] for row in table.rows]
    text = f"{table.title}. Recall: lesions that are found per lesion of the reference. Dice: their mean. "
    text += "Invented: predicted lesions that are matched with none."
    lines = [
        r"\begin{table}[tb]",
        r"  \centering",
        rf"  \caption{{{escape(text)}}}",
        rf"  \begin{{tabular}}{{{'l' * n_names}{'r' * len(HEADINGS)}}}",
        r"    \toprule",
        rf"    {head} \\",
        r"    \midrule",
        *(f"    {' & '.join('--' if cell == NO_VALUE else escape(cell) for cell in cells)} \\\\" for cells in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _headings(table: Table) -> list[str]:
    further = ["Values"] * table.has_values + [escape(table.failure)] * bool(table.failure)
    patients = ["Cases", "Patients"] if table.has_patients else []
    return [*patients, *(["Missed", "Invented"] if table.has_failures else []), *table.headings, *further]


def _by_stratum(table: Table, methods: Sequence[str]) -> list[str]:
    """Strata, in them methods, in them labels."""
    strata = list(dict.fromkeys(row.stratum for row in table.rows))
    lines: list[str] = []
    for stratum in strata:
        inside = [row for row in table.rows if row.stratum == stratum]
        if lines:
            lines.append(r"\midrule")
        for n, method in enumerate(methods):
            of_method = [row for row in inside if row.method in ("", method)]
            if n:
                lines.append(rf"\cmidrule{{2-{3 + len(_headings(table))}}}")
            for place, row in enumerate(of_method):
                name = stratum_title(table.attribute, stratum)
                first = _spanning(len(inside), name) if not n and not place else ""
                second = _spanning(len(of_method), method) if not place else ""
                lines.append(_line([first, second, escape(row.label)], row, inside, table))
    return lines


def _by_label(table: Table, methods: Sequence[str]) -> list[str]:
    """Labels, in them methods: with one stratum, methods compare line by line."""
    lines: list[str] = []
    for label in dict.fromkeys(row.label for row in table.rows):
        inside = [row for row in table.rows if row.label == label]
        if lines:
            lines.append(r"\midrule")
        for place, row in enumerate(sorted(inside, key=lambda r: methods.index(r.method) if r.method else 0)):
            first = _spanning(len(inside), label) if not place else ""
            lines.append(_line([first, escape(row.method or methods[0])], row, inside, table))
    return lines


def _spanning(n_rows: int, name: str) -> str:
    return rf"\multirow{{{n_rows}}}{{*}}{{{escape(name)}}}" if n_rows > 1 else escape(name)


def _line(names: Sequence[str], row: Row, inside: Sequence[Row], table: Table) -> str:
    others = [other for other in inside if other.label == row.label and other is not row]
    cells = []
    for place, cell in enumerate(row.cells):
        text = "--" if cell.text == NO_VALUE else escape(cell.text)
        rivals = [other.cells[place].value for other in others]
        if _stands_out(cell.value, rivals, table.metric, cell.statistic):
            text = rf"\textbf{{{text}}}"
        cells.append(text + escape(cell.marks))
    sizes = [str(row.n), str(row.n_patients)] if table.has_patients else []
    failures = [str(row.n_missed), str(row.n_invented)] if table.has_failures else []
    return " & ".join([*names, *sizes, *failures, *cells, *map(escape, table.further_of(row))]) + r" \\"


def _stands_out(value: float, rivals: Sequence[float], metric: Metric, statistic: str) -> bool:
    """Whether a number improves on every other method's by a notable amount."""
    return bool(rivals) and all(notable(value - rival, metric.name, statistic=statistic) for rival in rivals)


def _caption(table: Table, methods: Sequence[str]) -> str:
    metric = table.metric
    unit = "per cent" if metric.unit == "fraction" else metric.unit
    title = "" if table.attribute == ALL else f", by {attribute_title(table.attribute)}"
    counts = ", ".join(f"{stratum_title(table.attribute, s)} ({n})" for s, n in table.cases_of_stratum.items())
    text = f"{metric.title} ({unit}){title}. Cases: {counts}. {metric.title}: {metric.definition}. "
    text += "IQR: interquartile range. " if "iqr" in table.statistics else ""
    percentiles = [STATISTICS[s].title for s in table.statistics if s.startswith("p")]
    text += f"{', '.join(percentiles)}: percentiles, linearly interpolated." if percentiles else ""
    undefined = sum(row.n_undefined for row in table.rows if row.method in ("", methods[0]))
    if undefined:
        text += f" Without a value and left out: {undefined} pairs of case and label."
    if len(methods) > 1 and metric.unit == "fraction":
        text += " Bold: better than every other method by 5 percentage points or more."
    if table.has_failures:
        text += " Missed, invented: cases whose label was not predicted, or predicted where the reference lacks it."
    return escape(" ".join((text, *table.on_failures, *table.footnotes)))
