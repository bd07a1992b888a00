"""The strata frame as tables of written cells, which HTML, markdown, LaTeX and the terminal share."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.report.formatting import bounds, interval, metric_named, number, scaled, shown_statistics
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, Failure
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import COUNTS, GUARANTEED, STATISTICS, enough_cases
from nnunet_dro.pages.wording import count

#: Shades of the strata table: 0 (none) to this.
DARKEST = 6

#: Where the shades 1 to `DARKEST` begin: per cent below the best possible value, and percentage points of IQR.
SHADES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
SPREAD_SHADES = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0)

#: The marks of statistics that do not mean all that their name says, and what they say.
FEW, LEFT_OUT = "†", "‡"
FOOTNOTES = {
    FEW: "Too few cases for this statistic: it is one of the smallest or largest values rather than a percentile.",
    LEFT_OUT: "Without the cases in which the label was missed or invented: they have no value.",
}


#: What the intervals are, and why one has one bound only.
INTERVAL = "In brackets: 95 % interval, if failures like those of the sample are all there are."
TYPICAL = "Typical case: the median of the cases' differences (Hodges and Lehmann), with exact bounds by signed ranks."
ONE_BOUND = (
    "≤, ≥: the one bound that so few cases give. The median has both from 6 cases on, P25 and P75 from 13, P10 from "
    "36, P5 from 72."
)


#: Of so many values or fewer the values themselves are shown, and of the statistics only the first two.
MOST_LISTED, N_OF_FEW = 5, 2


@dataclass(frozen=True)
class Cell:
    """One statistic of one stratum.

    Attributes:
        statistic: Its name.
        value: Fraction or mm; NaN if undefined.
        text: The value as text, without its unit.
        interval: Its interval as text, or the one bound that it has; empty where it has none.
        shade: 0 (good, or not defined) to `DARKEST` (bad).
        too_few: Whether it rests on too few cases to mean what its name says.
        left_out: Number of cases whose label was missed or invented and that the statistic leaves out.
    """

    statistic: str
    value: float
    text: str
    interval: str
    shade: int
    too_few: bool
    left_out: int = 0

    @property
    def marks(self) -> str:
        """The signs of the footnotes that the cell needs: `FEW`, `LEFT_OUT`, both or none."""
        return (FEW if self.too_few else "") + (LEFT_OUT if self.left_out else "")


@dataclass(frozen=True)
class Row:
    """The statistics of one stratum, label and method.

    Attributes:
        stratum: Name.
        method: Name; empty where there is one method only.
        label: Name.
        n: Cases of the stratum.
        n_patients: Their patients; 0 where cases were taken for independent.
        n_undefined: Those of them without a value.
        n_missed: Cases whose label was missed; 0 where that is not known.
        n_invented: Cases in which the label was predicted where the reference lacks it.
        n_failed: How many failed, and of all cases at most, as text; empty where that is not counted.
        surely: The bounds of the mean that verdicts rest on, as text; empty without any.
        values: The values themselves, as text, in place of what few cases do not show; empty where there are more.
        cells: A cell per statistic of the table.
    """

    stratum: str
    method: str
    label: str
    n: int
    n_patients: int
    n_undefined: int
    n_missed: int
    n_invented: int
    n_failed: tuple[str, str]
    surely: str
    values: str
    cells: tuple[Cell, ...]

    @property
    def remarks(self) -> list[str]:
        """What there is to say of the number of cases."""
        patients = [count(self.n_patients, "patient")] if self.n_patients else []
        return patients + ([f"{self.n_undefined} undef."] if self.n_undefined else [])


@dataclass(frozen=True)
class Table:
    """The statistics of one attribute and metric.

    Attributes:
        attribute: Name.
        metric: The metric.
        statistics: Names of the columns.
        rows: In the order to show them.
        failure: What a failure is, as a heading such as ``< 50``; empty where they are not counted.
    """

    attribute: str
    metric: Metric
    statistics: tuple[str, ...]
    rows: tuple[Row, ...]
    failure: str

    @property
    def headings(self) -> list[str]:
        """The headings of the columns."""
        return [STATISTICS[name].title for name in self.statistics]

    @property
    def footnotes(self) -> list[str]:
        """The footnotes that the marks of the cells need, in plain text."""
        marks = {mark for row in self.rows for cell in row.cells for mark in cell.marks}
        return [f"{mark} {text}" for mark, text in FOOTNOTES.items() if mark in marks]

    @property
    def on_intervals(self) -> list[str]:
        """What the intervals are, in sentences."""
        first = {cell.interval[:1] for row in self.rows for cell in row.cells}
        return [INTERVAL] * ("[" in first) + [ONE_BOUND] * bool(first & {"≤", "≥"})

    @property
    def on_failures(self) -> list[str]:
        """What the column of failures says, in a sentence."""
        text = (
            "so many of these cases, and up to this share of all such cases, which so few cannot exclude (95 % sure)."
        )
        return [f"Column {self.failure}: {text}"] if self.failure else []

    @property
    def has_values(self) -> bool:
        """Whether any row has the values themselves."""
        return any(row.values for row in self.rows)

    @property
    def further(self) -> list[str]:
        """The headings of the columns after the statistics."""
        return ["Values"] * self.has_values + [self.failure] * bool(self.failure)

    def further_of(self, row: Row) -> list[str]:
        """The cells of these columns, on one line."""
        return [row.values] * self.has_values + [_with_most(*row.n_failed)] * bool(self.failure)

    @property
    def verdict_bounds(self) -> list[Row]:
        """The rows whose mean has bounds that verdicts rest on."""
        return [row for row in self.rows if row.surely]

    @property
    def has_patients(self) -> bool:
        """Whether the rows say how many patients there are."""
        return any(row.n_patients for row in self.rows)

    @property
    def has_failures(self) -> bool:
        """Whether any label was missed or invented."""
        return any(row.n_missed or row.n_invented for row in self.rows)

    @property
    def cases_of_stratum(self) -> dict[str, int]:
        """Stratum to its number of cases."""
        return {row.stratum: row.n for row in self.rows}


def strata_tables(
    strata: pd.DataFrame, scores: pd.DataFrame | None = None, about: Mapping[str, Any] = MappingProxyType({})
) -> list[Table]:
    """Tables per attribute and metric, metrics of one attribute together.

    Args:
        strata: The strata frame, with or without a column ``method`` and with or without intervals.
        scores: The scores frame, for the unit of distances.
        about: What is known of the run, for what a failure is.

    Returns:
        The tables; rows in the order of the frame.
    """
    failure = Failure.of(about.get("options", {}).get("failure") or DEFAULT_FAILURE)
    return [
        _table(str(attribute), metric_named(str(name), scores), group, failure)
        for (attribute, name), group in _groups(strata)
    ]


def _groups(strata: pd.DataFrame) -> Iterator[tuple[tuple[object, object], pd.DataFrame]]:
    for attribute in strata["attribute"].unique():
        of_attribute = strata[strata["attribute"] == attribute]
        for metric in of_attribute["metric"].unique():
            yield (attribute, metric), of_attribute[of_attribute["metric"] == metric]


def _table(attribute: str, metric: Metric, group: pd.DataFrame, failure: Failure) -> Table:
    records = group.to_dict("records")
    statistics = shown_statistics(metric)
    if all(0 < _n_values(record) <= MOST_LISTED for record in records):
        statistics = statistics[:N_OF_FEW]
    finite = [float(r[s]) for r in records for s in statistics if s != "max" and math.isfinite(float(r[s]))]
    largest = max(finite, default=0.0)
    rows = [_row(record, metric, statistics, largest) for record in records]
    # The methods of a stratum and label stand one below the other; without methods the order stays.
    places = [list(dict.fromkeys(names)) for names in zip(*((r.stratum, r.label, r.method) for r in rows), strict=True)]
    rows.sort(key=lambda r: tuple(p.index(n) for p, n in zip(places, (r.stratum, r.label, r.method), strict=True)))
    counted = any(row.n_failed[0] for row in rows)
    heading = f"{failure.comparison} {scaled(failure.bound, metric):g}" if counted else ""
    return Table(attribute, metric, statistics, tuple(rows), heading)


def _row(record: dict[Hashable, Any], metric: Metric, statistics: Sequence[str], largest: float) -> Row:
    n, n_undefined, n_missed, n_invented, left_out = (_whole(record.get(name)) for name in COUNTS[:5])
    n_values = _n_values(record)
    values = values_of_few(record)
    cells = []
    for place, statistic in enumerate(statistics):
        value = float(record[statistic])
        low, high = (float(record.get(f"{statistic}_{end}", math.nan)) for end in ("low", "high"))
        too_few = n_values > 0 and not enough_cases(statistic, n_values)
        if values and place >= N_OF_FEW:
            cells.append(Cell(statistic, math.nan, "", "", shade=0, too_few=False))
            continue
        shade = shade_of(value, metric, statistic, largest=largest)
        written = number(value, metric), "" if values else bounds(low, high, metric)
        cells.append(Cell(statistic, value, *written, shade=shade, too_few=too_few, left_out=left_out))
    failed, most = (float(record.get(name, math.nan)) for name in ("n_failed", "failure_high"))
    n_failed = "" if math.isnan(failed) else str(int(failed)), "" if math.isnan(most) else f"≤ {100 * most:.1f} %"
    low, high = (float(record.get(name, math.nan)) for name in GUARANTEED[:2])
    surely = interval(low, high, metric)
    names = (str(record["stratum"]), str(record.get("method", "")), str(record["label"]))
    counts = (n, _whole(record.get("n_patients")), n_undefined, n_missed, n_invented)
    return Row(*names, *counts, n_failed, surely, ", ".join(number(v, metric) for v in values), tuple(cells))


def _with_most(n: str, most: str) -> str:
    return f"{n} ({most})" if most else n


def values_of_few(record: Mapping[Hashable, Any]) -> list[float]:
    """The values of a row that rests on at most `MOST_LISTED` of them, ascending: its statistics determine them."""
    n = _n_values(record)
    if not 0 < n <= MOST_LISTED:
        return []
    low, first, middle, third, high = (float(record[name]) for name in ("min", "p25", "median", "p75", "max"))
    # Of four, numpy's quartiles lie a quarter of the way from the second value to the first, and so on.
    four = [low, (4 * first - low) / 3, (4 * third - high) / 3, high]
    return ([middle], [low, high], [low, middle, high], four, [low, first, middle, third, high])[n - 1]


def _n_values(record: Mapping[Hashable, Any]) -> int:
    """How many values the statistics rest on: cases with a value, or patients where they count once."""
    return _whole(record.get("n_patients")) or _whole(record["n"]) - _whole(record["n_undefined"])


def _whole(value: object) -> int:
    """A number of cases; 0 where an evaluation of an earlier version does not tell it."""
    return int(value) if isinstance(value, int | float) and not math.isnan(value) else 0


def shade_of(value: float, metric: Metric, statistic: str, *, largest: float = 0.0) -> int:
    """How dark the background of a number is: the worse the number, the darker.

    Args:
        value: Fraction or mm.
        metric: The metric of the value.
        statistic: The statistic. The shades of fractions are fixed (`SHADES`, `SPREAD_SHADES`), the same on every page.
        largest: For mm, which have no natural scale, the value of the darkest shade.

    Returns:
        0 to `DARKEST`; 0 where the value is not defined.
    """
    if math.isnan(value):
        return 0
    if metric.unit != "fraction":
        share = min(1.0, value / largest) if largest > 0 else 0.0
        return min(DARKEST, int(share * (DARKEST + 1)))
    more_is_better = STATISTICS[statistic].more_is_better(metric)
    steps = SHADES if more_is_better else SPREAD_SHADES
    badness = (1 - value) * 100 if more_is_better else value * 100
    # Compared with the one decimal that is shown, so that 90.0 and its shade never disagree.
    return sum(round(badness, 1) > step for step in steps)
