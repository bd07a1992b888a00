"""The page of an evaluation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report import page_parts as parts
from nnunet_dro.evaluation.report.figures import cases_by_stratum, distribution, quantile_curves
from nnunet_dro.evaluation.report.formatting import metric_title, metrics_of, shown
from nnunet_dro.evaluation.report.further_tables import (
    equity_tables,
    false_positive_table,
    lesion_tables,
)
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.report.scatter_plots import against_volume
from nnunet_dro.evaluation.report.shown_cases import ShownCases
from nnunet_dro.evaluation.report.views import EvaluationView, inside
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import gallery, page
from nnunet_dro.pages.pictures import Picture


def evaluation_html(
    evaluation: Evaluation,
    entries: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> str:
    """The page of an evaluation, the same for the same input; all names from files are escaped.

    Args:
        evaluation: What to show.
        entries: Pictures of the worst cases.
        links: Case and label to an address in the viewer.
    """
    view = EvaluationView.of(evaluation)
    metrics = metrics_of(evaluation.strata, evaluation.scores)
    cases = ShownCases.of(evaluation, metrics)

    blocks: list[Block] = [
        *view.requirement_count,
        *_findings(view.findings, metrics[0], divided=list(cases.labels) != [ALL]),
        *parts.requirements_section(view),
        *view.notes,
    ]
    for number, attribute in enumerate(cases.labels):
        blocks += _attribute(view, cases, attribute, number)
    blocks += _lesions(lesion_tables(evaluation.lesion_sizes))
    blocks += _volumes(cases)
    blocks += _false_positives(cases)
    if entries:
        any_missing = any(
            map(evaluation.inputs.get, ("missing_predictions", "invalid_predictions"))
        )
        blocks += _pictures(entries, links, any_missing=any_missing)

    pictures = {
        (entry.case, entry.label): f"picture-{number}" for number, entry in enumerate(entries)
    }
    table = replace(
        cases.table,
        about=cases.about_table,
        pictures=pictures,
        links=links,
    )
    return page(
        blocks,
        parts.methods(metrics, evaluation.about),
        about=parts.readable(evaluation.about),
        table=table,
        kind="nnunet-dro · evaluation per stratum",
        title=f"Evaluation of {evaluation.method}",
        heading=evaluation.method,
        lede=parts.lede(cases.scores, evaluation.stratum_of_case, metrics),
    )


def _findings(notes: Sequence[Note], metric: Metric, *, divided: bool) -> Iterator[Block]:
    """The worst strata, or the worst cases where these are not divided."""
    title = "The worst strata" if divided else "The worst cases"
    if notes and not any(note.tone for note in notes):
        title = "No stratum is worse than by chance"
    yield Heading(title, anchor="findings", short="Findings")
    yield from notes
    if not notes:
        yield Prose(f"No case has a value of {metric.title}: there is nothing to rank.", kind="")


def _attribute(
    view: EvaluationView, cases: ShownCases, attribute: str, number: int
) -> Iterator[Block]:
    """The section on an attribute.

    Its tables, and the figures of each metric, those after the first folded.
    """
    labels = cases.labels[attribute]
    names = [str(name) for name in view.rows(attribute)["stratum"].unique()]
    has_strata = len(names) > 1 or attribute != ALL
    legend = parts.legend_of(attribute, names, lines=True) if has_strata else []

    yield parts.attribute_heading(attribute, number)
    left_out = cases.left_out[attribute]
    if left_out:
        yield Prose(left_out)

    yield from parts.strata_blocks(view, attribute, labels)
    strata = view.rows(attribute, labels)
    for table in equity_tables(inside(view.source.equity, attribute, labels), view.source.scores):
        yield Heading("How far the strata lie apart", 3)
        yield table

    for n_before, metric in enumerate(cases.metrics):
        # Metrics that do not fit the page are in its tables only.
        if n_before and cases.n_dots * (n_before + 1) > parts.MOST_DOTS:
            continue
        if n_before:
            yield Heading(f"Figures of {metric.title}", 3, folded=True)
        yield from _distributions(cases, strata, metric, legend)


def _distributions(
    cases: ShownCases, strata: pd.DataFrame, metric: Metric, legend: Any
) -> Iterator[Block]:
    """The dots and the quantile functions of every label."""
    attribute = str(strata["attribute"].iloc[0])
    stratum_of_case = cases.evaluation.stratum_of_case[attribute]
    column = cases.table.column(metric_title(metric))

    charts = []
    for label in cases.labels[attribute]:
        cases_of_strata = cases_by_stratum(
            cases.units(label, attribute, metric),
            stratum_of_case,
            strata,
            label=label,
            metric=metric,
        )
        dots = distribution(
            cases_of_strata,
            metric,
            label=label,
            column=column,
            at_most=cases.most_dots,
        )
        curves = quantile_curves(cases_of_strata, metric, label=label, unit=cases.unit)
        charts.append((label, (dots, curves)))

    yield Heading(f"Distribution of {metric.title}", 3)
    yield Prose(
        say(
            "distribution",
            metric=metric,
            at_most=cases.most_dots,
            unit=cases.unit,
            has_curves=True,
        )
    )
    yield Figure(charts, legend)


def _lesions(tables: Sequence[Table]) -> Iterator[Block]:
    """The section on lesions by volume; nothing where no lesions were compared."""
    if not tables:
        return

    yield Heading("Lesions found, by volume", anchor="lesions", short="Lesions")
    yield Prose(
        "The lesions of the reference by their volume, how many of them are found, and the mean "
        "Dice of those. Invented are the predicted lesions of that volume that are matched with "
        "none. Every lesion is in lesions.csv; what a lesion is and when it is found is told "
        "below, under Methods and definitions. In brackets: 95 % interval, for which the lesions "
        "of a case are not independent."
    )
    for table in tables:
        if any(column.title == "Stratum" for column in table.columns):
            yield Heading(table.title, 3)
        yield table


def _volumes(cases: ShownCases) -> Iterator[Block]:
    """The first metric against the volume of the reference; nothing without known volumes."""
    if not cases.has_volumes:
        return

    metric = cases.metrics[0]
    # One figure per label is enough; that of the attribute with the most room shows the most
    # labels.
    labels = max(cases.labels.values(), key=len)
    at_most = None
    if len(cases.scores) > parts.MOST_DOTS:
        at_most = parts.MOST_DOTS // (3 * len(labels))
    colour_of_case, attribute, legend = parts.colours(cases.evaluation.stratum_of_case)
    charts = _volume_charts(cases, labels, colour_of_case, at_most)
    if not charts:
        return

    yield Heading(f"{metric.title} and size", anchor="volumes", short="Size")
    yield Prose(say("volumes", metric=metric, attribute=attribute, at_most=at_most))
    yield Figure(charts, legend)


def _volume_charts(
    cases: ShownCases,
    labels: Sequence[str],
    colour_of_case: "pd.Series[int]",
    at_most: int | None,
) -> list[tuple[str, tuple[Markup]]]:
    """The labels that have a volume, each with its figure of the worst ``at_most`` cases."""
    metric = cases.metrics[0]
    columns = [
        cases.table.column(metric_title(metric)),
        cases.table.column("Reference (ml)"),
    ]

    charts = []
    for label in labels:
        rows = cases.scores_by_label[label]
        rows = rows[rows.index >= 0]
        rows = rows.assign(y=shown(rows[metric.name], metric))
        if at_most is not None:
            rows = rows.sort_values("y", key=metric.goodness, kind="stable")
            rows = rows.head(at_most)

        points = pd.DataFrame(
            {
                "x": rows["reference_ml"],
                "y": rows["y"],
                "row": rows.index,
                "stratum": rows["case"].map(colour_of_case),
            }
        )
        drawing = against_volume(
            points,
            metric,
            label=label,
            columns=columns,
        )
        if drawing:
            charts.append((label, (drawing,)))
    return charts


def _false_positives(cases: ShownCases) -> Iterator[Block]:
    """The section on labels that some reference lacks, if any."""
    table = false_positive_table(
        cases.evaluation.false_positives,
        has_volumes=cases.has_volumes,
    )
    if table is None:
        return

    yield Heading("False positives", anchor="false-positives", short="False positives")
    yield Prose(
        "Cases whose reference lacks the label, and the number of them in which the prediction "
        "has it."
    )
    yield table


def _pictures(
    entries: Sequence[GalleryEntry],
    links: Mapping[tuple[str, str], str],
    *,
    any_missing: bool,
) -> Iterator[Block]:
    """The pictures of the worst cases, with the way to the viewer."""
    pictures = [_picture(entry, links.get((entry.case, entry.label))) for entry in entries]

    yield Heading("Pictures of the worst cases", anchor="pictures", short="Pictures")
    yield Prose(_about_pictures(entries, links, any_missing=any_missing))
    yield gallery(
        pictures,
        [("reference", "reference, solid"), ("prediction", "prediction, dashed")],
    )


def _about_pictures(
    entries: Sequence[GalleryEntry],
    links: Mapping[tuple[str, str], str],
    *,
    any_missing: bool,
) -> str | Markup:
    """What the pictures show, and where the viewer is, if there is one."""
    is_flat = len(entries[0].planes) == 1
    about = say("pictures", is_flat=is_flat, any_missing=any_missing)
    addresses = [address.partition("#")[0] for address in links.values()]
    if not addresses or not addresses[0]:
        return about
    shows = "larger" if is_flat else "in every plane and as a rendering"
    form = Markup('{} <a href="{}">The viewer</a> shows them {}.')
    return form.format(about, addresses[0], shows)


def _picture(entry: GalleryEntry, address: str | None) -> Picture:
    """The planes of a case, with a link to the viewer, if there is one."""
    described = f"{entry.case}, {entry.label}: reference and prediction"
    planes = []
    for plane in entry.planes:
        text = f"{plane.name} plane of {described}" if plane.name else described
        planes.append((plane, text, plane.outlines, plane.name))

    link = Markup("")
    if address:
        form = Markup(' <a class="inviewer" href="{}" aria-label="{}, {} in the viewer">viewer</a>')
        link = form.format(address, entry.case, entry.label)

    return Picture(
        entry.case,
        f", {entry.label}: {entry.score}",
        ["; ".join(entry.strata)],
        planes,
        link=link,
    )
