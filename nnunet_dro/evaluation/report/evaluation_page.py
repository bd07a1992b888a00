"""The content of the page of an evaluation, for its template."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.metrics import Metric
from nnunet_dro.evaluation.report.charts.distribution import distribution
from nnunet_dro.evaluation.report.charts.quantiles import legend_line, quantile_curves
from nnunet_dro.evaluation.report.charts.scatter import Points, against_volume
from nnunet_dro.evaluation.report.charts.stratum_cases import MOST_DOTS, cases_by_stratum
from nnunet_dro.evaluation.report.findings import all_notes, findings
from nnunet_dro.evaluation.report.formatting import attribute_title, metric_named, stratum_title, volume
from nnunet_dro.evaluation.report.lesion_tables import lesion_tables
from nnunet_dro.evaluation.report.score_tables import metric_title, scores_table, shown, single_attributes
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.strata import ALL
from nnunet_dro.pages.sortable_table import SortableTable
from nnunet_dro.pages.svg import legend_mark
from nnunet_dro.pages.wording import count

if TYPE_CHECKING:
    from nnunet_dro.evaluation.report.gallery import GalleryEntry

#: With more dots the browser draws only the figures in view: the page opens faster and scrolls more slowly.
MANY_DOTS = 6_000


def evaluation_content(evaluation: Evaluation, gallery: "Sequence[GalleryEntry]") -> dict[str, Any]:
    """Everything the template of an evaluation's page needs beyond what all pages share."""
    scores = evaluation.scores.reset_index(drop=True)
    table = scores_table(scores, evaluation.metrics, evaluation.stratum_of_case)
    attributes = [str(name) for name in evaluation.strata["attribute"].unique()]
    parts = [_part(evaluation, scores, table, attribute, n) for n, attribute in enumerate(attributes)]
    volumes = _volumes(evaluation, scores, table)
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
        "lede": lede(scores, evaluation.stratum_of_case, evaluation.metrics),
        "contents": [*found, ("cases", "Cases"), ("methods", "Definitions")],
        "has_strata": attributes != [ALL],
        "findings": findings(evaluation),
        "requirements": requirements,
        "all_notes": all_notes(evaluation.notes, evaluation.strata),
        "parts": parts,
        "lesions": lesions,
        "volumes": volumes,
        "false_positives": empty,
        "gallery": gallery,
        "cases_about": "A row per case and label, worst first.",
        "many": " many" if len(scores) * len(attributes) > MANY_DOTS else "",
        "payload": table.payload(pictures),
    }


def lede(scores: pd.DataFrame, stratum_of_case: "Mapping[str, pd.Series[str]]", metrics: Sequence[str]) -> str:
    """What was evaluated, in a sentence."""
    names = [metric_named(name).title for name in metrics]
    text = f"{count(scores['case'].nunique(), 'case')}, {count(scores['label'].nunique(), 'label')}"
    by = [
        f"{name} ({count(stratum_of_case[name].nunique(), 'stratum')})" for name in single_attributes(stratum_of_case)
    ]
    return text + (f", by {' and by '.join(by)}" if by else "") + f". {', '.join(names)}."


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
    names = rows["case"].map(stratum_of_case.astype(object))
    return np.array([order.get(str(name), 0) for name in names], dtype=np.int64)


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


def _part(
    evaluation: Evaluation, scores: pd.DataFrame, table: SortableTable, attribute: str, number: int
) -> dict[str, Any]:
    strata = evaluation.strata[evaluation.strata["attribute"] == attribute]
    names = [str(name) for name in strata["stratum"].unique()]
    n_attributes = evaluation.strata["attribute"].nunique()
    n_dots = len(scores) * n_attributes
    # Metrics that do not fit the page are in its tables only.
    shown_metrics = [name for n, name in enumerate(evaluation.metrics) if n == 0 or n_dots * (n + 1) <= MOST_DOTS]
    n_rows_drawn = max(len(names) * len(evaluation.labels) * n_attributes, 1)
    at_most = None if n_dots <= MOST_DOTS else max(20, MOST_DOTS // n_rows_drawn)
    figures = [_figures(evaluation, scores, table, strata, metric_named(name), at_most) for name in shown_metrics]
    return {
        "id": f"by-{number}",
        "title": f"By {attribute_title(attribute)}" if attribute != ALL else attribute_title(attribute),
        "has_strata": len(names) > 1 or attribute != ALL,
        "tables": strata_tables(strata),
        "legend": legend_of(attribute, names, lines=True),
        "figures": figures,
    }


def _figures(
    evaluation: Evaluation,
    scores: pd.DataFrame,
    table: SortableTable,
    strata: pd.DataFrame,
    metric: Metric,
    at_most: int | None,
) -> dict[str, Any]:
    attribute = str(strata["attribute"].iloc[0])
    column = table.column(metric_title(metric))
    charts = []
    for label in evaluation.labels:
        of_strata = cases_by_stratum(scores, evaluation.stratum_of_case[attribute], strata, label=label, metric=metric)
        dots = distribution(of_strata, metric, label=label, column=column, at_most=at_most)
        charts.append(
            {"label": label, "distribution": dots, "quantiles": quantile_curves(of_strata, metric, label=label)}
        )
    statistic = STATISTICS[metric.tail]
    tail = f"{statistic.title}, which {statistic.share} {'lies below' if metric.more_is_better else 'exceeds'}"
    limited = "" if at_most is None else f", the worst {at_most} of each stratum; lines and bands are of all cases"
    return {"metric": metric.title, "charts": charts, "tail": tail, "limited": limited}


def _volumes(evaluation: Evaluation, scores: pd.DataFrame, table: SortableTable) -> dict[str, Any] | None:
    if "reference_ml" not in scores.columns or scores["reference_ml"].isna().all() or not evaluation.metrics:
        return None
    metric = metric_named(evaluation.metrics[0])
    attributes = single_attributes(evaluation.stratum_of_case)
    colours = np.zeros(len(scores), dtype=np.int64)
    if attributes:
        colours = stratum_index(scores, evaluation.stratum_of_case[attributes[0]])
    at_most = None if len(scores) <= MOST_DOTS else MOST_DOTS // len(evaluation.labels)
    columns = {"column": table.column(metric_title(metric)), "volume_column": table.column("Reference (ml)")}
    charts = []
    for label in evaluation.labels:
        inside = (scores["label"] == label).to_numpy(dtype=bool)
        of_label = scores[inside]
        volumes = of_label["reference_ml"].to_numpy(dtype=np.float64)
        values = np.asarray(shown(of_label[metric.name], metric))
        points = Points(volumes, values, np.flatnonzero(inside), colours[inside])
        if at_most is not None:
            points = points.first(np.argsort(values if metric.more_is_better else -values, kind="stable")[:at_most])
        if svg := against_volume(points, metric, label=label, **columns):
            charts.append({"label": label, "svg": svg})
    if not charts:
        return None
    legend = []
    if attributes:
        strata = strata_in_order(evaluation.stratum_of_case[attributes[0]])
        legend = legend_of(attributes[0], strata, lines=False)
    by = f", by {attributes[0]}" if attributes else ""
    limited = "" if at_most is None else f" Only the worst {at_most} cases of each label are drawn."
    return {"metric": metric.title, "charts": charts, "legend": legend, "by": by, "limited": limited}
