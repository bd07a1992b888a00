"""Tests of paired differences, and the correction for their number."""

import warnings

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def wilcoxon_p(differences: FloatArray) -> float:
    """Two-sided p value of the Wilcoxon signed-rank test; zero differences are left out (Wilcoxon 1945).

    Args:
        differences: Shape (n,), finite.

    Returns:
        The p value, exact for small samples without ties; 1 if all differences are zero, NaN without any difference.
    """
    from scipy.stats import wilcoxon

    if not len(differences):
        return float("nan")
    # Zeros are left out here, because scipy would use the normal approximation for a small sample with a zero.
    if not (nonzero := differences[differences != 0]).size:
        return 1.0
    with warnings.catch_warnings():
        # Older versions of scipy warn that the normal approximation is rough for few cases.
        warnings.simplefilter("ignore")
        return float(wilcoxon(nonzero, alternative="two-sided").pvalue)


def holm(p_values: FloatArray) -> FloatArray:
    """P values adjusted for their number, by Holm's step-down method.

    The i-th smallest of m becomes max over j <= i of min(1, (m - j + 1) p_j).

    Args:
        p_values: Shape (m,), 0 to 1. NaN stands for no test: it stays NaN and does not count.

    Returns:
        Adjusted p values, same shape and order.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
        [0.03, 0.06, 0.06]
    """
    adjusted = np.full(len(p_values), np.nan)
    tests = np.flatnonzero(~np.isnan(p_values))
    order = tests[np.argsort(p_values[tests], kind="stable")]
    steps = np.minimum(1, p_values[order] * np.arange(len(order), 0, -1))
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
