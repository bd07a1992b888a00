"""The other tables of evaluations and comparisons.

Lesions, false positives, differences and bounds for verdicts.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.strata_tables import (
    FEW,
    INTERVAL,
    Record,
    in_order,
    n_cell,
    name_columns,
    units_of,
)
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.columns import (
    GUARANTEED,
    GUARANTEED_DIFFERENCE,
    STATISTICS,
    n_units,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import NO_VALUE
from nnunet_dro.pages.document import Cell, Column, Table

#: What the typical difference is; see `typical_value`.
TYPICAL = (
    "the median of the cases' differences (Hodges and Lehmann), with exact bounds by signed ranks"
)

_FRACTION = METRICS["lesion_recall"]


def lesion_tables(sizes: pd.DataFrame) -> list[Table]:
    """The lesions by volume, a table per attribute; none where no lesions were compared."""
    return (
        [_lesion_table(inside) for _, inside in sizes.groupby("attribute", sort=False)]
        if len(sizes)
        else []
    )


def _lesion_table(sizes: pd.DataFrame) -> Table:
    attribute, unit = (str(sizes[name].iloc[0]) for name in ("attribute", "unit"))
    names = ["label", "stratum"][: 1 if attribute == ALL else 2]
    volumes = f"Volume ({unit.replace('mm3', 'mm³')})"
    invented = "predicted lesions that are matched with none"
    columns = [
        *name_columns(names),
        (
            Column(volumes, "name"),
            lambda r: " to ".join(f"{int(end):,}" for end in str(r["volume"]).split(" to ")),
        ),
        *(
            (Column(title), partial(_counted, f"n_{title.lower()}"))
            for title in ("Lesions", "Cases", "Found")
        ),
        (Column("Recall (%)", hint="lesions that are found per lesion of the reference"), _recall),
        (
            Column("Dice (%)", hint="the mean of those"),
            lambda r: fmt.number(float(r["dice_of_found"]), _FRACTION),
        ),
        (Column("Invented", hint=invented), partial(_counted, "n_invented")),
    ]
    title = f"{fmt.attribute_title(attribute)}: lesions found, by volume"
    return Table.of(title, columns, in_order(sizes, ["label"]))


def _counted(column: str, record: Record) -> str:
    return f"{int(record[column]):,}"


def _recall(record: Record) -> Cell:
    value, low, high = fmt.estimate(record, "recall")
    return Cell(
        fmt.number(value, _FRACTION), tuple(filter(None, (fmt.bounds(low, high, _FRACTION),)))
    )


def false_positive_table(frame: pd.DataFrame, *, has_volumes: bool) -> Table | None:
    """The false positives of the labels that some reference lacks.

    None where every reference has every label.
    """
    records = frame[frame["n_empty_references"] > 0].to_dict("records")
    columns: list[Any] = [
        *name_columns(["label"]),
        (Column("Cases without the label"), partial(_counted, "n_empty_references")),
        (Column("Predicted in"), partial(_counted, "n_false_positives")),
    ]
    if has_volumes:
        columns += [
            (Column("Mean (ml)"), lambda record: fmt.volume(float(record["mean_ml"]))),
            (Column("Largest (ml)"), lambda record: fmt.volume(float(record["max_ml"]))),
            (Column("Largest in", "text"), lambda record: str(record["max_case"])),
        ]
    return Table.of("False positives per label", columns, records) if records else None


def difference_table(rows: pd.DataFrame, metric: Metric, statistics: Sequence[str]) -> Table:
    """The differences of one method from the baseline, of one attribute and metric.

    The tests stand by the mean.
    """
    records = in_order(rows, ["label"])
    attribute, baseline, method = (
        str(records[0][name]) for name in ("attribute", "baseline", "method")
    )
    columns = name_columns(["label", "stratum"][: 1 if attribute == ALL else 2])
    columns.append(
        (
            Column("n"),
            lambda record: n_cell({**record, "n_patients": 0}, fmt.counted_as_worst(record)),
        )
    )
    for name in statistics:
        above = f"{STATISTICS[name].title} ({fmt.unit_sign(metric)})"
        columns += [
            (
                Column(title, above=above),
                lambda record, column=f"{name}_{of}": fmt.number(record[column], metric),
            )
            for title, of in ((baseline, "baseline"), (method, "method"))
        ]
        columns.append((Column("Difference", above=above), partial(_change, name, metric)))
    if "mean" in statistics:
        if any(fmt.typical_change(record, metric) for record in records):
            columns.append(
                (Column("Typical case", hint=TYPICAL, spare="column"), partial(_typical, metric))
            )
        hint = "Wilcoxon signed-rank test, p value after Holm's correction"
        columns.append(
            (Column("Holm p", hint=hint), lambda record: fmt.p_value(float(record["holm_p"])))
        )
        wins = ("wins", "ties", "losses")
        columns.append(
            (
                Column("W / T / L"),
                lambda record: " / ".join(str(int(record[name])) for name in wins),
            )
        )
    of = f"{STATISTICS[statistics[0]].title} " if len(statistics) == 1 else ""
    title = f"{fmt.attribute_title(attribute)}: {of}{metric.title}, {method} against {baseline}"
    return Table.of(title, columns, records, notes=_on_differences(records, metric), kind="strata")


def _on_differences(records: Sequence[Record], metric: Metric) -> tuple[str, ...]:
    notes = [INTERVAL, "Without brackets: too few cases for an interval."]
    if metric.unit == "fraction":
        notes.append("▲: an improvement of 5 percentage points or more; ▼: a loss of as much.")
    notes.append(
        f"W / T / L: {units_of(records)} better, equal, worse. {FEW} Too few cases for this statistic."
    )
    if any(fmt.range_of_trainings(record, "mean", metric) for record in records):
        notes.append("Trainings: the lowest and the highest difference of two trainings.")
    if any(fmt.counted_as_worst(record) for record in records):
        notes.append(
            "As worst: only one method missed or invented the label, and the case counts as the worst for it."
        )
    return tuple(notes)


def _change(statistic: str, metric: Metric, record: Record) -> Cell:
    value = float(record[f"{statistic}_difference"])
    kind = (
        "better" if notable(value, metric.name) else "worse" if notable(-value, metric.name) else ""
    )
    marks = {FEW: ""} if 0 < n_units(record) < STATISTICS[statistic].n_needed else {}
    text = {"better": "▲ ", "worse": "▼ ", "": ""}[kind] + fmt.difference(value, metric)
    below = (
        fmt.change_bounds(record, statistic, metric),
        fmt.range_of_trainings(record, statistic, metric),
    )
    return Cell(text, tuple(filter(None, below)), marks, kind, strong=True)


def _typical(metric: Metric, record: Record) -> Cell:
    value, _, ends = fmt.typical_change(record, metric).partition(" ")
    return Cell(value or NO_VALUE, (ends,) if ends else ())


def bounds_for_verdicts(rows: pd.DataFrame, metric: Metric) -> list[Table]:
    """The bounds of the rows' means, or of the differences of these, that verdicts rest on.

    Nothing without any.
    """
    found = []
    is_difference = "mean_difference" in rows
    columns = GUARANTEED_DIFFERENCE if is_difference else GUARANTEED[:2]
    for record in rows.to_dict("records"):
        low, high = (float(record.get(column, math.nan)) for column in columns)
        attribute = str(record["attribute"])
        stratum = str(record["stratum"])
        names = [str(record["label"])]
        names += (
            [fmt.stratum_title(attribute, stratum)] if is_difference or attribute != ALL else []
        )
        names += [str(record["method"])] if not is_difference and "method" in record else []
        if written := fmt.interval(low, high, metric, signed=is_difference):
            found.append((", ".join(names), written))
    title = f"Bounds of the mean{' difference' * is_difference} for verdicts"
    note = f"They assume only that {metric.title} lies between 0 and 100 %: margins and requirements rest on them."
    return [Table.of_pairs(title, found, kind="bounds", notes=(note,))] if found else []
