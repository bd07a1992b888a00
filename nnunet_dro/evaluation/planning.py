"""How many cases a requirement with confidence needs, and how likely it is to be met."""

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.failures import failed_rows
from nnunet_dro.evaluation.order_statistics import bound_ranks
from nnunet_dro.evaluation.requirements import Requirement, refusal
from nnunet_dro.evaluation.statistics import PERCENTILES

#: More cases than this are not searched for.
_MOST_CASES = 1 << 20


def worse_allowed(requirement: Requirement, n: int) -> int:
    """The most cases of n that may miss the bound for the requirement to be met; -1 if n cases are too few."""
    if requirement.confidence is None:
        raise refusal("have a confidence to be planned", requirement.text, "Write, for example, p5>=0.70@95.")
    percent = PERCENTILES[requirement.statistic]
    low, high = bound_ranks(n, percent, tail=1 - requirement.confidence / 100)
    return low - 1 if requirement.end == "low" else n - high


def cases_needed(requirement: Requirement, *, n_worse: int = 0) -> int:
    """The least number of cases with which the requirement is met although some cases miss the bound.

    Args:
        requirement: A requirement with confidence.
        n_worse: The number of cases that miss the bound.

    Returns:
        The number of cases.

    Raises:
        ValueError: If the requirement has no confidence, or more than a million cases would be needed.

    Example:
        >>> from nnunet_dro.evaluation.requirements import parse_requirement
        >>> [cases_needed(parse_requirement("p5>=0.70@95"), n_worse=n) for n in range(4)]
        [59, 93, 124, 153]
    """
    enough = 1
    while worse_allowed(requirement, enough) < n_worse:
        enough *= 2
        if enough > _MOST_CASES:
            raise refusal("need fewer than a million cases", requirement.text, "Ask for less confidence.")
    # The number that is allowed never falls with the number of cases.
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if worse_allowed(requirement, middle) < n_worse:
            too_few = middle
        else:
            enough = middle
    return enough


def chances(evaluation: Evaluation, requirement: Requirement, rows: pd.DataFrame, sizes: list[int]) -> pd.DataFrame:
    """How likely the requirement is to be met by new cases of the same kind, per stratum and label of a pilot.

    The share of cases that miss the bound is not known. Given k of m cases in the pilot it has the distribution
    Beta(k + 1/2, m - k + 1/2) (Jeffreys' prior), so the number among n new cases is beta-binomial. A case whose label
    was missed or invented and that has no value counts as one that misses the bound.

    Args:
        evaluation: The pilot.
        requirement: A requirement with confidence.
        rows: The rows of the pilot's strata frame that it applies to.
        sizes: Numbers of new cases.

    Returns:
        ``attribute``, ``stratum``, ``label``, ``n`` and ``n_worse`` (of the pilot), and a column per size with the
        probability.
    """
    from scipy.stats import betabinom

    scores = evaluation.scores
    found = []
    for row in rows.to_dict("records"):
        stratum_of_case = evaluation.stratum_of_case[str(row["attribute"])].astype(str)
        inside = (scores["case"].map(stratum_of_case) == str(row["stratum"])) & (scores["label"] == row["label"])
        failed = failed_rows(scores, str(row["metric"]))
        lost = failed["missed"] | failed["invented"] if failed else np.zeros(len(scores), dtype=np.bool_)
        values = scores.loc[inside, str(row["metric"])].to_numpy(dtype=np.float64)
        worst = -np.inf if requirement.end == "low" else np.inf
        values = np.where(np.isnan(values) & lost[inside.to_numpy()], worst, values)
        values = values[~np.isnan(values)]
        n_worse = sum(not requirement.holds_for(value) for value in values)
        key = {name: row[name] for name in ("attribute", "stratum", "label")} | {"n": len(values), "n_worse": n_worse}
        a, b = n_worse + 0.5, len(values) - n_worse + 0.5
        probability = {str(n): float(betabinom.cdf(worse_allowed(requirement, n), n, a, b)) for n in sizes}
        found.append(key | probability)
    return pd.DataFrame(found)
