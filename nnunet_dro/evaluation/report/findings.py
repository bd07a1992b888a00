"""The findings of an evaluation in sentences, the worst strata first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.statistic_columns import MOST_LISTED
from nnunet_dro.evaluation.report.words import finding_of, say
from nnunet_dro.evaluation.scoring.failures import DECIMALS, DEFAULT_FAILURE, Failure
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric
from nnunet_dro.evaluation.statistics.chance_gaps import ChanceGap, chance_gaps, told_statistic
from nnunet_dro.evaluation.statistics.columns import (
    STATISTICS,
    enough_cases,
    n_units,
)
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.samples import samples_of
from nnunet_dro.evaluation.statistics.stratum_statistics import n_values, percentile_notes
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import label_words
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
        return [
            fmt.stratum_title(self.attribute, name)
            for name, row in self.rows.items()
            if not enough_cases(self.metric.tail, n_units(row))
        ]

    @property
    def is_alone(self) -> bool:
        """Whether there is no other stratum to compare it with."""
        return self.attribute == ALL or len(self.rows) == 1

    @property
    def is_level(self) -> bool:
        """Whether all strata have the same value.

        The reference may be no better than the worst of the others, and worse than another.
        """
        # The mean of 0.8 three times is a little more than 0.8.
        values = {round(float(row[self.statistic]), DECIMALS) for row in self.rows.values()}
        return len(self.rows) > 1 and len(values) == 1

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
        label = fmt.at_start(label_words(str(self.worst["label"])))
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


def findings(evaluation: Evaluation, metric_name: str | None = None) -> list[Note]:
    """The worst stratum of every attribute and label by a metric (None: the first), worst first.

    The statistic is the metric's tail (of Dice, the 5th percentile) where every stratum has enough
    cases for it, and else the mean. Gaps that strata by chance have, too, come last. Labels without
    any value have no finding.
    """
    metric = fmt.metric_named(metric_name or evaluation.metrics[0], evaluation.scores)
    strata = evaluation.strata[evaluation.strata["metric"] == metric.name]
    rows = _rows_with_values(strata)

    ranked = []
    gaps_by_chance = _gaps_by_chance(evaluation, METRICS[metric.name])
    groups = _worst_rows(evaluation.worst, metric).groupby(
        ["attribute", "label"], sort=False, observed=True
    )
    for (attribute, label), group in groups:
        strata_of_label = rows[str(attribute), str(label)]
        statistic = told_statistic(metric, map(n_units, strata_of_label.values()))
        (worst,) = fmt.records(group[group["statistic"] == statistic])
        worst_stratum = WorstStratum(
            worst,
            strata_of_label,
            metric,
            evaluation.options.reference_stratum,
            gaps_by_chance.get((str(attribute), str(label))),
            len(groups),
        )
        order = (worst_stratum.is_chance, metric.goodness(float(worst["worst"])))
        ranked.append((order, worst_stratum.finding()))

    ranked.sort(key=itemgetter(0))
    return [finding for _, finding in ranked]


def _worst_rows(worst: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """The worst strata by a metric; all cases together only where nothing divides them."""
    rows = worst[worst["metric"] == metric.name]
    is_divided = rows["attribute"] != ALL
    # All cases together are not the worst stratum of anything.
    return rows[is_divided] if is_divided.any() else rows


def _gaps_by_chance(evaluation: Evaluation, metric: Metric) -> Mapping[tuple[str, str], ChanceGap]:
    """What random strata would show by a metric; see `chance_gaps`."""
    options = evaluation.options
    samples = samples_of(
        evaluation.scores,
        evaluation.stratum_of_case,
        [metric.name],
        patient_of_case=evaluation.patient_of_case,
        patient_score=options.patient_score,
        failure=Failure.of(options.failure or DEFAULT_FAILURE),
    )
    return chance_gaps(samples, metric, reference=options.reference_stratum)


def _rows_with_values(strata: pd.DataFrame) -> dict[tuple[str, str], dict[str, Record]]:
    """Attribute and label to the strata with a value, by their names."""
    rows: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    for row in fmt.records(strata):
        if n_units(row):
            rows[str(row["attribute"]), str(row["label"])][str(row["stratum"])] = row
    return rows


def all_notes(notes: Sequence[str], strata: pd.DataFrame) -> list[str]:
    """The notes of the run, and those on percentiles that rest on too few cases.

    Strata whose values are listed need no such note: they show all that there is.
    """
    is_unlisted = (n_values(strata) > MOST_LISTED) | (strata.get("n_trainings", 0) > 0)
    return [*notes, *percentile_notes(strata[is_unlisted])]


def comparison_notes(comparison: Comparison) -> list[str]:
    """As `all_notes`, and what one training of each method cannot tell."""
    notes = all_notes(comparison.notes, comparison.strata)
    if comparison.trainings is None:
        notes.append(say("one_training"))
    return notes
