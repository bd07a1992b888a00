"""What the pages of an evaluation and of a comparison have in common."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report.charts.quantiles import legend_line
from nnunet_dro.evaluation.report.findings import requirement_notes
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.evaluation.report.further_tables import bounds_for_verdicts
from nnunet_dro.evaluation.report.score_tables import single_attributes
from nnunet_dro.evaluation.report.strata_tables import SHADES, SPREAD_SHADES, strata_tables
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Block, Figure, Heading, Table
from nnunet_dro.pages.svg import legend_mark
from nnunet_dro.pages.wording import count


def lede(scores: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]", metrics: Sequence[Metric]) -> str:
    """What was evaluated, in a sentence."""
    text = f"{count(scores['case'].nunique(), 'case')}, {count(scores['label'].nunique(), 'label')}"
    by = [
        f"{name} ({count(stratum_of_case[name].nunique(), 'stratum')})" for name in single_attributes(stratum_of_case)
    ]
    return text + (f", by {' and by '.join(by)}" if by else "") + f". {', '.join(metric.title for metric in metrics)}."


def requirements_section(about: Mapping[str, Any]) -> list[Block]:
    """The requirements with a heading; nothing without any."""
    notes = requirement_notes(about)
    return [Heading("Requirements", anchor="requirements", short="Requirements"), *notes] if notes else []


def attribute_heading(attribute: str, number: int) -> Heading:
    """The heading of the section on an attribute."""
    title = attribute_title(attribute) if attribute == ALL else f"By {attribute_title(attribute)}"
    return Heading(title, anchor=f"by-{number}", short=title)


def strata_blocks(strata: pd.DataFrame, scores: pd.DataFrame, about: Mapping[str, Any]) -> Iterator[Block]:
    """The tables of a strata frame with what a page adds: the shades in words, and the bounds for verdicts."""
    for metric, table in strata_tables(strata, scores, about):
        yield Heading(f"{metric.title}, in {'per cent' if metric.unit == 'fraction' else metric.unit}", 3)
        yield table
        yield Figure(drawing=_shades(metric, table))
        bounds = bounds_for_verdicts(strata[strata["metric"] == metric.name], metric)
        yield from on_bounds("Bounds of the mean for verdicts", bounds, metric)


def on_bounds(title: str, bounds: Sequence[tuple[str, str]], metric: Metric) -> Iterator[Block]:
    """The bounds that verdicts rest on; nothing without any."""
    note = f"They assume only that {metric.title} lies between 0 and 100 %: margins and requirements rest on them."
    if bounds:
        yield replace(Table.of_pairs(title, bounds, kind="bounds"), notes=(note,))


def _shades(metric: Metric, table: Table) -> Markup:
    swatches: list[list[str]] = []
    if metric.unit == "fraction":
        swatches.append([f"{high:g}–{low:g} %" for high, low in pairwise(100 - s for s in (0, *SHADES, 100))])
        between = [f"{low:g}–{high:g}" for low, high in pairwise(SPREAD_SHADES)]
        if any(column.title == "IQR" for column in table.columns):
            swatches.append([f"up to {SPREAD_SHADES[0]:g}", *between, f"above {SPREAD_SHADES[-1]:g}"])
    lines = []
    for title, steps in zip((metric.title, "the IQR"), swatches, strict=False):
        spans = (Markup('<span class="swatch shade{}">{}</span>').format(n, step) for n, step in enumerate(steps))
        lines.append(Markup("Shades of {}: {}").format(title, Markup(" ").join(spans)))
    words = Markup("<br>").join(lines) or "Shades: the larger the distance within this table, the darker."
    return Markup('<p class="key">{}</p>').format(words)


def methods(metrics: Sequence[Metric], about: Mapping[str, Any]) -> list[Block]:
    """The definitions of the metrics and statistics."""
    definitions = about["definitions"] if isinstance(about.get("definitions"), Mapping) else {}
    of_metrics = []
    for metric in metrics:
        unit = "Shown in per cent" if metric.unit == "fraction" else f"In {metric.unit}"
        text = f"{definitions.get(metric.name, metric.definition)}. {unit}"
        of_metrics.append((metric.title, f"{text}; {'higher' if metric.more_is_better else 'lower'} is better."))
    others = [(statistic.title, statistic.definition) for statistic in STATISTICS.values()]
    linear = "interpolated linearly between cases; cases without a value are counted and left out"
    others += [("Percentiles", linear), *((name, text) for name, text in definitions.items() if name not in METRICS)]
    return [
        Heading("Methods and definitions", anchor="methods", short="Definitions"),
        Heading("Metrics", 3),
        Table.of_pairs("Metrics", of_metrics, kind="terms"),
        Heading("Statistics", 3),
        Table.of_pairs("Statistics", others, kind="terms"),
    ]


def readable(about: Mapping[str, Any]) -> dict[str, Any]:
    """How a run was made, without what the page shows elsewhere and without the paths of all files."""
    left_out = ("definitions", "requirements", "files", "files_sha256")
    return {
        key: readable(value) if isinstance(value, Mapping) else value
        for key, value in about.items()
        if key not in left_out
    }


def stratum_index(rows: pd.DataFrame, stratum_of_case: "pd.Series[str]") -> "np.ndarray[Any, np.dtype[np.int64]]":
    """The index of each row's stratum among those there are, in their order."""
    order = {str(name): n for n, name in enumerate(strata_in_order(stratum_of_case))}
    index_of_case = stratum_of_case.astype(object).map(order)
    return rows["case"].map(index_of_case).fillna(0).to_numpy(dtype=np.int64)


def strata_in_order(stratum_of_case: "pd.Series[str]") -> list[str]:
    """The strata that have cases, in the order of their categories."""
    there = {str(name) for name in stratum_of_case.dropna().unique()}
    if isinstance(stratum_of_case.dtype, pd.CategoricalDtype):
        return [str(name) for name in stratum_of_case.cat.categories if str(name) in there]
    return sorted(there)


def legend_of(attribute: str, strata: Sequence[str], *, lines: bool) -> list[tuple[list[Any], str]]:
    """Icons and names of the strata of one attribute."""
    icon = legend_line if lines else legend_mark
    return [([icon(n)], stratum_title(attribute, stratum)) for n, stratum in enumerate(strata)]
