"""Tables for the terminal."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.findings import all_notes, comparison_notes, findings
from nnunet_dro.evaluation.report.formatting import (
    against_baseline,
    attribute_title,
    change_bounds,
    counted,
    difference,
    metric_named,
    number,
    p_value,
    range_of_trainings,
    stratum_title,
    unit_sign,
)
from nnunet_dro.evaluation.report.gains import verdicts
from nnunet_dro.evaluation.report.lesion_tables import HEADINGS, LesionTable, lesion_tables
from nnunet_dro.evaluation.report.page_limits import (
    MOST_PRINTED_ROWS,
    left_out_of_comparison,
    left_out_sentence,
    most_changed_labels,
    worst_labels,
)
from nnunet_dro.evaluation.report.strata_tables import (
    FEW,
    FOOTNOTES,
    INTERVAL,
    LEFT_OUT,
    N_OF_FEW,
    Row,
    Table,
    strata_tables,
)
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS, enough_cases
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.wording import NO_VALUE, plain

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison

#: With more methods, the baseline among them, the differences are counted: nobody reads hundreds of rows.
_MOST_METHODS = 5

#: With more columns, one space is between them, not two.
_MOST_SPACED = 10

#: The most findings that are told where the tables are cut short, too.
_MOST_FINDINGS = 20


def evaluation_table(evaluation: Evaluation) -> RenderableType:
    """A table per attribute and metric, and a line on the worst stratum of each label.

    Args:
        evaluation: The evaluation.

    Returns:
        A renderable for rich's console. Names from files are shown as they are, never read as markup; numbers that rest
        on too few cases are dim.
    """
    parts: list[RenderableType] = []
    strata = evaluation.strata
    for attribute in strata["attribute"].unique():
        inside = strata[strata["attribute"] == attribute]
        labels = worst_labels(strata, evaluation.worst, str(attribute), most_rows=MOST_PRINTED_ROWS)
        tables = strata_tables(inside[inside["label"].isin(labels)], evaluation.scores, evaluation.about)
        parts += [_strata_table(table) for table in tables]
        if left_out := left_out_sentence(len(labels), inside["label"].nunique(), evaluation.metrics[0]):
            parts.append(Text(plain(left_out), style="dim"))
    parts += [_lesion_table(table) for table in lesion_tables(evaluation.lesion_sizes)]
    found_all = findings(evaluation)
    told = found_all if len(strata) <= MOST_PRINTED_ROWS else found_all[:_MOST_FINDINGS]
    for found in told:
        where = "" if found.attribute == attribute_title(ALL) else f" ({found.attribute})"
        parts.append(Text.assemble((plain(f"{found.title}{where}: "), "bold"), plain(found.detail)))
    if len(told) < len(found_all):
        parts.append(Text(f"The other {len(found_all) - len(told)} findings are in report.md.", style="dim"))
    parts += [Text(plain(f"Note: {note}"), style="yellow") for note in all_notes(evaluation.notes, evaluation.strata)]
    return Group(*parts)


def comparison_table(comparison: "Comparison") -> RenderableType:
    """The verdicts, and a table of differences per attribute and metric.

    Args:
        comparison: The comparison.

    Returns:
        A renderable for rich's console; names from files are shown as they are.
    """
    table = comparison.table
    parts: list[RenderableType] = []
    if len(comparison.methods) > _MOST_METHODS:
        return _many_methods(comparison)
    for attribute in table["attribute"].unique():
        of_attribute = table[table["attribute"] == attribute]
        most = {"n_rows": len(table), "most_rows": MOST_PRINTED_ROWS}
        labels = most_changed_labels(table, str(attribute), **most)
        if left_out := left_out_of_comparison(
            len(labels), of_attribute["label"].nunique(), str(table["metric"].iloc[0])
        ):
            parts.append(Text(plain(left_out), style="dim"))
        of_attribute = of_attribute[of_attribute["label"].astype(str).isin(labels)]
        for metric in table["metric"].unique():
            inside = of_attribute[of_attribute["metric"] == metric]
            known, rows = metric_named(str(metric), comparison.scores), inside.to_dict("records")
            parts += [
                _difference_table(str(attribute), known, statistic, rows, comparison.methods)
                for statistic in ("mean", known.tail)
            ]
    parts.append(Text(INTERVAL, style="dim"))
    for verdict in verdicts(comparison):
        parts.append(Text.assemble((plain(f"{verdict.method}: "), "bold"), plain(verdict.summary)))
        told = verdict.findings if len(table) <= MOST_PRINTED_ROWS else verdict.findings[:_MOST_FINDINGS]
        parts += [Text(plain(f"  {f.title}: {f.value}. {f.detail}")) for f in told]
        if len(told) < len(verdict.findings):
            n_others = len(verdict.findings) - len(told)
            parts.append(Text(f"  The other {n_others} findings are in report.md.", style="dim"))
    parts += [Text(plain(f"Note: {note}"), style="yellow") for note in comparison_notes(comparison)]
    return Group(*parts)


def _many_methods(comparison: "Comparison") -> RenderableType:
    """A row per method: how many of its means are better, worse and undecided."""
    table, metrics = comparison.table, list(comparison.table["metric"].unique())
    parts: list[RenderableType] = []
    for name in metrics:
        metric = metric_named(str(name))
        heading = f"{against_baseline(comparison.methods)}: mean {metric.title} per stratum and label"
        parts.append(Text(plain(heading), style="bold"))
        shown = RichTable(box=None, pad_edge=False, padding=(0, 1))
        shown.add_column("method", overflow="fold", min_width=6)
        for column in ("better", "worse", "undecided"):
            shown.add_column(column, justify="right", no_wrap=True)
        for method in comparison.methods[1:]:
            rows = table[(table["method"] == method) & (table["metric"] == name)]
            above, below = (rows["mean_difference_low"] > 0).sum(), (rows["mean_difference_high"] < 0).sum()
            better, worse = (above, below) if metric.more_is_better else (below, above)
            shown.add_row(*(Text(plain(str(cell))) for cell in (method, better, worse, len(rows) - better - worse)))
        parts.append(shown)
    about = (
        "Better and worse: the 95 % interval of the difference lies on one side of 0. Every difference is in "
        "report.html and comparison.csv. To put many methods in an order, use nnunet-dro rank."
    )
    parts.append(Text(about))
    parts += [Text(plain(f"Note: {note}"), style="yellow") for note in comparison_notes(comparison)]
    return Group(*parts)


def splits_table(folds: pd.DataFrame, notes: Sequence[str] = ()) -> RenderableType:
    """Validation and training cases of every fold and stratum.

    Args:
        folds: From `fold_table`.
        notes: Sentences for the reader.

    Returns:
        A renderable for rich's console; names from files are shown as they are.
    """
    shown = _titled("Cases to validate on, and to train on, in each fold")
    shown.add_column("fold", justify="right")
    strata = list(dict.fromkeys(folds["stratum"]))
    for stratum in strata:
        shown.add_column(Text(plain(stratum)), justify="right", overflow="fold")
    for fold, rows in folds.groupby("fold"):
        of_stratum = rows.set_index("stratum")
        counts = (of_stratum.loc[stratum] for stratum in strata)
        shown.add_row(Text(str(fold)), *(Text(f"{row['n_validation']} | {row['n_training']}") for row in counts))
    return Group(shown, *(Text(plain(f"Note: {note}"), style="yellow") for note in notes))


def _strata_table(table: Table) -> RichTable:
    shown = _titled(f"{attribute_title(table.attribute)}: {table.metric.title} ({unit_sign(table.metric)})")
    for heading in ("label", *(["stratum"] if table.attribute != ALL else [])):
        shown.add_column(heading, overflow="fold", min_width=6)
    for name in ("n", *(["patients"] if table.has_patients else []), *table.headings):
        shown.add_column(name, justify="right", no_wrap=True)
    # A column of values has room only where few cases leave few statistics.
    beside = len(table.headings) <= N_OF_FEW
    further = [heading for heading in table.further if beside or heading == table.failure]
    for heading in further:
        shown.add_column(heading, justify="right", min_width=6)
    # Columns of zeros are left out.
    counts = {"undef.": "n_undefined", "missed": "n_missed", "inv.": "n_invented"}
    counts = {name: field for name, field in counts.items() if any(getattr(row, field) for row in table.rows)}
    for heading in counts:
        shown.add_column(heading, justify="right", no_wrap=True)
    if len(shown.columns) > _MOST_SPACED:
        shown.padding = (0, 1, 0, 0)
    rows = [row for label in dict.fromkeys(r.label for r in table.rows) for row in table.rows if row.label == label]
    for place, row in enumerate(rows):
        names = [row.label, *([stratum_title(table.attribute, row.stratum)] if table.attribute != ALL else [])]
        sizes = [row.n, *([row.n_patients] if table.has_patients else [])]
        # Too few cases are dim here; the other mark stays.
        cells = [
            Text(cell.text + cell.marks.replace(FEW, ""), style="dim" if cell.too_few or cell.text == NO_VALUE else "")
            for cell in row.cells
        ]
        more = table.further_of(row)[-len(further) :] if further else []
        bad = [
            Text(str(n), style="red" if n and f != "n_undefined" else "")
            for f in counts.values()
            for n in [getattr(row, f)]
        ]
        last = place + 1 == len(rows) or rows[place + 1].label != row.label
        shown.add_row(
            *map(Text, map(plain, names)), *map(Text, map(str, sizes)), *cells, *map(Text, more), *bad, end_section=last
        )
    if below := _below(table, rows, with_values=not beside):
        shown.caption, shown.caption_justify = Text(below, style="dim"), "left"
    return shown


def _below(table: Table, rows: Sequence[Row], *, with_values: bool) -> str:
    """What stands below a table of strata: the values of few cases, a line each, and what its columns and marks say."""
    lines = []
    for row in rows:
        if row.values and with_values:
            where = f" in {stratum_title(table.attribute, row.stratum)}" if table.attribute != ALL else ""
            lines.append(plain(f"Values of {row.label}{where}: {row.values}"))
    left_out = any(cell.left_out for row in rows for cell in row.cells)
    lines.append(" ".join([*table.on_failures, *([f"{LEFT_OUT} {FOOTNOTES[LEFT_OUT]}"] if left_out else [])]))
    return "\n".join(line for line in lines if line)


def _lesion_table(table: LesionTable) -> RichTable:
    shown = _titled(table.title)
    n_names = len(table.headings) - len(HEADINGS)
    for place, heading in enumerate(table.headings):
        if place < n_names:
            shown.add_column(heading.lower(), overflow="fold", min_width=6)
        else:
            shown.add_column(heading, justify="right", no_wrap=True)
    for place, row in enumerate(table.rows):
        last = place + 1 == len(table.rows) or table.rows[place + 1].label != row.label
        shown.add_row(*(Text(plain(name)) for name in table.names(row)), *map(Text, row.cells), end_section=last)
    return shown


def _difference_table(
    attribute: str, metric: Metric, statistic: str, rows: list[dict[Hashable, Any]], methods: tuple[str, ...]
) -> RichTable:
    several = len(methods) > 2
    labels = list(dict.fromkeys(str(row["label"]) for row in rows))
    against = methods[0] if several else f"{methods[1]} against {methods[0]}"
    what = f"{STATISTICS[statistic].title} {metric.title} ({unit_sign(metric)})"
    title = f"{attribute_title(attribute)}: {what}, {against}"
    shown = _titled(title)
    for heading in ("label", *(["stratum"] if attribute != ALL else []), *(["method"] if several else [])):
        # A narrow terminal breaks names and never drops them.
        shown.add_column(heading, overflow="fold", min_width=6)
    repeated = any(range_of_trainings(row, statistic, metric) for row in rows)
    tests = [*([] if repeated else ["Holm p"]), "W/T/L"] if statistic == "mean" else []
    headings = ["n", "before → after", "change", *(["trainings"] if repeated else []), *tests]
    for name in headings:
        # Of the numbers, a narrow terminal breaks these first; with a column for the method, the interval, too.
        is_long = name == "trainings" or (several and name == "change")
        shown.add_column(name, justify="right", no_wrap=not is_long)
    for row in sorted(rows, key=lambda r: labels.index(str(r["label"]))):
        names = [str(row["label"])]
        names += [stratum_title(attribute, str(row["stratum"]))] if attribute != ALL else []
        names += [str(row["method"])] if several else []
        value, low, high = (float(row[f"{statistic}_difference{end}"]) for end in ("", "_low", "_high"))
        before, after = (number(float(row[f"{statistic}_{s}"]), metric) for s in ("baseline", "method"))
        few = not enough_cases(statistic, int(row["n"]) - int(row["n_undefined"]))
        change = f"{difference(value, metric)} {change_bounds(row, statistic, metric)}".rstrip()
        cells = [*(Text(plain(name)) for name in names), Text(counted(row))]
        cells.append(Text(f"{before} → {after}", style="dim" if few else ""))
        cells.append(Text(change, style="dim" if few else _colour(value, low, high, metric.more_is_better)))
        if repeated:
            cells.append(Text(range_of_trainings(row, statistic, metric).removeprefix("trainings ")))
        if statistic == "mean":
            record = "/".join(str(int(row[name])) for name in ("wins", "ties", "losses"))
            cells += [*([] if repeated else [Text(p_value(float(row["holm_p"])))]), Text(record)]
        shown.add_row(*cells)
    return shown


def _colour(value: float, low: float, high: float, more_is_better: bool) -> str:
    """Green or red where the interval lies on one side of 0."""
    if not (low > 0 or high < 0):
        return ""
    return "green" if (value > 0) == more_is_better else "red"


def _titled(title: str) -> RichTable:
    return RichTable(
        title=Text(plain(title), style="bold"), title_justify="left", box=None, pad_edge=False, padding=(0, 1)
    )
