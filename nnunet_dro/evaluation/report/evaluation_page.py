"""The page of an evaluation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report import page_parts as parts
from nnunet_dro.evaluation.report.figures import (
    MOST_DOTS,
    about_distribution,
    against_volume,
    cases_by_stratum,
    distribution,
    quantile_curves,
)
from nnunet_dro.evaluation.report.findings import all_notes, findings
from nnunet_dro.evaluation.report.formatting import metric_named, metric_title, shown
from nnunet_dro.evaluation.report.further_tables import false_positive_table, lesion_tables
from nnunet_dro.evaluation.report.gallery import GalleryEntry
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose
from nnunet_dro.pages.html import SortableColumn, SortableTable, gallery, page
from nnunet_dro.pages.pictures import Picture

#: The columns of volumes, and their titles.
_VOLUMES = {"reference_ml": "Reference (ml)", "prediction_ml": "Prediction (ml)"}


def evaluation_html(
    evaluation: Evaluation,
    entries: Sequence[GalleryEntry] = (),
    links: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> str:
    """The page of an evaluation, the same for the same input; all names from files are escaped."""
    figures = _Figures.of(
        evaluation,
        metrics := [metric_named(name, evaluation.scores) for name in evaluation.metrics],
    )
    attributes = list(figures.shown)
    found: Sequence[Block] = findings(evaluation)
    blocks: list[Block] = [
        Heading(
            "The worst cases" if attributes == [ALL] else "The worst strata",
            anchor="findings",
            short="Findings",
        ),
        *(found or [Prose("No case has a defined value, so there is nothing to rank.", kind="")]),
        *parts.requirements_section(evaluation.about),
        *(Note(text) for text in all_notes(evaluation.notes, evaluation.strata)),
    ]
    for number, attribute in enumerate(attributes):
        blocks += _attribute(figures, attribute, number)
    blocks += [*_lesions(evaluation), *_volumes(figures)]
    if table := false_positive_table(
        evaluation.false_positives, has_volumes="reference_ml" in figures.scores
    ):
        about = "Cases whose reference lacks the label, and the number of them in which the prediction has it."
        heading = Heading("False positives", anchor="false-positives", short="False positives")
        blocks += [heading, Prose(about), table]
    if entries:
        blocks += _pictures(entries, links)
    pictures = {(entry.case, entry.label): f"picture-{n}" for n, entry in enumerate(entries)}
    return page(
        blocks,
        parts.methods(metrics, evaluation.about),
        about=parts.readable(evaluation.about),
        table=replace(figures.table, about=figures.about_cases, pictures=pictures, links=links),
        kind="nnunet-dro · evaluation per stratum",
        title=f"Evaluation of {evaluation.method}",
        heading=evaluation.method,
        lede=parts.lede(figures.scores, evaluation.stratum_of_case, metrics),
    )


def _scores_table(
    scores: pd.DataFrame, metrics: Sequence[Metric], stratum_of_case: "Mapping[str, pd.Series[str]]"
) -> SortableTable:
    """The worst value of the first metric first.

    Case, label, attributes, metrics, and the volumes that are known.
    """
    columns = parts.case_columns(scores, stratum_of_case)
    first = len(columns)
    for metric in metrics:
        kind = "volume" if metric.unit == "ml" else "number"
        columns.append(
            SortableColumn(metric_title(metric), kind, shown(scores[metric.name], metric))
        )
    columns += [
        SortableColumn(title, "volume", scores[name])
        for name, title in _VOLUMES.items()
        if name in scores
    ]
    keys = list(zip(scores["case"], scores["label"], strict=True))
    return SortableTable(tuple(columns), keys, first, descending=not metrics[0].more_is_better)


@dataclass(frozen=True)
class _Figures:
    """What figures are made from."""

    evaluation: Evaluation
    metrics: Sequence[Metric]
    scores: pd.DataFrame  # numbered as the rows of the table; -1 for those that are not in it
    table: SortableTable
    shown: Mapping[
        str, tuple[Sequence[str], str]
    ]  # attribute to its labels, and which are left out
    n_dots: int  # the dots of the first metric, if none were left out
    most_dots: int | None  # the most dots of a stratum and label; None for all

    @classmethod
    def of(cls, evaluation: Evaluation, metrics: Sequence[Metric]) -> "_Figures":
        """Choose the labels that are shown, and the rows of the table.

        Those with a dot, then the worst of the others.

        Only where all rows do not fit are some left out.
        """
        scores = evaluation.scores
        strata = evaluation.strata
        of_case = evaluation.stratum_of_case
        scores = scores.drop(
            columns=[name for name in _VOLUMES if name in scores and scores[name].isna().all()]
        )
        shown = {
            str(name): parts.worst_labels(
                strata, evaluation.worst, str(name), most_rows=parts.MOST_STRATA_ROWS
            )
            for name in strata["attribute"].unique()
        }
        n_rows = scores["label"].value_counts()
        n_strata = strata.groupby("attribute")["stratum"].nunique()
        n_dots = sum(int(n_rows[label]) for labels, _ in shown.values() for label in labels)
        n_drawn = sum(
            len(labels) * int(n_strata[attribute]) for attribute, (labels, _) in shown.items()
        )
        most_dots = None if n_dots <= MOST_DOTS else max(20, MOST_DOTS // max(n_drawn, 1))
        kept = np.arange(len(scores))
        if len(scores) > parts.MOST_CASE_ROWS:
            goodness = metrics[0].goodness(scores[metrics[0].name].to_numpy(dtype=np.float64))
            ranked = (
                scores[["case", "label"]]
                .assign(place=kept)
                .iloc[np.argsort(goodness, kind="stable")]
            )
            drawn = []
            most = most_dots or len(scores)
            for attribute, (labels, _) in shown.items():
                inside = ranked[ranked["label"].isin(labels)]
                strata_of_rows = inside["case"].map(of_case[attribute].astype(object))
                drawn.append(
                    inside.groupby([strata_of_rows, "label"], observed=True).head(most)["place"]
                )
            kept = pd.unique(pd.concat([*drawn, ranked["place"]])).astype(np.int64)
            kept = kept[: max(parts.MOST_CASE_ROWS, pd.concat(drawn).nunique())]
        index = np.full(len(scores), -1)
        index[kept] = np.arange(len(kept))
        table = _scores_table(scores.iloc[kept], metrics, of_case)
        return cls(evaluation, metrics, scores.set_axis(index), table, shown, n_dots, most_dots)

    @cached_property
    def of_label(self) -> dict[str, pd.DataFrame]:
        """Label to its scores."""
        return {
            str(label): rows
            for label, rows in self.scores.groupby("label", sort=False, observed=True)
        }

    @property
    def about_cases(self) -> str:
        """What the table has."""
        if (n_rows := len(self.scores)) == len(self.table.keys):
            return "A row per case and label, worst first."
        return (
            f"A row per case and label, worst first: of {n_rows:,} rows those that the figures show and the worst of "
            f"the others, about {parts.MOST_CASE_ROWS:,} together; scores.csv has all."
        )


def _attribute(figures: _Figures, attribute: str, number: int) -> Iterator[Block]:
    """The section on an attribute.

    Its tables, and the figures of each metric, those after the first folded.
    """
    evaluation, metrics, (labels, left_out) = (
        figures.evaluation,
        figures.metrics,
        figures.shown[attribute],
    )
    strata = evaluation.strata[evaluation.strata["attribute"] == attribute]
    names = [str(name) for name in strata["stratum"].unique()]
    yield parts.attribute_heading(attribute, number)
    if left_out:
        yield Prose(left_out)
    strata = strata[strata["label"].isin(labels)]
    yield from parts.strata_blocks(strata, evaluation.scores, evaluation.options.failure)
    has_strata = len(names) > 1 or attribute != ALL
    legend = parts.legend_of(attribute, names, lines=True) if has_strata else []
    for n, metric in enumerate(metrics):
        # Metrics that do not fit the page are in its tables only.
        if n and figures.n_dots * (n + 1) > MOST_DOTS:
            continue
        if n:
            yield Heading(f"Figures of {metric.title}", 3, folded=True)
        yield from _distributions(figures, strata, metric, legend)


def _distributions(
    figures: _Figures, strata: pd.DataFrame, metric: Metric, legend: Any
) -> Iterator[Block]:
    attribute = str(strata["attribute"].iloc[0])
    column = figures.table.column(metric_title(metric))
    at_most = figures.most_dots
    charts = []
    for label in figures.shown[attribute][0]:
        of_case = figures.evaluation.stratum_of_case[attribute]
        of_strata = cases_by_stratum(
            figures.of_label[label], of_case, strata, label=label, metric=metric
        )
        dots = distribution(of_strata, metric, label=label, column=column, at_most=at_most)
        charts.append((label, (dots, quantile_curves(of_strata, metric, label=label))))
    about = about_distribution(metric, at_most)
    curves = (
        "The curves show which share of the cases (horizontal) lies at or below a value (vertical)."
    )
    yield Heading(f"Distribution of {metric.title}", 3)
    yield Prose(f"{about} {curves}")
    yield Figure(charts, legend)


def _lesions(evaluation: Evaluation) -> Iterator[Block]:
    tables = lesion_tables(evaluation.lesion_sizes)
    if not tables:
        return
    yield Heading("Lesions found, by volume", anchor="lesions", short="Lesions")
    yield Prose(
        "The lesions of the reference by their volume, how many of them are found, and the mean Dice of those. "
        "Invented are the predicted lesions of that volume that are matched with none. Every lesion is in lesions.csv; "
        "what a lesion is and when it is found is told below, under Methods and definitions. In brackets: 95 % "
        "interval, for which the lesions of a case are not independent."
    )
    for table in tables:
        if any(column.title == "Stratum" for column in table.columns):
            yield Heading(table.title, 3)
        yield table


def _volumes(figures: _Figures) -> list[Block]:
    evaluation = figures.evaluation
    if "reference_ml" not in figures.scores.columns:
        return []
    metric = figures.metrics[0]
    # One figure per label is enough; that of the attribute with the most room shows the most
    # labels.
    labels = max((labels for labels, _ in figures.shown.values()), key=len)
    at_most = None if len(figures.scores) <= MOST_DOTS else MOST_DOTS // (3 * len(labels))
    columns = [figures.table.column(title) for title in (metric_title(metric), "Reference (ml)")]
    charts = []
    for label in labels:
        of_label = figures.of_label[label][figures.of_label[label].index >= 0]
        of_label = of_label.assign(y=shown(of_label[metric.name], metric))
        if at_most is not None:
            of_label = of_label.sort_values("y", key=metric.goodness, kind="stable").head(at_most)
        points = pd.DataFrame(
            {"x": of_label["reference_ml"], "y": of_label["y"], "row": of_label.index}
        )
        points["stratum"] = parts.coloured(of_label, evaluation.stratum_of_case)[0]
        if svg := against_volume(points, metric, label=label, columns=columns):
            charts.append((label, (svg,)))
    _, attribute, legend = parts.coloured(figures.scores, evaluation.stratum_of_case)
    by = f", by {attribute}" if attribute else ""
    limited = "" if at_most is None else f" Only the worst {at_most} cases of each label are drawn."
    about = f"Every dot is a case: {metric.title} against the volume of the reference{by}. Small structures lose more"
    heading = Heading(f"{metric.title} and size", anchor="volumes", short="Size")
    return (
        [heading, Prose(f"{about} per voxel.{limited}"), Figure(charts, legend)] if charts else []
    )


def _pictures(
    entries: Sequence[GalleryEntry], links: Mapping[tuple[str, str], str]
) -> Iterator[Block]:
    """The pictures of the worst cases, with the way to the viewer."""
    flat = len(entries[0].planes) == 1
    about = "Cut out around the label."
    if not flat:
        about = "Planes through the largest disagreement on the label, cropped around it."
    if viewer := next((address.partition("#")[0] for address in links.values()), ""):
        shows = "larger" if flat else "in every plane and as a rendering"
        about = Markup('{} <a href="{}">The viewer</a> shows them {}.').format(about, viewer, shows)
    pictures = []
    for one in entries:
        described = f"{one.case}, {one.label}: reference and prediction"
        planes = [
            (
                plane,
                f"{plane.name} plane of {described}" if plane.name else described,
                plane.outlines,
                plane.name,
            )
            for plane in one.planes
        ]
        link = Markup("")
        if address := links.get((one.case, one.label)):
            form = Markup(
                ' <a class="inviewer" href="{}" aria-label="{}, {} in the viewer">viewer</a>'
            )
            link = form.format(address, one.case, one.label)
        text = f", {one.label}: {one.score}"
        pictures.append(Picture(one.case, text, ["; ".join(one.strata)], planes, link=link))
    yield Heading("Pictures of the worst cases", anchor="pictures", short="Pictures")
    yield Prose(about)
    yield gallery(
        pictures, [("reference", "reference, solid"), ("prediction", "prediction, dashed")]
    )
