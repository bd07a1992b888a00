"""How many cases a requirement with confidence needs, and how likely it is to be met."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.judging.requirements import Requirement, refusal
from nnunet_dro.evaluation.scoring.failures import failed_rows
from nnunet_dro.evaluation.statistics.columns import PERCENTILES
from nnunet_dro.evaluation.statistics.patients import patient_values
from nnunet_dro.evaluation.statistics.sample_bounds import bound_ranks

FloatArray = npt.NDArray[np.float64]

_MOST_CASES = 1 << 20  # More cases than this are not searched for.
LABEL_SURE = (
    0.95  # The probability with which at least so many of the collected cases have the label.
)


def worse_allowed(requirement: Requirement, n: int) -> int:
    """The most cases of n that may miss the bound for the requirement to be met.

    -1 if n cases are too few.
    """
    if requirement.confidence is None:
        raise refusal(
            "have a confidence to be planned", requirement.text, "Write, for example, p5>=0.70@95."
        )
    percent = PERCENTILES[requirement.statistic]
    low, high = bound_ranks(n, percent, tail=1 - requirement.confidence / 100)
    if any(n < least for _, least in requirement.least):
        return -1
    return low - 1 if requirement.end == "low" else n - high


def cases_needed(requirement: Requirement, *, n_worse: int = 0) -> int:
    """The least number of cases with which the requirement is met although some cases miss the bound."""
    enough = 1
    while worse_allowed(requirement, enough) < n_worse:
        enough *= 2
        if enough > _MOST_CASES:
            raise refusal(
                "need fewer than a million cases", requirement.text, "Ask for less confidence."
            )
    # The number that is allowed never falls with the number of cases.
    return bisect_left(
        range(enough), n_worse, lo=enough // 2 + 1, key=lambda n: worse_allowed(requirement, n)
    )


def cases_to_collect(n_with_label: int, share: float) -> int:
    """The least number of cases of which, with a probability of `LABEL_SURE`, at least so many have the label."""
    from scipy.stats import nbinom

    # Without the label are those that come before the last one of them that has it.
    return n_with_label + (int(nbinom.ppf(LABEL_SURE, n_with_label, share)) if share < 1 else 0)


def cases_with_label(n: int, share: float) -> int:
    """The largest number of n cases of which, with a probability of `LABEL_SURE`, at least so many have the label."""
    from scipy.stats import binom

    return int(binom.ppf(1 - LABEL_SURE, n, share)) if share < 1 else n


def check_share(share: float | None) -> None:
    """Check a share of the cases that have the label."""
    if share is not None and not 0 < share <= 1:
        cure = "Write 0.9 if nine of ten cases have the label."
        raise ValueError(
            f"`with_label` must be a share, above 0 and up to 1, got {share!r}. {cure}"
        )


def pilot_values(
    evaluation: Evaluation, requirement: Requirement, rows: pd.DataFrame
) -> list[FloatArray]:
    """The values of a pilot's cases or patients in each row.

    The worst for failures, NaN where there is no label.
    """
    scores = evaluation.scores
    patients = evaluation.patient_of_case
    codes = None if patients is None else pd.factorize(scores["case"].map(patients))[0]
    found = []
    for row in rows.to_dict("records"):
        metric = str(row["metric"])
        stratum_of_case = evaluation.stratum_of_case[str(row["attribute"])].astype(str)
        inside = (scores["case"].map(stratum_of_case) == str(row["stratum"])) & (
            scores["label"] == row["label"]
        )
        here = np.flatnonzero(inside)
        values = scores[metric].to_numpy(dtype=np.float64)[here]
        if failed := failed_rows(scores, metric):
            values = np.where(
                failed["left_out"][here], -np.inf if requirement.end == "low" else np.inf, values
            )
        found.append(values if codes is None else patient_values(values, codes[here]))
    return found


def least_share(values: Sequence[FloatArray]) -> float | None:
    """The share of cases (or patients) with the label, where it is least.

    None where no case of a pilot has it.
    """
    return min((share for of_row in values if (share := _share(of_row))), default=None)


def _share(values: FloatArray) -> float:
    return float(np.mean(~np.isnan(values)))


def chances(
    requirement: Requirement,
    rows: pd.DataFrame,
    values: Sequence[FloatArray],
    sizes: Sequence[int],
    *,
    share: float | None,
) -> pd.DataFrame:
    """How likely the requirement is to be met by new cases of the same kind, per stratum and label of a pilot.

    The share of cases that miss the bound is not known. Given k of m cases in the pilot it has the
    distribution Beta(k + 1/2, m - k + 1/2) (Jeffreys' prior), so the number among n new cases is
    beta-binomial. How many of them have the label is binomial. Of the pilot, ``n`` cases have the
    label, ``n_worse`` of them miss the bound.
    """
    found = []
    for row, of_row in zip(rows.to_dict("records"), values, strict=True):
        here = _share(of_row) if share is None else share
        n_pilot = int(np.count_nonzero(~np.isnan(of_row)))
        n_worse = n_pilot - sum(map(requirement.holds_for, of_row.tolist()))
        key = {name: row[name] for name in ("attribute", "stratum", "label")} | {"share": here}
        probability = {str(n): _chance(requirement, n, here, n_worse, n_pilot) for n in sizes}
        found.append(key | {"n": n_pilot, "n_worse": n_worse} | probability)
    return pd.DataFrame(found)


def _chance(requirement: Requirement, n: int, share: float, n_worse: int, n_pilot: int) -> float:
    """The probability that n new cases meet the requirement, however many have the label and miss the bound."""
    from scipy.stats import betabinom, binom

    numbers = (
        np.arange(binom.ppf(1e-9, n, share), binom.ppf(1 - 1e-9, n, share) + 1)
        if share < 1
        else np.array([n])
    )
    allowed = [worse_allowed(requirement, int(k)) for k in numbers]
    met = betabinom.cdf(allowed, numbers, n_worse + 0.5, n_pilot - n_worse + 0.5)
    return float(np.sum(binom.pmf(numbers, n, share) * met))
