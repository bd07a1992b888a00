"""How far the means of an attribute's strata lie apart, and means that are scaled by it.

With the means x_g of the strata and the mean x of all their cases:

    range = max_g x_g - min_g x_g        sd = standard deviation of the x_g, over all strata
    equity-scaled mean = x / (1 + sum_g |x - x_g|)        scaled by sd = x / (1 + sd)

Both scaled means are x where all strata are alike. They are for fractions: a distance would become
better by being unequal.

The intervals follow from the errors e_g of the means. With weights w_g = n_g / s_g^2, and e their
weighted mean, Welch's test says of all errors together how large they are with some confidence:

    sum_g w_g (e_g - e)^2 <= c

Range, sd and sum are seminorms F of the means, so that none is farther from the truth than F of the
errors, and an interval is F(x) plus and minus the largest F among such errors (Scheffe's method).
Of two strata it is the interval of Welch's t test. A bootstrap's interval of F never reaches 0, not
even where all strata are alike: `benchmarks/coverage_equity.py`.

Source: Tian et al. 2024, FairSeg (equity-scaled segmentation performance); Jin et al. 2024,
FairMedFM (range, sd, scaled by sd); Welch 1951, On the comparison of several mean values; Scheffe
1953, A method for judging all contrasts in the analysis of variance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.stratum_statistics import n_values
from nnunet_dro.evaluation.stratifying.stratify import ALL

#: The numbers that have an interval.
ESTIMATES = ("range", "sd", "equity_scaled_mean", "sd_scaled_mean")

#: The least error of a stratum, relative to the largest one: without any, the weight of a stratum
#: of equal values would be infinite.
_LEAST_ERROR = 1e-9


def equity(strata: pd.DataFrame) -> pd.DataFrame:
    """How far the strata of each attribute, label and metric lie apart.

    Args:
        strata: From `summarise`.

    Returns:
        A row per attribute, label and metric with two strata or more that have a value:
        ``attribute``, ``label``, ``metric``, ``n_strata``, ``mean`` (of all their cases, or
        patients), and each of `ESTIMATES` with ``_low`` and ``_high``, its 95 % interval. Scaled
        means are NaN for metrics that do not lie between 0 and 1. There is no interval (NaN) where
        the mean of a stratum has none.
    """
    columns = ["attribute", "label", "metric", "n_strata", "mean"]
    for name in ESTIMATES:
        columns += [name, f"{name}_low", f"{name}_high"]

    with_value = strata[strata["mean"].notna() & (strata["attribute"] != ALL)]
    groups = with_value.groupby(["attribute", "label", "metric"], sort=False, observed=True)
    rows = []
    for (attribute, label, metric), group in groups:
        if len(group) < 2:
            continue
        row = {"attribute": attribute, "label": label, "metric": metric}
        numbers = _numbers(group, is_bounded=METRICS[str(metric)].is_bounded)
        rows.append(row | dict(numbers))
    return pd.DataFrame(rows, columns=columns)


def _numbers(group: pd.DataFrame, *, is_bounded: bool) -> Iterator[tuple[str, float]]:
    """The numbers of a row, by their columns."""
    n = n_values(group).to_numpy(dtype=np.float64)
    errors = group["std"].to_numpy(dtype=np.float64) / np.sqrt(n)
    errors[group["mean_low"].isna()] = np.nan
    strata = StratumMeans(group["mean"].to_numpy(dtype=np.float64), errors, n)
    yield "n_strata", len(n)
    yield "mean", strata.mean

    greatest = 1.0 if is_bounded else np.inf
    farthest_apart = strata.errors_at(0.95)
    spreads = {"range": strata.range, "sd": strata.sd}
    limits = {"range": greatest, "sd": greatest / 2}
    for name, value in spreads.items():
        yield name, value
        yield f"{name}_low", max(value - farthest_apart[name], 0.0)
        yield f"{name}_high", min(value + farthest_apart[name], limits[name])
    if not is_bounded:
        return

    # Two intervals hold together with 95 % if each does with 97.5 %.
    farthest_apart = strata.errors_at(0.975)
    margin = strata.margin_of_mean(0.975)
    least_mean = max(strata.mean - margin, 0.0)
    largest_mean = min(strata.mean + margin, 1.0)
    for name, spread in (("equity_scaled_mean", "deviations"), ("sd_scaled_mean", "sd")):
        value = getattr(strata, spread)
        least = max(value - farthest_apart[spread], 0.0)
        yield name, strata.mean / (1 + value)
        yield f"{name}_low", least_mean / (1 + value + farthest_apart[spread])
        yield f"{name}_high", largest_mean / (1 + least)


@dataclass(frozen=True, eq=False)
class StratumMeans:
    """The means of some strata, arrays of shape (n_strata,)."""

    means: FloatArray
    errors: FloatArray  # standard errors; NaN where a mean has no interval
    n: FloatArray  # how many values each mean rests on

    @property
    def shares(self) -> FloatArray:
        """The share of all values that each stratum has."""
        return np.asarray(self.n / self.n.sum())

    @property
    def mean(self) -> float:
        """The mean of all values."""
        return float(self.shares @ self.means)

    @property
    def range(self) -> float:
        """From the smallest mean to the largest one."""
        return float(np.ptp(self.means))

    @property
    def sd(self) -> float:
        """The standard deviation of the means (over all strata, not n - 1)."""
        return float(self.means.std())

    @property
    def deviations(self) -> float:
        """The sum of the means' distances from the mean of all values."""
        return float(np.abs(self.means - self.mean).sum())

    @cached_property
    def _positive_errors(self) -> FloatArray:
        return np.maximum(self.errors, _LEAST_ERROR * self.errors.max())

    def margin_of_mean(self, confidence: float) -> float:
        """Half the interval of the mean of all values, by Student's t.

        Source: Satterthwaite 1946, An approximate distribution of estimates of variance components.
        """
        from scipy.special import stdtrit

        variances = (self.shares * self._positive_errors) ** 2
        variance = variances.sum()
        if not variance > 0:
            return float(variance)
        freedom = variance**2 / (variances**2 / (self.n - 1)).sum()
        return float(stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(variance))

    def errors_at(self, confidence: float) -> dict[str, float]:
        """The largest ``range``, ``sd`` and sum of ``deviations`` of the errors of the means.

        All errors together are as large with a probability of 1 - ``confidence`` at most; NaN where
        an error is not known.
        """
        errors = self._positive_errors
        if not errors.max() > 0:
            return dict.fromkeys(("range", "sd", "deviations"), float(errors.max()))

        # The errors in units of their own, without what is common to all strata.
        towards_mean = 1 / errors / np.linalg.norm(1 / errors)
        apart = np.eye(len(errors)) - np.outer(towards_mean, towards_mean)
        from_middle = (np.eye(len(errors)) - 1 / len(errors)) * errors @ apart
        from_mean = (np.eye(len(errors)) - self.shares) * errors @ apart

        length = np.sqrt(self._critical_value(confidence))
        root = np.sqrt(len(errors))
        two_largest = np.sort(errors)[-2:]
        by_stratum = np.linalg.norm(from_mean, axis=1).sum()
        together = root * np.linalg.norm(from_mean, 2)
        return {
            "range": float(length * np.linalg.norm(two_largest)),
            "sd": float(length * np.linalg.norm(from_middle, 2) / root),
            "deviations": float(length * min(by_stratum, together)),
        }

    def _critical_value(self, confidence: float) -> float:
        """What Welch's sum of squares exceeds with a probability of 1 - ``confidence``."""
        from scipy.special import fdtri

        n_strata = len(self.n)
        weights = 1 / self._positive_errors**2
        shares = weights / weights.sum()
        unknown = ((1 - shares) ** 2 / (self.n - 1)).sum()

        freedom = (n_strata**2 - 1) / (3 * unknown)
        inflation = 1 + 2 * (n_strata - 2) / (n_strata**2 - 1) * unknown
        quantile = fdtri(n_strata - 1, freedom, confidence)
        return float((n_strata - 1) * inflation * quantile)
