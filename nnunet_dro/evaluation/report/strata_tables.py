"""The tables of strata: the statistics of every stratum, label and method."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, Failure
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS, enough_cases, n_units, whole
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Cell, Column, Table

Record = Mapping[Hashable, Any]

DARKEST = 6  # Shades of the strata table: 0 (none) to this.

#: Where the shades 1 to `DARKEST` begin: per cent below the best possible value, and percentage
#: points of IQR.
SHADES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
SPREAD_SHADES = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0)

#: The marks of statistics that do not mean all that their name says, and what they say.
FEW = "†"
LEFT_OUT = "‡"
FOOTNOTES = {
    FEW: "Too few cases for this statistic: it rests on the smallest or largest values.",
    LEFT_OUT: "Without the cases in which the label was missed or invented: they have no value.",
}

#: What the intervals are, and why one has one bound only.
INTERVAL = "In brackets: 95 % interval, if failures like those of the sample are all there are."
ONE_BOUND = (
    "≤, ≥: the one bound that so few cases give. The median has both from 6 cases on, P25 and P75 from 13, P10 from "
    "36, P5 from 72."
)

#: Of so many values or fewer the values themselves are shown, and of the statistics only the first
#: two.
MOST_LISTED = 5
N_OF_FEW = 2

#: The columns that are there where a label was missed or invented.
_FAILURES = {
    "n_missed": Column("missed", hint="cases whose label was not predicted"),
    "n_invented": Column(
        "inv.", hint="cases in which the label was predicted where the reference lacks it"
    ),
}


def strata_tables(
    strata: pd.DataFrame,
    scores: pd.DataFrame | None = None,
    failure: str | None = None,
    *,
    names: Sequence[str] = ("label", "stratum", "method"),
) -> Iterator[tuple[Metric, Table]]:
    """The metric and the table of each attribute and metric, metrics of one attribute together.

    The scores tell the unit of distances. ``names`` are the columns that say what a row is about,
    as rows are sorted by them; those that the frame does not have, and a single stratum, are left
    out.
    """
    when_failed = Failure.of(failure or DEFAULT_FAILURE)
    for attribute in strata["attribute"].unique():
        of_attribute = strata[strata["attribute"] == attribute]
        shown = [
            name
            for name in names
            if name in strata and not (name == "stratum" and attribute == ALL)
        ]
        for name in of_attribute["metric"].unique():
            metric = fmt.metric_named(str(name), scores)
            group = of_attribute[of_attribute["metric"] == name]
            yield metric, _strata_table(in_order(group, shown), metric, shown, when_failed)


def units_of(records: Sequence[Record]) -> str:
    """What numbers count: cases, or patients where they count once."""
    return "patients" if any(whole(record, "n_patients") for record in records) else "cases"


def in_order(frame: pd.DataFrame, names: Sequence[str]) -> list[Record]:
    """The rows sorted by columns, whose values have the order in which they first appear."""
    places = {name: {value: n for n, value in enumerate(frame[name].unique())} for name in names}
    records: list[Any] = frame.to_dict("records")
    return sorted(records, key=lambda record: [places[name][record[name]] for name in names])


def name_columns(names: Iterable[str]) -> list[tuple[Column, Any]]:
    """Columns that say which label, stratum and method a row is about."""
    titles = {"stratum": lambda record: fmt.stratum_title(record["attribute"], record["stratum"])}
    return [
        (Column(name.capitalize(), "name"), titles.get(name, itemgetter(name))) for name in names
    ]


def _strata_table(
    records: Sequence[Record], metric: Metric, names: Sequence[str], failure: Failure
) -> Table:
    statistics = fmt.shown_statistics(metric)
    if all(map(values_of_few, records)):
        statistics = statistics[:N_OF_FEW]
    values = (
        abs(float(record[name]))
        for record in records
        for name in statistics
        if name not in ("min", "max")
    )
    largest = max(filter(math.isfinite, values), default=0.0)
    # The methods whose numbers stand side by side are those of one stratum and label.
    rivals: dict[Any, list[Record]] = {}
    for record in records if "method" in names else ():
        rivals.setdefault((record["stratum"], record["label"]), []).append(record)
    columns = [*name_columns(names), (Column("n"), n_cell)]
    failures = [field for field in _FAILURES if any(whole(record, field) for record in records)]
    columns += [(_FAILURES[field], partial(_n_failed, field)) for field in failures]
    columns += [
        (
            Column(STATISTICS[name].title, spare="below"),
            partial(_statistic, name, place, metric, largest, rivals),
        )
        for place, name in enumerate(statistics)
    ]
    on_failures = []
    if any(values_of_few(record) for record in records):
        columns.append((Column("Values"), partial(_values, metric)))
    if any(record.get("n_failed", math.nan) >= 0 for record in records):
        title = f"{failure.comparison} {fmt.scaled(failure.bound, metric):g}"
        columns.append((Column(title), _share_failed))
        units = units_of(records)
        so_many = f"so many of these {units}"
        if not all(several := [whole(record, "n_trainings") for record in records]):
            so_many += f", and up to this share of all such {units}, which so few cannot exclude (95 % sure)"
        so_many += "; of several trainings, so many in all of them together" if any(several) else ""
        on_failures.append(f"Column {title}: {so_many}.")
    title = f"{fmt.attribute_title(str(records[0]['attribute']))}: {metric.title} ({fmt.unit_sign(metric)})"
    about = _definitions(metric, statistics, several="method" in names)
    table = Table.of(title, columns, records, about=about, kind="strata")
    cells = [cell for row in table.rows for cell in row if cell.strong]
    first = {text[:1] for cell in cells for text in cell.below}
    marks = {mark for cell in cells for mark in cell.marks}
    on_intervals = [INTERVAL] * ("[" in first) + [ONE_BOUND] * bool(first & {"≤", "≥"})
    footnotes = [f"{mark} {text}" for mark, text in FOOTNOTES.items() if mark in marks]
    return replace(table, notes=(*on_intervals, *on_failures, *footnotes))


def n_cell(record: Record, *remarks: str) -> Cell:
    """The number of cases, and what there is to say of it."""
    n_patients = whole(record, "n_patients")
    n_undefined = whole(record, "n_undefined")
    patients = count(n_patients, "patient") if n_patients else ""
    undefined = f"{n_undefined} undef." if n_undefined else ""
    return Cell(str(whole(record, "n")), tuple(filter(None, (patients, undefined, *remarks))))


def _n_failed(field: str, record: Record) -> Cell:
    n = whole(record, field)
    return Cell(str(n), kind="failed" if n else "", strong=n > 0)


def _statistic(
    name: str,
    place: int,
    metric: Metric,
    largest: float,
    rivals: Mapping[Any, Sequence[Record]],
    record: Record,
) -> Cell:
    n_values = n_units(record)
    left_out = whole(record, "n_left_out")
    is_listed = bool(values_of_few(record))
    if is_listed and place >= N_OF_FEW:
        return Cell(kind="shade0", strong=True)
    value, low, high = fmt.estimate(record, name)
    too_few = n_values > 0 and not enough_cases(name, n_values)
    marks = {FEW: "too few cases for this statistic"} if too_few else {}
    if left_out:
        marks[LEFT_OUT] = f"without {left_out} cases in which the label was missed or invented"
    others = [
        other
        for other in rivals.get((record["stratum"], record["label"]), ())
        if other is not record
    ]
    is_best = all(
        notable(value - float(other[name]), metric.name, statistic=name) for other in others
    )
    kind = f"shade{shade_of(value, metric, name, largest=largest)}"
    kind += f"{' few' * too_few}{' best' * (is_best and bool(others))}"
    below = "" if is_listed else fmt.bounds(low, high, metric)
    return Cell(fmt.number(value, metric), (below,) if below else (), marks, kind, strong=True)


def _values(metric: Metric, record: Record) -> Cell:
    return Cell(
        ", ".join(fmt.number(value, metric) for value in values_of_few(record)), kind="values"
    )


def _share_failed(record: Record) -> Cell:
    failed, most = (float(record.get(name, math.nan)) for name in ("n_failed", "failure_high"))
    below = () if math.isnan(most) else (f"≤ {100 * most:.1f} %",)
    return Cell("" if math.isnan(failed) else str(int(failed)), below)


def _definitions(metric: Metric, statistics: Sequence[str], *, several: bool) -> str:
    """What a reader of the table alone needs to know."""
    text = f"{metric.title}: {metric.definition}."
    text += " IQR: interquartile range." if "iqr" in statistics else ""
    percentiles = [STATISTICS[name].title for name in statistics if name.startswith("p")]
    text += f" {', '.join(percentiles)}: percentiles, linearly interpolated." if percentiles else ""
    if several and metric.unit == "fraction":
        text += " Bold: better than every other method by 5 percentage points or more."
    return text


def values_of_few(record: Record) -> list[float]:
    """The values of a row that rests on up to `MOST_LISTED` of one training, ascending.

    Its statistics have them.
    """
    n = n_units(record)
    if not 0 < n <= MOST_LISTED or whole(record, "n_trainings"):
        return []
    low, first, middle, third, high = (
        float(record[name]) for name in ("min", "p25", "median", "p75", "max")
    )
    # Of four, numpy's quartiles lie a quarter of the way from the second value to the first, and so
    # on.
    four = [low, (4 * first - low) / 3, (4 * third - high) / 3, high]
    return ([middle], [low, high], [low, middle, high], four, [low, first, middle, third, high])[
        n - 1
    ]


def shade_of(value: float, metric: Metric, statistic: str, *, largest: float = 0.0) -> int:
    """How dark a number's background is, 0 to `DARKEST`: fixed for fractions.

    Distances end at the ``largest``.
    """
    if math.isnan(value):
        return 0
    if not metric.is_bounded:
        share = min(1.0, abs(value) / largest) if largest > 0 else 0.0
        return min(DARKEST, int(share * (DARKEST + 1)))
    more_is_better = STATISTICS[statistic].more_is_better(metric)
    steps = SHADES if more_is_better else SPREAD_SHADES
    badness = (1 - value) * 100 if more_is_better else value * 100
    # Compared with the one decimal that is shown, so that 90.0 and its shade never disagree.
    return sum(round(badness, 1) > step for step in steps)
