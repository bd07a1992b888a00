"""What the value of a requirement is, in words: its estimand."""

import re

from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.judging.subjects import COMPARISON_COUNTS, GUARANTEED, column_of
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS

#: What comes before ``_difference``, ``_low`` or ``_high`` beside `STATISTICS`.
_OTHERS = {
    "typical": "typical value",
    "failure": "share of failures",
    "new_failures": "share of cases that fail only with the method",
}

#: A statistic of strata or of a comparison, and which end of its interval.
_STATISTIC = re.compile(
    rf"({'|'.join((*STATISTICS, *_OTHERS))})"
    r"(_difference|_baseline|_method)?(_low|_high|_lowest|_highest)?"
)

#: The parts of the name of a statistic in words.
_OF_PARTS = {
    "_difference": "difference in the {} (method minus baseline)",
    "_baseline": "{} of the baseline",
    "_method": "{} of the method",
    "_low": "lower bound of the {}",
    "_high": "upper bound of the {}",
    "_lowest": "lowest {} of any training",
    "_highest": "highest {} of any training",
}


def estimand_of(requirement: Requirement, metric: str, *, over: str) -> str:
    """What a requirement compares with its bound, of a metric over ``cases`` or ``patients``.

    An example is ``lower 95 % bound of the 5th percentile of Dice over cases``.
    """
    words = _in_words(column_of(requirement.statistic).removesuffix(GUARANTEED))
    if requirement.confidence is not None:
        side = "lower" if requirement.end == "low" else "upper"
        words = f"{side} {requirement.confidence:.15g} % bound of the {words}"

    title = metric
    if metric in METRICS:
        title = METRICS[metric].title
    return f"{words} of {title} over {over}"


def _in_words(statistic: str) -> str:
    """A statistic in words; the name of its column for those that are no `STATISTICS`."""
    match = _STATISTIC.fullmatch(statistic)
    if match is None:
        return statistic

    name, *parts = match.groups()
    if name in STATISTICS:
        words = STATISTICS[name].phrase
    elif statistic in COMPARISON_COUNTS:
        return statistic
    else:
        words = _OTHERS[name]
    for part in filter(None, parts):
        words = _OF_PARTS[part].format(words)
    return words
