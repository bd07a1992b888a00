"""The page of a comparison."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report import page_parts as parts
from nnunet_dro.evaluation.report.figures import MOST_DOTS, forest, paired
from nnunet_dro.evaluation.report.findings import comparison_notes
from nnunet_dro.evaluation.report.formatting import against_baseline, difference, difference_unit, metric_named, number
from nnunet_dro.evaluation.report.further_tables import bounds_for_verdicts, difference_table
from nnunet_dro.evaluation.report.gains import verdicts
from nnunet_dro.evaluation.report.page_parts import MOST_CASE_ROWS, MOST_STRATA_ROWS
from nnunet_dro.evaluation.report.score_tables import Pairs, pair_columns, pairs_table, single_attributes
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.document import Block, Column, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import page
from nnunet_dro.pages.sortable_table import SortableTable

#: Number of cases in each short list, of those that gained and of those that lost; the case table has them all.
_MOST_CHANGED = 10


def comparison_html(comparison: Comparison) -> str:
    """The page of a comparison, the same for the same input; all names from files are escaped."""
    metrics = [metric_named(str(name), comparison.scores) for name in comparison.table["metric"].unique()]
    every_pair = Pairs.of(comparison.scores, metrics, comparison.methods)
    pairs = every_pair.most_changed(metrics[0].name, MOST_CASE_ROWS) if metrics else every_pair
    table = pairs_table(pairs, metrics, comparison.stratum_of_case)
    blocks: list[Block] = [Heading("What changed", anchor="findings", short="What changed"), *_findings(comparison)]
    blocks += parts.requirements_section(comparison.about)
    blocks += [Note(text) for text in comparison_notes(comparison)]
    for place, attribute in enumerate(comparison.table["attribute"].unique()):
        blocks += _attribute(comparison, str(attribute), place)
    blocks += [*_paired(comparison, pairs, table, metrics), *_changed(comparison, metrics)]
    n_shown, n_rows = len(pairs.rows), len(every_pair.rows)
    limited = f" Of {n_rows:,} rows, the {n_shown:,} that changed most are here; scores.csv of each method has all."
    about_cases = "A row per case and label with every method, the case that lost most first."
    return page(
        blocks,
        parts.methods(metrics, comparison.about),
        about=parts.readable(comparison.about),
        cases={"about": about_cases + (limited if n_shown < n_rows else "")},
        payload=table.payload({}),
        kind="nnunet-dro · comparison per stratum",
        title=against_baseline(comparison.methods),
        heading=against_baseline(comparison.methods),
        lede=parts.lede(every_pair.rows, comparison.stratum_of_case, metrics),
    )


def _findings(comparison: Comparison) -> Iterator[Block]:
    found = verdicts(comparison)
    if not found:
        yield Prose("No stratum has a value for both methods, so there is nothing to compare.", kind="")
    for verdict in found:
        if len(found) > 1:
            yield Heading(f"{verdict.method} against {comparison.methods[0]}", 3)
        yield Prose(verdict.summary, kind="verdict")
        yield from verdict.findings


def _attribute(comparison: Comparison, attribute: str, place: int) -> Iterator[Block]:
    table, strata = (frame[frame["attribute"] == attribute] for frame in (comparison.table, comparison.strata))
    n_rows = max(len(comparison.table), len(comparison.strata))
    labels, left_out = parts.most_changed_labels(comparison.table, attribute, n_rows=n_rows, most_rows=MOST_STRATA_ROWS)
    yield parts.attribute_heading(attribute, place)
    if left_out:
        yield Prose(left_out)
    table, strata = (frame[frame["label"].astype(str).isin(labels)] for frame in (table, strata))
    baseline = comparison.methods[0]
    for name in table["metric"].unique():
        metric = metric_named(str(name), comparison.scores)
        statistics = ("mean", metric.tail)
        for method in comparison.methods[1:]:
            rows = table[(table["metric"] == name) & (table["method"] == method)]
            yield Heading(
                f"{metric.title}, {method} against {baseline}" if len(comparison.methods) > 2 else metric.title, 3
            )
            yield difference_table(rows, metric, statistics)
            bounds = bounds_for_verdicts(rows, metric)
            yield from parts.on_bounds("Bounds of the mean difference for verdicts", bounds, metric)
            forests = (forest(rows, metric, statistic) for statistic in statistics)
            yield Figure([("", [drawing for drawing in forests if drawing])])
    yield Heading("All statistics of every method", 3, folded=True)
    yield from parts.strata_blocks(strata, comparison.scores, comparison.about)


def _paired(comparison: Comparison, pairs: Pairs, table: SortableTable, metrics: Sequence[Metric]) -> Iterator[Block]:
    """A section for each method: every case by the first metric, the method against the baseline."""
    if not metrics:
        return
    metric, (baseline, *others) = metrics[0], comparison.methods
    attributes = single_attributes(comparison.stratum_of_case)
    colours = np.zeros(len(pairs.rows), dtype=np.int64)
    legend: list[Any] = []
    if attributes:
        of_case = comparison.stratum_of_case[attributes[0]]
        colours = parts.stratum_index(pairs.rows, of_case)
        legend = parts.legend_of(attributes[0], parts.strata_in_order(of_case), lines=False)
    is_limited = len(pairs.rows) * len(others) > MOST_DOTS
    by = f", by {attributes[0]}" if attributes else ""
    limited = " Only the cases that changed most are drawn." if is_limited else ""
    n_sections = 0
    for method in others:
        x, y = pairs.values[metric.name, baseline], pairs.values[metric.name, method]
        charts = []
        for label in pairs.rows["label"].unique():
            rows = np.flatnonzero((pairs.rows["label"] == label).to_numpy(dtype=bool))
            if is_limited:
                most = MOST_DOTS // (pairs.rows["label"].nunique() * len(others))
                rows = rows[np.argsort(-np.abs(np.nan_to_num(y[rows] - x[rows])), kind="stable")][:most]
            points = pd.DataFrame({"x": x[rows], "y": y[rows], "row": rows, "stratum": colours[rows]})
            columns = pair_columns(table, metric, baseline, method)
            if svg := paired(points, metric, methods=(baseline, method), label=str(label), columns=columns):
                charts.append((str(label), [svg]))
        if charts:
            n_sections += 1
            short = "Case by case" if len(others) == 1 else f"{method}, case by case"
            yield Heading(f"{method} against {baseline}, case by case", anchor=f"pairs-{n_sections}", short=short)
            yield Prose(f"Every dot is a case{by}; on the diagonal, nothing changed.{limited}")
            yield Figure(charts, legend)


def _changed(comparison: Comparison, metrics: Sequence[Metric]) -> Iterator[Block]:
    """The cases that gained and that lost most by the first metric, the largest change first."""
    yield Heading("The cases that changed most", anchor="changed", short="Changed cases")
    rows = comparison.changed
    rows = rows[rows["metric"] == metrics[0].name] if len(rows) and metrics else rows.iloc[:0]
    rows = rows.sort_values("difference", key=lambda changes: -changes.abs(), kind="stable")
    if not (rows["difference"] != 0).any():
        yield Prose("No case changed.", kind="")
        return
    metric = metrics[0]
    for title, direction in ((f"Gained most, {metric.title}", 1), (f"Lost most, {metric.title}", -1)):
        inside = rows[direction * metric.sign * rows["difference"] > 0].head(_MOST_CHANGED)
        if len(inside):
            yield Heading(title, 3)
            yield Table.of(title, _changed_columns(comparison, metric), inside.to_dict("records"))


def _changed_columns(comparison: Comparison, metric: Metric) -> list[tuple[Column, Any]]:
    """The case first, then what happened to it, then its attributes."""

    def entry(name: str) -> Any:
        return lambda record: str(record[name])

    def value(name: str) -> Any:
        return lambda record: number(float(record[name]), metric)

    columns = [(Column(name.capitalize(), "text"), entry(name)) for name in ("case", "label", "method")]
    columns.append((Column(comparison.methods[0]), value("baseline_value")))
    columns.append((Column("Method’s value"), value("method_value")))
    unit = difference_unit(metric)
    columns.append((Column("Difference"), lambda record: f"{difference(float(record['difference']), metric)} {unit}"))
    # An attribute with the name of a column has another name in this table.
    names = single_attributes(comparison.stratum_of_case)
    names = [name if name in comparison.changed.columns else f"{name} (stratum)" for name in names]
    known = ("case", "label", "method", "baseline_value", "method_value", "difference")
    names = [name for name in names if name in comparison.changed.columns and name not in known]
    return columns + [(Column(name, "text"), entry(name)) for name in names]
