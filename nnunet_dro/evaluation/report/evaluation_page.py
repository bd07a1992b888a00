"""The content of the page of an evaluation, for its template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report.charts.distribution import distribution
from nnunet_dro.evaluation.report.charts.quantiles import legend_line, quantile_curves
from nnunet_dro.evaluation.report.charts.scatter import Points, against_volume
from nnunet_dro.evaluation.report.charts.stratum_cases import MOST_DOTS, cases_by_stratum
from nnunet_dro.evaluation.report.findings import all_notes, findings
from nnunet_dro.evaluation.report.formatting import attribute_title, metric_named, stratum_title, volume
from nnunet_dro.evaluation.report.lesion_tables import lesion_tables
from nnunet_dro.evaluation.report.page_limits import MOST_STRATA_ROWS, CaseRows, left_out_sentence, worst_labels
from nnunet_dro.evaluation.report.score_tables import (
    metric_title,
    scores_table,
    shown,
    single_attributes,
    with_known_volumes,
)
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.sortable_table import SortableTable
from nnunet_dro.pages.svg import legend_mark
from nnunet_dro.pages.wording import count

if TYPE_CHECKING:
    from nnunet_dro.evaluation.report.gallery import GalleryEntry

#: With more dots the browser draws only the figures in view: the page opens faster and scrolls more slowly.
MANY_DOTS = 6_000


def evaluation_content(
    evaluation: Evaluation, gallery: "Sequence[GalleryEntry]", links: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """Everything the template of an evaluation's page needs beyond what all pages share."""
    scores = with_known_volumes(evaluation.scores.reset_index(drop=True))
    metrics = [metric_named(name, evaluation.scores) for name in evaluation.metrics]
    # Without rows it tells the places of the columns, which figures need before it is known which rows they draw.
    columns = scores_table(scores.iloc[:0], metrics, evaluation.stratum_of_case)
    rows = CaseRows(len(scores))
    attributes = [str(name) for name in evaluation.strata["attribute"].unique()]
    labels = {
        name: worst_labels(evaluation.strata, evaluation.worst, name, most_rows=MOST_STRATA_ROWS) for name in attributes
    }
    figures = _Figures(evaluation, metrics, scores, columns, rows, labels)
    parts = [_part(figures, attribute, n) for n, attribute in enumerate(attributes)]
    volumes = _volumes(figures)
    table = _cases(figures)
    empty = false_positive_rows(evaluation.false_positives)
    requirements = evaluation.about.get("requirements", [])
    asked = [("requirements", "Requirements")] if requirements else []
    found = [("findings", "Findings"), *asked, *((part["id"], part["title"]) for part in parts)]
    lesions = lesion_tables(evaluation.lesion_sizes)
    optional: list[tuple[str, str, object]] = [("lesions", "Lesions", lesions), ("volumes", "Size", volumes)]
    optional.append(("false-positives", "False positives", empty))
    found += [(name, title) for name, title, there in (*optional, ("pictures", "Pictures", gallery)) if there]
    pictures = {(entry.case, entry.label): f"picture-{n}" for n, entry in enumerate(gallery)}
    return {
        "kind": "nnunet-dro · evaluation per stratum",
        "title": f"Evaluation of {evaluation.method}",
        "heading": evaluation.method,
        "lede": lede(scores, evaluation.stratum_of_case, metrics),
        "contents": [*found, ("cases", "Cases"), ("methods", "Definitions")],
        "has_strata": attributes != [ALL],
        "findings": findings(evaluation),
        "requirements": requirements,
        "all_notes": all_notes(evaluation.notes, evaluation.strata),
        "parts": parts,
        "lesions": lesions,
        "volumes": volumes,
        "false_positives": empty,
        "has_volumes": "reference_ml" in scores,
        "gallery": gallery,
        "links": links,
        "viewer": next((address.partition("#")[0] for address in links.values()), ""),
        "cases_about": _cases_about(rows),
        "many": " many" if len(scores) * len(attributes) > MANY_DOTS else "",
        "payload": table.payload(pictures, links),
    }


