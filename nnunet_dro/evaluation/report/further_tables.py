"""The other tables of evaluations and comparisons.

Lesions, false positives, how far strata lie apart, differences, and the bounds of verdicts.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.judging.verdicts import of_other_trainings
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.statistic_columns import FEW
from nnunet_dro.evaluation.report.strata_tables import (
    counted,
    estimate_cell,
    in_order,
    n_cell,
    name_columns,
    unit_of_rows,
)
from nnunet_dro.evaluation.report.words import say, sentences
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.columns import (
    GUARANTEED,
    GUARANTEED_DIFFERENCE,
    STATISTICS,
    n_units,
    whole,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Cell, Column, Table

#: What the typical difference is; see `typical_value`.
TYPICAL = "Hodges and Lehmann's median with exact bounds"

_FRACTION = METRICS["lesion_recall"]

#: The units of the volumes of lesions, as headings have them.
_UNITS = {"mm3": "mm³", "voxels": "voxels"}

#: The signs of notable differences.
_ARROWS = {"better": "▲ ", "worse": "▼ ", "": ""}

#: Column of the frame to that of the table, with what it is.
_EQUITY = {
    "mean": ("Mean", "mean of all cases of the strata"),
    "range": ("Range", "largest mean of a stratum less the smallest one"),
    "sd": ("SD", "standard deviation of the strata's means"),
    "equity_scaled_mean": (
        "Equity-scaled",
        "mean / (1 + sum of the distances between the strata's means and the mean)",
    ),
    "sd_scaled_mean": ("SD-scaled", "mean / (1 + SD)"),
}

_EQUITY_INTERVAL = "In brackets: 95 % interval. Where it begins at 0, all strata may be alike."


def lesion_tables(sizes: pd.DataFrame) -> list[Table]:
    """The lesions by volume, a table per attribute; none where no lesions were compared."""
    if not len(sizes):
        return []
    return [_lesion_table(rows) for _, rows in sizes.groupby("attribute", sort=False)]


def _lesion_table(sizes: pd.DataFrame) -> Table:
    attribute = str(sizes["attribute"].iloc[0])
    unit = _UNITS[str(sizes["unit"].iloc[0])]

    columns = [
        *_name_columns(attribute),
        (Column(f"Volume ({unit})", "name"), _volumes),
        (Column("Lesions"), partial(counted, "n_lesions")),
        (Column("Cases"), partial(counted, "n_cases")),
        (Column("Found"), partial(counted, "n_found")),
        (
            Column("Recall (%)", hint="lesions that are found per lesion of the reference"),
            partial(estimate_cell, "recall", _FRACTION),
        ),
        (
            Column("Dice (%)", hint="the mean of those"),
            partial(_number, "dice_of_found", _FRACTION),
        ),
        (
            Column("Invented", hint="predicted lesions that are matched with none"),
            partial(counted, "n_invented"),
        ),
    ]

    title = f"{fmt.attribute_title(attribute)}: lesions found, by volume"
    return Table.of(title, columns, in_order(sizes, ["label"]))


def _name_columns(attribute: str) -> list[tuple[Column, Any]]:
    """Columns of the label and the stratum; all cases together need no name."""
    if attribute == ALL:
        return name_columns(["label"])
    return name_columns(["label", "stratum"])


def _volumes(record: Record) -> str:
    """The ends of a range of volumes: ``1,000 to 10,000``."""
    ends = str(record["volume"]).split(" to ")
    return " to ".join(f"{int(end):,}" for end in ends)


def false_positive_table(frame: pd.DataFrame, *, has_volumes: bool) -> Table | None:
    """The false positives of the labels that some reference lacks.

    None where every reference has every label.
    """
    records = fmt.records(frame[frame["n_empty_references"] > 0])
    if not records:
        return None

    columns = [
        *name_columns(["label"]),
        (Column("Cases without the label"), partial(counted, "n_empty_references")),
        (Column("Predicted in"), partial(counted, "n_false_positives")),
    ]
    if has_volumes:
        columns += [
            (Column("Mean (ml)"), lambda record: fmt.volume(float(record["mean_ml"]))),
            (Column("Largest (ml)"), lambda record: fmt.volume(float(record["max_ml"]))),
            (Column("Largest in", "text"), lambda record: str(record["max_case"])),
        ]
    return Table.of("False positives per label", columns, records)


def equity_tables(equity: pd.DataFrame, scores: pd.DataFrame) -> list[Table]:
    """A table per attribute; none where nothing divides the cases.

    Args:
        equity: From `equity`.
        scores: The scores, which tell the unit of distances.
    """
    return [_equity_table(rows, scores) for _, rows in equity.groupby("attribute", sort=False)]


def _equity_table(rows: pd.DataFrame, scores: pd.DataFrame) -> Table:
    metrics = {metric.name: metric for metric in fmt.metrics_of(rows, scores)}

    def estimate(name: str, record: Record) -> Cell:
        return estimate_cell(name, metrics[str(record["metric"])], record)

    columns = [
        *name_columns(["label"]),
        (Column("Metric", "name"), lambda row: fmt.metric_title(metrics[str(row["metric"])])),
        (Column("Strata"), lambda row: str(whole(row, "n_strata"))),
        *(
            (Column(title, hint=hint), partial(estimate, name))
            for name, (title, hint) in _EQUITY.items()
        ),
    ]

    attribute = fmt.attribute_title(str(rows["attribute"].iloc[0]))
    meanings = [f"{title}: {hint}." for title, hint in _EQUITY.values()]
    return Table.of(
        f"{attribute}: how far the strata lie apart",
        columns,
        in_order(rows, ["label", "metric"]),
        notes=(_EQUITY_INTERVAL, *meanings),
    )


def difference_table(rows: pd.DataFrame, metric: Metric, statistics: Sequence[str]) -> Table:
    """The differences of one method from the baseline, of one attribute and metric.

    The tests and the typical difference stand beside the mean, where it is among the statistics.
    """
    records = in_order(rows, ["label"])
    attribute = str(records[0]["attribute"])
    baseline = str(records[0]["baseline"])
    method = str(records[0]["method"])

    columns = [
        *_name_columns(attribute),
        (Column("n"), lambda row: n_cell(row, fmt.counted_as_worst(row))),
    ]
    for statistic in statistics:
        columns += _value_columns(
            statistic,
            metric,
            baseline=baseline,
            method=method,
        )
    if "mean" in statistics:
        columns += _test_columns(records, metric)

    name = metric.title
    if len(statistics) == 1:
        name = f"{STATISTICS[statistics[0]].title} {name}"
    return Table.of(
        f"{fmt.attribute_title(attribute)}: {name}, {method} against {baseline}",
        columns,
        records,
        notes=tuple(
            sentences(
                "differences",
                records=records,
                metric=metric,
                statistics=statistics,
                unit=unit_of_rows(records),
            )
        ),
        kind="strata",
    )


def _value_columns(
    statistic: str, metric: Metric, *, baseline: str, method: str
) -> Iterator[tuple[Column, Any]]:
    """A statistic of the baseline and of the method, and their difference."""
    unit = fmt.unit_sign(metric)
    above = f"{STATISTICS[statistic].title} ({unit})"

    yield (
        Column(baseline, above=above, is_minor=True),
        partial(_number, f"{statistic}_baseline", metric),
    )
    yield (
        Column(method, above=above, is_minor=True),
        partial(_number, f"{statistic}_method", metric),
    )
    yield (
        Column("Difference", above=above),
        partial(_change, statistic, metric),
    )


def _test_columns(records: Sequence[Record], metric: Metric) -> Iterator[tuple[Column, Any]]:
    """What tells a difference of the mean from chance."""
    if any(not math.isnan(fmt.estimate(row, "typical_difference")[0]) for row in records):
        yield (
            Column(f"Typical {unit_of_rows(records)}", hint=TYPICAL, spare="column"),
            partial(estimate_cell, "typical_difference", metric, signed=True),
        )

    # Several trainings have no p value.
    if any(not math.isnan(float(row["holm_p"])) for row in records):
        hint = "corrected Wilcoxon test"
        yield Column("Holm p", hint=hint), lambda row: fmt.p_value(float(row["holm_p"]))
    yield Column("W / T / L"), _wins


def _number(column: str, metric: Metric, record: Record) -> str:
    return fmt.number(record[column], metric)


def _wins(record: Record) -> str:
    return " / ".join(str(int(record[name])) for name in ("wins", "ties", "losses"))


def _change(statistic: str, metric: Metric, record: Record) -> Cell:
    """A difference with its bounds and signs."""
    value = float(record[f"{statistic}_difference"])
    kind = ""
    if notable(value, metric.name):
        kind = "better"
    elif notable(-value, metric.name):
        kind = "worse"

    marks = {}
    if 0 < n_units(record) < STATISTICS[statistic].n_needed:
        marks[FEW] = ""
    below = [
        fmt.change_bounds(record, statistic, metric),
        fmt.range_of_trainings(record, statistic, metric),
    ]
    return Cell(
        _ARROWS[kind] + fmt.difference(value, metric),
        tuple(filter(None, below)),
        marks,
        kind=kind,
        strong=True,
    )


def bounds_for_verdicts(rows: pd.DataFrame, metric: Metric) -> list[Table]:
    """The bounds of the rows' means, or of the differences of these, that verdicts rest on.

    Nothing without any.
    """
    is_difference = "mean_difference" in rows
    columns = GUARANTEED_DIFFERENCE if is_difference else GUARANTEED[:2]

    pairs = []
    for record in fmt.records(rows):
        low, high = (float(record.get(column, math.nan)) for column in columns)
        interval = fmt.interval(low, high, metric, signed=is_difference)
        if interval:
            pairs.append((_row_name(record, is_difference=is_difference), interval))
    if not pairs:
        return []

    what = "mean difference" if is_difference else "mean"
    others = of_other_trainings(rows.iloc[0])
    note = say("bounds_for_verdicts", title=metric.title, others=others)
    return [
        Table.of_pairs(
            f"Bounds of the {what} for verdicts",
            pairs,
            kind="bounds",
            notes=(note,),
        )
    ]


def _row_name(record: Record, *, is_difference: bool) -> str:
    """The label, stratum and method of a row, as far as they are not plain."""
    attribute = str(record["attribute"])
    stratum = str(record["stratum"])

    names = [str(record["label"])]
    if is_difference or attribute != ALL:
        names.append(fmt.stratum_title(attribute, stratum))
    if not is_difference and "method" in record:
        names.append(str(record["method"]))
    return ", ".join(names)
