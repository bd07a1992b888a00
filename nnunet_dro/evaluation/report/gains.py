"""Where a method gained and lost most in a comparison, and how sure that is, in sentences."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nnunet_dro.evaluation.comparing.comparison import Comparison, notable
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.requirement_sentences import (
    margin_sentences,
    requirement_sentences,
)
from nnunet_dro.evaluation.report.worst_stratum import finding_of, share_in_words
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import (
    STATISTICS,
    counted_units,
    enough_cases,
    n_units,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Note


@dataclass(frozen=True)
class Verdict:
    """How one method did against the baseline."""

    method: str
    summary: str  # sentences on how many strata and labels gain, lose, or leave it open
    #: The largest gain, the largest loss, and the change in the baseline's worst stratum.
    findings: tuple[Note, ...]


@dataclass(frozen=True, eq=False)
class _Change:
    """A difference of one statistic, as a gain: positive is better."""

    row: Record
    statistic: str
    gain: float
    worst: float  # the bound of its interval on the side of a loss; NaN if there is none
    best: float  # the other bound

    @property
    def before(self) -> float:
        """The value of the baseline."""
        return float(self.row[f"{self.statistic}_baseline"])

    @property
    def after(self) -> float:
        """The value of the method."""
        return float(self.row[f"{self.statistic}_method"])

    @property
    def difference(self) -> float:
        """The method's value minus the baseline's."""
        return float(self.row[f"{self.statistic}_difference"])

    @property
    def is_better(self) -> bool:
        return self.worst > 0

    @property
    def is_worse(self) -> bool:
        return self.best < 0

    @property
    def tone(self) -> str:
        if self.is_better:
            return "better"
        return "worse" if self.is_worse else ""


def verdicts(comparison: Comparison) -> list[Verdict]:
    """A verdict per method, on the differences of the mean and the tail of every metric.

    The findings are those of the first metric, and the clear losses by the others. Differences of a
    tail that rests on too few cases are left out.
    """
    table = comparison.table
    names = [str(name) for name in table["metric"].unique()]
    metrics = [fmt.metric_named(name, comparison.scores) for name in names]

    results = []
    for method in comparison.methods[1:]:
        rows = {}
        changes = {}
        for metric in metrics:
            inside = (table["method"] == method) & (table["metric"] == metric.name)
            rows[metric.name] = table[inside].to_dict("records")
            changes[metric.name] = list(_changes(rows[metric.name], metric))

        first, *others = metrics
        sentences = [_summary(changes[first.name], rows[first.name], first)]
        findings = list(_extremes(changes[first.name], first))
        for metric in others:
            sentences += _interval_sentences(changes[metric.name], metric)
            findings += _clear_loss(changes[metric.name], metric)

        for metric in metrics:
            sentences += margin_sentences(rows[metric.name], metric, comparison)
        sentences += requirement_sentences(comparison, method)
        # Losses that are clear or large go before any gain.
        findings.sort(key=lambda finding: finding.tone != "worse")
        results.append(Verdict(method, " ".join(sentences), tuple(findings)))
    return results


def _changes(rows: Sequence[Record], metric: Metric) -> Iterator[_Change]:
    """The defined differences of the mean, and of the tail where there are enough cases for it."""
    for row in rows:
        for statistic in ("mean", metric.tail):
            value, low, high = fmt.estimate(row, f"{statistic}_difference")
            if math.isnan(value) or not enough_cases(statistic, n_units(row)):
                continue

            gain = metric.sign * value
            # Not sorted: one of the bounds may be missing.
            if metric.more_is_better:
                yield _Change(
                    row,
                    statistic,
                    gain,
                    worst=low,
                    best=high,
                )
            else:
                yield _Change(
                    row,
                    statistic,
                    gain,
                    worst=-high,
                    best=-low,
                )


def _summary(changes: Sequence[_Change], rows: Sequence[Record], metric: Metric) -> str:
    """In how many strata and labels a method gains and loses."""
    if not changes:
        return (
            "No difference is defined: no stratum has enough cases with a value for both methods."
        )
    if all(change.gain == 0 for change in changes):
        n_differences = count(len(changes), "difference")
        names = f"mean and {metric.tail.upper()} {metric.title}"
        return f"Nothing changed: all {n_differences} of {names} are 0."

    return " ".join([*_test_sentences(rows, metric), *_interval_sentences(changes, metric)])


def _test_sentences(rows: Sequence[Record], metric: Metric) -> Iterator[str]:
    """What the tests of the cases' differences say, if there are any."""
    tested = [row for row in rows if not math.isnan(float(row["holm_p"]))]
    if not tested:
        return

    clear = [row for row in tested if float(row["holm_p"]) < 0.05]
    n_gained = sum(_has_gained(row, metric) for row in clear)
    yield (
        f"By {metric.title}, cases gain in {n_gained} of {len(tested)} strata × labels and lose in "
        f"{len(clear) - n_gained} (Wilcoxon's paired test, p < 0.05 after Holm's correction)."
    )

    n_against = 0
    for row in clear:
        n_against += float(row["mean_difference"]) * float(row["typical_difference"]) < 0
    if n_against:
        yield f"In {n_against} of them the mean moves the other way: few cases change much."


