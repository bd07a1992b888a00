"""Other bounds of the mean of values between 0 and 1, for `coverage.py` to compare with.

All of them are lower bounds; an upper one is that of the mirrored values. Samples are ascending
rows, shape (n_samples, n), and the bounds have the shape (n_samples,).
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

LowerBound = Callable[[FloatArray, float], FloatArray]

N_DRAWS = 2000


def hoeffding(samples: FloatArray, tail: float) -> FloatArray:
    """The mean - sqrt(log(1 / tail) / 2n), proven.

    Source: Hoeffding 1963, Probability inequalities for sums of bounded random variables.
    """
    n = samples.shape[1]
    return samples.mean(axis=1) - np.sqrt(np.log(1 / tail) / (2 * n))


def empirical_bernstein(samples: FloatArray, tail: float) -> FloatArray:
    """The mean - sqrt(2 V log(2 / tail) / n) - 7 log(2 / tail) / (3 (n - 1)), proven.

    Source: Maurer and Pontil 2009, Empirical Bernstein bounds and sample variance penalization,
    theorem 4.
    """
    n = samples.shape[1]
    logarithm = np.log(2 / tail)
    spread = np.sqrt(2 * samples.var(axis=1, ddof=1) * logarithm / n)
    return samples.mean(axis=1) - spread - 7 * logarithm / (3 * (n - 1))


def anderson(samples: FloatArray, tail: float) -> FloatArray:
    """The mean of the largest distribution function in the one-sided band of Massart, proven.

    A share sqrt(log(1 / tail) / 2n) of the values, the largest ones, is moved to 0.

    Source: Anderson 1969, Confidence limits for the expected value of an arbitrary bounded random
    variable; Massart 1990, The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality.
    """
    n = samples.shape[1]
    moved = np.sqrt(np.log(1 / tail) / (2 * n))
    kept = np.clip(1 - moved - np.arange(n) / n, 0, 1 / n)
    return samples @ kept


def gaffke(samples: FloatArray, tail: float) -> FloatArray:
    """The ``tail`` quantile of sum_i D_i x_i with weights D_0, ..., D_n uniform on the simplex.

    It is a conjecture that this bound holds. It is drawn here, and moves with the draws.

    Source: Gaffke 2005, Three test statistics for a nonparametric one-sided hypothesis on the mean
    of a nonnegative variable; Learned-Miller and Thomas 2019, A new confidence interval for the
    mean of a bounded random variable (arXiv:1905.06208).
    """
    n = samples.shape[1]
    weights = np.random.default_rng(n).standard_exponential((N_DRAWS, n + 1))
    weights /= weights.sum(axis=1, keepdims=True)

    # Not all at a time, for the sake of memory.
    blocks = np.array_split(samples, max(1, len(samples) // 500))
    return np.concatenate(
        [np.quantile(weights[:, 1:] @ block.T, tail, axis=0) for block in blocks],
    )


LOWER_BOUNDS: Mapping[str, LowerBound] = {
    "Gaffke, not proven": gaffke,
    "Anderson": anderson,
    "empirical Bernstein": empirical_bernstein,
    "Hoeffding": hoeffding,
}


def both_bounds(
    find: LowerBound, samples: FloatArray, *, low: float, high: float, tail: float
) -> FloatArray:
    """The lower and the upper bound of values between two limits, shape (n_samples, 2)."""
    relative = (np.sort(samples, axis=1) - low) / (high - low)
    lower = find(relative, tail)
    upper = 1 - find(1 - relative[:, ::-1], tail)
    bounds = np.clip(np.stack([lower, upper], axis=1), 0, 1)
    return low + (high - low) * bounds
