"""The content of the page of a comparison, for its template."""

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.report.charts.forest import Difference, forest
from nnunet_dro.evaluation.report.charts.scatter import Points, paired
from nnunet_dro.evaluation.report.charts.stratum_cases import MOST_DOTS
from nnunet_dro.evaluation.report.evaluation_page import (
    MANY_DOTS,
    lede,
    legend_of,
    strata_in_order,
    stratum_index,
)
from nnunet_dro.evaluation.report.findings import comparison_notes
from nnunet_dro.evaluation.report.formatting import (
    against_baseline,
    attribute_title,
    change_bounds,
    counted_as_worst,
    difference,
    difference_unit,
    interval,
    metric_named,
    number,
    p_value,
    range_of_trainings,
    scaled,
    stratum_title,
    typical_change,
    unit_sign,
)
from nnunet_dro.evaluation.report.gains import verdicts
from nnunet_dro.evaluation.report.page_limits import (
    MOST_CASE_ROWS,
    MOST_STRATA_ROWS,
    left_out_of_comparison,
    most_changed_labels,
)
from nnunet_dro.evaluation.report.score_tables import Pairs, pair_columns, pairs_table, single_attributes
from nnunet_dro.evaluation.report.strata_tables import INTERVAL, strata_tables
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import GUARANTEED_DIFFERENCE, STATISTICS, enough_cases
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.sortable_table import SortableTable

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison

#: Number of cases in each short list, of those that gained and of those that lost; the case table has them all.
_MOST_CHANGED = 10


def comparison_content(comparison: "Comparison") -> dict[str, Any]:
    """Everything the template of a comparison's page needs beyond what all pages share."""
    metrics = [metric_named(str(name), comparison.scores) for name in comparison.table["metric"].unique()]
    methods = comparison.methods
    every_pair = Pairs.of(comparison.scores, metrics, methods)
    pairs = every_pair.most_changed(metrics[0].name, MOST_CASE_ROWS) if metrics else every_pair
    table = pairs_table(pairs, metrics, comparison.stratum_of_case)
    attributes = [str(name) for name in comparison.table["attribute"].unique()]
    parts = [_part(comparison, attribute, n) for n, attribute in enumerate(attributes)]
    blocks = _paired(comparison, pairs, table, metrics)
    requirements = comparison.about.get("requirements", [])
    asked = [("requirements", "Requirements")] if requirements else []
    contents = [("findings", "What changed"), *asked, *((part["id"], part["title"]) for part in parts)]
    contents += [(f"pairs-{n + 1}", f"{block['short']}") for n, block in enumerate(blocks)]
    contents += [("changed", "Changed cases"), ("cases", "Cases"), ("methods", "Definitions")]
    return {
        "kind": "nnunet-dro · comparison per stratum",
        "title": against_baseline(methods),
        "heading": against_baseline(methods),
        "lede": lede(every_pair.rows, comparison.stratum_of_case, metrics),
        "contents": contents,
        "baseline": methods[0],
        "methods": methods,
        "verdicts": verdicts(comparison),
        "requirements": requirements,
        "all_notes": comparison_notes(comparison),
        "parts": parts,
        "paired": blocks,
        "changed": _changed(comparison, metrics),
        "changed_columns": _changed_columns(comparison),
        "cases_about": _cases_about(len(pairs.rows), len(every_pair.rows)),
        "many": " many" if len(pairs.rows) * (len(methods) - 1) > MANY_DOTS else "",
        "payload": table.payload({}),
    }


def _part(comparison: "Comparison", attribute: str, place: int) -> dict[str, Any]:
    table, strata = (frame[frame["attribute"] == attribute] for frame in (comparison.table, comparison.strata))
    n_rows = max(len(comparison.table), len(comparison.strata))
    labels = most_changed_labels(comparison.table, attribute, n_rows=n_rows, most_rows=MOST_STRATA_ROWS)
    left_out = left_out_of_comparison(len(labels), table["label"].nunique(), str(comparison.table["metric"].iloc[0]))
    table, strata = (frame[frame["label"].astype(str).isin(labels)] for frame in (table, strata))
    blocks = []
    for name in table["metric"].unique():
        for method in comparison.methods[1:]:
            rows = table[(table["metric"] == name) & (table["method"] == method)].to_dict("records")
            blocks.append(_block(rows, metric_named(str(name), comparison.scores), method))
    return {
        "id": f"by-{place}",
        "title": f"By {attribute_title(attribute)}" if attribute != ALL else attribute_title(attribute),
        "has_strata": attribute != ALL,
        "left_out": left_out,
        "blocks": blocks,
        "tables": strata_tables(strata, comparison.scores, comparison.about),
    }