def _has_gained(row: Record, metric: Metric) -> bool:
    """Whether the cases of a row gain, by the typical difference; by their number where it is 0."""
    typical_gain = metric.sign * float(row["typical_difference"])
    if typical_gain == 0:
        return bool(row["wins"] > row["losses"])
    return typical_gain > 0


def _interval_sentences(changes: Sequence[_Change], metric: Metric) -> Iterator[str]:
    """How many differences of each statistic are clear by their intervals, if any has one."""
    parts = []
    for statistic in dict.fromkeys(change.statistic for change in changes):
        inside = [change for change in changes if change.statistic == statistic]
        if all(math.isnan(change.worst) for change in inside):
            continue

        n_better = sum(change.is_better for change in inside)
        n_worse = sum(change.is_worse for change in inside)
        parts.append(
            f"the {_statistic_of(metric, statistic)} improves in {n_better} and worsens in "
            f"{n_worse} of {len(inside)}"
        )

    if parts:
        yield f"By their 95 % intervals {', '.join(parts)}."


def _statistic_of(metric: Metric, statistic: str) -> str:
    """``mean Dice``, ``5th percentile of Dice``."""
    phrase = STATISTICS[statistic].phrase
    if statistic == "mean":
        return f"{phrase} {metric.title}"
    return f"{phrase} of {metric.title}"


def _extremes(changes: Sequence[_Change], metric: Metric) -> Iterator[Note]:
    """The largest gain and loss, the largest fall of the tail, and the baseline's worst stratum."""
    # All cases together are no stratum among others, unless only they show a loss.
    chosen = [change for change in changes if change.row["attribute"] != ALL] or list(changes)
    if not chosen:
        return

    # Differences that are no chance go first, then those that have an interval.
    with_interval = [change for change in chosen if not math.isnan(change.worst)]
    better = [change for change in chosen if change.is_better]
    told = {}
    most = max(better or with_interval or chosen, key=_gain)
    if most.gain > 0:
        told[most] = "gains most"
    least = _clearest_loss(changes) or min(with_interval or chosen, key=_gain)
    # What is printed as 0.0 is no loss.
    if least.gain < 0 and round(fmt.scaled(least.gain, metric), 1):
        told[least] = "loses most"
    fallen = min(changes, key=_fall_of(metric))
    if _is_fall(fallen, metric):
        told.setdefault(fallen, f"falls most in its {STATISTICS[metric.tail].phrase}")

    for change, verb in told.items():
        yield _finding(change, metric, verb)

    # Robust training is for the worst stratum: a gain elsewhere must not hide its change.
    tails = [change for change in chosen if change.statistic == metric.tail]
    weakest = min(tails or chosen, key=lambda change: metric.sign * change.before)
    if told and weakest not in told:
        baseline = weakest.row["baseline"]
        yield _finding(weakest, metric, f"was the worst with {baseline}")


def _gain(change: _Change) -> float:
    return change.gain


