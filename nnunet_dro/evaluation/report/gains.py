"""What a comparison shows in sentences.

Where a method gained and lost most, and whether that is as required.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.judging.outcomes import Outcome
from nnunet_dro.evaluation.judging.verdicts import (
    BETTER,
    CANNOT_TELL,
    MET,
    NOT_MET,
    NOT_WORSE,
    WORSE,
)
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.findings import finding_of, share_in_words
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import (
    GUARANTEED_DIFFERENCE,
    STATISTICS,
    counted_units,
    enough_cases,
    n_units,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import NO_VALUE, count
from nnunet_dro.pages.document import Note

_MOST_NAMED = 6  # The most strata and labels that a sentence names.
_WHERE = " (report.html has all, under Requirements)"  # Where those are that sentences on requirements do not name.


@dataclass(frozen=True)
class Verdict:
    """How one method did against the baseline."""

    method: str
    summary: str  # sentences on how many strata and labels gain, lose, or leave it open
    findings: tuple[
        Note, ...
    ]  # the largest gain, the largest loss, and the change in the baseline's worst stratum


@dataclass(frozen=True, eq=False)
class _Change:
    """A difference of one statistic, as a gain: positive is better."""

    row: dict[Hashable, Any]
    statistic: str
    gain: float
    worst: float
    best: float

    @property
    def is_better(self) -> bool:
        return self.worst > 0

    @property
    def is_worse(self) -> bool:
        return self.best < 0


def verdicts(comparison: Comparison) -> list[Verdict]:
    """A verdict per method by the first metric, on its mean and, with enough cases, its tail."""
    table = comparison.table
    metric = fmt.metric_named(str(table["metric"].iloc[0]), comparison.scores)
    found = []
    for method in comparison.methods[1:]:
        rows = table[(table["method"] == method) & (table["metric"] == metric.name)].to_dict(
            "records"
        )
        changes = list(_changes(rows, metric))
        more = (
            *_margin_sentences(rows, metric, comparison),
            *requirement_sentences(comparison, method),
        )
        summary = " ".join((_summary(changes, rows, metric), *more))
        found.append(Verdict(method, summary, tuple(_extremes(changes, metric))))
    return found


def _margin_sentences(
    rows: Sequence[dict[Hashable, Any]], metric: Metric, comparison: Comparison
) -> Iterator[str]:
    """What the intervals of the means say about the margin, in a sentence, if there is one."""
    margin = comparison.options.margin
    if margin is None:
        return
    no_worse = f"not worse by more than {_amount(float(margin), metric)}"
    parts = []
    for verdict, words in (
        (BETTER, BETTER),
        (NOT_WORSE, no_worse),
        (WORSE, WORSE),
        (CANNOT_TELL, CANNOT_TELL),
    ):
        inside = [_named(row, metric) for row in rows if row["margin"] == verdict]
        if inside:
            parts.append(f"{words}: {_listed(inside)}")
    yield f"Mean {metric.title}, {'; '.join(parts)}."


def _amount(shown: float, metric: Metric) -> str:
    """A difference without its sign: ``1 point``, ``2.5 points``."""
    return f"{shown:g} {fmt.difference_unit(metric)}".removesuffix(
        "s" if f"{shown:g}" == "1" else ""
    )


def _listed(names: Sequence[str], where: str = "") -> str:
    """The first names, and how many others there are."""
    n_others = len(names) - _MOST_NAMED + 1
    return ", ".join(
        names if n_others < 2 else [*names[: _MOST_NAMED - 1], f"and {n_others} others{where}"]
    )


def _named(row: dict[Hashable, Any], metric: Metric) -> str:
    """A row with the bounds that its verdict rests on."""
    name = f"{row['label']} in {fmt.stratum_title(str(row['attribute']), str(row['stratum']))}"
    return " ".join(
        filter(
            None, (name, fmt.difference(float(row["mean_difference"]), metric), surely(row, metric))
        )
    )


def _changes(rows: Sequence[dict[Hashable, Any]], metric: Metric) -> Iterator[_Change]:
    for row in rows:
        for statistic in ("mean", metric.tail):
            value, low, high = fmt.estimate(row, f"{statistic}_difference")
            if math.isnan(value) or not enough_cases(statistic, n_units(row)):
                continue
            # Not sorted: one of the bounds may be missing.
            worst, best = (low, high) if metric.more_is_better else (-high, -low)
            yield _Change(row, statistic, metric.sign * value, worst, best)


def _summary(
    changes: Sequence[_Change], rows: Sequence[dict[Hashable, Any]], metric: Metric
) -> str:
    if not changes:
        return (
            "No difference is defined: no stratum has enough cases with a value for both methods."
        )
    if all(change.gain == 0 for change in changes):
        of = f"mean and {metric.tail.upper()} {metric.title}"
        return f"Nothing changed: all {count(len(changes), 'difference')} of {of} are 0."
    tested = [row for row in rows if not math.isnan(float(row["holm_p"]))]
    sentences = []
    if tested:
        clear = [row for row in tested if float(row["holm_p"]) < 0.05]
        # The typical case may be one that did not change.
        gained = [
            row
            for row in clear
            if (metric.sign * row["typical_difference"] or row["wins"] - row["losses"]) > 0
        ]
        sentences.append(
            f"Cases gain in {len(gained)} of {len(tested)} strata × labels and lose in {len(clear) - len(gained)} "
            "(Wilcoxon's paired test, p < 0.05 after Holm's correction)."
        )
        against = sum(
            float(row["mean_difference"]) * float(row["typical_difference"]) < 0 for row in clear
        )
        if against:
            sentences.append(
                f"In {against} of them the mean moves the other way: few cases change much."
            )
    parts = []
    for statistic in dict.fromkeys(change.statistic for change in changes):
        of_statistic = [change for change in changes if change.statistic == statistic]
        better, worse = (
            sum(getattr(change, which) for change in of_statistic)
            for which in ("is_better", "is_worse")
        )
        if any(not math.isnan(change.worst) for change in of_statistic):
            name = STATISTICS[statistic].phrase
            parts.append(
                f"the {name} improves in {better} and worsens in {worse} of {len(of_statistic)}"
            )
    if parts:
        sentences.append(f"By their 95 % intervals {', '.join(parts)}.")
    return " ".join(sentences)


def _extremes(changes: Sequence[_Change], metric: Metric) -> Iterator[Note]:
    # All cases together are no stratum among others.
    changes = [change for change in changes if change.row["attribute"] != ALL] or changes
    if not changes:
        return
    most, least = (_largest(changes, sign) for sign in (1, -1))
    told = []
    if most.gain > 0:
        told.append(most)
        yield _finding(most, metric, "gains most")
    if least.gain < 0:
        told.append(least)
        yield _finding(least, metric, "loses most")
    # Robust training is for the worst stratum: a gain elsewhere must not hide its change.
    tails = [change for change in changes if change.statistic == metric.tail] or list(changes)
    weakest = min(tails, key=lambda c: metric.sign * float(c.row[f"{c.statistic}_baseline"]))
    if told and weakest not in told:
        yield _finding(weakest, metric, f"was the worst with {weakest.row['baseline']}")


def _largest(changes: Sequence[_Change], sign: int) -> _Change:
    """The largest gain, or loss.

    Of those that are no chance, if any, or else of those that have an interval.
    """
    decided = [change for change in changes if (change.worst if sign > 0 else -change.best) > 0]
    known = [change for change in changes if not math.isnan(change.worst)]
    return max(decided or known or changes, key=lambda change: sign * change.gain)


def _finding(change: _Change, metric: Metric, verb: str) -> Note:
    row = change.row
    statistic = change.statistic
    attribute = str(row["attribute"])
    baseline = str(row["baseline"])
    method = str(row["method"])
    before, after = (float(row[f"{statistic}_{side}"]) for side in ("baseline", "method"))
    value = f"{fmt.difference(float(row[f'{statistic}_difference']), metric)} {fmt.difference_unit(metric)}"
    ends = [fmt.change_bounds(row, statistic, metric)]
    if statistic == "mean" and (typical := fmt.typical_change(row, metric)):
        ends.append(f"of the typical case {typical}")
    sentence = f"With {baseline}, {share_in_words(metric, statistic, before)}; with {method}, {fmt.quantity(after, metric)}"
    sentence += f": {value}"
    sentence += (
        f" (95 % interval of the difference {'; '.join(filter(None, ends))})." if ends[0] else "."
    )
    p = float(row["holm_p"])
    units = counted_units(row)
    sentence += f" Of {units} {row['wins']} gain, {row['ties']} stay equal and {row['losses']} lose"
    sentence += (
        "." if math.isnan(p) else f" ({'p < 0.001' if p < 0.001 else f'p = {fmt.p_value(p)}'})."
    )
    is_open = change.gain and not (change.is_better or change.is_worse)
    if is_open and not p < 0.05:
        sentence += " This may be chance."
    elif is_open and ends[0]:
        sentence += f" The interval of the {STATISTICS[statistic].phrase} includes 0."
    elif not ends[0]:
        sentence += f" So few cases give no interval of the {STATISTICS[statistic].phrase}."
    stratum = fmt.stratum_title(attribute, str(row["stratum"]))
    title = f"{fmt.at_start(str(row['label']))} in {stratum} {verb}"
    tone = "better" if change.is_better else "worse" if change.is_worse else ""
    caption = f"{metric.title}, {STATISTICS[statistic].phrase}, {units}"
    return finding_of(attribute, title, sentence, value, caption, tone=tone)


def requirement_sentences(comparison: Comparison, method: str) -> Iterator[str]:
    """Which requirements on the differences of a method are met, which are not, and of which one cannot tell.

    They are up to three sentences, such as "As required: rare +8.0 (surely from +3.0 to +13.0),
    common not worse by more than 5 points." Requirements on other numbers than differences are not
    in them.
    """
    of_row: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in comparison.outcomes:
        if outcome.method == method and "_difference" in outcome.statistic:
            key = (
                outcome.attribute,
                outcome.stratum,
                outcome.label,
                outcome.metric,
                _statistic(outcome),
            )
            of_row.setdefault(key, []).append(outcome)
    words = [{outcome.verdict.word for outcome in outcomes} for outcomes in of_row.values()]
    rows = list(zip(words, of_row.values(), strict=True))
    if met := [outcomes for of_words, outcomes in rows if of_words == {MET}]:
        yield f"As required: {_listed(list(_told(met, comparison)), _WHERE)}."
    if unmet := [
        _changed(outcomes[0], comparison) for of_words, outcomes in rows if NOT_MET in of_words
    ]:
        yield f"Not as required: {_listed(unmet, _WHERE)}."
    unclear = [
        outcomes
        for of_words, outcomes in rows
        if CANNOT_TELL in of_words and NOT_MET not in of_words
    ]
    if unclear:
        yield f"Cannot tell if as required: {_listed([_changed(one[0], comparison) for one in unclear], _WHERE)}."


def _told(rows: Sequence[Sequence[Outcome]], comparison: Comparison) -> Iterator[str]:
    """Rows that have to gain with their numbers, then those that may lose something, by how much."""
    tolerated: dict[str, list[str]] = {}
    for outcomes in rows:
        strictest = max(outcomes, key=_least_gain)
        metric = fmt.metric_named(strictest.metric, comparison.scores)
        allowed = -_least_gain(strictest)
        if allowed <= 0:
            yield _changed(strictest, comparison)
            continue
        words = f"not worse by more than {_amount(fmt.scaled(allowed, metric), metric)}"
        tolerated.setdefault(words, []).append(_place(strictest, comparison))
    for words, places in tolerated.items():
        if (n_others := len(places) - _MOST_NAMED + 1) > 1:
            places[_MOST_NAMED - 1 :] = [f"{n_others} others{_WHERE}"]
        yield f"{' and '.join(filter(None, (', '.join(places[:-1]), places[-1])))} {words}"


def _least_gain(outcome: Outcome) -> float:
    """The least gain that a requirement asks for; negative where a loss is allowed."""
    more_is_better = STATISTICS[_statistic(outcome)].more_is_better(
        fmt.metric_named(outcome.metric)
    )
    return (1 if more_is_better else -1) * outcome.requirement.bound.value


def _statistic(outcome: Outcome) -> str:
    return outcome.statistic.partition("_difference")[0]


def _place(outcome: Outcome, comparison: Comparison) -> str:
    """The stratum, with the label, metric and statistic where there are several."""
    table = comparison.table
    statistic = _statistic(outcome)
    words = [] if statistic == "mean" else [STATISTICS[statistic].title]
    words += [fmt.metric_named(outcome.metric).title] if table["metric"].nunique() > 1 else []
    words += [outcome.label] if table["label"].nunique() > 1 else []
    stratum = fmt.stratum_title(outcome.attribute, outcome.stratum)
    return f"{' '.join(words)} in {stratum}" if words else stratum


def _changed(outcome: Outcome, comparison: Comparison) -> str:
    """The place with its difference and interval."""
    table = comparison.table
    statistic = _statistic(outcome)
    metric = fmt.metric_named(outcome.metric, comparison.scores)
    inside = table["method"] == outcome.method
    for column in ("attribute", "stratum", "label", "metric"):
        inside &= table[column] == getattr(outcome, column)
    (row,) = table[inside].to_dict("records")
    value, low, high = fmt.estimate(row, f"{statistic}_difference")
    ends = (
        surely(row, metric) if statistic == "mean" else fmt.interval(low, high, metric, signed=True)
    )
    return " ".join(
        filter(None, (_place(outcome, comparison), fmt.difference(value, metric), ends))
    )


def surely(row: Mapping[Hashable, Any], metric: Metric) -> str:
    """The bounds of a mean difference that verdicts rest on; nothing where there are none."""
    low, high = (fmt.difference(float(row[column]), metric) for column in GUARANTEED_DIFFERENCE)
    return "" if NO_VALUE in (low, high) else f"(surely from {low} to {high})"
