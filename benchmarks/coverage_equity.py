"""How often intervals of the spread over strata hold, beside those of a bootstrap.

Strata of equal size have means of 80 % or less: all alike, or from there down to 90 % of it in even
steps. Every interval is meant to hold in 95 %. The bootstrap draws the cases of each stratum anew
and takes the percentiles of what it finds.

    pip install -e .
    python benchmarks/coverage_equity.py [--studies N] [--out FILE]
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.statistics.equity import ESTIMATES, equity

N_RESAMPLES = 500
ROUNDING = 1e-12


def beta(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.beta(8, 2, n)


def fails(n: int, rng: np.random.Generator) -> np.ndarray:
    failed = rng.random(n) < 0.1
    return np.where(failed, 0.0, rng.beta(16, 2, n))


SHAPES = {"Beta(8, 2)": beta, "10 % at 0": fails}
MEAN = 0.8
STRATA = (2, 4, 10)
CASES = (8, 20, 60)
SHIFTS = (0.0, 0.1)


def estimates(means: np.ndarray) -> np.ndarray:
    """`ESTIMATES` of the means of strata of equal size, shape (..., n_strata)."""
    mean = means.mean(axis=-1)
    sd = means.std(axis=-1)
    deviations = np.abs(means - mean[..., None]).sum(axis=-1)
    return np.stack([np.ptp(means, axis=-1), sd, mean / (1 + deviations), mean / (1 + sd)], axis=-1)


def ours(values: np.ndarray) -> np.ndarray:
    """Intervals of `ESTIMATES`, shape (n_estimates, 2), of values of shape (n_strata, n)."""
    strata = pd.DataFrame(
        {
            "attribute": "centre",
            "stratum": np.arange(len(values)),
            "label": "organ",
            "metric": "dice",
            "n": values.shape[1],
            "n_undefined": 0,
            "mean": values.mean(axis=1),
            "std": values.std(axis=1, ddof=1),
            "mean_low": 0.0,
        }
    )
    row = equity(strata).iloc[0]
    return np.array([[row[f"{name}_low"], row[f"{name}_high"]] for name in ESTIMATES])


def bootstrap(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same, as percentiles of a bootstrap within the strata."""
    n = values.shape[1]
    drawn = rng.integers(0, n, (N_RESAMPLES, *values.shape))
    means = np.take_along_axis(values[None], drawn, axis=2).mean(axis=2)
    return np.quantile(estimates(means), [0.025, 0.975], axis=0).T


def results(n_studies: int) -> Iterator[dict[str, object]]:
    """A row per shape, numbers, shift and method."""
    for shape, n_strata, n, shift in product(SHAPES, STRATA, CASES, SHIFTS):
        scales = 1 - np.linspace(0, shift, n_strata)
        intervals = studied(n_studies, SHAPES[shape], n, scales)
        truth = estimates(MEAN * scales)
        for method, bounds in intervals.items():
            row = {"shape": shape, "strata": n_strata, "cases": n, "shift": shift, "method": method}
            yield row | summary(bounds, truth)


def studied(
    n_studies: int, draw: Callable[..., np.ndarray], n: int, scales: np.ndarray
) -> dict[str, np.ndarray]:
    """The intervals of each method, shape (n_studies, n_estimates, 2)."""
    rng = np.random.default_rng([len(scales), n])
    by_method: dict[str, list[np.ndarray]] = {"nnunet-dro": [], "bootstrap": []}
    for _ in range(n_studies):
        values = np.stack([scale * draw(n, rng) for scale in scales])
        by_method["nnunet-dro"].append(ours(values))
        by_method["bootstrap"].append(bootstrap(values, rng))
    return {method: np.array(bounds) for method, bounds in by_method.items()}


def summary(bounds: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """How often the intervals hold, and their mean widths."""
    low = bounds[:, :, 0]
    high = bounds[:, :, 1]
    held = (low <= truth + ROUNDING) & (truth <= high + ROUNDING)
    numbers = {}
    for place, name in enumerate(ESTIMATES):
        numbers[f"{name}_held"] = round(float(held[:, place].mean()), 3)
        numbers[f"{name}_width"] = round(float((high - low)[:, place].mean()), 4)
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400, help="Studies of each kind.")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("benchmarks/results/coverage_equity.csv"),
        help="File to write.",
    )
    arguments = parser.parse_args()
    table = pd.DataFrame(results(arguments.studies))
    table.to_csv(arguments.out, index=False, lineterminator="\n")
    print(table.to_string())


if __name__ == "__main__":
    main()
