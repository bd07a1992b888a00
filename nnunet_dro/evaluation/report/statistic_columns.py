"""The statistics in tables of strata: numbers with their intervals, marks and shades."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS, enough_cases, n_units, whole
from nnunet_dro.pages.document import Cell, Column

#: Shades of the strata table: 0 (none) to this.
DARKEST = 6

#: Where the shades 1 to `DARKEST` begin: per cent below the best possible value, and percentage
#: points of IQR.
SHADES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
SPREAD_SHADES = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0)

#: The marks of statistics that do not mean all that their name says, and what they say.
FEW = "†"
LEFT_OUT = "‡"
FOOTNOTES = {
    FEW: "Too few cases: it rests on extremes.",
    LEFT_OUT: "Without the cases whose label was missed or invented.",
}

#: Of so many values or fewer the values themselves are shown, and of the statistics only the first
#: two.
MOST_LISTED = 5
N_OF_FEW = 2


def statistic_columns(
    records: Sequence[Record], metric: Metric, statistics: Sequence[str], *, several: bool
) -> list[tuple[Column, Any]]:
    """The columns of the statistics.

    Of ``several`` methods, those are marked that are notably better than all others.
    """
    sizes = []
    for name in statistics:
        if name not in ("min", "max"):
            sizes += [abs(float(record[name])) for record in records]
    largest = max(filter(math.isfinite, sizes), default=0.0)

    # The methods whose numbers stand side by side are those of one stratum and label.
    rivals: dict[tuple[str, str], list[Record]] = defaultdict(list)
    if several:
        for record in records:
            rivals[record["stratum"], record["label"]].append(record)

    columns: list[tuple[Column, Any]] = []
    for place, name in enumerate(statistics):
        is_minor = name not in ("mean", metric.tail)
        column = Column(STATISTICS[name].title, spare="below", is_minor=is_minor)
        entries = _Entries(
            name,
            place,
            metric,
            largest,
            rivals,
        )
        columns.append((column, entries.cell))
    return columns


@dataclass(frozen=True)
class _Entries:
    """The entries of a column: one statistic of every row."""

    statistic: str
    place: int  # among the statistics of the table, from 0
    metric: Metric
    largest: float  # number of the table, which has the darkest shade where there is no natural end
    #: The rows of every method, by stratum and label; empty for a single method.
    rivals: Mapping[tuple[str, str], Sequence[Record]]

    def cell(self, record: Record) -> Cell:
        """The statistic with its interval, marks and shade."""
        is_listed = bool(values_of_few(record))
        if is_listed and self.place >= N_OF_FEW:
            return Cell(kind="shade0", strong=True)

        value, low, high = fmt.estimate(record, self.statistic)
        below = fmt.bounds(low, high, self.metric)
        if is_listed:
            below = ""

        marks = self._marks(record)
        shade = shade_of(
            value,
            self.metric,
            self.statistic,
            largest=self.largest,
        )
        kinds = [f"shade{shade}"]
        if FEW in marks:
            kinds.append("few")
        if self._is_best(record):
            kinds.append("best")

        return Cell(
            fmt.number(value, self.metric),
            tuple(filter(None, [below])),
            marks,
            kind=" ".join(kinds),
            strong=True,
        )

    def _marks(self, record: Record) -> dict[str, str]:
        n_values = n_units(record)
        n_left_out = whole(record, "n_left_out")

        marks = {}
        if n_values > 0 and not enough_cases(self.statistic, n_values):
            marks[FEW] = "too few cases for this statistic"
        if n_left_out:
            marks[LEFT_OUT] = (
                f"without {n_left_out} cases in which the label was missed or invented"
            )
        return marks

    def _is_best(self, record: Record) -> bool:
        """Whether a row is notably better than those of all other methods, if there are any."""
        rivals = self.rivals.get((record["stratum"], record["label"]), ())
        others = [rival for rival in rivals if rival is not record]
        value = float(record[self.statistic])

        for other in others:
            lead = value - float(other[self.statistic])
            if not notable(lead, self.metric.name, statistic=self.statistic):
                return False
        return bool(others)


def values_of_few(record: Record) -> list[float]:
    """The values of a row that rests on up to `MOST_LISTED` of one training, ascending.

    They follow from its statistics: of five values, these are the smallest and the largest, the
    quartiles and the median. Empty for more values, or several trainings.
    """
    n = n_units(record)
    if not 0 < n <= MOST_LISTED or whole(record, "n_trainings"):
        return []

    low, first, middle, third, high = (
        float(record[name]) for name in ("min", "p25", "median", "p75", "max")
    )
    if n == 1:
        return [middle]
    if n == 2:
        return [low, high]
    if n == 3:
        return [low, middle, high]
    if n == 4:
        # Of four, numpy's quartiles lie a quarter of the way from the second value to the first,
        # and from the third to the last.
        second = (4 * first - low) / 3
        last_but_one = (4 * third - high) / 3
        return [low, second, last_but_one, high]
    return [low, first, middle, third, high]


def shade_of(value: float, metric: Metric, statistic: str, *, largest: float = 0.0) -> int:
    """How dark the background of a number is, 0 to `DARKEST`: the worse the number, the darker.

    The shades of fractions are fixed (`SHADES`, `SPREAD_SHADES`), the same on every page. Distances
    and volumes have no natural scale: theirs end at the ``largest``.
    """
    if math.isnan(value):
        return 0

    if not metric.is_bounded:
        share = min(1.0, abs(value) / largest) if largest > 0 else 0.0
        return min(DARKEST, int(share * (DARKEST + 1)))

    if STATISTICS[statistic].more_is_better(metric):
        steps = SHADES
        badness = (1 - value) * 100
    else:
        steps = SPREAD_SHADES
        badness = value * 100
    # Compared with the one decimal that is shown, so that 90.0 and its shade never disagree.
    return sum(round(badness, 1) > step for step in steps)
