"""What the pages of an evaluation and of a comparison have in common, and what they leave out of large ones."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report.figures import looks_of
from nnunet_dro.evaluation.report.findings import requirement_notes
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.evaluation.report.further_tables import bounds_for_verdicts
from nnunet_dro.evaluation.report.strata_tables import SHADES, SPREAD_SHADES, strata_tables
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Block, Figure, Heading, Table
from nnunet_dro.pages.html import SortableColumn
from nnunet_dro.pages.svg import legend_line, legend_mark

# The most rows of a page's tables of strata, and of the terminal's.
MOST_STRATA_ROWS = 3_000
MOST_PRINTED_ROWS = 1_000
MOST_CASE_ROWS = (
    60_000  # The most rows of a page's table of cases: with its names they take about 4 MB.
)


def lede(
    scores: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]", metrics: Sequence[Metric]
) -> str:
    """What was evaluated, in a sentence."""
    text = f"{count(scores['case'].nunique(), 'case')}, {count(scores['label'].nunique(), 'label')}"
    by = [
        f"{a} ({count(stratum_of_case[a].nunique(), 'stratum')})"
        for a in single_attributes(stratum_of_case)
    ]
    return (
        text
        + (f", by {' and by '.join(by)}" if by else "")
        + f". {', '.join(metric.title for metric in metrics)}."
    )


def requirements_section(about: Mapping[str, Any]) -> list[Block]:
    """The requirements with a heading; nothing without any."""
    notes = requirement_notes(about)
    return (
        [Heading("Requirements", anchor="requirements", short="Requirements"), *notes]
        if notes
        else []
    )


def attribute_heading(attribute: str, number: int) -> Heading:
    """The heading of the section on an attribute."""
    title = attribute_title(attribute) if attribute == ALL else f"By {attribute_title(attribute)}"
    return Heading(title, anchor=f"by-{number}", short=title)


def strata_blocks(
    strata: pd.DataFrame, scores: pd.DataFrame, failure: str | None
) -> Iterator[Block]:
    """The tables of a strata frame with what a page adds.

    The shades in words, and the bounds for verdicts.
    """
    for metric, table in strata_tables(strata, scores, failure):
        yield Heading(
            f"{metric.title}, in {'per cent' if metric.unit == 'fraction' else metric.unit}", 3
        )
        yield table
        yield Figure(drawing=_shades(metric, table))
        yield from bounds_for_verdicts(strata[strata["metric"] == metric.name], metric)


def _shades(metric: Metric, table: Table) -> Markup:
    swatches: dict[str, list[str]] = {}
    if metric.is_bounded:
        swatches[metric.title] = [
            f"{high:g}–{low:g} %" for high, low in pairwise(100 - s for s in (0, *SHADES, 100))
        ]
        between = [f"{low:g}–{high:g}" for low, high in pairwise(SPREAD_SHADES)]
        if any(column.title == "IQR" for column in table.columns):
            swatches["the IQR"] = [
                f"up to {SPREAD_SHADES[0]:g}",
                *between,
                f"above {SPREAD_SHADES[-1]:g}",
            ]
    lines = []
    for title, steps in swatches.items():
        spans = (
            Markup('<span class="swatch shade{}">{}</span>').format(n, step)
            for n, step in enumerate(steps)
        )
        lines.append(Markup("Shades of {}: {}").format(title, Markup(" ").join(spans)))
    words = (
        Markup("<br>").join(lines)
        or f"Shades: the larger the {metric.noun} within this table, the darker."
    )
    return Markup('<p class="key">{}</p>').format(words)


def methods(metrics: Sequence[Metric], about: Mapping[str, Any]) -> list[Block]:
    """The definitions of the metrics and statistics."""
    definitions = about["definitions"] if isinstance(about.get("definitions"), Mapping) else {}
    of_metrics = []
    for metric in metrics:
        unit = "Shown in per cent" if metric.unit == "fraction" else f"In {metric.unit}"
        text = f"{definitions.get(metric.name, metric.definition)}. {unit}"
        better = (
            "higher" if metric.more_is_better else "nearer to 0" if metric.is_signed else "lower"
        )
        of_metrics.append((metric.title, f"{text}; {better} is better."))
    others = [(statistic.title, statistic.definition) for statistic in STATISTICS.values()]
    linear = "interpolated linearly between cases; cases without a value are counted and left out"
    others += [
        ("Percentiles", linear),
        *((name, text) for name, text in definitions.items() if name not in METRICS),
    ]
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
        k: readable(v) if isinstance(v, Mapping) else v
        for k, v in about.items()
        if k not in left_out
    }


def single_attributes(stratum_of_case: Collection[str]) -> list[str]:
    """The attributes that are not the intersection of others, nor ``all``."""
    known = set(stratum_of_case)
    return [
        a for a in stratum_of_case if a != ALL and not ("," in a and known.issuperset(a.split(",")))
    ]


def case_columns(
    rows: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]"
) -> list[SortableColumn]:
    """The first columns of a table of cases: case, label and attributes."""
    columns = [SortableColumn("Case", "text", rows["case"])]
    columns.append(SortableColumn("Label", "text", rows["label"], filtered=True))
    for attribute in single_attributes(stratum_of_case):
        strata = rows["case"].astype(object).map(stratum_of_case[attribute].astype(object)).tolist()
        columns.append(SortableColumn(attribute, "text", strata, filtered=True))
    return columns


def coloured(
    rows: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]"
) -> tuple[Any, str, Any]:
    """The index of each row's stratum, the attribute that it is of (empty if there is none), and the legend."""
    for attribute in single_attributes(stratum_of_case):
        strata = stratum_of_case[attribute].cat.remove_unused_categories().cat
        index = rows["case"].map(
            dict(zip(stratum_of_case[attribute].index, strata.codes, strict=True))
        )
        return (
            index,
            attribute,
            legend_of(attribute, [str(name) for name in strata.categories], lines=False),
        )
    return 0, "", []


