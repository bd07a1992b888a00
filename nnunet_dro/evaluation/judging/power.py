"""How likely a bound of a mean, or of a typical difference, is to meet a requirement.

What is expected are normal values with a mean and a standard deviation, as far as the limits of the
metric let them be. The chance is the share of `N_SAMPLES` samples in which the very bound that
verdicts rest on meets the requirement: it is known to within 4 percentage points. The samples are
the same each time.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.judging.bounds import parse_bound
from nnunet_dro.evaluation.judging.requirement_parts import refusal
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.judging.subjects import GUARANTEED
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.intervals import FEWEST, TAIL, guaranteed_means, not_inside
from nnunet_dro.evaluation.statistics.sample_bounds import mean_by_skewed_t, mean_by_students_t
from nnunet_dro.evaluation.statistics.significance import typical_value

N_SAMPLES = 400

#: More cases than this are not searched for.
MOST_CASES = 2000

#: The columns that are planned here.
_PLANNED = re.compile(rf"(mean|mean_difference|typical_difference)_(low|high)({GUARANTEED})?")


@dataclass(frozen=True)
class Expected:
    """What is expected of the cases: of their values, or of the differences of two methods."""

    mean: float
    spread: float  # the standard deviation


def is_of_measurements(requirement: Requirement) -> bool:
    """Whether a requirement is about a bound that is planned from `Expected`."""
    return _PLANNED.fullmatch(requirement.column) is not None


@lru_cache(maxsize=4096)
def chance_to_meet(requirement: Requirement, expected: Expected, n: int) -> float:
    """The chance that n cases of the expected kind meet the requirement."""
    # Samples of more cases begin with those of fewer, so that chances hardly ever fall with n.
    standard = np.random.default_rng(0).standard_normal((n, N_SAMPLES)).T
    samples = expected.mean + expected.spread * standard
    if is_bounded(requirement.metric or "dice"):
        samples = np.clip(samples, _lowest(requirement), 1.0)
    if not expected.spread:
        # All samples are alike.
        samples = samples[:1]
    return _share_that_meets(requirement, samples)


def chance_after_pilot(requirement: Requirement, pilot: FloatArray, n: int) -> float:
    """The chance that n cases of the kind of a pilot's meet the requirement.

    Args:
        requirement: That of a mean.
        pilot: The values of the pilot's cases, shape (n_pilot,); none of them is NaN.
        n: How many new cases there are.

    How often each value comes among all such cases is not known: for every sample of n the shares
    of the pilot's values are drawn anew from the flat Dirichlet distribution (Rubin 1981, The
    Bayesian bootstrap). What the pilot does not have, a rare failure, is in no sample either: after
    a pilot of fewer than `FEWEST` cases, the chance is NaN.
    """
    if len(pilot) < FEWEST:
        return np.nan
    if not n:
        return 0.0
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(len(pilot)), N_SAMPLES)
    samples = np.array([rng.choice(pilot, n, p=share) for share in shares])
    return _share_that_meets(requirement, samples)


def _lowest(requirement: Requirement) -> float:
    """The lowest value of a fraction, or of a difference of two."""
    return -1.0 if "_difference" in requirement.column else 0.0


def _share_that_meets(requirement: Requirement, samples: FloatArray) -> float:
    """The share of samples, shape (n_samples, n), whose bound meets the requirement."""
    n = samples.shape[1]
    if any(n < least for _, least in requirement.least):
        return 0.0
    bounds = _bounds(
        np.sort(samples, axis=1),
        requirement.column,
        _lowest(requirement),
        bounded=is_bounded(requirement.metric or "dice"),
    )
    lower, upper = bounds.T
    ends = lower if requirement.end == "low" else upper
    return float(np.mean([requirement.holds_for(end) for end in ends]))


def least_number(is_enough: Callable[[int], bool], *, most: int) -> int | None:
    """The least number of cases that is enough, as every larger one is; None above ``most``."""
    enough = 1
    while not is_enough(enough):
        if enough == most:
            return None
        enough = min(2 * enough, most)
    return bisect_left(range(enough), True, lo=enough // 2 + 1, key=is_enough)


def cases_for_chance(requirement: Requirement, expected: Expected, chance: float) -> int | None:
    """The least number of cases that meet a requirement with a chance; None above `MOST_CASES`."""
    if not requirement.holds_for(expected.mean):
        return None
    return least_number(
        lambda n: chance_to_meet(requirement, expected, n) >= chance,
        most=MOST_CASES,
    )


def expected_of(requirement: Requirement, mean: str | None, spread: str | None) -> Expected:
    """What is expected, from texts such as ``1.6pt``.

    Without a mean nothing changes. The spread can be left out where the bound is a guaranteed one:
    all cases are then alike.
    """
    metric = requirement.metric or "dice"
    is_guaranteed = requirement.column.endswith(GUARANTEED)
    if is_guaranteed and not is_bounded(metric):
        raise refusal(
            f"have a bound that exists for {metric} to be planned",
            requirement.text,
            "Ask for typical_difference_high<=1 or mean_difference_high_t<=1.",
        )
    if mean is None and "_difference" not in requirement.column:
        raise InputError(
            "expect",
            must="be given for a mean",
            got="none",
            cure="Write --expect 85%.",
        )
    if spread is None and not is_guaranteed:
        raise InputError(
            "spread",
            must=f"be given for {requirement.statistic}",
            got="none",
            cure=("Write the standard deviation of the differences of single cases, --spread 3pt."),
        )

    return Expected(
        mean=read_expected(mean or "0", "expect", metric),
        spread=read_expected(spread or "0", "spread", metric),
    )


def read_expected(text: str, name: str, metric: str) -> float:
    """A value of a metric that is expected, with its unit where that is a fraction: ``1.6pt``."""
    bound = parse_bound(text)
    if bound is None:
        raise InputError(
            name,
            must="be a number with its unit",
            got=repr(text),
            cure="Write 1.6pt, 85% or 2mm.",
        )
    if name == "spread" and bound.value < 0:
        raise InputError("spread", must="be 0 or more", got=repr(text), cure="Write 3pt.")

    bound.check(
        (metric, METRICS[metric].unit),
        partial(InputError, name, got=repr(text)),
        is_difference=True,
        end="low",
        is_bounded=is_bounded(metric),
    )
    return bound.value


def _bounds(ascending: FloatArray, column: str, low: float, *, bounded: bool) -> FloatArray:
    """The bounds of ascending samples, shape (n_samples, 2), as evaluate and compare have them."""
    n_samples, n = ascending.shape
    if column.startswith("typical"):
        return np.array([typical_value(sample)[1:] for sample in ascending])

    by_t = np.full((n_samples, 2), np.nan)
    if n >= FEWEST and low < 0:
        by_t = mean_by_students_t(ascending, tail=TAIL)
    elif n >= FEWEST:
        by_t = mean_by_skewed_t(ascending, tail=TAIL)
    if bounded:
        by_t = np.clip(by_t, low, 1.0)
    if not column.endswith(GUARANTEED):
        return by_t

    guaranteed = guaranteed_means(list(ascending), bounded=[bounded] * n_samples, low=low)
    return not_inside(guaranteed, by_t)
