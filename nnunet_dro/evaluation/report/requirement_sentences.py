"""What the margin and the requirements of a comparison say of its differences."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.judging.outcomes import Outcome
from nnunet_dro.evaluation.judging.subjects import BY_T, GUARANTEED
from nnunet_dro.evaluation.judging.verdicts import (
    BETTER,
    CANNOT_TELL,
    MET,
    NOT_MET,
    NOT_WORSE,
    WORSE,
    of_other_trainings,
)
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import (
    GUARANTEED_DIFFERENCE,
    STATISTICS,
    n_units,
    unit_of,
)
from nnunet_dro.evaluation.statistics.intervals import least_loss_excluded

#: What differences are of, in headings.
_TITLES = {name: statistic.title for name, statistic in STATISTICS.items()}
_TITLES["typical"] = "typical difference"

#: What ends the name of a bound, or of the lowest or the highest difference of two trainings.
_END = re.compile("_(low|high)(?:est)?(?:_guaranteed)?$")

#: What tells the row of a difference from others.
_PLACE = ("method", "attribute", "stratum", "label", "metric")


@dataclass(frozen=True, eq=False)
class Judged:
    """A difference with the bounds that it is judged by."""

    row: Record
    metric: Metric
    statistic: str  # of `STATISTICS`, or ``typical``
    is_guaranteed: bool  # whether the bounds assume only the limits of the metric
    place: str  # the stratum, and what else tells the difference from others

    @property
    def value(self) -> float:
        """The method's value minus the baseline's."""
        return float(self.row[f"{self.statistic}_difference"])

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds; NaN where there is none."""
        if not self.is_guaranteed:
            _, low, high = fmt.estimate(self.row, f"{self.statistic}_difference")
            return low, high
        low, high = (float(self.row.get(column, math.nan)) for column in GUARANTEED_DIFFERENCE)
        return low, high

    @property
    def is_sure(self) -> bool:
        """Whether these bounds assume nothing else, as those for other trainings do."""
        are_bounds = not any(map(math.isnan, self.ends))
        return self.is_guaranteed and are_bounds and not of_other_trainings(self.row)


@dataclass(frozen=True, eq=False)
class Margin:
    """How the differences of a method by one metric are judged by the margin."""

    margin: float  # as it is shown
    bound: str  # of `MARGIN_BOUNDS`
    metric: Metric
    rows: Sequence[Record]
    n_absent: int  # cases that are not in every evaluation, for which nothing counts as kept

    @property
    def leaves_out(self) -> bool:
        """Whether some row leaves out failures without a value, and so cannot be kept."""
        return any(row["n_left_out"] for row in self.rows)

    @property
    def has_no_bound(self) -> bool:
        """Whether the metric has no such bound, or several trainings have none."""
        if self.bound == "typical":
            return self.are_repeated
        return self.bound == "guaranteed" and not self.metric.is_bounded

    @property
    def are_repeated(self) -> bool:
        """Whether a method has several trainings, and so no typical difference."""
        return "n_trainings_method" in self.rows[0]

    @property
    def largest(self) -> Record | None:
        """The row with the most cases of those of which the bound cannot tell."""
        unclear = [row for row in self.rows if row["margin"] == CANNOT_TELL]
        return max(unclear, key=n_units, default=None)

    @property
    def least_loss(self) -> float:
        """The least loss that so many cases exclude without any change, in points."""
        n = n_units(self.largest) if self.largest else 0
        return round(100 * least_loss_excluded(n), 1) if n else 0.0

    @property
    def is_out_of_reach(self) -> bool:
        """Whether that is more than the margin."""
        return self.bound == "guaranteed" and self.least_loss > self.margin

    @property
    def needs_other_bound(self) -> bool:
        """Whether nothing can be told by the guaranteed bound, and others may tell more."""
        return not self.n_absent and (self.has_no_bound or self.is_out_of_reach)

    def named(self) -> Iterator[tuple[str, list[str]]]:
        """Every verdict that there is, with the differences that have it."""
        names: dict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            names[row["margin"]].append(say("judged", of=self._judged(row)))

        for verdict in (BETTER, NOT_WORSE, WORSE, CANNOT_TELL):
            if verdict in names:
                yield verdict, names[verdict]

    def _judged(self, row: Record) -> Judged:
        statistic = "typical" if self.bound == "typical" else "mean"
        stratum = fmt.stratum_title(str(row["attribute"]), str(row["stratum"]))
        return Judged(
            row,
            self.metric,
            statistic,
            is_guaranteed=self.bound == "guaranteed",
            place=f"{row['label']} in {stratum}",
        )


