"""Whether statistics meet requirements, and differences a margin: yes, no, or one cannot tell.

What a margin is judged by, unless the user says otherwise, are the bounds that assume only the
limits of the score, at every number of cases: Student's t knows nothing of a failure that the
sample does not show, and would call a method not worse that fails in one case of thirty.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.judging.bounds import parse_bound
from nnunet_dro.evaluation.judging.planning import cases_needed
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.judging.subjects import (
    BY_T,
    COMPARISON_COUNTS,
    GUARANTEED,
    STRATA_COUNTS,
    column_of,
)
from nnunet_dro.evaluation.judging.words import say
from nnunet_dro.evaluation.scoring.failures import COMPARE, DECIMALS
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import (
    FAILURE_BOUNDS,
    MARGIN_BOUNDS,
    N_FOR_SPREAD,
    PERCENTILES,
    STATISTICS,
    TYPICAL,
    enough_cases,
    n_defined,
    whole,
)

MET = "met"
NOT_MET = "not met"
CANNOT_TELL = "cannot tell"

#: The statistics that are numbers of things; the others are fractions, p values or mm.
NUMBERS = frozenset((*STRATA_COUNTS, *COMPARISON_COUNTS))

#: Those that say how many cases there are, and not what is wrong or right with them.
_SIZES = ("n", "n_patients", "n_undefined")

#: What the units measure that need the size of a voxel.
_MEASURED = {"mm": "distances", "ml": "volumes"}

#: A statistic of a stratum, in a comparison of one method or of the difference; not a bound of it.
_ESTIMATE = re.compile(rf"({'|'.join(STATISTICS)})(_baseline|_method|_difference)?")


@dataclass(frozen=True)
class CountedUnits:
    """What the statistics of a row are of."""

    column: str  # ``n``, or ``n_patients``
    noun: str
    n: int

    @classmethod
    def of(cls, row: "pd.Series[Any]") -> "CountedUnits":
        """The patients of a row, where these count once, or else the cases with a value."""
        if "n_patients" in row.index:
            return cls("n_patients", "patient", whole(row, "n_patients"))
        return cls("n", "case", n_defined(row))


@dataclass(frozen=True)
class Reason:
    """What a verdict rests on beside the condition itself."""

    kind: str  # the macro of words.jinja that says it
    values: Mapping[str, Any]  # what it is about

    def __str__(self) -> str:
        return say(self.kind, **self.values)


def _reason(kind: str, /, **values: Any) -> Reason:
    return Reason(kind, values)


@dataclass(frozen=True)
class Verdict:
    """What a row says of a requirement."""

    value: float  # what was compared with the bound; NaN where there is none
    word: str  # ``met``, ``not met`` or ``cannot tell``
    reasons: tuple[Reason, ...] = ()  # what else it rests on


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
    column = requirement.column
    value = float(n_defined(row) if column == "n" else row[column])

    reasons: list[Reason] = []
    if not math.isnan(value):
        reasons += _assumptions(requirement, row)
    sides = list(_sides(row, requirement))
    reasons += sides

    misses = list(_misses(row, requirement, in_pixels=in_pixels))
    doubts = list(_doubts(row, requirement, value))
    unit = requirement.bound.unit
    if in_pixels and unit in _MEASURED:
        doubts.append(_reason("pixels", unit=unit, measured=_MEASURED[unit]))

    keeps_sides = all(side.values["is_kept"] for side in sides)
    may_hold = requirement.holds_for(value) or bool(math.isnan(value) and doubts)
    if misses or not keeps_sides or not may_hold:
        return Verdict(value, NOT_MET, (*reasons, *misses))
    if doubts:
        return Verdict(value, CANNOT_TELL, (*reasons, *doubts))
    return Verdict(value, MET, tuple(reasons))


def _assumptions(requirement: Requirement, row: "pd.Series[Any]") -> Iterator[Reason]:
    """What the bound of a requirement rests on; nothing for percentiles, shares and estimates."""
    metric = str(row["metric"])
    if requirement.column.endswith(GUARANTEED):
        title = METRICS[metric].title if metric in METRICS else metric
        yield _reason("limits", title=title, others=of_other_trainings(row))
    elif requirement.statistic.endswith(BY_T):
        yield _reason("students_t")
    elif requirement.column in TYPICAL[1:]:
        yield _reason("symmetry")


def of_other_trainings(row: Any) -> str:
    """What a bound of a mean difference, guaranteed for other cases, says of other trainings.

    ``students_t``, or ``nothing`` with too few; empty where each method has one training.
    """
    numbers = [whole(row, f"n_trainings_{which}") for which in ("baseline", "method")]
    if max(numbers) < 2:
        return ""
    return "students_t" if min(numbers) >= N_FOR_SPREAD else "nothing"


def shown_value(
    value: float, requirement: Requirement, metric: str, *, in_pixels: bool = False
) -> str:
    """A value in the unit of the bound, in as few digits as say rightly whether it meets it.

    Rounded, 0.6999 would seem to be >= 0.70. Nothing is shown of NaN.
    """
    if math.isnan(value):
        return ""
    if requirement.statistic in NUMBERS:
        return str(int(value))

    bound = requirement.bound
    unit = unit_of_metric(metric, in_pixels=in_pixels)
    ending = f" {unit}"
    if unit == "fraction" or is_share(requirement.statistic):
        ending = bound.unit

    holds = requirement.holds_for(value)
    scaled = value * bound.scale
    fewest_digits = 1 if bound.scale > 1 else 3
    for n_digits in range(fewest_digits, 18):
        number = f"{scaled:.{n_digits}f}"
        shown = parse_bound(number + bound.unit)
        if shown and requirement.holds_for(shown.value) == holds:
            return number + ending

    return repr(scaled) + ending


def unit_of_metric(metric: str, *, in_pixels: bool = False) -> str:
    """The unit of a metric; ``fraction`` of one that is not in `METRICS`."""
    if metric not in METRICS:
        return "fraction"
    return METRICS[metric].measured(pixels=in_pixels).unit


def is_share(statistic: str) -> bool:
    """Whether a statistic is a fraction whatever the metric: a p value or a share of cases."""
    return statistic in ("failure_high", *FAILURE_BOUNDS) or statistic.endswith("_p")


def _sides(row: "pd.Series[Any]", requirement: Requirement) -> Iterator[Reason]:
    """What is named beside the condition, and whether it holds."""
    limits = [(f"n_{kind}", "<=", most) for kind, most in requirement.allowed]
    limits += [(column, ">=", least) for column, least in requirement.least]

    for column, comparison, limit in limits:
        n = n_defined(row) if column == "n" else whole(row, column)
        yield _reason(
            "side",
            column=column,
            n=n,
            comparison=comparison,
            limit=limit,
            is_kept=bool(COMPARE[comparison](n, limit)),
        )


def _misses(
    row: "pd.Series[Any]", requirement: Requirement, *, in_pixels: bool
) -> Iterator[Reason]:
    """Why the requirement is not met although the value may meet the bound."""
    if not whole(row, "n"):
        yield _reason("not_evaluated")

    estimate = re.sub("_(low|high)(_guaranteed)?$", "", column_of(requirement.statistic))
    # What the bound of a share bounds is no column: new_failures is a number of cases.
    is_bound = estimate != requirement.column and not is_share(requirement.statistic)
    if is_bound and estimate in row.index:
        value = float(row[estimate])
        if not math.isnan(value) and not requirement.holds_for(value):
            shown = shown_value(value, requirement, str(row["metric"]), in_pixels=in_pixels)
            yield _reason("estimate", name=estimate, shown=shown)

    is_of_values = requirement.statistic not in NUMBERS and not is_share(requirement.statistic)
    metric = METRICS.get(str(row["metric"]))
    if metric is None or not is_of_values or not whole(row, "n_left_out"):
        return

    allowed = dict(requirement.allowed)
    for kind in metric.undefined_if:
        n_failed = whole(row, f"n_{kind}")
        if n_failed and kind not in allowed:
            yield _reason("failures", kind=kind, n=n_failed, unit=metric.unit)


def _doubts(row: "pd.Series[Any]", requirement: Requirement, value: float) -> Iterator[Reason]:
    """Why one cannot tell whether the requirement is met although the value may meet the bound."""
    units = CountedUnits.of(row)
    statistic = requirement.statistic
    has_value = not math.isnan(value)
    if not has_value and units.n:
        yield _no_value(row, requirement)
    if units.column in dict(requirement.least):
        return

    if has_value and units.n:
        yield from _doubts_about_tail(requirement, units)

    is_number = statistic in NUMBERS
    is_of_failures = is_number and statistic not in _SIZES
    if whole(row, "n") and not units.n and not value and is_of_failures:
        yield _reason("valueless", units=units)

    is_comparison = "baseline" in row.index
    n_left_out = whole(row, "n_left_out")
    if is_comparison and n_left_out and not is_number and not is_share(statistic):
        yield _reason("left_out", units=units, n=n_left_out)

    n_absent = whole(row, "n_absent")
    if n_absent and statistic not in ("n", "n_patients"):
        yield _reason("absent", units=units, n=n_absent, is_comparison=is_comparison)


def _doubts_about_tail(requirement: Requirement, units: CountedUnits) -> Iterator[Reason]:
    """That no case lies beyond a percentile that is taken as it is, without confidence."""
    estimate = _ESTIMATE.fullmatch(requirement.statistic)
    if estimate is None or requirement.confidence is not None:
        return
    statistic = estimate[1]
    if not enough_cases(statistic, units.n):
        beyond = "p25 and p75" if statistic == "iqr" else statistic
        n_needed = STATISTICS[statistic].n_needed
        yield _reason("tail", units=units, n_needed=n_needed, beyond=beyond)


def _no_value(row: "pd.Series[Any]", requirement: Requirement) -> Reason:
    """Why there is nothing to compare in spite of some cases with a value."""
    statistic = requirement.statistic
    is_repeated = bool(of_other_trainings(row))
    if is_repeated and not statistic.startswith(tuple(STATISTICS)):
        return _reason("repeated")
    if statistic in NUMBERS or is_share(statistic):
        return _reason("unknown")

    noun = CountedUnits.of(row).noun
    if requirement.confidence is not None and statistic in PERCENTILES:
        n_needed = cases_needed(replace(requirement, least=()))
        return _reason("bound_from", n=n_needed, noun=noun)

    metric = METRICS.get(str(row["metric"]))
    if metric and not metric.is_bounded and requirement.column.startswith("mean_"):
        is_difference = "_difference" in requirement.column
        return _reason(
            "unlimited",
            noun=metric.noun,
            is_difference=is_difference,
            is_repeated=is_repeated,
        )
    return _reason("too_few", noun=noun)


BETTER = "better"
NOT_WORSE = "not worse"
WORSE = "worse"


def margin_verdicts(
    table: pd.DataFrame, margin: float, *, bound: str | None = None, n_absent: int = 0
) -> list[str]:
    """What the bounds of a difference, of `MARGIN_BOUNDS`, say in each row of a comparison.

    `BETTER` if all between them is an improvement, `NOT_WORSE` if no more than the margin is lost
    at the worse one, `WORSE` if all is a loss, and otherwise `CANNOT_TELL`: also of distances,
    which have no limits, by the guaranteed bounds of the mean difference (where ``bound`` is None),
    and, as of requirements, where the first two would leave out cases: ``n_absent`` that are not in
    every evaluation, or failures without a value (``n_left_out``).
    """
    low, high = (table[column] for column in MARGIN_BOUNDS[bound or "guaranteed"])
    metrics = [METRICS[name] for name in table["metric"]]
    is_fraction = [metric.unit == "fraction" for metric in metrics]
    more_is_better = [metric.more_is_better for metric in metrics]

    # The margin of fractions is in percentage points.
    allowed_loss = np.where(is_fraction, margin / 100, margin)
    # The least and the largest gain, in the direction in which the metric is better.
    least = np.where(more_is_better, low, -high).round(DECIMALS)
    most = np.where(more_is_better, high, -low).round(DECIMALS)
    is_complete = (table["n_left_out"] == 0) & (n_absent == 0)
    verdicts = np.select(
        [is_complete & (least > 0), is_complete & (least >= -allowed_loss), most < 0],
        [BETTER, NOT_WORSE, WORSE],
        CANNOT_TELL,
    )
    return [str(verdict) for verdict in verdicts]
