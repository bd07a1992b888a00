"""How well the hardness of cases separates two groups of them."""

import pandas as pd
from scipy.stats import mannwhitneyu


def harder(some: "pd.Series[float]", others: "pd.Series[float]") -> float:
    """The probability that one of some values is larger than one of the others; equal ones count half, NaN for none."""
    if not (len(some) and len(others)):
        return float("nan")
    return float(mannwhitneyu(some, others).statistic) / (len(some) * len(others))
