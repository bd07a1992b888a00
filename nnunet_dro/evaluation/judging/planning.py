"""How many cases a requirement with confidence needs, and how likely it is to be met."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.judging.bounds import parse_bound
from nnunet_dro.evaluation.judging.power import chance_after_pilot, is_of_measurements, least_number
from nnunet_dro.evaluation.judging.requirement_parts import refusal
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.scoring.failures import (
    DEFAULT_FAILURE,
    Failure,
    failed_rows,
    most_failures,
)
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import FAILURE_BOUNDS, PERCENTILES
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.patients import patient_values, worst_metric
from nnunet_dro.evaluation.statistics.sample_bounds import bound_ranks

#: More cases than this are not searched for.
_MOST_CASES = 1 << 20

#: The probability with which at least so many of the collected cases have the label.
LABEL_SURE = 0.95


def is_of_failures(requirement: Requirement) -> bool:
    """Whether a requirement is that failures, or new failures, are surely rare."""
    return requirement.column in ("failure_high", *FAILURE_BOUNDS) and requirement.end == "high"


def worse_allowed(requirement: Requirement, n: int) -> int:
    """The most cases of n that may miss the bound, or fail, for the requirement to be met.

    -1 if n cases are too few. Where failures are compared, so many may newly fail if none recovers.
    """
    confidence = requirement.confidence
    is_too_few = any(n < least for _, least in requirement.least)
    if is_of_failures(requirement):
        return -1 if is_too_few else _failures_allowed(requirement, n)
    if confidence is None or requirement.statistic not in PERCENTILES:
        raise refusal(
            "have a confidence to be planned",
            requirement.text,
            (
                "Write, for example, p5>=0.70@95, failure_high<=10%, "
                "new_failures_high<=5%, typical_difference_low>=-1pt or "
                "mean_difference_low_guaranteed>=-1pt."
            ),
        )
    if is_too_few:
        return -1

    percent = PERCENTILES[requirement.statistic]
    low, high = bound_ranks(n, percent, tail=1 - confidence / 100)
    if requirement.end == "low":
        return low - 1
    return n - high


def _failures_allowed(requirement: Requirement, n: int) -> int:
    """The most failures among n cases; -1 if not even none is enough."""
    tail = 0.05
    if requirement.column == "failure_difference_high":
        # See `most_failures_added`.
        tail = 0.025

    def is_too_many(n_failed: int) -> bool:
        return not requirement.holds_for(float(most_failures(n_failed, n, tail=tail)))

    return bisect_left(range(n + 1), True, key=is_too_many) - 1


def chance_of_failures(requirement: Requirement, n: int, share: float) -> float:
    """The chance that no more of n cases fail than may, if they do with a probability of share."""
    from scipy.stats import binom

    return float(binom.cdf(worse_allowed(requirement, n), n, share))


def cases_needed(requirement: Requirement, *, n_worse: int = 0) -> int:
    """The least number of cases with which the requirement is met although some miss the bound."""
    n_needed = least_number(
        lambda n: worse_allowed(requirement, n) >= n_worse,
        most=_MOST_CASES,
    )
    if n_needed is None:
        raise refusal(
            "need fewer than a million cases",
            requirement.text,
            "Write a lower confidence, or a bound that is easier to meet.",
        )
    return n_needed


def cases_to_collect(n_with_label: int, share: float) -> int:
    """The least number of cases of which at least so many have the label, surely enough.

    That is, with a probability of `LABEL_SURE`.
    """
    from scipy.stats import nbinom

    if share >= 1:
        return n_with_label
    # Without the label are those that come before the last one of them that has it.
    return n_with_label + int(nbinom.ppf(LABEL_SURE, n_with_label, share))


def cases_with_label(n: int, share: float) -> int:
    """The number of n cases that have the label at least, with a probability of `LABEL_SURE`."""
    from scipy.stats import binom

    if share >= 1:
        return n
    return int(binom.ppf(1 - LABEL_SURE, n, share))


def check_share_of_cases(share: float | None) -> None:
    """Check a share of the cases that have the label."""
    if share is not None and not 0 < share <= 1:
        raise InputError(
            "with_label",
            must="be a share, above 0 and up to 1",
            got=repr(share),
            cure="Write 0.9 if nine of ten cases have the label.",
        )


def read_share(text: str) -> float:
    """A share of cases that is expected to fail, such as ``2%``."""
    bound = parse_bound(text)
    if bound is None or bound.unit not in ("", "%") or not 0 <= bound.value <= 1:
        raise InputError(
            "expect",
            must="be a share of cases",
            got=repr(text),
            cure="Write 2% or 0.02.",
        )
    return bound.value


def pilot_values(
    evaluation: Evaluation, requirement: Requirement, rows: pd.DataFrame
) -> list[FloatArray]:
    """The values of a pilot's cases in each row, or of its patients, where they count once.

    They are as bad as can be where the label was missed or invented and has no value, for a
    percentile, and NaN where there is no label. For a requirement on failures they are 1 for a
    failure and 0 otherwise.
    """
    scores = evaluation.scores
    case_of_score = scores["case"]
    patient_codes = None
    if evaluation.patient_of_case is not None:
        patient_codes = pd.factorize(case_of_score.map(evaluation.patient_of_case))[0]

    values_of_rows = []
    for row in rows.to_dict("records"):
        stratum_of_case = evaluation.stratum_of_case[str(row["attribute"])].astype(str)
        in_stratum = case_of_score.map(stratum_of_case) == str(row["stratum"])
        inside = np.flatnonzero(in_stratum & (scores["label"] == row["label"]))

        metric = str(row["metric"])
        values = _planned_values(evaluation, requirement, metric)[inside]
        if patient_codes is not None:
            worst_by = worst_metric(metric, evaluation.options.patient_score)
            if is_of_failures(requirement):
                # A patient fails with any case: of 0 and 1 the larger is worse, as of distances.
                worst_by = METRICS["hd95"]
            values = patient_values(values, patient_codes[inside], worst_by=worst_by)
        values_of_rows.append(values)

    return values_of_rows


def _planned_values(evaluation: Evaluation, requirement: Requirement, metric: str) -> FloatArray:
    """What a requirement is about in each row of the scores."""
    values = evaluation.scores[metric].to_numpy(dtype=np.float64)
    failed = failed_rows(evaluation.scores, metric)
    if is_of_failures(requirement):
        failure = Failure.of(evaluation.options.failure or DEFAULT_FAILURE)
        if metric != failure.metric:
            raise refusal(
                f"be about the metric of the failure {failure}",
                requirement.text,
                f"Write metric={failure.metric} {requirement.column}<=10%.",
            )
        return failure.of_cases(values, failed)

    if not failed or is_of_measurements(requirement):
        return values
    worst = -np.inf if requirement.end == "low" else np.inf
    return np.where(failed["left_out"], worst, values)


def least_share(values: Sequence[FloatArray]) -> float | None:
    """The share of cases (or patients) with the label, where it is least.

    None where no case of a pilot has it.
    """
    shares = [_share_with_label(values_of_row) for values_of_row in values]
    return min((share for share in shares if share), default=None)


def _share_with_label(values: FloatArray) -> float:
    return float(np.mean(~np.isnan(values)))


def chances(
    requirement: Requirement,
    rows: pd.DataFrame,
    values: Sequence[FloatArray],
    sizes: Sequence[int],
    *,
    share: float | None,
) -> pd.DataFrame:
    """How likely new cases of the same kind are to meet the requirement.

    A row per stratum and label of a pilot, of which ``n`` cases have the label and ``n_worse`` of
    them miss the bound.

    The share of cases that miss the bound, or fail, is not known. Given k of m cases in the pilot
    it has the distribution Beta(k + 1/2, m - k + 1/2) (Jeffreys' prior), so the number among n new
    cases is beta-binomial. How many of them have the label is binomial. For a mean see
    `chance_after_pilot`; the row has the pilot's ``mean``, and new cases have the label as surely
    as in `cases_with_label`.
    """
    records = []
    for row, values_of_row in zip(rows.to_dict("records"), values, strict=True):
        share_here = _share_with_label(values_of_row) if share is None else share
        defined = values_of_row[~np.isnan(values_of_row)]
        record = {name: row[name] for name in ("attribute", "stratum", "label")}
        record |= {"share": share_here, "n": len(defined)}

        if is_of_measurements(requirement):
            record["mean"] = float(defined.mean()) if len(defined) else np.nan
            for n in sizes:
                n_with_label = cases_with_label(n, share_here)
                record[str(n)] = chance_after_pilot(requirement, defined, n_with_label)
        else:
            n_worse = len(defined) - sum(map(requirement.holds_for, defined.tolist()))
            record["n_worse"] = n_worse
            record |= {
                str(n): _chance(requirement, n, share_here, n_worse, len(defined)) for n in sizes
            }
        records.append(record)
    return pd.DataFrame(records)


def _chance(requirement: Requirement, n: int, share: float, n_worse: int, n_pilot: int) -> float:
    """The probability that n new cases meet the requirement.

    It sums over the number of them that have the label, and over the number that miss the bound.
    """
    from scipy.stats import betabinom, binom

    numbers = np.array([n])
    if share < 1:
        # What is less likely than this on either side does not matter.
        first = binom.ppf(1e-9, n, share)
        last = binom.ppf(1 - 1e-9, n, share)
        numbers = np.arange(first, last + 1)

    allowed = [worse_allowed(requirement, int(number)) for number in numbers]
    met = betabinom.cdf(
        allowed,
        numbers,
        n_worse + 0.5,
        n_pilot - n_worse + 0.5,
    )
    return float(np.sum(binom.pmf(numbers, n, share) * met))