def _fall_of(metric: Metric) -> Callable[[_Change], float]:
    """What orders changes by the fall of the tail; other statistics come last."""

    def gain_of_tail(change: _Change) -> float:
        return change.gain if change.statistic == metric.tail else math.inf

    return gain_of_tail


def _is_fall(change: _Change, metric: Metric) -> bool:
    """Whether the tail is worse by five percentage points or more, with or without an interval."""
    return change.statistic == metric.tail and notable(-metric.sign * change.gain, metric.name)


def _clearest_loss(changes: Sequence[_Change]) -> _Change | None:
    """The largest loss that is no chance by its interval, in a stratum if it shows in any."""
    worse = [change for change in changes if change.is_worse]
    in_strata = [change for change in worse if change.row["attribute"] != ALL]
    return min(in_strata or worse, key=_gain, default=None)


def _clear_loss(changes: Sequence[_Change], metric: Metric) -> Iterator[Note]:
    """The largest clear loss by a metric that is not the first, if there is any."""
    loss = _clearest_loss(changes)
    if loss is not None:
        yield _finding(loss, metric, f"loses most by {metric.title}")


def _finding(change: _Change, metric: Metric, verb: str) -> Note:
    """A change as a headline (where, and what happened there) and its numbers in sentences."""
    row = change.row
    attribute = str(row["attribute"])
    label = fmt.at_start(str(row["label"]))
    stratum = fmt.stratum_title(attribute, str(row["stratum"]))
    phrase = STATISTICS[change.statistic].phrase
    tone = change.tone
    if _is_fall(change, metric):
        tone = "worse"
    sentences = [
        _values_sentence(change, metric),
        _cases_sentence(row),
        *_doubts(change, metric),
    ]

    return finding_of(
        attribute,
        title=f"{label} in {stratum} {verb}",
        text=" ".join(sentences),
        value=_written_difference(change, metric),
        caption=f"{metric.title}, {phrase}, {counted_units(row)}",
        tone=tone,
    )


def _written_difference(change: _Change, metric: Metric) -> str:
    number = fmt.difference(change.difference, metric)
    return f"{number} {fmt.difference_unit(metric)}"


def _values_sentence(change: _Change, metric: Metric) -> str:
    """The value with either method, and the difference with its interval."""
    row = change.row
    before = share_in_words(metric, change.statistic, change.before)
    after = fmt.quantity(change.after, metric)
    difference = _written_difference(change, metric)
    text = f"With {row['baseline']}, {before}; with {row['method']}, {after}: {difference}"

    interval = fmt.change_bounds(row, change.statistic, metric)
    if not interval:
        return f"{text}."

    typical = fmt.typical_change(row, metric)
    if change.statistic == "mean" and typical:
        interval += f"; of the typical case {typical}"
    return f"{text} (95 % interval of the difference {interval})."


def _cases_sentence(row: Record) -> str:
    """How many cases gain and lose, and the p value of their test, if any."""
    text = (
        f"Of {counted_units(row)} {row['wins']} gain, {row['ties']} stay equal "
        f"and {row['losses']} lose"
    )
    p = float(row["holm_p"])
    if math.isnan(p):
        return f"{text}."
    if p < 0.001:
        return f"{text} (p < 0.001)."
    return f"{text} (p = {fmt.p_value(p)})."


def _doubts(change: _Change, metric: Metric) -> Iterator[str]:
    """What speaks against a change being more than chance, in a sentence, if anything does."""
    phrase = STATISTICS[change.statistic].phrase
    has_interval = bool(fmt.change_bounds(change.row, change.statistic, metric))
    is_open = change.gain != 0 and not (change.is_better or change.is_worse)
    is_significant = float(change.row["holm_p"]) < 0.05

    if not has_interval and _is_fall(change, metric):
        yield f"So few cases give no interval of the {phrase}."
    elif is_open and not is_significant:
        yield "This may be chance."
    elif not has_interval:
        yield f"So few cases give no interval of the {phrase}."
    elif is_open:
        yield f"The interval of the {phrase} includes 0."
