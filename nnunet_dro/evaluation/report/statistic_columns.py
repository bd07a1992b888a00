"""The statistics in tables of strata: numbers with their intervals, marks and shades."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS, enough_cases, n_units, whole
from nnunet_dro.naming import count
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
    FEW: "Too few values for this statistic: it rests on the best or worst ones.",
    LEFT_OUT: "Without missed or invented labels that have no value.",
}

#: Of so many values or fewer the values themselves are shown, and of the statistics only the first
#: two.
MOST_LISTED = 5
N_OF_FEW = 2

#: The entry of a statistic that is left out for them.
_SPARED = Cell(kind="shade0", strong=True)


@dataclass(frozen=True, eq=False)
class StatisticColumns:
    """The columns of the statistics of one attribute and metric, column by column."""

    records: Sequence[Record]
    metric: Metric
    statistics: Sequence[str]

    @cached_property
    def listed(self) -> list[list[float]]:
        """The values of each row that rests on few of them; see `values_of_few`."""
        return [values_of_few(record) for record in self.records]

    @cached_property
    def estimates(self) -> dict[str, list[tuple[float, float, float]]]:
        """Statistic to its value in every row, and the ends of its interval."""
        return {
            name: [fmt.estimate(record, name) for record in self.records]
            for name in self.statistics
        }

    @cached_property
    def n_bounds(self) -> set[int]:
        """How many bounds the statistics that are not listed have: 0, 1 or 2."""
        n_bounds = set()
        for estimates in self.estimates.values():
            for listed, (_, low, high) in zip(self.listed, estimates, strict=True):
                if not listed:
                    n_bounds.add(2 - math.isnan(low) - math.isnan(high))
        return n_bounds

    @cached_property
    def _largest(self) -> float:
        """The number that has the darkest shade, where there is no natural end."""
        sizes = []
        for name, estimates in self.estimates.items():
            if name not in ("min", "max"):
                sizes += [abs(value) for value, _, _ in estimates]
        return max(filter(math.isfinite, sizes), default=0.0)

    @cached_property
    def _rivals(self) -> Mapping[tuple[str, str], Sequence[Record]]:
        """The rows of every method, by stratum and label; empty for a single method."""
        rivals: dict[tuple[str, str], list[Record]] = defaultdict(list)
        if len({record.get("method") for record in self.records}) > 1:
            for record in self.records:
                rivals[record["stratum"], record["label"]].append(record)
        return rivals

    @cached_property
    def columns(self) -> list[tuple[Column, list[Cell]]]:
        """Each column with its cells; those are marked that are notably better than all others."""
        columns = []
        for place, name in enumerate(self.statistics):
            is_minor = name not in ("mean", self.metric.tail)
            column = Column(STATISTICS[name].title, spare="below", is_minor=is_minor)
            # Of few values the values themselves are shown.
            is_spared = place >= N_OF_FEW
            cells = []
            rows = zip(self.records, self.listed, self.estimates[name], strict=True)
            for record, listed, (value, low, high) in rows:
                if is_spared and listed:
                    cells.append(_SPARED)
                else:
                    bounds = "" if listed else fmt.bounds(low, high, self.metric)
                    cells.append(self._cell(name, record, value, bounds))
            columns.append((column, cells))
        return columns

    def _cell(self, statistic: str, record: Record, value: float, bounds: str) -> Cell:
        """The statistic with its interval, marks and shade."""
        marks = _marks(record, statistic)
        shade = shade_of(value, self.metric, statistic, largest=self._largest)
        kind = f"shade{shade}"
        if FEW in marks:
            kind += " few"
        if self._rivals and self._is_best(record, statistic):
            kind += " best"
        below = (bounds,) if bounds else ()
        return Cell(fmt.number(value, self.metric), below, marks, kind=kind, strong=True)

    def _is_best(self, record: Record, statistic: str) -> bool:
        """Whether a row is notably better than those of all other methods, if there are any."""
        rivals = self._rivals[record["stratum"], record["label"]]
        others = [rival for rival in rivals if rival is not record]
        value = float(record[statistic])

        for other in others:
            lead = value - float(other[statistic])
            if not notable(lead, self.metric.name, statistic=statistic):
                return False
        return bool(others)


def _marks(record: Record, statistic: str) -> dict[str, str]:
    """The marks of a statistic, and what they say here."""
    marks = {}
    n_values = n_units(record)
    if n_values > 0 and not enough_cases(statistic, n_values):
        marks[FEW] = "too few values for this statistic"
    n_left_out = whole(record, "n_left_out")
    if n_left_out:
        marks[LEFT_OUT] = (
            f"without {count(n_left_out, 'case')} in which the label was missed or invented"
        )
    return marks


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
    return bisect_left(steps, round(badness, 1))
