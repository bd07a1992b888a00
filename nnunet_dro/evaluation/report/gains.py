"""Where a method gained and lost most in a comparison, and how sure that is, in sentences."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.findings import finding_of, share_in_words
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.requirement_sentences import (
    margin_sentences,
    requirement_sentences,
)
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
    """A verdict per method by the first metric, on the differences of its mean and its tail.

    Differences of a tail that rests on too few cases are left out.
    """
    table = comparison.table
    metric = fmt.metric_named(str(table["metric"].iloc[0]), comparison.scores)

    results = []
    for method in comparison.methods[1:]:
        inside = (table["method"] == method) & (table["metric"] == metric.name)
        rows = table[inside].to_dict("records")
        changes = list(_changes(rows, metric))
        sentences = [
            _summary(changes, rows, metric),
            *margin_sentences(rows, metric, comparison),
            *requirement_sentences(comparison, method),
        ]
        findings = tuple(_extremes(changes, metric))
        results.append(Verdict(method, " ".join(sentences), findings))
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

    return " ".join([*_test_sentences(rows, metric), *_interval_sentences(changes)])


def _test_sentences(rows: Sequence[Record], metric: Metric) -> Iterator[str]:
    """What the tests of the cases' differences say, if there are any."""
    tested = [row for row in rows if not math.isnan(float(row["holm_p"]))]
    if not tested:
        return

    clear = [row for row in tested if float(row["holm_p"]) < 0.05]
    n_gained = sum(_has_gained(row, metric) for row in clear)
    yield (
        f"Cases gain in {n_gained} of {len(tested)} strata × labels and lose in "
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


def _interval_sentences(changes: Sequence[_Change]) -> Iterator[str]:
    """How many differences of each statistic are clear by their intervals, if any has one."""
    parts = []
    for statistic in dict.fromkeys(change.statistic for change in changes):
        inside = [change for change in changes if change.statistic == statistic]
        if all(math.isnan(change.worst) for change in inside):
            continue

        phrase = STATISTICS[statistic].phrase
        n_better = sum(change.is_better for change in inside)
        n_worse = sum(change.is_worse for change in inside)
        parts.append(
            f"the {phrase} improves in {n_better} and worsens in {n_worse} of {len(inside)}"
        )

    if parts:
        yield f"By their 95 % intervals {', '.join(parts)}."


def _extremes(changes: Sequence[_Change], metric: Metric) -> Iterator[Note]:
    """The largest gain, the largest loss, and the change in the baseline's worst stratum."""
    # All cases together are no stratum among others.
    divided = [change for change in changes if change.row["attribute"] != ALL]
    changes = divided or changes
    if not changes:
        return

    # Differences that are no chance go first, then those that have an interval.
    with_interval = [change for change in changes if not math.isnan(change.worst)]
    better = [change for change in changes if change.is_better]
    worse = [change for change in changes if change.is_worse]
    most = max(
        better or with_interval or changes,
        key=lambda change: change.gain,
    )
    least = min(
        worse or with_interval or changes,
        key=lambda change: change.gain,
    )

    told = []
    if most.gain > 0:
        told.append(most)
        yield _finding(most, metric, "gains most")
    if least.gain < 0:
        told.append(least)
        yield _finding(least, metric, "loses most")

    # Robust training is for the worst stratum: a gain elsewhere must not hide its change.
    tails = [change for change in changes if change.statistic == metric.tail]
    weakest = min(tails or changes, key=lambda change: metric.sign * change.before)
    if told and weakest not in told:
        baseline = weakest.row["baseline"]
        yield _finding(weakest, metric, f"was the worst with {baseline}")


def _finding(change: _Change, metric: Metric, verb: str) -> Note:
    """A change as a headline (where, and what happened there) and its numbers in sentences."""
    row = change.row
    attribute = str(row["attribute"])
    label = fmt.at_start(str(row["label"]))
    stratum = fmt.stratum_title(attribute, str(row["stratum"]))
    phrase = STATISTICS[change.statistic].phrase
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
        tone=change.tone,
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

    if is_open and not is_significant:
        yield "This may be chance."
    elif not has_interval:
        yield f"So few cases give no interval of the {phrase}."
    elif is_open:
        yield f"The interval of the {phrase} includes 0."
