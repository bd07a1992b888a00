"""Cases that failed.

They did by what the user calls a failure, or because a label was missed altogether or invented.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.arrays import BoolArray, FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.naming import name_some

#: The comparisons that conditions are written with.
COMPARE: dict[str, Callable[[Any, Any], Any]] = {">=": ge, "<=": le, ">": gt, "<": lt}

#: Values and bounds are compared to so many decimals: what is beyond comes from rounding.
DECIMALS = 12

_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?"
_CONDITION = re.compile(rf"\s*(\w+)\s*(>=|<=|>|<)\s*({_NUMBER})\s*", re.ASCII)

#: The kinds of failures.
KINDS = ("missed", "invented")

#: What each kind says of the label, in words.
IN_WORDS = {"missed": "missed", "invented": "predicted where the reference lacks it"}

#: What fails unless the user says otherwise: less than half of what is marked is right.
DEFAULT_FAILURE = "dice<0.5"


def meets(values: npt.ArrayLike, comparison: str, bound: float) -> BoolArray:
    """Which values meet a bound; NaN does not.

    Values that are equal but for rounding are equal: the mean of 0.6, 0.8 and 1 is 0.8.
    """
    rounded = np.round(np.asarray(values, dtype=np.float64), DECIMALS)
    return np.asarray(COMPARE[comparison](rounded, round(bound, DECIMALS)))


def size_columns(metric: str) -> tuple[str, str]:
    """The columns that say how much of a label reference and prediction have.

    They count voxels, or the lesions that are counted where the metric is on lesions.
    """
    if metric in METRICS and METRICS[metric].on_lesions:
        return ("lesions_reference", "lesions_predicted")
    return ("n_reference", "n_prediction")


def failed_rows(scores: pd.DataFrame, metric: str = "dice") -> dict[str, BoolArray]:
    """Where a label was missed or invented, a bool per row.

    ``left_out`` is where it has no value for that reason. False where a count is not known; empty
    where the scores have no counts.
    """
    in_reference, in_prediction = size_columns(metric)
    if in_reference not in scores or in_prediction not in scores:
        return {}

    n_reference = scores[in_reference].to_numpy(dtype=np.float64)
    n_prediction = scores[in_prediction].to_numpy(dtype=np.float64)
    missed = (n_reference > 0) & (n_prediction == 0)
    invented = (n_reference == 0) & (n_prediction > 0)

    left_out = np.zeros(len(scores), dtype=np.bool_)
    if metric in scores:
        left_out = scores[metric].isna().to_numpy()
        if metric == "false_positive_volume":
            # It is not what a missed label lacks.
            left_out = left_out & invented
        else:
            left_out = left_out & (missed | invented)

    return {
        "missed": missed,
        "invented": invented,
        "left_out": left_out,
    }


@dataclass(frozen=True)
class Failure:
    """When a case counts as failed, such as ``dice<0.5``."""

    metric: str  # name of the metric
    comparison: str  # ``>=``, ``>``, ``<=`` or ``<``
    bound: float  # a fraction, mm or ml; below 0 for errors with a sign only

    @classmethod
    def of(cls, text: str) -> "Failure":
        """Read a condition on a metric."""
        match = _CONDITION.fullmatch(text)
        if match is None or match[1] not in METRICS:
            raise InputError(
                "failure",
                must="be a condition on one metric",
                got=repr(text),
                cure="Write, for example, dice<0.5, hd95>20 or volume_error<-5, without a unit.",
            )

        metric, comparison, number = match.groups()
        bound = float(number)
        if is_bounded(metric) and not 0 <= bound <= 1:
            raise InputError(
                "failure",
                must=f"compare {metric} with a fraction",
                got=repr(text),
                cure="Write 0.5 for 50 %.",
            )
        if bound < 0 and not METRICS[metric].is_signed:
            raise ValueError(
                f"`failure` must compare {metric} with 0 or more, got {text!r}. Write hd95>20."
            )
        return cls(metric, comparison, bound)

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.bound:.15g}"

    def of_cases(self, values: FloatArray, failed: Mapping[str, BoolArray]) -> FloatArray:
        """Which cases fail: 1 for those that do, and 0 for the others.

        Cases without a value fail if their label was missed or invented, and otherwise are NaN.
        """
        lost = failed.get("left_out", False)
        by_value = meets(values, self.comparison, self.bound)
        without_value = np.where(lost, 1.0, np.nan)
        return np.where(np.isnan(values), without_value, by_value)


def failure_of(text: str | None, metrics: Collection[str]) -> Failure:
    """The user's failure, or `DEFAULT_FAILURE`, which may be on a metric that is not computed."""
    failure = Failure.of(text or DEFAULT_FAILURE)
    if text and failure.metric not in metrics:
        raise InputError(
            "failure",
            must="be about a metric that is computed",
            got=repr(text),
            cure=f"Add {failure.metric} to --metrics, or choose from: {name_some(list(metrics))}.",
        )
    return failure


def most_failures(n_failed: npt.ArrayLike, n: npt.ArrayLike, *, tail: float = 0.05) -> FloatArray:
    """The exact one-sided upper bound of the share of failures, wrong with at most ``tail``.

    With none among n it is 1 - tail^(1/n); 1 if all failed, NaN without any.

    Source: Clopper and Pearson 1934, The use of confidence or fiducial limits illustrated in the
    case of the binomial.
    """
    from scipy.special import betaincinv

    failed = np.asarray(n_failed, dtype=np.float64)
    size = np.asarray(n, dtype=np.float64)

    # Where all failed, the second parameter would be 0.
    successes = np.maximum(size - failed, 1e-300)
    bound = betaincinv(failed + 1, successes, 1 - tail)
    bound = np.where(failed >= size, 1.0, bound)

    return np.where((size > 0) & ~np.isnan(failed), bound, np.nan)


@lru_cache(maxsize=4096)
def most_failures_added(n_new: float, n_recovered: float, n: float) -> float:
    """The exact one-sided 95 % upper bound of the difference of two shares of failures.

    It is that of paired cases: of n, ``n_new`` fail only with the method and ``n_recovered`` only
    with the baseline. Those that fail with both, or with neither, add nothing to the difference,
    which is the share of the former less the share of the latter. The share of the former is above
    its upper bound, and that of the latter below its lower one, with at most 2.5 % each (Clopper
    and Pearson), so that either is wrong with at most 5 % (Boole's inequality), whatever the
    shares. NaN without any case.
    """
    added = most_failures(n_new, n, tail=0.025)
    # At least so many recover as those that do not are at most.
    recovered = 1 - most_failures(n - n_recovered, n, tail=0.025)
    return float(added - recovered)
