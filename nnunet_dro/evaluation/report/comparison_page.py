"""The page of a comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report import page_parts as parts
from nnunet_dro.evaluation.report.figures import MOST_DOTS, forest, paired
from nnunet_dro.evaluation.report.findings import comparison_notes
from nnunet_dro.evaluation.report.further_tables import bounds_for_verdicts, difference_table
from nnunet_dro.evaluation.report.gains import verdicts
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.document import Block, Column, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page

#: Number of cases in each short list, of those that gained and of those that lost; the case table
#: has them all.
_MOST_CHANGED = 10


def comparison_html(comparison: Comparison) -> str:
    """The page of a comparison, the same for the same input; all names from files are escaped."""
    metrics = [
        fmt.metric_named(str(name), comparison.scores)
        for name in comparison.table["metric"].unique()
    ]
    every_pair = _pairs(comparison, metrics)
    pairs = _most_changed(every_pair, metrics[0], comparison.methods[0])
    table = _case_table(comparison, pairs, metrics)
    blocks: list[Block] = [
        Heading("What changed", anchor="findings", short="What changed"),
        *_findings(comparison),
    ]
    blocks += parts.requirements_section(comparison.about)
    blocks += [Note(text) for text in comparison_notes(comparison)]
    for place, attribute in enumerate(comparison.table["attribute"].unique()):
        blocks += _attribute(comparison, str(attribute), place)
    blocks += [*_paired(comparison, pairs, table, metrics[0]), *_changed(comparison, metrics[0])]
    about_cases = "A row per case and label with every method, the case that lost most first."
    limited = "that changed most are here; scores.csv of each method has all."
    if len(pairs) < len(every_pair):
        about_cases += f" Of {len(every_pair):,} rows, the {len(pairs):,} {limited}"
    return page(
        blocks,
        parts.methods(metrics, comparison.about),
        about=parts.readable(comparison.about),
        table=replace(table, about=about_cases),
        kind="nnunet-dro · comparison per stratum",
        title=fmt.against_baseline(comparison.methods),
        heading=fmt.against_baseline(comparison.methods),
        lede=parts.lede(every_pair.index.to_frame(), comparison.stratum_of_case, metrics),
    )


def _findings(comparison: Comparison) -> Iterator[Block]:
    found = verdicts(comparison)
    for verdict in found:
        if len(found) > 1:
            yield Heading(f"{verdict.method} against {comparison.methods[0]}", 3)
        yield Prose(verdict.summary, kind="verdict")
        yield from verdict.findings


def _attribute(comparison: Comparison, attribute: str, place: int) -> Iterator[Block]:
    table, strata = (
        frame[frame["attribute"] == attribute] for frame in (comparison.table, comparison.strata)
    )
    n_rows = max(len(comparison.table), len(comparison.strata))
    labels, left_out = parts.most_changed_labels(
        comparison.table, attribute, n_rows=n_rows, most_rows=parts.MOST_STRATA_ROWS
    )
    yield parts.attribute_heading(attribute, place)
    if left_out:
        yield Prose(left_out)
    table, strata = (frame[frame["label"].astype(str).isin(labels)] for frame in (table, strata))
    methods = comparison.methods
    baseline = comparison.methods[0]
    for name in table["metric"].unique():
        metric = fmt.metric_named(str(name), comparison.scores)
        statistics = ("mean", metric.tail)
        for method in methods[1:]:
            rows = table[(table["metric"] == name) & (table["method"] == method)]
            yield Heading(
                f"{metric.title}, {method} against {baseline}"
                if len(methods) > 2
                else metric.title,
                3,
            )
            yield difference_table(rows, metric, statistics)
            yield from bounds_for_verdicts(rows, metric)
            forests = (forest(rows, metric, statistic) for statistic in statistics)
            yield Figure([("", [drawing for drawing in forests if drawing])])
    yield Heading("All statistics of every method", 3, folded=True)
    yield from parts.strata_blocks(strata, comparison.scores, comparison.failure)


def _pairs(comparison: Comparison, metrics: Sequence[Metric]) -> pd.DataFrame:
    """Values in shown units by metric and method, a row per case and label in the order of the baseline's."""
    rows = pd.MultiIndex.from_frame(comparison.scores[["case", "label"]].drop_duplicates())
    of_method = {
        name: of.set_index(["case", "label"]) for name, of in comparison.scores.groupby("method")
    }
    return pd.DataFrame(
        {
            (metric.name, method): fmt.shown(of_method[method][metric.name].reindex(rows), metric)
            for metric in metrics
            for method in comparison.methods
        },
        index=rows,
    )


def _most_changed(pairs: pd.DataFrame, metric: Metric, baseline: str) -> pd.DataFrame:
    """The rows whose value of a metric differs most between any method and the baseline.

    All if there are few.
    """
    values = pd.DataFrame(pairs[metric.name])
    changes = values.sub(values[baseline], axis=0).abs().max(axis=1).fillna(0)
    order = np.argsort(-changes.to_numpy(), kind="stable")
    return pairs.iloc[np.sort(order[: parts.MOST_CASE_ROWS])]