def legend_of(attribute: str, strata: Sequence[str], *, lines: bool) -> list[tuple[list[Any], str]]:
    """Icons and names of the strata of one attribute."""
    icons = (legend_line(*looks_of(n)) if lines else legend_mark(n) for n in range(len(strata)))
    return [
        ([icon], stratum_title(attribute, stratum))
        for icon, stratum in zip(icons, strata, strict=True)
    ]


def worst_labels(
    strata: pd.DataFrame, worst: pd.DataFrame, attribute: str, *, most_rows: int
) -> tuple[list[str], str]:
    """The labels of an attribute whose worst stratum is worst, for an equal share of the rows, and what is left out."""
    metric = METRICS[str(strata["metric"].iloc[0])]
    ranked = worst[(worst["attribute"] == attribute) & (worst["metric"] == metric.name)]
    values = ranked[ranked["statistic"] == metric.tail].set_index("label")["worst"]
    extreme = "lowest" if metric.more_is_better else "highest"
    by = f"whose worst stratum has the {extreme} {STATISTICS[metric.tail].title} of {metric.title}; strata.csv has all."
    return _shown_labels(
        strata, attribute, -metric.goodness(values), by, n_rows=len(strata), most_rows=most_rows
    )


def most_changed_labels(
    table: pd.DataFrame, attribute: str, *, n_rows: int, most_rows: int
) -> tuple[list[str], str]:
    """As `worst_labels`, of a comparison.

    Those with the largest differences of a stratum's mean.
    """
    metric = METRICS[str(table["metric"].iloc[0])]
    of_first = table[(table["attribute"] == attribute) & (table["metric"] == metric.name)]
    largest = of_first["mean_difference"].abs().groupby(of_first["label"].astype(str)).max()
    by = f"with the largest difference of a stratum's mean {metric.title}; comparison.csv has all."
    return _shown_labels(table, attribute, largest, by, n_rows=n_rows, most_rows=most_rows)


def _shown_labels(
    frame: pd.DataFrame,
    attribute: str,
    urgency: "pd.Series[float]",
    by: str,
    *,
    n_rows: int,
    most_rows: int,
) -> tuple[list[str], str]:
    """As many labels as there is room for, but at least one, in the order of the frame."""
    inside = frame[frame["attribute"] == attribute]
    labels = [str(name) for name in inside["label"].unique()]
    room = max(1, most_rows // frame["attribute"].nunique() * len(labels) // len(inside))
    if n_rows <= most_rows or room >= len(labels):
        return labels, ""
    chosen = set(urgency.reindex(labels).sort_values(ascending=False, kind="stable").index[:room])
    which = f"the {room} are shown" if room > 1 else "one is shown"
    return [
        label for label in labels if label in chosen
    ], f"Of {count(len(labels), 'label')}, {which} {by}"