def lede(scores: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]", metrics: Sequence[Metric]) -> str:
    """What was evaluated, in a sentence."""
    text = f"{count(scores['case'].nunique(), 'case')}, {count(scores['label'].nunique(), 'label')}"
    by = [
        f"{name} ({count(stratum_of_case[name].nunique(), 'stratum')})" for name in single_attributes(stratum_of_case)
    ]
    return text + (f", by {' and by '.join(by)}" if by else "") + f". {', '.join(metric.title for metric in metrics)}."


def false_positive_rows(frame: pd.DataFrame) -> list[dict[str, str]]:
    """The false positives as text, without the labels that every reference has."""
    return [
        {
            "label": str(record["label"]),
            "n_empty": f"{int(record['n_empty_references']):,}",
            "n_found": f"{int(record['n_false_positives']):,}",
            "mean": volume(float(record["mean_ml"])),
            "largest": volume(float(record["max_ml"])),
            "case": str(record["max_case"]),
        }
        for record in frame.to_dict("records")
        if int(record["n_empty_references"])
    ]


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


@dataclass(frozen=True)
class _Figures:
    """What the figures of a page are made from.

    Attributes:
        evaluation: The evaluation.
        metrics: Its metrics.
        scores: Its scores, with rows numbered from 0 on.
        columns: The table of cases, without rows.
        rows: The rows that the table of cases will have.
        labels: Attribute to the labels that are shown.
    """

    evaluation: Evaluation
    metrics: Sequence[Metric]
    scores: pd.DataFrame
    columns: SortableTable
    rows: CaseRows
    labels: Mapping[str, Sequence[str]]

    @cached_property
    def rows_of_label(self) -> dict[str, npt.NDArray[np.int64]]:
        """Label to its rows of the scores."""
        codes, names = pd.factorize(self.scores["label"])
        return {str(name): np.flatnonzero(codes == code) for code, name in enumerate(names)}

    def of_label(self, label: str) -> pd.DataFrame:
        """The scores of a label, with their row numbers."""
        return self.scores.take(self.rows_of_label[label])

    @cached_property
    def n_dots(self) -> int:
        """The dots of the first metric, if none were left out."""
        return sum(len(self.rows_of_label[label]) for labels in self.labels.values() for label in labels)

    @cached_property
    def most_dots(self) -> int | None:
        """The most dots of a stratum and label; None for all."""
        if self.n_dots <= MOST_DOTS:
            return None
        strata = self.evaluation.strata.drop_duplicates(["attribute", "stratum"])["attribute"].value_counts()
        n_drawn = sum(len(labels) * int(strata[attribute]) for attribute, labels in self.labels.items())
        return max(20, MOST_DOTS // max(n_drawn, 1))


def _part(figures: _Figures, attribute: str, number: int) -> dict[str, Any]:
    metrics, labels = figures.metrics, figures.labels[attribute]
    strata = figures.evaluation.strata[figures.evaluation.strata["attribute"] == attribute]
    names = [str(name) for name in strata["stratum"].unique()]
    # Metrics that do not fit the page are in its tables only.
    shown_metrics = [metric for n, metric in enumerate(metrics) if n == 0 or figures.n_dots * (n + 1) <= MOST_DOTS]
    left_out = left_out_sentence(len(labels), strata["label"].nunique(), metrics[0].name)
    strata = strata[strata["label"].isin(labels)]
    return {
        "id": f"by-{number}",
        "title": f"By {attribute_title(attribute)}" if attribute != ALL else attribute_title(attribute),
        "has_strata": len(names) > 1 or attribute != ALL,
        "left_out": left_out,
        "tables": strata_tables(strata, figures.evaluation.scores, figures.evaluation.about),
        "legend": legend_of(attribute, names, lines=True),
        "figures": [_figures(figures, strata, metric) for metric in shown_metrics],
    }


def _figures(figures: _Figures, strata: pd.DataFrame, metric: Metric) -> dict[str, Any]:
    attribute = str(strata["attribute"].iloc[0])
    column, at_most = figures.columns.column(metric_title(metric)), figures.most_dots
    charts = []
    for label in figures.labels[attribute]:
        of_case = figures.evaluation.stratum_of_case[attribute]
        of_strata = cases_by_stratum(figures.of_label(label), of_case, strata, label=label, metric=metric)
        drawn = [replace(one, rows=figures.rows.places(one.rows[:at_most])) for one in of_strata]
        dots = distribution(drawn, metric, label=label, column=column, at_most=at_most)
        charts.append(
            {"label": label, "distribution": dots, "quantiles": quantile_curves(of_strata, metric, label=label)}
        )
    statistic = STATISTICS[metric.tail]
    tail = f"{statistic.title}, which {statistic.share} {'lies below' if metric.more_is_better else 'exceeds'}"
    limited = "" if at_most is None else f", the worst {at_most} of each stratum; lines and bands are of all cases"
    return {"metric": metric.title, "charts": charts, "tail": tail, "limited": limited}


def _volumes(figures: _Figures) -> dict[str, Any] | None:
    evaluation = figures.evaluation
    if "reference_ml" not in figures.scores.columns or not figures.metrics:
        return None
    metric = figures.metrics[0]
    attributes = single_attributes(evaluation.stratum_of_case)
    of_case = evaluation.stratum_of_case[attributes[0]] if attributes else None
    # One figure per label is enough; that of the attribute with the most room shows the most labels.
    labels = max(figures.labels.values(), key=len)
    at_most = None if len(figures.scores) <= MOST_DOTS else MOST_DOTS // (3 * len(labels))
    columns = {
        "column": figures.columns.column(metric_title(metric)),
        "volume_column": figures.columns.column("Reference (ml)"),
    }
    charts = []
    for label in labels:
        of_label = figures.of_label(label)
        values = np.asarray(shown(of_label[metric.name], metric))
        if at_most is not None:
            worst = np.argsort(values if metric.more_is_better else -values, kind="stable")[:at_most]
            of_label, values = of_label.take(worst), values[worst]
        colours = np.zeros(len(of_label), dtype=np.int64) if of_case is None else stratum_index(of_label, of_case)
        volumes = of_label["reference_ml"].to_numpy(dtype=np.float64)
        points = Points(volumes, values, of_label.index.to_numpy(dtype=np.int64), colours).finite(positive_x=True)
        points = replace(points, rows=figures.rows.places(points.rows))
        if svg := against_volume(points, metric, label=label, **columns):
            charts.append({"label": label, "svg": svg})
    if not charts:
        return None
    legend = [] if of_case is None else legend_of(attributes[0], strata_in_order(of_case), lines=False)
    by = f", by {attributes[0]}" if attributes else ""
    limited = "" if at_most is None else f" Only the worst {at_most} cases of each label are drawn."
    return {"metric": metric.title, "charts": charts, "legend": legend, "by": by, "limited": limited}


def _cases(figures: _Figures) -> SortableTable:
    """The table of cases, with the rows that figures refer to and the worst others."""
    first, scores, rows = figures.metrics[0], figures.scores, figures.rows
    chosen = rows.chosen(scores[first.name].to_numpy(dtype=np.float64), more_is_better=first.more_is_better)
    in_table = scores.take(chosen) if rows.is_limited else scores
    return scores_table(in_table, figures.metrics, figures.evaluation.stratum_of_case)


def _cases_about(rows: CaseRows) -> str:
    if not rows.is_limited:
        return "A row per case and label, worst first."
    return (
        f"A row per case and label, worst first: of {rows.n_rows:,} rows those that the figures show and the worst of "
        f"the others, about {rows.at_most:,} together; scores.csv has all."
    )