def _case_table(
    comparison: Comparison, pairs: pd.DataFrame, metrics: Sequence[Metric]
) -> SortableTable:
    """The case that lost most first.

    Case, label, attributes, then per metric the values and their differences.
    """
    baseline, *others = comparison.methods
    columns = parts.case_columns(pairs.index.to_frame(), comparison.stratum_of_case)
    first = len(columns) + len(comparison.methods)
    for metric in metrics:
        values = pairs[metric.name]
        columns += [SortableColumn(_title(metric, name), "number", values[name]) for name in values]
        for name in others:
            columns.append(
                SortableColumn(_change(metric, name), "difference", values[name] - values[baseline])
            )
    return SortableTable(
        tuple(columns), pairs.index.tolist(), first, descending=not metrics[0].more_is_better
    )


def _title(metric: Metric, method: str) -> str:
    return f"{fmt.metric_title(metric)}, {method}"


def _change(metric: Metric, method: str) -> str:
    return f"Change of {metric.title} ({fmt.difference_unit(metric)}), {method}"


def _paired(
    comparison: Comparison, pairs: pd.DataFrame, table: SortableTable, metric: Metric
) -> Iterator[Block]:
    """A section for each method: every case by a metric, the method against the baseline."""
    baseline, *others = comparison.methods
    points = pairs.index.to_frame(index=False).assign(row=range(len(pairs)))
    points["stratum"], attribute, legend = parts.coloured(points, comparison.stratum_of_case)
    is_limited = len(pairs) * len(others) > MOST_DOTS
    at_most = MOST_DOTS // (points["label"].nunique() * len(others)) if is_limited else len(pairs)
    by = f", by {attribute}" if attribute else ""
    limited = " Only the cases that changed most are drawn." if is_limited else ""
    n_sections = 0
    for method in others:
        x, y = (pairs[metric.name, name].to_numpy() for name in (baseline, method))
        charts = []
        for label, of_label in points.assign(x=x, y=y, change=np.nan_to_num(abs(y - x))).groupby(
            "label", sort=False
        ):
            if is_limited:
                of_label = of_label.sort_values("change", ascending=False, kind="stable").head(
                    at_most
                )
            titles = (_title(metric, baseline), _title(metric, method), _change(metric, method))
            columns = [table.column(title) for title in titles]
            if svg := paired(
                of_label, metric, methods=(baseline, method), label=str(label), columns=columns
            ):
                charts.append((str(label), [svg]))
        if charts:
            n_sections += 1
            short = "Case by case" if len(others) == 1 else f"{method}, case by case"
            yield Heading(
                f"{method} against {baseline}, case by case",
                anchor=f"pairs-{n_sections}",
                short=short,
            )
            yield Prose(f"Every dot is a case{by}; on the diagonal, nothing changed.{limited}")
            yield Figure(charts, legend)


def _changed(comparison: Comparison, metric: Metric) -> Iterator[Block]:
    """The cases that gained and that lost most by a metric, the largest change first."""
    yield Heading("The cases that changed most", anchor="changed", short="Changed cases")
    rows = comparison.changed[comparison.changed["metric"] == metric.name]
    rows = rows.sort_values("difference", key=lambda changes: -changes.abs(), kind="stable")
    if not (rows["difference"] != 0).any():
        yield Prose("No case changed.", kind="")
        return
    for title, direction in (
        (f"Gained most, {metric.title}", 1),
        (f"Lost most, {metric.title}", -1),
    ):
        inside = rows[direction * metric.sign * rows["difference"] > 0].head(_MOST_CHANGED)
        if len(inside):
            yield Heading(title, 3)
            yield Table.of(title, _changed_columns(comparison, metric), inside.to_dict("records"))


def _changed_columns(comparison: Comparison, metric: Metric) -> list[tuple[Column, Any]]:
    """The case first, then what happened to it, then its attributes."""
    unit = fmt.difference_unit(metric)
    columns: list[tuple[Column, Any]] = [
        *(
            (Column(name.capitalize(), "text"), itemgetter(name))
            for name in ("case", "label", "method")
        ),
        (
            Column(comparison.methods[0]),
            lambda record: fmt.number(record["baseline_value"], metric),
        ),
        (Column("Method’s value"), lambda record: fmt.number(record["method_value"], metric)),
        (
            Column("Difference"),
            lambda record: f"{fmt.difference(record['difference'], metric)} {unit}",
        ),
    ]
    # An attribute with the name of a column has another name in this table.
    changed = comparison.changed
    names = parts.single_attributes(comparison.stratum_of_case)
    names = [f"{name} (stratum)" if f"{name} (stratum)" in changed else name for name in names]
    return columns + [(Column(name, "text"), itemgetter(name)) for name in names if name in changed]
