"""Whether statistics meet requirements, and differences a margin: yes, no, or one cannot tell.

What a margin is judged by are the bounds that assume only the limits of the score, at every number
of cases: Student's t knows nothing of a failure that the sample does not show, and would call a
method not worse that fails in one case of thirty.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.judging.planning import cases_needed
from nnunet_dro.evaluation.judging.requirements import COMPARISON_COUNTS, STRATA_COUNTS, Requirement
from nnunet_dro.evaluation.scoring.failures import COMPARE, IN_WORDS, KINDS
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import (
    GUARANTEED_DIFFERENCE,
    PERCENTILES,
    STATISTICS,
    enough_cases,
    n_defined,
    whole,
)
from nnunet_dro.naming import count

MET = "met"
NOT_MET = "not met"
CANNOT_TELL = "cannot tell"

#: The statistics that are numbers of things; the others are fractions, p values or mm.
NUMBERS = frozenset((*STRATA_COUNTS, *COMPARISON_COUNTS))

#: Those that say how many cases there are, and not what is wrong or right with them.
_OF_CASES = ("n", "n_patients", "n_undefined")

#: A statistic of a stratum, in a comparison of one method or of the difference; not a bound of it.
_ESTIMATE = re.compile(rf"({'|'.join(STATISTICS)})(_baseline|_method|_difference)?")


@dataclass(frozen=True)
class Verdict:
    """What a row says of a requirement."""

    value: float  # what was compared with the bound; NaN where there is none
    word: str  # ``met``, ``not met`` or ``cannot tell``
    reasons: tuple[str, ...] = ()  # what else it rests on, in parts of a sentence


def verdict_of(
    row: "pd.Series[Any]", requirement: Requirement, *, in_pixels: bool = False
) -> Verdict:
    """The verdict of a row.

    It is ``not met`` if the value misses the bound, or if the number that it bounds does, if
    failures are left out that are not allowed, or if there are fewer cases than were asked for.
    Otherwise ``cannot tell`` if there is no bound with so few cases, no case lies beyond a
    percentile, failures are counted where no case has a value, or references have no prediction (or
    a comparison leaves out cases or failures), unless the requirement says how many cases are
    enough, or if distances in pixels are compared with mm; and ``met`` in all other cases.
    """
    # Of a mean, the bounds that assume only the limits of the score.
    guaranteed = f"{requirement.column}_guaranteed"
    column = guaranteed if guaranteed in row.index else requirement.column
    value = float(n_defined(row) if column == "n" else row[column])
    sides = list(_sides(row, requirement))
    misses = [text for kept, text in sides if not kept] + list(_misses(row, requirement))
    doubts = list(_doubts(row, requirement, value))
    if in_pixels and (unit := requirement.bound.unit) in ("mm", "ml"):
        what = "distances" if unit == "mm" else "volumes"
        doubts.append(
            f"no voxel size is known, so that {what} are in pixels: write the bound without {unit}"
        )
    told = tuple(text for _, text in sides)
    if value == value and column == guaranteed:
        title = METRICS[str(row["metric"])].title
        told = (f"the bound assumes only that {title} lies between 0 and 1", *told)
    if misses or not (requirement.holds_for(value) or (value != value and doubts)):
        return Verdict(value, NOT_MET, (*told, *(text for text in misses if text not in told)))
    return Verdict(value, CANNOT_TELL if doubts else MET, (*told, *doubts))


def unit_of(metric: str, *, in_pixels: bool = False) -> str:
    """The unit of a metric; ``fraction`` of one that is not in `METRICS`."""
    return METRICS[metric].measured(pixels=in_pixels).unit if metric in METRICS else "fraction"


def is_share(statistic: str) -> bool:
    """Whether a statistic is a fraction whatever the metric.

    A p value, or the share of failures.
    """
    return statistic == "failure_high" or statistic.endswith("_p")


def _counted(row: "pd.Series[Any]") -> tuple[str, str, int]:
    """What the statistics are of: the column, the noun, and how many."""
    if "n_patients" in row.index:
        return "n_patients", "patients", whole(row, "n_patients")
    return "n", "cases", n_defined(row)


def _sides(row: "pd.Series[Any]", requirement: Requirement) -> Iterator[tuple[bool, str]]:
    """What is named beside the condition: whether it holds, in words."""
    limits = [(f"n_{kind}", "<=", most) for kind, most in requirement.allowed]
    for name, comparison, limit in (
        *limits,
        *((name, ">=", least) for name, least in requirement.least),
    ):
        n = n_defined(row) if name == "n" else whole(row, name)
        is_kept = COMPARE[comparison](n, limit)
        yield is_kept, f"{name} {n} {'is' if is_kept else 'is not'} {comparison} {limit}"


def _misses(row: "pd.Series[Any]", requirement: Requirement) -> Iterator[str]:
    """Why the requirement is not met although the value may meet the bound."""
    if not whole(row, "n"):
        yield "none of its cases in the case table was evaluated"
    estimate = re.sub("_(low|high)$", "", requirement.statistic)
    if estimate != requirement.column and estimate in row.index:
        value = float(row[estimate])
        if value == value and not requirement.holds_for(value):
            yield f"{estimate} itself is {value:.6g}"
    if (
        requirement.statistic in NUMBERS
        or is_share(requirement.statistic)
        or not whole(row, "n_left_out")
    ):
        return
    metric = METRICS.get(str(row["metric"]))
    allowed = dict(requirement.allowed)
    for kind in metric.undefined_if if metric else KINDS[:0]:
        if (n_failed := whole(row, f"n_{kind}")) and kind not in allowed:
            distance = (
                ", or give them a distance with --empty diagonal"
                if unit_of(str(row["metric"])) == "mm"
                else ""
            )
            cure = f"allow that with n_{kind}<={n_failed}{distance}"
            yield f"it leaves out {count(n_failed, 'case')} in which the label was {IN_WORDS[kind]} ({cure})"


def _doubts(row: "pd.Series[Any]", requirement: Requirement, value: float) -> Iterator[str]:
    """Why it cannot be told whether the requirement is met although the value may meet the bound."""
    column, noun, n = _counted(row)
    if value != value and n:
        yield _no_value(row, requirement)
    if column in dict(requirement.least):
        return
    cure = f"if {n} {'is' if n == 1 else 'are'} enough, add {column}>={n}"
    estimate = (
        _ESTIMATE.fullmatch(requirement.statistic) if requirement.confidence is None else None
    )
    if estimate and n and value == value and not enough_cases(estimate[1], n):
        beyond = "p25 and p75" if estimate[1] == "iqr" else estimate[1]
        yield f"of fewer than {STATISTICS[estimate[1]].n_needed} {noun} none lies beyond {beyond}; {cure}"
    counts_anything = requirement.statistic in NUMBERS and requirement.statistic not in _OF_CASES
    if whole(row, "n") and not n and not value and counts_anything:
        yield f"no {noun[:-1]} has a value; {cure}"
    counted = requirement.statistic in NUMBERS or is_share(requirement.statistic)
    if "baseline" in row.index and not counted and (n_lost := whole(row, "n_left_out")):
        yield f"it leaves out {count(n_lost, 'case')} in which the label was missed or invented; {cure}"
    if (n_absent := whole(row, "n_absent")) and requirement.statistic not in ("n", "n_patients"):
        more = f"reference{' has' if n_absent == 1 else 's have'} no prediction"
        if "baseline" in row.index:
            more = f"case{' is' if n_absent == 1 else 's are'} not in every evaluation"
        yield f"{n_absent} more {more}; {cure}"


def _no_value(row: "pd.Series[Any]", requirement: Requirement) -> str:
    """Why there is nothing to compare in spite of some cases with a value."""
    if requirement.statistic in NUMBERS or requirement.statistic == "failure_high":
        return "it is not known of this metric"
    if requirement.statistic.endswith("_p"):
        return "there is no p value where a method has several trainings"
    if requirement.confidence is not None and requirement.statistic in PERCENTILES:
        return f"there is a bound from {cases_needed(replace(requirement, least=()))} {_counted(row)[1]} on"
    metric = METRICS.get(str(row["metric"]))
    if metric and not metric.is_bounded and requirement.column.startswith("mean_"):
        cure = "p75_difference<=1@97.5" if "_difference" in requirement.column else "p75<=4@95"
        why = f"{metric.noun}s have no limit, so that no bound of their mean is sure"
        return f"{why}: ask for a percentile, {cure}"
    return f"there is none with so few {_counted(row)[1]}"


BETTER = "better"
NOT_WORSE = "not worse"
WORSE = "worse"


def margin_verdicts(table: pd.DataFrame, margin: float) -> list[str]:
    """What the bounds of the mean difference for verdicts say in each row of a comparison.

    `BETTER` if all between them is an improvement, `NOT_WORSE` if no more than the margin is lost
    at the worse one, `WORSE` if all is a loss, and otherwise `CANNOT_TELL`: also of distances,
    which have no limits and no such bounds.
    """
    low, high = (table[column] for column in GUARANTEED_DIFFERENCE)
    allowed = np.where(
        [METRICS[name].unit == "fraction" for name in table["metric"]], margin / 100, margin
    )
    more_is_better = [METRICS[name].more_is_better for name in table["metric"]]
    least = np.where(more_is_better, low, -high)
    most = np.where(more_is_better, high, -low)
    judged = np.select(
        [least > 0, least >= -allowed, most < 0], [BETTER, NOT_WORSE, WORSE], CANNOT_TELL
    )
    return [str(verdict) for verdict in judged]
