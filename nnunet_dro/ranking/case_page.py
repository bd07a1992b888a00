"""What the page of a ranking shows of single cases; nothing of it is made with ``--aggregate-only``."""

from typing import Any

import numpy as np

from nnunet_dro.evaluation.report.charts.distribution import distribution
from nnunet_dro.evaluation.report.charts.stratum_cases import StratumCases
from nnunet_dro.evaluation.report.formatting import scaled
from nnunet_dro.evaluation.report.score_tables import metric_title
from nnunet_dro.pages.sortable_table import Column, SortableTable
from nnunet_dro.ranking.ranking import Ranking

#: The most dots on a page; with more cases, figures draw only the worst of each team.
_MOST_DOTS = 20_000


def case_table(ranking: Ranking) -> SortableTable:
    """A row per case and label: strata, and for each metric the best, median and worst value of the teams."""
    cases = ranking.cases
    if cases is None:
        raise ValueError("`ranking` must have cases, got one with aggregate numbers only. Rank again without that.")
    metrics = list(dict.fromkeys(task.metric for task in ranking.tasks))
    columns = [Column("Case", "text", cases["case"].tolist())]
    columns.append(Column("Label", "text", cases["label"].tolist(), filtered=True))
    for attribute in ranking.strata:
        name = f"{attribute} (stratum)" if f"{attribute} (stratum)" in cases.columns else attribute
        columns.append(Column(attribute, "text", cases[name].tolist(), filtered=True))
    first = len(columns)
    for name in metrics:
        metric = ranking.metric(name)
        for what in ("median", "best", "worst"):
            values = [scaled(value, metric) for value in cases[f"{name}_{what}"].tolist()]
            columns.append(Column(f"{metric_title(metric)}, {what}", "number", values))
        undefined = cases[f"{name}_undefined"].tolist()
        if any(undefined):
            columns.append(Column(f"{metric.title}, teams without value", "count", undefined))
    keys = list(zip(cases["case"], cases["label"], strict=True))
    return SortableTable(tuple(columns), keys, first, descending=not ranking.metric(metrics[0]).more_is_better)


def case_charts(ranking: Ranking, table: SortableTable) -> list[dict[str, Any]]:
    """A figure for each label: the scores of every team by the first metric, every case a dot."""
    values = ranking.values
    if values is None:
        return []
    metric = ranking.metric(ranking.tasks[0].metric)
    labels = [task.label for task in ranking.tasks if task.metric == metric.name]
    row_of = {key: row for row, key in enumerate(table.keys)}
    most = _MOST_DOTS // (len(labels) * len(ranking.teams))
    column = table.column(f"{metric_title(metric)}, median")
    charts = []
    for number, label in enumerate(labels):
        rows = np.array([row_of[case, label] for case in ranking.case_names])
        teams = [_team(ranking.teams[n], n, values[number, n], rows, metric) for n in range(len(ranking.teams))]
        svg = distribution(teams, metric, label=label, column=column, at_most=most)
        charts.append({"label": label, "svg": svg})
    limited = f" Only the {most} worst cases of each team are drawn." if ranking.n_cases > most else ""
    return [chart | {"limited": limited, "metric": metric} for chart in charts]


def _team(name: str, place: int, values: Any, rows: Any, metric: Any) -> StratumCases:
    finite = np.flatnonzero(np.isfinite(values))
    shown = np.array([scaled(float(value), metric) for value in values[finite]])
    order = np.argsort(shown if metric.more_is_better else -shown, kind="stable")
    numbers = np.percentile(shown, (5, 25, 50, 75)) if len(shown) else np.full(4, np.nan)
    marks = dict(zip(("p5", "p25", "median", "p75"), (float(n) for n in numbers), strict=True))
    return StratumCases(place, name, len(values), shown[order], rows[finite][order], marks)
