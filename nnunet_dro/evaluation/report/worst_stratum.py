"""The worst stratum of an attribute and label in words."""

from collections.abc import Mapping
from dataclasses import dataclass

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.statistic_columns import values_of_few
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.chance_gaps import ChanceGap
from nnunet_dro.evaluation.statistics.columns import (
    FEWEST_TO_READ,
    STATISTICS,
    counted_units,
    enough_cases,
    n_units,
    whole,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import name_some, share
from nnunet_dro.pages.document import Note


def finding_of(
    attribute: str,
    title: str,
    text: str,
    value: str,
    caption: str,
    *,
    tone: str,
) -> Note:
    """A finding in strata of an attribute, which needs no name where there is only one stratum."""
    where = ""
    if attribute != ALL:
        where = fmt.attribute_title(attribute)

    return Note(
        text,
        "finding",
        title,
        where=where,
        value=value,
        caption=caption,
        tone=tone,
    )


def share_in_words(metric: Metric, statistic: str, value: float) -> str:
    """The mean or a percentile in words.

    An example is ``one case in twenty scores below 61.2 % Dice``.
    """
    written = fmt.quantity(value, metric)
    if statistic == "mean":
        return f"the mean {metric.title} is {written}"

    subject = STATISTICS[statistic].share
    if statistic == "p5" and value <= 0:
        return f"{subject} scores {written} {metric.title}, the lowest possible value"
    if statistic == "p5" and value >= 1 and metric.is_bounded:
        return f"nineteen cases in twenty score {written} {metric.title} (the best possible value)"
    if statistic == "p75" and value <= 0 and not metric.more_is_better:
        return f"three cases in four have {metric.title} of {written} (the best possible value)"
    if statistic == "p75":
        return f"{subject} has {metric.title} above {written}"
    return f"{subject} scores below {written} {metric.title}"


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
    def attribute(self) -> str:
        """What divides the cases."""
        return str(self.worst["attribute"])

    @property
    def statistic(self) -> str:
        """The statistic that strata are compared by."""
        return str(self.worst["statistic"])

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
        sentences = [self._value_sentence()]
        if not self.is_level:
            sentences += self._why_the_mean()
        if not self.is_alone and not self.is_level:
            sentences.append(self._gap_sentence())

        tone = "worse"
        if self.is_chance or self.is_level:
            tone = ""
        return finding_of(
            self.attribute,
            self._title(),
            text=" ".join(sentences),
            value=fmt.quantity(float(self.worst["worst"]), self.metric),
            caption=self._caption(),
            tone=tone,
        )

    def _why_the_mean(self) -> list[str]:
        """Which strata have too few cases for the tail, in a sentence, if any has."""
        few = []
        for name, row in self.rows.items():
            if not enough_cases(self.metric.tail, n_units(row)):
                few.append(fmt.stratum_title(self.attribute, name))
        if not few:
            return []

        worst_share = STATISTICS[self.metric.tail].share.removeprefix("one ")
        if self.is_alone:
            return [f"The mean is given because so few cases cannot show the worst {worst_share}."]
        return [
            "The mean is compared because some strata have too few cases to show their worst "
            f"{worst_share}: {name_some(few)}."
        ]

    def _title(self) -> str:
        label = fmt.at_start(str(self.worst["label"]))
        stratum = fmt.stratum_title(self.attribute, str(self.worst["worst_stratum"]))
        if self.is_level:
            return f"{label} is the same in every stratum"
        if self.is_alone:
            return f"{label}, {stratum}"
        if self.is_chance:
            return f"{label} differs no more than by chance"
        if float(self.worst["gap"]) < 0:
            # The reference, with which it is compared, is worse.
            return f"{label} is worst of the others in {stratum}"
        return f"{label} is worst in {stratum}"

    def _caption(self) -> str:
        caption = f"{self.metric.title}, {STATISTICS[self.statistic].phrase}"
        if self.is_chance:
            caption += f", {fmt.stratum_title(self.attribute, str(self.worst['worst_stratum']))}"
        return caption

    def _value_sentence(self) -> str:
        """The value, with the few values that it rests on or its interval."""
        row = self.row
        words = share_in_words(self.metric, self.statistic, float(self.worst["worst"]))
        # Patients count once.
        if whole(row, "n_patients"):
            words = words.replace("case in", "patient in").replace("cases in", "patients in")
        text = words[0].upper() + words[1:]
        if self.is_level:
            return f"{text} in all {len(self.rows)} of them."

        _, low, high = fmt.estimate(row, self.statistic)
        ends = fmt.bounds(low, high, self.metric)
        values = values_of_few(row)
        if values:
            listed = ", ".join(fmt.number(value, self.metric) for value in values)
            text += f" ({listed})"
        elif ends.startswith("["):
            text += f" (95 % interval {ends})"
        elif ends:
            text += f" (95 % bound {ends})"

        only = "only " if n_units(row) < FEWEST_TO_READ else ""
        where = ""
        if self.is_chance:
            where = f" in {fmt.stratum_title(self.attribute, str(self.worst['worst_stratum']))}"
        return f"{text}{where}, among {only}{counted_units(row)} with a value."

    def _gap_sentence(self) -> str:
        """How far it lies from the best stratum, or from the reference, and how far by chance."""
        stratum = str(self.worst["best_stratum"])
        which = "reference" if stratum == self.reference else "best"
        title = fmt.stratum_title(self.attribute, stratum)
        value = fmt.quantity(float(self.worst["best"]), self.metric)
        gap = fmt.number(float(self.worst["gap"]), self.metric)
        unit = fmt.difference_unit(self.metric)
        text = f"The {which} stratum is {title} with {value}: a gap of {gap} {unit}"

        _, low, high = fmt.estimate(self.worst, "gap")
        interval = fmt.interval(low, high, self.metric, signed=True)
        if interval:
            text += f" ({interval} for two strata chosen beforehand)"
        else:
            text += " (without an interval)"
        return f"{text}.{self._chance_sentence()}"

    def _chance_sentence(self) -> str:
        """What strata by chance would show; nothing where it is not known."""
        if self.chance is None:
            return ""
        typical = fmt.number(self.chance.typical, self.metric)
        unit = fmt.difference_unit(self.metric)
        text = (
            " Where the cases are divided at random into strata of these sizes, the median gap is "
            f"{typical} {unit}"
        )
        if self.chance.is_unmatched:
            return f"{text}, and none of {self.chance.n_draws:,} such divisions has one as large."
        return f"{text}, and {share(self.chance.share)} of such divisions have one as large."