def _cases_about(n_shown: int, n_rows: int) -> str:
    about = "A row per case and label with every method, the case that lost most first."
    if n_shown == n_rows:
        return about
    return f"{about} Of {n_rows:,} rows, the {n_shown:,} that changed most are here; scores.csv of each method has all."


def _block(rows: Sequence[dict[Hashable, Any]], metric: Metric, method: str) -> dict[str, Any]:
    statistics = ("mean", metric.tail)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(str(row["label"]), []).append(_row(row, metric, statistics))
    key = f"{INTERVAL} Without brackets: too few cases for an interval. "
    if metric.unit == "fraction":
        key += "Blue with ▲: an improvement of 5 percentage points or more; orange with ▼: a loss of as much. "
    key += "W / T / L: cases better, equal, worse. † Too few cases for this statistic."
    if any(range_of_trainings(row, "mean", metric) for row in rows):
        key += " Trainings: the lowest and the highest difference of two trainings."
    if any(counted_as_worst(row) for row in rows):
        key += " As worst: only one method missed or invented the label, and the case counts as the worst for it."
    return {
        "metric": metric,
        "method": method,
        "statistics": statistics,
        "has_typical": any(row["typical"][0] for rows in groups.values() for row in rows),
        "bounds": [(f"{row['label']}, {stratum_of(row)}", text) for row in rows if (text := _guaranteed(row, metric))],
        "unit": unit_sign(metric),
        "groups": list(groups.items()),
        "key": key,
        "forests": [
            svg for s in statistics if (svg := forest(_differences(rows, metric, s), metric, statistic=_name(s)))
        ],
    }


def _guaranteed(row: dict[Hashable, Any], metric: Metric) -> str:
    """The bounds of the mean difference that verdicts rest on."""
    low, high = (float(row.get(column, math.nan)) for column in GUARANTEED_DIFFERENCE)
    return interval(low, high, metric, signed=True)


def stratum_of(row: dict[Hashable, Any]) -> str:
    """The heading of a row's stratum."""
    return stratum_title(str(row["attribute"]), str(row["stratum"]))


def _name(statistic: str) -> str:
    return "mean" if statistic == "mean" else STATISTICS[statistic].title


def _row(row: dict[Hashable, Any], metric: Metric, statistics: Sequence[str]) -> dict[str, Any]:
    n, n_undefined = int(row["n"]), int(row["n_undefined"])
    changes = []
    for statistic in statistics:
        value = float(row[f"{statistic}_difference"])
        kind = "better" if notable(value, metric.name) else "worse" if notable(-value, metric.name) else ""
        changes.append(
            {
                "before": number(float(row[f"{statistic}_baseline"]), metric),
                "after": number(float(row[f"{statistic}_method"]), metric),
                "text": difference(value, metric),
                "interval": change_bounds(row, statistic, metric),
                "trainings": range_of_trainings(row, statistic, metric),
                "kind": kind,
                "mark": {"better": "▲ ", "worse": "▼ ", "": ""}[kind],
                "too_few": n > n_undefined and not enough_cases(statistic, n - n_undefined),
            }
        )
    typically = typical_change(row, metric).partition(" ")
    record = " / ".join(str(int(row[name])) for name in ("wins", "ties", "losses"))
    names = {
        "stratum": stratum_of(row),
        "typical": typically,
        "n": n,
        "n_undefined": n_undefined,
        "as_worst": counted_as_worst(row),
    }
    return names | {"changes": changes, "p": p_value(float(row["holm_p"])), "record": record}


def _differences(rows: Sequence[dict[Hashable, Any]], metric: Metric, statistic: str) -> list[Difference]:
    # Label by label, so that each has one heading.
    in_order = [row for label in dict.fromkeys(str(r["label"]) for r in rows) for row in rows if row["label"] == label]
    found = []
    for row in in_order:
        numbers = (scaled(float(row[f"{statistic}_difference{end}"]), metric) for end in ("", "_low", "_high"))
        names = str(row["label"]), stratum_of(row)
        found.append(Difference(*names, *numbers))
    return found


