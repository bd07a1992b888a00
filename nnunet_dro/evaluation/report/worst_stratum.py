"""The worst stratum of an attribute and label, as a finding."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.statistic_columns import values_of_few
from nnunet_dro.evaluation.report.words import finding_of, say
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.chance_gaps import ChanceGap
from nnunet_dro.evaluation.statistics.columns import (
    FEWEST_TO_READ,
    STATISTICS,
    enough_cases,
    n_units,
    unit_of,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Note


@dataclass(frozen=True, eq=False)
class WorstStratum:
    """The worst stratum of an attribute and label."""

    worst: Record  # its row of the table of worst strata
    rows: Mapping[str, Record]  # the rows of all strata with a value, by their names
    metric: Metric
    reference: str | None  # the stratum that it is compared with; None for the best one
    chance: ChanceGap | None  # what strata by chance would show; None without several strata
    n_findings: int  # how many worst strata are told

    @property
    def row(self) -> Record:
        """Its row of the table of strata."""
        return self.rows[str(self.worst["worst_stratum"])]

    @property
    def unit(self) -> str:
        """What counts: ``case``, or ``patient``."""
        return unit_of(self.row)

    @property
    def attribute(self) -> str:
        """What divides the cases."""
        return str(self.worst["attribute"])

    @property
    def statistic(self) -> str:
        """The statistic that strata are compared by."""
        return str(self.worst["statistic"])

    @property
    def value(self) -> float:
        """The statistic of this stratum."""
        return float(self.worst["worst"])

    @property
    def values(self) -> list[float]:
        """The values of its cases, where these are few."""
        return values_of_few(self.row)

    @property
    def has_interval(self) -> bool:
        """Whether the statistic has both bounds."""
        _, low, high = fmt.estimate(self.row, self.statistic)
        return not (math.isnan(low) or math.isnan(high))

    @property
    def stratum(self) -> str:
        """Its name as a heading."""
        return fmt.stratum_title(self.attribute, str(self.worst["worst_stratum"]))

    @property
    def best_stratum(self) -> str:
        """The name of the stratum that it is compared with."""
        return fmt.stratum_title(self.attribute, str(self.worst["best_stratum"]))

    @property
    def too_few(self) -> list[str]:
        """The strata that have too few cases for the tail."""
        names = []
        for name, row in self.rows.items():
            if not enough_cases(self.metric.tail, n_units(row)):
                names.append(fmt.stratum_title(self.attribute, name))
        return names

    @property
    def are_few(self) -> bool:
        """Whether its cases are few, whatever the statistic."""
        return n_units(self.row) < FEWEST_TO_READ

    @property
    def is_alone(self) -> bool:
        """Whether there is no other stratum to compare it with."""
        return self.attribute == ALL or len(self.rows) == 1

    @property
    def is_level(self) -> bool:
        """Whether all strata have the same value."""
        return len(self.rows) > 1 and float(self.worst["gap"]) == 0

    @property
    def is_chance(self) -> bool:
        """Whether strata by chance have such a gap, too."""
        return self.chance is not None and self.chance.is_chance(n_tests=self.n_findings)

    def finding(self) -> Note:
        """What is told of it."""
        caption = f"{self.metric.title}, {STATISTICS[self.statistic].phrase}"
        if self.is_chance:
            caption += f", {self.stratum}"
        tone = "worse"
        if self.is_chance or self.is_level:
            tone = ""

        return finding_of(
            self.attribute,
            self._title(),
            say("worst_stratum", of=self),
            value=fmt.quantity(self.value, self.metric),
            caption=caption,
            tone=tone,
        )

    def _title(self) -> str:
        label = fmt.at_start(str(self.worst["label"]))
        if self.is_level:
            return f"{label} is the same in every stratum"
        if self.is_alone:
            return f"{label}, {self.stratum}"
        if self.is_chance:
            return f"{label} differs no more than by chance"
        if float(self.worst["gap"]) < 0:
            # The reference, with which it is compared, is worse.
            return f"{label} is worst of the others in {self.stratum}"
        return f"{label} is worst in {self.stratum}"
