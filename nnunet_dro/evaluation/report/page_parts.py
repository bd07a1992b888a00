"""What the pages of an evaluation and of a comparison have in common, and leave out if large."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report.figures import looks_of
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.evaluation.report.further_tables import bounds_for_verdicts
from nnunet_dro.evaluation.report.statistic_columns import SHADES, SPREAD_SHADES
from nnunet_dro.evaluation.report.views import StrataView
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Block, Figure, Heading, Table
from nnunet_dro.pages.html import SortableColumn
from nnunet_dro.pages.svg import legend_line, legend_mark

#: The most rows of a page's tables of strata, and of the terminal's.
MOST_STRATA_ROWS = 3_000
MOST_PRINTED_ROWS = 1_000

#: Names of what a page says of its making that say too little there.
_EXPLAINED = {"n_absent": "n_absent (cases that not every evaluation has)"}

#: The most rows of a page's table of cases: with its names they take about 2 MB.
MOST_CASE_ROWS = 30_000

#: The most dots on a page; with more cases, figures draw only the worst of each stratum.
MOST_DOTS = 30_000


def lede(
    scores: pd.DataFrame,
    stratum_of_case: "Mapping[str, pd.Series[str]]",
    metrics: Sequence[Metric],
) -> str:
    """What was evaluated, in a sentence."""
    attributes = single_attributes(stratum_of_case)
    return say(
        "evaluated",
        n_cases=scores["case"].nunique(),
        n_labels=scores["label"].nunique(),
        n_strata={attribute: stratum_of_case[attribute].nunique() for attribute in attributes},
        metrics=metrics,
    )


def requirements_section(view: StrataView) -> list[Block]:
    """The requirements with a heading; nothing without any."""
    if not view.requirements:
        return []
    return [
        Heading("Requirements", anchor="requirements", short="Requirements"),
        *view.requirements,
    ]


def attribute_heading(attribute: str, number: int) -> Heading:
    """The heading of the section on an attribute."""
    title = attribute_title(attribute)
    if attribute != ALL:
        title = f"By {title}"
    return Heading(title, anchor=f"by-{number}", short=title)


def strata_blocks(view: StrataView, attribute: str, labels: Sequence[str]) -> Iterator[Block]:
    """The tables of an attribute and some labels with what a page adds.

    The shades in words, and the bounds for verdicts.
    """
    strata = view.rows(attribute, labels)
    for metric, table in view.tables(attribute, labels):
        unit = "per cent" if metric.unit == "fraction" else metric.unit
        yield Heading(f"{metric.title}, in {unit}", 3)
        yield table
        yield Figure(drawing=_shades(metric, table))

        rows = strata[strata["metric"] == metric.name]
        yield from bounds_for_verdicts(rows, metric)


def _shades(metric: Metric, table: Table) -> Markup:
    """The key to the shades of a table."""
    form = Markup('<p class="key">{}</p>')
    if not metric.is_bounded:
        return form.format(f"Shades: the larger the {metric.noun} within this table, the darker.")

    ends = [100 - shade for shade in (0, *SHADES, 100)]
    steps = [f"{high:g}–{low:g} %" for high, low in pairwise(ends)]
    lines = [_swatches(metric.title, steps)]

    if any(column.title == "IQR" for column in table.columns):
        first = f"up to {SPREAD_SHADES[0]:g}"
        last = f"above {SPREAD_SHADES[-1]:g}"
        between = [f"{low:g}–{high:g}" for low, high in pairwise(SPREAD_SHADES)]
        lines.append(_swatches("the IQR", [first, *between, last]))

    return form.format(Markup("<br>").join(lines))


def _swatches(title: str, steps: Sequence[str]) -> Markup:
    """The shades from none to the darkest, each with the values that it stands for."""
    form = Markup('<span class="swatch shade{}">{}</span>')
    spans = [form.format(shade, step) for shade, step in enumerate(steps)]
    return Markup("Shades of {}: {}").format(title, Markup(" ").join(spans))


def methods(metrics: Sequence[Metric], about: Mapping[str, Any]) -> list[Block]:
    """The definitions of the metrics and statistics."""
    definitions = about.get("definitions")
    if not isinstance(definitions, Mapping):
        definitions = {}

    metric_terms = []
    for metric in metrics:
        definition = definitions.get(metric.name, metric.definition)
        metric_terms.append((metric.title, f"{definition}. {_reading(metric)}."))

    other_terms = [(statistic.title, statistic.definition) for statistic in STATISTICS.values()]
    other_terms.append(
        (
            "Percentiles",
            "interpolated linearly between cases; cases without a value are counted and left out",
        )
    )
    other_terms += [(name, text) for name, text in definitions.items() if name not in METRICS]

    return [
        Heading("Methods and definitions", anchor="methods", short="Definitions"),
        Heading("Metrics", 3),
        Table.of_pairs("Metrics", metric_terms, kind="terms"),
        Heading("Statistics", 3),
        Table.of_pairs("Statistics", other_terms, kind="terms"),
    ]


def _reading(metric: Metric) -> str:
    """The unit of a metric, and which of its values are better."""
    unit = "Shown in per cent" if metric.unit == "fraction" else f"In {metric.unit}"
    if metric.more_is_better:
        return f"{unit}; higher is better"
    if metric.is_signed:
        return f"{unit}; nearer to 0 is better"
    return f"{unit}; lower is better"


def readable(about: Mapping[str, Any]) -> dict[str, Any]:
    """How a run was made, without what the page shows elsewhere and without the paths of files."""
    left_out = ("definitions", "requirements", "files", "files_sha256", "absent", "content")

    kept = {}
    for name, value in about.items():
        if name not in left_out:
            entry = readable(value) if isinstance(value, Mapping) else value
            kept[_EXPLAINED.get(name, name)] = entry
    return kept


def single_attributes(stratum_of_case: Collection[str]) -> list[str]:
    """The attributes that are not the intersection of others, nor ``all``."""
    attributes = set(stratum_of_case)

    single = []
    for attribute in stratum_of_case:
        is_intersection = "," in attribute and attributes.issuperset(attribute.split(","))
        if attribute != ALL and not is_intersection:
            single.append(attribute)
    return single


def case_columns(
    rows: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]"
) -> list[SortableColumn]:
    """The first columns of a table of cases: case, label and attributes."""
    columns = [
        SortableColumn("Case", "text", rows["case"]),
        SortableColumn("Label", "text", rows["label"], filtered=True),
    ]
    cases = rows["case"].astype(object)
    for attribute in single_attributes(stratum_of_case):
        strata = cases.map(stratum_of_case[attribute].astype(object))
        columns.append(
            SortableColumn(
                attribute,
                "text",
                strata.tolist(),
                filtered=True,
            )
        )
    return columns


def colours(
    stratum_of_case: "Mapping[str, pd.Series[str]]",
) -> "tuple[pd.Series[int], str, Any]":
    """What the colours of dots stand for: the strata of the first attribute.

    Returns:
        The index of each case's stratum, the attribute (empty if there is none), and the legend.
    """
    attributes = single_attributes(stratum_of_case)
    if not attributes:
        return pd.Series(0, index=stratum_of_case[ALL].index), "", []

    attribute = attributes[0]
    strata = stratum_of_case[attribute].cat.remove_unused_categories().cat
    names = [str(name) for name in strata.categories]
    return strata.codes, attribute, legend_of(attribute, names, lines=False)


def legend_of(attribute: str, strata: Sequence[str], *, lines: bool) -> list[tuple[list[Any], str]]:
    """Icons and names of the strata of one attribute."""
    legend = []
    for place, stratum in enumerate(strata):
        icon = legend_line(*looks_of(place)) if lines else legend_mark(place)
        legend.append(([icon], stratum_title(attribute, stratum)))
    return legend


def worst_labels(
    strata: pd.DataFrame,
    worst: pd.DataFrame,
    attribute: str,
    *,
    most_rows: int,
) -> tuple[list[str], str]:
    """The labels of an attribute to show, and a sentence on those that are left out, if any.

    Attributes have equal shares of ``most_rows``. The labels are those whose worst stratum is
    worst, by the first metric's tail, or by its mean where a label has too few cases for the tail.
    """
    metric = METRICS[str(strata["metric"].iloc[0])]
    ranked = worst[(worst["attribute"] == attribute) & (worst["metric"] == metric.name)]
    by_statistic = {
        str(name): rows.set_index("label")["worst"]
        for name, rows in ranked.groupby("statistic", sort=False)
    }
    values = by_statistic.get("mean", pd.Series(dtype=float))
    statistic = "mean"
    if len(by_statistic.get(metric.tail, ())) == len(values):
        values = by_statistic.get(metric.tail, values)
        statistic = STATISTICS[metric.tail].title

    extreme = "lowest" if metric.more_is_better else "highest"
    return _shown_labels(
        strata,
        attribute,
        urgency=-metric.goodness(values),
        reason=(
            f"whose worst stratum has the {extreme} {statistic} of {metric.title}; "
            "strata.csv has all."
        ),
        n_rows=len(strata),
        most_rows=most_rows,
    )


def most_changed_labels(
    table: pd.DataFrame,
    attribute: str,
    *,
    n_rows: int,
    most_rows: int,
) -> tuple[list[str], str]:
    """As `worst_labels`, of a comparison.

    The labels are those with the largest differences of a stratum's mean, by the first metric.
    ``n_rows`` are the rows of a page without a limit, of all attributes together.
    """
    metric = METRICS[str(table["metric"].iloc[0])]
    rows = table[(table["attribute"] == attribute) & (table["metric"] == metric.name)]
    changes = rows["mean_difference"].abs()
    largest = changes.groupby(rows["label"].astype(str)).max()

    return _shown_labels(
        table,
        attribute,
        urgency=largest,
        reason=(
            f"with the largest difference of a stratum's mean {metric.title}; "
            "comparison.csv has all."
        ),
        n_rows=n_rows,
        most_rows=most_rows,
    )


def _shown_labels(
    frame: pd.DataFrame,
    attribute: str,
    *,
    urgency: "pd.Series[float]",
    reason: str,
    n_rows: int,
    most_rows: int,
) -> tuple[list[str], str]:
    """As many labels as there is room for, but at least one, in the order of the frame."""
    inside = frame[frame["attribute"] == attribute]
    labels = [str(name) for name in inside["label"].unique()]

    n_attributes = frame["attribute"].nunique()
    room = most_rows // n_attributes * len(labels) // len(inside)
    room = max(1, room)
    if n_rows <= most_rows or room >= len(labels):
        return labels, ""

    ranked = urgency.reindex(labels)
    ranked = ranked.sort_values(ascending=False, kind="stable")
    chosen = set(ranked.index[:room])
    shown = [label for label in labels if label in chosen]

    return shown, say("left_out", n_labels=len(labels), n_shown=room, reason=reason)