def margin_sentences(
    rows_by_metric: Mapping[str, Sequence[Record]], comparison: Comparison
) -> list[str]:
    """What the bounds say about the margin, and what can be had where they cannot tell.

    Nothing without a margin.
    """
    options = comparison.options
    if options.margin is None:
        return []

    margins = []
    for name, rows in rows_by_metric.items():
        metric = fmt.metric_named(name, comparison.scores)
        bound = options.margin_bound or "guaranteed"
        n_absent = comparison.about.get("n_absent", 0)
        margins.append(Margin(float(options.margin), bound, metric, rows, n_absent))
    return [*(say("margin", of=margin) for margin in margins), say("other_bounds", margins=margins)]


def requirement_sentences(comparison: Comparison, method: str) -> list[str]:
    """Which requirements on the differences of a method are met, not met, or left open.

    They are up to three sentences, such as "As required: rare +8.0 (surely from +3.0 to +13.0),
    common not worse by more than 5 points." Where a requirement is on a difference as it is, and on
    no bound of it, no more is said than that it is so "in these cases". Requirements on other
    numbers than differences are not in them. Several requirements on one difference, or on its
    bounds, count as one: it is as required if all of them are met.
    """
    phrases: dict[str, list[str]] = {MET: [], NOT_MET: [], CANNOT_TELL: []}
    places_of_losses: dict[str, list[str]] = defaultdict(list)

    for outcomes in _by_difference(comparison, method):
        words = {outcome.verdict.word for outcome in outcomes}
        word = next(word for word in (NOT_MET, CANNOT_TELL, MET) if word in words)
        decisive = [outcome for outcome in outcomes if outcome.verdict.word == word]
        strictest = max(decisive, key=_least_gain)
        judged = _judged(strictest, comparison)
        largest_loss = -_least_gain(strictest)
        if word == MET and largest_loss > 0 and _limits_loss(strictest):
            amount = fmt.amount(fmt.scaled(largest_loss, judged.metric), judged.metric)
            if _is_estimate(strictest):
                amount += f" in these {unit_of(judged.row)}s"
            places_of_losses[amount].append(judged.place)
        else:
            phrases[word].append(say("judged", of=judged))

    # Gains have their numbers, and what may be a loss how much may be lost.
    for amount, places in places_of_losses.items():
        phrases[MET].append(say("not_worse", places=places, amount=amount))
    return [say("required", verdict=word, names=names) for word, names in phrases.items() if names]


def _by_difference(comparison: Comparison, method: str) -> list[list[Outcome]]:
    """The outcomes of a method's requirements, those on one difference, or its bounds, together."""
    outcomes_of_differences: dict[tuple[object, ...], list[Outcome]] = defaultdict(list)
    for outcome in comparison.outcomes:
        statistic = _statistic(outcome)
        is_on_difference = "_difference" in outcome.requirement.statistic and statistic in _TITLES
        if outcome.method == method and is_on_difference:
            difference = (*attrgetter(*_PLACE)(outcome), statistic, _is_estimate(outcome))
            outcomes_of_differences[difference].append(outcome)
    return list(outcomes_of_differences.values())


def _least_gain(outcome: Outcome) -> float:
    """The least gain that a requirement asks for; negative where a loss is allowed."""
    bound = outcome.requirement.bound.value
    return bound if _more_is_better(outcome) else -bound


def _more_is_better(outcome: Outcome) -> bool:
    statistic = STATISTICS.get(_statistic(outcome), STATISTICS["mean"])
    return statistic.more_is_better(fmt.metric_named(outcome.metric))


def _is_estimate(outcome: Outcome) -> bool:
    """Whether a requirement is on a difference as it is in these cases, and on no bound of it."""
    return not outcome.requirement.column.endswith(("_low", "_high", GUARANTEED))


def _limits_loss(outcome: Outcome) -> bool:
    """Whether a requirement says how much is lost at most.

    One on the better end of an interval does not, nor one that asks for a loss.
    """
    worse_end = "low" if _more_is_better(outcome) else "high"
    requirement = outcome.requirement
    end = _END.search(requirement.column)
    return requirement.end == worse_end and (end is None or end[1] == worse_end)


def _statistic(outcome: Outcome) -> str:
    return outcome.requirement.statistic.partition("_difference")[0]


def _judged(outcome: Outcome, comparison: Comparison) -> Judged:
    """The difference that an outcome is about.

    Its place has the label, metric and statistic where there are several.
    """
    table = comparison.table
    statistic = _statistic(outcome)
    metric = fmt.metric_named(outcome.metric, comparison.scores)

    words = []
    if statistic != "mean":
        words.append(_TITLES[statistic])
    if table["metric"].nunique() > 1:
        words.append(metric.title)
    if table["label"].nunique() > 1:
        words.append(outcome.label)
    place = fmt.stratum_title(outcome.attribute, outcome.stratum)
    if words:
        place = f"{' '.join(words)} in {place}"

    inside = table["method"] == outcome.method
    for column in _PLACE:
        inside &= table[column] == getattr(outcome, column)
    (row,) = table[inside].to_dict("records")
    is_guaranteed = statistic == "mean" and not outcome.requirement.statistic.endswith(BY_T)
    return Judged(row, metric, statistic, is_guaranteed, place)
