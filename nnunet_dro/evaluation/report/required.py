"""The requirements of a comparison in one sentence: what gained, and what did not lose more than allowed."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnunet_dro.evaluation.judging.outcomes import Outcome
from nnunet_dro.evaluation.judging.verdicts import CANNOT_TELL, MET, NOT_MET
from nnunet_dro.evaluation.report.formatting import (
    difference,
    difference_unit,
    interval,
    metric_named,
    scaled,
    stratum_title,
)
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import GUARANTEED_DIFFERENCE, STATISTICS
from nnunet_dro.pages.wording import NO_VALUE

if TYPE_CHECKING:
    from nnunet_dro.evaluation.comparing.comparison import Comparison


def requirement_sentences(comparison: "Comparison", method: str) -> Iterator[str]:
    """Which requirements on the differences of one method are met, which are not, and of which one cannot tell.

    Args:
        comparison: The comparison.
        method: The method.

    Yields:
        Up to three sentences, such as "As required: rare +8.0 (surely from +3.0 to +13.0), common not worse by more
        than 5 points." Requirements on other numbers than differences are not in them.
    """
    of_row: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in comparison.outcomes:
        if outcome.method == method and "_difference" in outcome.statistic:
            key = (outcome.attribute, outcome.stratum, outcome.label, outcome.metric, _statistic(outcome))
            of_row.setdefault(key, []).append(outcome)
    words = [{outcome.verdict.word for outcome in outcomes} for outcomes in of_row.values()]
    rows = list(zip(words, of_row.values(), strict=True))
    if met := [outcomes for of_words, outcomes in rows if of_words == {MET}]:
        yield f"As required: {', '.join(_told(met, comparison))}."
    if unmet := [outcomes for of_words, outcomes in rows if NOT_MET in of_words]:
        yield f"Not as required: {', '.join(_named(outcomes[0], comparison) for outcomes in unmet)}."
    if unclear := [outcomes for of_words, outcomes in rows if CANNOT_TELL in of_words and NOT_MET not in of_words]:
        yield f"Cannot tell if as required: {', '.join(_named(outcomes[0], comparison) for outcomes in unclear)}."


def _told(rows: Sequence[Sequence[Outcome]], comparison: "Comparison") -> Iterator[str]:
    """Rows that have to gain with their numbers, then those that may lose something, by how much."""
    tolerated: dict[str, list[str]] = {}
    for outcomes in rows:
        strictest = max(outcomes, key=_least_gain)
        metric = metric_named(strictest.metric, comparison.scores)
        allowed = -_least_gain(strictest)
        if allowed <= 0:
            yield _named(strictest, comparison)
            continue
        amount = f"{scaled(allowed, metric):g}"
        unit = difference_unit(metric).removesuffix("s") if amount == "1" else difference_unit(metric)
        words = f"not worse by more than {amount} {unit}"
        tolerated.setdefault(words, []).append(_place(strictest, comparison))
    for words, places in tolerated.items():
        yield f"{' and '.join(filter(None, (', '.join(places[:-1]), places[-1])))} {words}"


def _least_gain(outcome: Outcome) -> float:
    """The least gain that a requirement asks for; negative where a loss is allowed."""
    sign = 1.0 if metric_named(outcome.metric).more_is_better else -1.0
    return sign * outcome.requirement.limit.value


def _statistic(outcome: Outcome) -> str:
    return outcome.statistic.partition("_difference")[0]


def _place(outcome: Outcome, comparison: "Comparison") -> str:
    """The stratum, with the label, metric and statistic where there are several."""
    table, statistic = comparison.table, _statistic(outcome)
    words = [] if statistic == "mean" else [STATISTICS[statistic].title]
    words += [metric_named(outcome.metric).title] if table["metric"].nunique() > 1 else []
    words += [outcome.label] if table["label"].nunique() > 1 else []
    stratum = stratum_title(outcome.attribute, outcome.stratum)
    return f"{' '.join(words)} in {stratum}" if words else stratum


def _named(outcome: Outcome, comparison: "Comparison") -> str:
    """The place with its difference and interval."""
    table, statistic = comparison.table, _statistic(outcome)
    metric = metric_named(outcome.metric, comparison.scores)
    inside = table["method"] == outcome.method
    for column in ("attribute", "stratum", "label", "metric"):
        inside &= table[column] == getattr(outcome, column)
    (row,) = table[inside].to_dict("records")
    value, low, high = (float(row[f"{statistic}_difference{end}"]) for end in ("", "_low", "_high"))
    ends = surely(row, metric) if statistic == "mean" else interval(low, high, metric, signed=True)
    return " ".join(filter(None, (_place(outcome, comparison), difference(value, metric), ends)))


def surely(row: Mapping[Hashable, Any], metric: Metric) -> str:
    """The bounds of a mean difference that verdicts rest on; nothing where there are none."""
    low, high = (difference(float(row[column]), metric) for column in GUARANTEED_DIFFERENCE)
    return "" if NO_VALUE in (low, high) else f"(surely from {low} to {high})"
