"""The page of a comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report import page_parts as parts
from nnunet_dro.evaluation.report.failure_blocks import failure_tables
from nnunet_dro.evaluation.report.forest_plot import forest
from nnunet_dro.evaluation.report.further_tables import bounds_for_verdicts, difference_table
from nnunet_dro.evaluation.report.scatter_plots import paired
from nnunet_dro.evaluation.report.views import ComparisonView
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.document import Block, Column, Figure, Heading, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page

#: Number of cases in each short list, of those that gained and of those that lost; the case table
#: has them all.
_MOST_CHANGED = 10


def comparison_html(comparison: Comparison) -> str:
    """The page of a comparison, the same for the same input; all names from files are escaped."""
    view = ComparisonView.of(comparison)
    metrics = view.metrics
    all_pairs = _pairs(comparison, metrics)
    pairs = _most_changed(all_pairs, metrics[0], comparison.methods[0])
    table = _case_table(comparison, pairs, metrics)

    blocks: list[Block] = [
        *_failures(view),
        *_findings(view),
        *parts.requirements_section(view),
        *view.notes,
    ]
    for place, attribute in enumerate(view.attributes):
        blocks += _attribute(view, attribute, place)
    blocks += _paired(comparison, pairs, table, metrics[0])
    blocks += _changed(comparison, metrics[0])

    about_table = "A row per case and label with every method, the case that lost most first."
    if len(pairs) < len(all_pairs):
        about_table += (
            f" Of {len(all_pairs):,} rows, the {len(pairs):,} that changed most are here; "
            "scores.csv of each method has all."
        )
    title = fmt.against_baseline(comparison.methods)
    return page(
        blocks,
        parts.methods(metrics, comparison.about),
        about=parts.readable(comparison.about),
        table=replace(table, about=about_table),
        kind="nnunet-dro · comparison per stratum",
        title=title,
        heading=title,
        lede=parts.lede(all_pairs.index.to_frame(), comparison.stratum_of_case, metrics),
    )


def _failures(view: ComparisonView) -> Iterator[Block]:
    """The section on failures; the verdicts in a sentence, where no failure is counted."""
    tables = [*failure_tables(view.source)]
    if view.failures or tables:
        yield Heading("Failures", anchor="failures", short="Failures")
    yield from view.failures
    yield from view.requirement_count
    yield from tables


def _findings(view: ComparisonView) -> Iterator[Block]:
    yield Heading("What changed", anchor="findings", short="What changed")

    baseline, *others = view.source.methods
    for verdict in view.verdicts:
        if len(others) > 1:
            yield Heading(f"{verdict.method} against {baseline}", 3)
        yield Prose(verdict.summary, kind="verdict")
        yield from verdict.findings


def _attribute(view: ComparisonView, attribute: str, place: int) -> Iterator[Block]:
    """The section on an attribute: the differences of every method, then all statistics."""
    comparison = view.source
    labels, left_out = parts.most_changed_labels(
        comparison.table,
        attribute,
        n_rows=max(len(comparison.table), len(comparison.strata)),
        most_rows=parts.MOST_STRATA_ROWS,
    )
    yield parts.attribute_heading(attribute, place)
    if left_out:
        yield Prose(left_out)

    baseline, *others = comparison.methods
    for metric, rows in view.differences(attribute, labels):
        title = metric.title
        if len(others) > 1:
            title += f", {rows['method'].iloc[0]} against {baseline}"
        yield Heading(title, 3)
        yield from _differences(rows, metric)

    yield Heading("All statistics of every method", 3, folded=True)
    yield from parts.strata_blocks(view, attribute, labels)


def _differences(rows: pd.DataFrame, metric: Metric) -> Iterator[Block]:
    """The differences of one method by one metric, as a table and as figures."""
    statistics = ("mean", metric.tail)
    yield difference_table(rows, metric, statistics)
    yield from bounds_for_verdicts(rows, metric)

    drawings = [forest(rows, metric, statistic) for statistic in statistics]
    yield Figure([("", list(filter(None, drawings)))])


def _pairs(comparison: Comparison, metrics: Sequence[Metric]) -> pd.DataFrame:
    """Values in shown units by metric and method, a row per case and label.

    The rows are in the order of the baseline's.
    """
    names = [metric.name for metric in metrics]
    scores = {}
    for method in comparison.methods:
        is_meant = comparison.scores["method"] == method
        inside = comparison.scores.loc[is_meant, ["case", "label", *names]]
        scores[method] = inside.set_index(["case", "label"])

    rows = scores[comparison.methods[0]].index
    columns: dict[tuple[str, str], npt.NDArray[np.float64]] = {}
    for metric in metrics:
        for method, values in scores.items():
            # Methods mostly have their rows in one order.
            if not values.index.equals(rows):
                values = values.reindex(rows)
            numbers = values[metric.name].to_numpy(dtype=np.float64)
            columns[metric.name, method] = numbers * fmt.scaled(1.0, metric)
    return pd.DataFrame(columns, index=rows)


def _most_changed(pairs: pd.DataFrame, metric: Metric, baseline: str) -> pd.DataFrame:
    """The rows whose value of a metric differs most between any method and the baseline.

    All if there are few.
    """
    values = pd.DataFrame(pairs[metric.name])
    changes = values.sub(values[baseline], axis=0)
    largest = changes.abs().max(axis=1).fillna(0)

    most_changed_first = np.argsort(-largest.to_numpy(), kind="stable")
    kept = most_changed_first[: parts.MOST_CASE_ROWS]
    return pairs.iloc[np.sort(kept)]


def _case_table(
    comparison: Comparison, pairs: pd.DataFrame, metrics: Sequence[Metric]
) -> SortableTable:
    """The case that lost most first.

    Case, label, attributes, then per metric the values and their differences.
    """
    baseline, *others = comparison.methods
    columns = parts.case_columns(pairs.index.to_frame(), comparison.stratum_of_case)
    first_difference = len(columns) + len(comparison.methods)

    for metric in metrics:
        values = pairs[metric.name]
        for method in values:
            title = _title(metric, method)
            columns.append(SortableColumn(title, fmt.column_kind(metric), values[method]))
        for method in others:
            title = _change_title(metric, method)
            kind = fmt.column_kind(metric, otherwise="difference")
            columns.append(SortableColumn(title, kind, values[method] - values[baseline]))

    return SortableTable(
        tuple(columns),
        pairs.index.tolist(),
        first_difference,
        descending=not metrics[0].more_is_better,
    )


def _title(metric: Metric, method: str) -> str:
    return f"{fmt.metric_title(metric)}, {method}"


def _change_title(metric: Metric, method: str) -> str:
    unit = fmt.difference_unit(metric)
    return f"Change of {metric.title} ({unit}), {method}"


def _paired(
    comparison: Comparison, pairs: pd.DataFrame, table: SortableTable, metric: Metric
) -> Iterator[Block]:
    """A section for each method: every case by a metric, the method against the baseline."""
    baseline, *others = comparison.methods
    points = pairs.index.to_frame(index=False).assign(row=range(len(pairs)))
    colour_of_case, attribute, legend = parts.colours(comparison.stratum_of_case)
    points["stratum"] = points["case"].map(colour_of_case)

    at_most = None
    if len(pairs) * len(others) > parts.MOST_DOTS:
        n_charts = points["label"].nunique() * len(others)
        at_most = parts.MOST_DOTS // n_charts

    n_sections = 0
    for method in others:
        x = pairs[metric.name, baseline].to_numpy()
        y = pairs[metric.name, method].to_numpy()
        charts = _paired_charts(
            points.assign(x=x, y=y),
            table,
            metric,
            (baseline, method),
            at_most,
        )
        if not charts:
            continue

        n_sections += 1
        short = "Case by case" if len(others) == 1 else f"{method}, case by case"
        title = f"{method} against {baseline}, case by case"
        yield Heading(title, anchor=f"pairs-{n_sections}", short=short)
        yield Prose(_about_paired(attribute, at_most))
        yield Figure(charts, legend)


def _about_paired(attribute: str, at_most: int | None) -> str:
    by = f", by {attribute}" if attribute else ""
    text = f"Every dot is a case{by}; on the diagonal, nothing changed."
    if at_most is not None:
        text += " Only the cases that changed most are drawn."
    return text


def _paired_charts(
    points: pd.DataFrame,
    table: SortableTable,
    metric: Metric,
    methods: tuple[str, str],
    at_most: int | None,
) -> list[tuple[str, list[Markup]]]:
    """The labels that have pairs, each with its figure of the cases that changed most."""
    baseline, method = methods
    titles = (_title(metric, baseline), _title(metric, method), _change_title(metric, method))
    columns = [table.column(title) for title in titles]

    points = points.assign(change=(points["y"] - points["x"]).abs().fillna(0))

    charts = []
    for label, rows in points.groupby("label", sort=False):
        if at_most is not None:
            rows = rows.sort_values("change", ascending=False, kind="stable").head(at_most)
        drawing = paired(
            rows,
            metric,
            methods=methods,
            label=str(label),
            columns=columns,
        )
        if drawing:
            charts.append((str(label), [drawing]))
    return charts


def _changed(comparison: Comparison, metric: Metric) -> Iterator[Block]:
    """The cases that gained and that lost most by a metric, the largest change first."""
    yield Heading("The cases that changed most", anchor="changed", short="Changed cases")

    rows = comparison.changed[comparison.changed["metric"] == metric.name]
    rows = rows.sort_values("difference", key=lambda changes: -changes.abs(), kind="stable")
    if not (rows["difference"] != 0).any():
        yield Prose("No case changed.", kind="")
        return

    gains = metric.sign * rows["difference"]
    lists = {
        f"Gained most, {metric.title}": rows[gains > 0],
        f"Lost most, {metric.title}": rows[gains < 0],
    }
    columns = _changed_columns(comparison, metric)
    for title, inside in lists.items():
        records = fmt.records(inside.head(_MOST_CHANGED))
        if records:
            yield Heading(title, 3)
            yield Table.of(title, columns, records)


def _changed_columns(comparison: Comparison, metric: Metric) -> list[tuple[Column, Any]]:
    """The case first, then what happened to it, then its attributes."""
    columns: list[tuple[Column, Any]] = [
        (Column("Case", "text"), itemgetter("case")),
        (Column("Label", "text"), itemgetter("label")),
        (Column("Method", "text", is_minor=len(comparison.methods) == 2), itemgetter("method")),
        (Column(comparison.methods[0]), lambda row: fmt.number(row["baseline_value"], metric)),
        (Column("Method’s value"), lambda row: fmt.number(row["method_value"], metric)),
        (Column("Difference"), lambda row: fmt.change(row["difference"], metric)),
    ]
    for attribute in parts.single_attributes(comparison.stratum_of_case):
        # An attribute with the name of a column has another name in this table.
        other_name = f"{attribute} (stratum)"
        name = other_name if other_name in comparison.changed else attribute
        if name in comparison.changed:
            columns.append((Column(name, "text"), itemgetter(name)))
    return columns
