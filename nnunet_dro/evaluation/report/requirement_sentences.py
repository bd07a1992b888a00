"""What the margin and the requirements of a comparison say of its differences, in sentences."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.judging.outcomes import Outcome
from nnunet_dro.evaluation.judging.subjects import BY_T
from nnunet_dro.evaluation.judging.verdicts import (
    BETTER,
    CANNOT_TELL,
    MET,
    NOT_MET,
    NOT_WORSE,
    WORSE,
)
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import (
    GUARANTEED_DIFFERENCE,
    STATISTICS,
    counted_units,
    n_units,
)
from nnunet_dro.evaluation.statistics.intervals import least_loss_excluded

#: The most strata and labels that a sentence names.
_MOST_NAMED = 6

#: What a margin is about, by the bounds that it is judged by.
_MARGIN_SUBJECTS = {
    "guaranteed": "Mean",
    "typical": "Typical difference of",
    "t": "By Student's t, mean",
}

#: What can be had where the guaranteed bound cannot tell.
_OTHER_BOUNDS = "--margin-bound typical or t assumes more, and new_failures_high asks for less"

#: What differences are of, in headings.
_TITLES = {name: statistic.title for name, statistic in STATISTICS.items()}
_TITLES["typical"] = "typical difference"

#: Where those are that sentences on requirements do not name.
_WHERE = " (report.html has all, under Requirements)"


def margin_sentences(
    rows: Sequence[Record], metric: Metric, comparison: Comparison
) -> Iterator[str]:
    """What the bounds say about the margin, and what can be had where they cannot tell.

    Nothing without a margin.
    """
    margin = comparison.options.margin
    if margin is None:
        return
    bound = comparison.options.margin_bound or "guaranteed"
    if bound == "guaranteed" and not metric.is_bounded:
        why = f"{metric.title} has no limit, and so its mean no guaranteed bound"
        yield f"{why} to judge the margin by: {_OTHER_BOUNDS}."
        return

    words_of_verdicts = {
        BETTER: BETTER,
        NOT_WORSE: f"not worse by more than {_amount(float(margin), metric)}",
        WORSE: WORSE,
        CANNOT_TELL: CANNOT_TELL,
    }
    parts = []
    for verdict, words in words_of_verdicts.items():
        names = [_with_bounds(row, metric, bound) for row in rows if row["margin"] == verdict]
        if names:
            parts.append(f"{words}: {_listed(names)}")

    yield f"{_MARGIN_SUBJECTS[bound]} {metric.title}, {'; '.join(parts)}."
    unclear = [row for row in rows if row["margin"] == CANNOT_TELL]
    if unclear and bound == "guaranteed":
        yield from _what_can_be_had(unclear, metric, float(margin))


def _what_can_be_had(rows: Sequence[Record], metric: Metric, margin: float) -> Iterator[str]:
    """What the guaranteed bound cannot tell of so many cases, however small the differences are."""
    largest = max(rows, key=n_units)
    n = n_units(largest)
    least = least_loss_excluded(n)
    if n and 100 * least > margin:
        shown = _amount(round(100 * least, 1), metric)
        yield (
            f"Even without any change the guaranteed bound excludes no loss below {shown} with "
            f"{counted_units(largest)}: {_OTHER_BOUNDS}."
        )


def requirement_sentences(comparison: Comparison, method: str) -> Iterator[str]:
    """Which requirements on the differences of a method are met, not met, or left open.

    They are up to three sentences, such as "As required: rare +8.0 (surely from +3.0 to +13.0),
    common not worse by more than 5 points." Requirements on other numbers than differences are not
    in them. Several requirements on one difference count as one: it is as required if all of them
    are met.
    """
    outcomes_of_differences: dict[tuple[str, ...], list[Outcome]] = defaultdict(list)
    for outcome in comparison.outcomes:
        is_on_difference = "_difference" in outcome.statistic and _statistic(outcome) in _TITLES
        if outcome.method == method and is_on_difference:
            difference = (
                outcome.attribute,
                outcome.stratum,
                outcome.label,
                outcome.metric,
                _statistic(outcome),
            )
            outcomes_of_differences[difference].append(outcome)

    met = []
    unmet = []
    unclear = []
    for outcomes in outcomes_of_differences.values():
        words = {outcome.verdict.word for outcome in outcomes}
        if words == {MET}:
            met.append(outcomes)
        elif NOT_MET in words:
            unmet.append(_with_change(outcomes[0], comparison))
        elif CANNOT_TELL in words:
            unclear.append(_with_change(outcomes[0], comparison))

    if met:
        yield f"As required: {_listed(list(_gains_and_losses(met, comparison)), _WHERE)}."
    if unmet:
        yield f"Not as required: {_listed(unmet, _WHERE)}."
    if unclear:
        yield f"Cannot tell if as required: {_listed(unclear, _WHERE)}."


def _gains_and_losses(
    differences: Sequence[Sequence[Outcome]], comparison: Comparison
) -> Iterator[str]:
    """Differences that are as required, by what was asked of them.

    Those that have to be a gain come first, with their numbers; then those that may be a loss, with
    how much may be lost.
    """
    places_of_losses: dict[str, list[str]] = defaultdict(list)
    for outcomes in differences:
        strictest = max(outcomes, key=_least_gain)
        largest_loss = -_least_gain(strictest)
        if largest_loss <= 0:
            yield _with_change(strictest, comparison)
            continue

        metric = fmt.metric_named(strictest.metric, comparison.scores)
        amount = _amount(fmt.scaled(largest_loss, metric), metric)
        words = f"not worse by more than {amount}"
        places_of_losses[words].append(_place(strictest, comparison))

    for words, places in places_of_losses.items():
        yield f"{_joined(places)} {words}"


def _least_gain(outcome: Outcome) -> float:
    """The least gain that a requirement asks for; negative where a loss is allowed."""
    metric = fmt.metric_named(outcome.metric)
    statistic = STATISTICS.get(_statistic(outcome), STATISTICS["mean"])
    bound = outcome.requirement.bound.value

    return bound if statistic.more_is_better(metric) else -bound


def _statistic(outcome: Outcome) -> str:
    return outcome.statistic.partition("_difference")[0]


def _place(outcome: Outcome, comparison: Comparison) -> str:
    """The stratum, with the label, metric and statistic where there are several."""
    table = comparison.table
    statistic = _statistic(outcome)

    words = []
    if statistic != "mean":
        words.append(_TITLES[statistic])
    if table["metric"].nunique() > 1:
        words.append(fmt.metric_named(outcome.metric).title)
    if table["label"].nunique() > 1:
        words.append(outcome.label)

    stratum = fmt.stratum_title(outcome.attribute, outcome.stratum)
    return f"{' '.join(words)} in {stratum}" if words else stratum


def _with_change(outcome: Outcome, comparison: Comparison) -> str:
    """The place of a difference with its number and bounds."""
    table = comparison.table
    inside = table["method"] == outcome.method
    for column in ("attribute", "stratum", "label", "metric"):
        inside &= table[column] == getattr(outcome, column)
    (row,) = table[inside].to_dict("records")

    statistic = _statistic(outcome)
    metric = fmt.metric_named(outcome.metric, comparison.scores)
    value, low, high = fmt.estimate(row, f"{statistic}_difference")

    place = _place(outcome, comparison)
    difference = fmt.difference(value, metric)
    if statistic == "mean" and not outcome.statistic.endswith(BY_T):
        ends = _sure_bounds(row, metric)
    else:
        ends = fmt.interval(low, high, metric, signed=True)
    return f"{place} {difference} {ends}".rstrip()


def _with_bounds(row: Record, metric: Metric, bound: str) -> str:
    """A row with its difference and the bounds that its verdict rests on."""
    label = row["label"]
    attribute = str(row["attribute"])
    stratum = fmt.stratum_title(attribute, str(row["stratum"]))
    statistic = "typical_difference" if bound == "typical" else "mean_difference"
    number, low, high = fmt.estimate(row, statistic)

    value = fmt.difference(number, metric)
    ends = fmt.interval(low, high, metric, signed=True)
    if bound == "guaranteed":
        ends = _sure_bounds(row, metric)

    return f"{label} in {stratum} {value} {ends}".rstrip()


def _sure_bounds(row: Record, metric: Metric) -> str:
    """The bounds of a mean difference that verdicts rest on; nothing where there are none."""
    low, high = (float(row[column]) for column in GUARANTEED_DIFFERENCE)
    if math.isnan(low) or math.isnan(high):
        return ""

    lower = fmt.difference(low, metric)
    upper = fmt.difference(high, metric)
    return f"(surely from {lower} to {upper})"


def _amount(shown: float, metric: Metric) -> str:
    """A difference without its sign: ``1 point``, ``2.5 points``."""
    number = f"{shown:g}"
    unit = fmt.difference_unit(metric)
    if number == "1":
        unit = unit.removesuffix("s")
    return f"{number} {unit}"


def _listed(names: Sequence[str], where: str = "") -> str:
    """The first names, and how many others there are."""
    n_others = len(names) - _MOST_NAMED + 1
    if n_others < 2:
        return ", ".join(names)

    first = ", ".join(names[: _MOST_NAMED - 1])
    return f"{first}, and {n_others} others{where}"


def _joined(places: Sequence[str]) -> str:
    """The first places and the number of the others, as one subject: ``A, B and C``."""
    n_others = len(places) - _MOST_NAMED + 1
    if n_others > 1:
        places = [*places[: _MOST_NAMED - 1], f"{n_others} others{_WHERE}"]

    *first, last = places
    if not first:
        return last

    others = ", ".join(first)
    return f"{others} and {last}"
