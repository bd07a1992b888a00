"""Where a method gained and lost most in a comparison, and how sure that is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from nnunet_dro.evaluation.comparing.comparison import Comparison, notable
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.requirement_sentences import (
    margin_sentences,
    requirement_sentences,
)
from nnunet_dro.evaluation.report.words import finding_of, say
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import (
    STATISTICS,
    counted_units,
    enough_cases,
    n_units,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import label_words
from nnunet_dro.pages.document import Note


@dataclass(frozen=True)
class MethodVerdict:
    """How one method did against the baseline."""

    method: str
    summary: str  # sentences on how many strata and labels gain, lose, or leave it open
    #: The largest gain, the largest loss, and the change in the baseline's worst stratum.
    findings: tuple[Note, ...]


@dataclass(frozen=True, eq=False)
class Change:
    """The difference of one statistic in one row of a comparison."""

    row: Record
    statistic: str
    metric: Metric

    @property
    def before(self) -> float:
        """The value of the baseline."""
        return float(self.row[f"{self.statistic}_baseline"])

    @property
    def difference(self) -> float:
        """The method's value minus the baseline's."""
        return float(self.row[f"{self.statistic}_difference"])

    @property
    def gain(self) -> float:
        """The difference, positive where the method is better."""
        return self.metric.sign * self.difference

    @property
    def bounds(self) -> tuple[float, float]:
        """The worst and the best gain in the interval; NaN where there is no such bound."""
        _, low, high = fmt.estimate(self.row, f"{self.statistic}_difference")
        if self.metric.more_is_better:
            return low, high
        return -high, -low

    @property
    def is_better(self) -> bool:
        """Whether the interval has gains only."""
        return self.bounds[0] > 0

    @property
    def is_worse(self) -> bool:
        """Whether the interval has losses only."""
        return self.bounds[1] < 0

    @property
    def has_interval(self) -> bool:
        """Whether the loss is bounded."""
        return not math.isnan(self.bounds[0])

    @property
    def is_open(self) -> bool:
        """Whether the interval leaves open what the difference shows."""
        return self.gain != 0 and not (self.is_better or self.is_worse)

    @property
    def may_be_chance(self) -> bool:
        """Whether neither the interval nor the test of the cases excludes chance."""
        return self.is_open and not float(self.row["holm_p"]) < 0.05

    @property
    def is_tail(self) -> bool:
        """Whether it is that of the bad cases."""
        return self.statistic == self.metric.tail

    @property
    def is_fall(self) -> bool:
        """Whether the tail is worse by five points or more, with or without an interval."""
        return self.is_tail and notable(-self.difference, self.metric.name)

    @property
    def is_in_stratum(self) -> bool:
        """Whether it is of a stratum among others, not of all cases together."""
        return bool(self.row["attribute"] != ALL)

    @property
    def tone(self) -> str:
        """``better`` or ``worse`` where that is clear, or a fall is large."""
        if self.is_worse or self.is_fall:
            return "worse"
        return "better" if self.is_better else ""


@dataclass(frozen=True)
class Summary:
    """How many differences of a method by one metric are gains and losses."""

    metric: Metric
    changes: Sequence[Change]
    #: The rows whose cases were tested, and those among them with a clear difference.
    tested: Sequence[Record] = ()

    @property
    def is_unchanged(self) -> bool:
        """Whether every difference is 0."""
        return all(change.gain == 0 for change in self.changes)

    @property
    def clear(self) -> list[Record]:
        """The rows in which the test of the cases excludes chance."""
        return [row for row in self.tested if float(row["holm_p"]) < 0.05]

    @property
    def n_gained(self) -> int:
        """In how many clear rows the cases gain."""
        return sum(_has_gained(row, self.metric) for row in self.clear)

    @property
    def n_against(self) -> int:
        """In how many clear rows the mean moves against the typical case."""
        return sum(
            float(row["mean_difference"]) * float(row["typical_difference"]) < 0
            for row in self.clear
        )

    @property
    def by_statistic(self) -> list[list[Change]]:
        """The changes of each statistic of which some have an interval, unless all are 0."""
        if self.is_unchanged:
            return []
        parts = []
        for name in dict.fromkeys(change.statistic for change in self.changes):
            own = [change for change in self.changes if change.statistic == name]
            if any(change.has_interval for change in own):
                parts.append(own)
        return parts


def method_verdicts(comparison: Comparison) -> list[MethodVerdict]:
    """A verdict per method, on the differences of the mean and the tail of every metric.

    The findings are those of the first metric, and the clear losses by the others. Differences of a
    tail that rests on too few cases are left out.
    """
    first, *others = fmt.metrics_of(comparison.table, comparison.scores)

    results = []
    for method in comparison.methods[1:]:
        rows = fmt.rows_by_metric(comparison.table[comparison.table["method"] == method])
        changes = _changes(rows[first.name], first)
        tested = [row for row in rows[first.name] if not math.isnan(float(row["holm_p"]))]
        summaries = [Summary(first, changes, tested)]
        findings = [_finding(change, verb) for change, verb in _extremes(changes).items()]

        for metric in others:
            changes = _changes(rows[metric.name], metric)
            summaries.append(Summary(metric, changes))
            loss = _clearest_loss(changes)
            if loss is not None:
                findings.append(_finding(loss, f"loses most by {metric.title}"))

        sentences = [say("summary", of=summaries[0])]
        sentences.append(
            say("intervals", of=chain(*(summary.by_statistic for summary in summaries)))
        )
        sentences += margin_sentences(rows, comparison)
        sentences += requirement_sentences(comparison, method)
        # Losses that are clear or large go before any gain.
        findings.sort(key=lambda finding: finding.tone != "worse")
        results.append(MethodVerdict(method, " ".join(filter(None, sentences)), tuple(findings)))
    return results


def _changes(rows: Sequence[Record], metric: Metric) -> list[Change]:
    """The defined differences of the mean, and of the tail where there are enough cases for it."""
    changes = []
    for row in rows:
        for statistic in ("mean", metric.tail):
            change = Change(row, statistic, metric)
            if enough_cases(statistic, n_units(row)) and not math.isnan(change.gain):
                changes.append(change)
    return changes


def _has_gained(row: Record, metric: Metric) -> bool:
    """Whether the cases of a row gain, by the typical difference; by their number where it is 0."""
    typical_gain = metric.sign * float(row["typical_difference"])
    if typical_gain == 0:
        return bool(row["wins"] > row["losses"])
    return typical_gain > 0


def _extremes(changes: Sequence[Change]) -> dict[Change, str]:
    """The largest gain and loss, the largest fall of the tail, and the baseline's worst stratum.

    Each with what is said of it.
    """
    # All cases together are no stratum among others, unless only they show a loss.
    in_strata = [change for change in changes if change.is_in_stratum] or changes
    if not in_strata:
        return {}

    # Differences that are no chance go first, then those that have an interval.
    with_interval = [change for change in in_strata if change.has_interval] or in_strata
    better = [change for change in in_strata if change.is_better] or with_interval
    highest = max(better, key=attrgetter("gain"))
    lowest = _clearest_loss(changes) or min(with_interval, key=attrgetter("gain"))
    verbs = {}
    # What is printed as 0.0 is neither gain nor loss.
    if highest.gain > 0 and fmt.is_shown(highest.gain, highest.metric):
        verbs[highest] = "gains most"
    if lowest.gain < 0 and fmt.is_shown(lowest.gain, lowest.metric):
        verbs[lowest] = "loses most"

    falls = [change for change in changes if change.is_fall]
    if falls:
        fallen = min(falls, key=attrgetter("gain"))
        verbs.setdefault(fallen, f"falls most in its {STATISTICS[fallen.statistic].phrase}")

    # Robust training is for the worst stratum: a gain elsewhere must not hide its change.
    if verbs:
        tails = [change for change in in_strata if change.is_tail] or in_strata
        weakest = min(tails, key=lambda change: change.metric.sign * change.before)
        verbs.setdefault(weakest, f"was the worst with {weakest.row['baseline']}")
    return verbs


def _clearest_loss(changes: Sequence[Change]) -> Change | None:
    """The largest loss that is no chance by its interval, in a stratum if it shows in any."""
    worse = [change for change in changes if change.is_worse]
    in_strata = [change for change in worse if change.is_in_stratum]
    return min(in_strata or worse, key=attrgetter("gain"), default=None)


def _finding(change: Change, verb: str) -> Note:
    """A change as a headline (where, and what happened there) and its numbers in sentences."""
    row = change.row
    attribute = str(row["attribute"])
    label = fmt.at_start(label_words(str(row["label"])))
    stratum = fmt.stratum_title(attribute, str(row["stratum"]))
    phrase = STATISTICS[change.statistic].phrase
    return finding_of(
        attribute,
        f"{label} in {stratum} {verb}",
        say("change", of=change),
        value=fmt.change(change.difference, change.metric),
        caption=f"{change.metric.title}, {phrase}, {counted_units(row)}",
        tone=change.tone,
    )
