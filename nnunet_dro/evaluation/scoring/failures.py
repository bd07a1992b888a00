"""Cases that failed: by what the user calls a failure, and labels that were missed altogether or invented."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.naming import name_some

BoolArray = npt.NDArray[np.bool_]

#: The comparisons that conditions are written with.
COMPARE: dict[str, Callable[[Any, Any], Any]] = {">=": ge, "<=": le, ">": gt, "<": lt}

_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(-?(?:\d+\.?\d*|\.\d+))\s*", re.ASCII)

KINDS = ("missed", "invented")  # The kinds of failures.

#: What each kind says of the label, in words.
IN_WORDS = {"missed": "missed", "invented": "predicted where the reference lacks it"}


def size_columns(metric: str) -> tuple[str, str]:
    """The columns that say how much of a label reference and prediction have.

    Voxels, or lesions that are counted.
    """
    on_lesions = metric in METRICS and METRICS[metric].on_lesions
    return (
        ("lesions_reference", "lesions_predicted")
        if on_lesions
        else ("n_reference", "n_prediction")
    )


def failed_rows(scores: pd.DataFrame, metric: str = "dice") -> dict[str, BoolArray] | None:
    """Where a label was missed or invented, and so has no value (``left_out``).

    None if the scores have no counts.
    """
    columns = size_columns(metric)
    if not set(columns) <= set(scores.columns):
        return None
    reference, prediction = (scores[column].to_numpy(dtype=np.float64) for column in columns)
    missed = (reference > 0) & (prediction == 0)
    invented = (reference == 0) & (prediction > 0)
    # A false positive volume is not what a missed label lacks.
    either = invented if metric == "false_positive_volume" else missed | invented
    left_out = (
        either & scores[metric].isna().to_numpy() if metric in scores else np.zeros_like(either)
    )
    return {"missed": missed, "invented": invented, "left_out": left_out}


@dataclass(frozen=True)
class Failure:
    """When a case counts as failed, such as ``dice<0.5``."""

    metric: str  # name of the metric
    comparison: str  # ``>=``, ``>``, ``<=`` or ``<``
    bound: float  # a fraction, mm or ml; below 0 for errors with a sign only

    @classmethod
    def of(cls, text: str) -> "Failure":
        """Read a condition on a metric."""
        cure = "Write, for example, dice<0.5, hd95>20 or volume_error<-5, without a unit."
        found = _CONDITION.fullmatch(text)
        if not found or found[1] not in METRICS:
            raise ValueError(f"`failure` must be a condition on one metric, got {text!r}. {cure}")
        bound = float(found[3])
        if is_bounded(found[1]) and not 0 <= bound <= 1:
            raise ValueError(
                f"`failure` must compare {found[1]} with a fraction, got {text!r}. Write 0.5 for 50 %."
            )
        if bound < 0 and not METRICS[found[1]].is_signed:
            raise ValueError(
                f"`failure` must compare {found[1]} with 0 or more, got {text!r}. Write hd95>20."
            )
        return cls(found[1], found[2], bound)

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.bound:g}"

    def of_cases(
        self, values: npt.NDArray[np.float64], failed: Mapping[str, BoolArray] | None
    ) -> npt.NDArray[np.float64]:
        """Which cases fail (1, or 0).

        Without a value those whose label was missed or invented, and NaN of others.
        """
        lost = np.zeros(len(values), dtype=bool) if failed is None else failed["left_out"]
        return np.where(
            np.isnan(values),
            np.where(lost, 1.0, np.nan),
            COMPARE[self.comparison](values, self.bound),
        )


DEFAULT_FAILURE = "dice<0.5"  # What fails unless the user says otherwise: less than half of what is marked is right.


def failure_of(text: str | None, metrics: Collection[str]) -> Failure:
    """The user's failure, or `DEFAULT_FAILURE`, which may be on a metric that is not computed."""
    failure = Failure.of(text or DEFAULT_FAILURE)
    if text and failure.metric not in metrics:
        cure = f"Add {failure.metric} to --metrics, or choose from: {name_some(list(metrics))}."
        raise ValueError(f"`failure` must be about a metric that is computed, got {text!r}. {cure}")
    return failure


def most_failures(n_failed: npt.ArrayLike, n: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The exact one-sided 95 % upper bound of the share of failures.

    With none among n it is 1 - 0.05^(1/n); 1 if all failed, NaN without any.

    Source: Clopper and Pearson 1934, The use of confidence or fiducial limits illustrated in the
    case of the binomial.
    """
    from scipy.special import betaincinv

    failed = np.asarray(n_failed, dtype=np.float64)
    size = np.asarray(n, dtype=np.float64)
    bound = betaincinv(failed + 1, np.maximum(size - failed, 1e-300), 0.95)
    return np.asarray(
        np.where((size > 0) & ~np.isnan(failed), np.where(failed >= size, 1.0, bound), np.nan)
    )