def _paired(
    comparison: "Comparison", pairs: Pairs, table: SortableTable, metrics: Sequence[Metric]
) -> list[dict[str, Any]]:
    if not metrics:
        return []
    metric = metrics[0]
    baseline = comparison.methods[0]
    attributes = single_attributes(comparison.stratum_of_case)
    colours = np.zeros(len(pairs.rows), dtype=np.int64)
    legend: list[Any] = []
    if attributes:
        of_case = comparison.stratum_of_case[attributes[0]]
        colours = stratum_index(pairs.rows, of_case)
        legend = legend_of(attributes[0], strata_in_order(of_case), lines=False)
    limited = len(pairs.rows) * (len(comparison.methods) - 1) > MOST_DOTS
    blocks = []
    for method in comparison.methods[1:]:
        x, y = pairs.values[metric.name, baseline], pairs.values[metric.name, method]
        charts = []
        for label in pairs.rows["label"].unique():
            rows = np.flatnonzero((pairs.rows["label"] == label).to_numpy(dtype=bool))
            if limited:
                most = MOST_DOTS // (pairs.rows["label"].nunique() * (len(comparison.methods) - 1))
                rows = rows[np.argsort(-np.abs(np.nan_to_num(y[rows] - x[rows])), kind="stable")][:most]
            points = Points(x[rows], y[rows], rows, colours[rows])
            columns = pair_columns(table, metric, baseline, method)
            svg = paired(points, metric, methods=(baseline, method), label=str(label), columns=columns)
            if svg:
                charts.append({"label": str(label), "svg": svg})
        if charts:
            title = f"{method} against {baseline}, case by case"
            by = f", by {attributes[0]}" if attributes else ""
            note = " Only the cases that changed most are drawn." if limited else ""
            short = "Case by case" if len(comparison.methods) == 2 else f"{method}, case by case"
            entry = {"title": title, "short": short, "by": by, "legend": legend, "charts": charts}
            blocks.append(entry | {"limited": note})
    return blocks


def _changed(comparison: "Comparison", metrics: Sequence[Metric]) -> list[tuple[str, list[list[str]]]]:
    """The cases that gained and that lost most by the first metric, the largest change first."""
    if comparison.changed.empty or not metrics:
        return []
    metric = metrics[0]
    rows = comparison.changed[comparison.changed["metric"] == metric.name].to_dict("records")
    sign = 1 if metric.more_is_better else -1
    lists = []
    for title, direction in (("Gained most", sign), ("Lost most", -sign)):
        inside = [row for row in rows if direction * float(row["difference"]) > 0]
        inside.sort(key=lambda row: -abs(float(row["difference"])))
        if inside:
            order = _changed_order(comparison)
            written = [_written(row, metric) for row in inside[:_MOST_CHANGED]]
            lists.append((f"{title}, {metric.title}", [[row[name] for name in order] for row in written]))
    return lists


def _written(row: dict[Hashable, Any], metric: Metric) -> dict[str, str]:
    written = {str(name): str(value) for name, value in row.items()}
    for name in ("baseline_value", "method_value"):
        written[name] = number(float(row[name]), metric)
    return written | {"difference": f"{difference(float(row['difference']), metric)} {difference_unit(metric)}"}


def _changed_columns(comparison: "Comparison") -> list[str]:
    titles = {"case": "Case", "label": "Label", "method": "Method", "difference": "Difference"}
    titles |= {"baseline_value": comparison.methods[0], "method_value": "Method’s value"}
    return [titles.get(name, name) for name in _changed_order(comparison)]


def _changed_order(comparison: "Comparison") -> list[str]:
    """The case first, then what happened to it, then its attributes."""
    attributes = single_attributes(comparison.stratum_of_case)
    # An attribute with the name of a column has another name in this table.
    columns = [name if name in comparison.changed.columns else f"{name} (stratum)" for name in attributes]
    first = ["case", "label", "method", "baseline_value", "method_value", "difference"]
    return first + [name for name in columns if name in comparison.changed.columns and name not in first]
