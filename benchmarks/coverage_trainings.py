"""How often intervals of repeated trainings contain the true difference, and how wide they are.

The answers are simulated.

Both methods have the same number of trainings, evaluated on the same cases. Scores of the baseline
are Beta(8, 2), those of the method Beta(12, 2), through a Gaussian copula: a score's normal deviate
is the training's, plus that of the case (which both methods and all trainings largely share), plus
a rest. The true difference is that of the statistics' means over all trainings. Trainings differ
not at all, or by about 1 or 4 points of mean Dice (standard deviation), with a normal distribution,
or by 4 points with an exponential one, of which some trainings are much worse than the others.

`printed` is what the reports print; `percentile bootstrap` draws cases and trainings with
replacement (the pigeonhole bootstrap); `cases only` is the interval for other cases with the same
trainings, and `trainings only` that of Student's t for the differences of the trainings.

    python benchmarks/coverage_trainings.py [--out FILE] [--samples 500]

It takes about 2 minutes. What is in the file already is not computed again. `--table` prints the
table of the docs.
"""

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import ndtri

from nnunet_dro.evaluation.comparing.trainings import differences_over_trainings
from nnunet_dro.evaluation.statistics.columns import PERCENTILES
from nnunet_dro.evaluation.statistics.intervals import difference_intervals

N_TRAININGS = (3, 5)
SIZES = (50, 200)
N_RESAMPLES = 500
#: Standard deviation of a training's deviate, and whether its distribution is skewed.
SPREADS = {
    "none": (0.0, False),
    "small": (0.1, False),
    "large": (0.3, False),
    "large, skewed": (0.3, True),
}
#: Shares of a case's deviate that all methods and trainings have in common, and that the trainings
#: of a method have.
COMMON = 0.8
OF_METHOD = 0.1
SHAPES = ((8, 2), (12, 2))
GRID = (np.arange(1001) + 0.5) / 1001
KEPT = ("mean", "iqr", *PERCENTILES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/coverage_trainings.csv")
    )
    parser.add_argument("--samples", type=int, default=500, help="Samples of each setting.")
    parser.add_argument("--table", action="store_true", help="Print the table of the docs instead.")
    arguments = parser.parse_args()
    done = (
        pd.read_csv(arguments.out, keep_default_na=False, na_values=[""])
        if arguments.out.exists()
        else None
    )
    if arguments.table:
        print(markdown(done))
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for spread in SPREADS:
        for n_trainings in N_TRAININGS:
            for n in SIZES:
                key = {"spread": spread, "trainings": n_trainings, "n": n}
                if done is not None and (done[list(key)] == list(key.values())).all(axis=1).any():
                    continue
                rows = pd.DataFrame(
                    [key | row for row in study(spread, n_trainings, n, arguments.samples)]
                )
                done = rows if done is None else pd.concat([done, rows], ignore_index=True)
                done.round(5).to_csv(arguments.out, index=False)
                print(f"{spread}, {n_trainings} trainings, {n} cases: done", flush=True)


def study(spread: str, n_trainings: int, n: int, n_samples: int) -> Iterator[dict[str, object]]:
    """A row per statistic and method."""
    rng = np.random.default_rng([list(SPREADS).index(spread), n_trainings, n])
    before, after = (true_statistics(shape, spread) for shape in SHAPES)
    truth = {name: after[name] - before[name] for name in KEPT}
    pairs = [scores(rng, spread, n_trainings, n) for _ in range(n_samples)]
    bounded = [True] * n_samples
    differences = differences_over_trainings(pairs, bounded=bounded)
    for name in KEPT:
        bounds = differences[[f"{name}_difference_low", f"{name}_difference_high"]].to_numpy()
        yield {"statistic": name, "method": "printed"} | held(bounds, truth[name])
    means = [(before.mean(axis=0), after.mean(axis=0)) for before, after in pairs]
    for_cases = difference_intervals(means, bounded=bounded)
    yield {"statistic": "mean", "method": "cases only"} | held(for_cases[:, 0], truth["mean"])
    changes = np.array([after.mean(axis=1) - before.mean(axis=1) for before, after in pairs])
    half = stats.t.ppf(0.975, n_trainings - 1) * changes.std(axis=1, ddof=1) / np.sqrt(n_trainings)
    for_trainings = changes.mean(axis=1)[:, None] + np.outer(half, [-1, 1])
    yield {"statistic": "mean", "method": "trainings only"} | held(for_trainings, truth["mean"])
    resampled = np.array([pigeonhole(after - before, rng) for before, after in pairs])
    yield {"statistic": "mean", "method": "percentile bootstrap"} | held(resampled, truth["mean"])


def scores(
    rng: np.random.Generator, spread: str, n_trainings: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """The scores of both methods, shape (n_trainings, n) each."""
    size, skewed = SPREADS[spread]
    common = rng.normal(size=n)
    scores_by_shape = []
    for shape in SHAPES:
        effect = (
            1 - rng.exponential(size=(n_trainings, 1))
            if skewed
            else rng.normal(size=(n_trainings, 1))
        )
        per_case = np.sqrt(COMMON) * common + np.sqrt(OF_METHOD) * rng.normal(size=n)
        rest = np.sqrt(1 - COMMON - OF_METHOD) * rng.normal(size=(n_trainings, n))
        deviates = size * effect + np.sqrt(1 - size**2) * (per_case + rest)
        scores_by_shape.append(quantiles(shape, deviates))
    return scores_by_shape[0], scores_by_shape[1]


@cache
def true_statistics(shape: tuple[int, int], spread: str) -> dict[str, float]:
    """The means over all trainings of the statistics of all cases."""
    size, skewed = SPREADS[spread]
    effects = (1 - stats.expon.ppf(GRID) if skewed else ndtri(GRID)) if size else np.zeros(1)
    values = quantiles(shape, size * effects[:, None] + np.sqrt(1 - size**2) * ndtri(GRID))
    statistics = {
        name: np.percentile(values, percent, axis=1) for name, percent in PERCENTILES.items()
    }
    statistics["mean"] = values.mean(axis=1)
    statistics["iqr"] = statistics["p75"] - statistics["p25"]
    return {name: float(numbers.mean()) for name, numbers in statistics.items()}


def quantiles(shape: tuple[int, int], deviates: np.ndarray) -> np.ndarray:
    """The scores of normal deviates."""
    deviate, score = table(shape)
    return np.interp(deviates, deviate, score)


@cache
def table(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Normal deviates and their scores."""
    deviates = np.linspace(-9, 9, 20_001)
    return deviates, stats.beta.ppf(stats.norm.cdf(deviates), *shape)


def pigeonhole(changes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The percentile interval of the mean, cases and pairs of trainings drawn with replacement."""
    weights = [rng.multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES) / n for n in changes.shape]
    return np.quantile(((weights[0] @ changes) * weights[1]).sum(axis=1), [0.025, 0.975])


def held(bounds: np.ndarray, value: float) -> dict[str, object]:
    """The number of samples with a bound, the share of them that holds, and the median width."""
    low, high = bounds.T
    printed = ~(np.isnan(low) & np.isnan(high))
    holds = ~(low > value) & ~(high < value)
    width = (high - low)[~np.isnan(high - low)]
    return {
        "samples": int(printed.sum()),
        "coverage": float(holds[printed].mean()) if printed.any() else None,
        "width": float(np.median(width)) if len(width) else None,
    }


def markdown(rows: pd.DataFrame) -> str:
    """Coverage and median width in points of Dice of 50 cases, by spread and trainings."""
    methods = [
        ("mean", m) for m in ("printed", "cases only", "trainings only", "percentile bootstrap")
    ]
    methods += [("p25", "printed")]
    heads = [f"{statistic}, {method}" for statistic, method in methods]
    lines = [
        f"| trainings differ | trainings | {' | '.join(heads)} |",
        "| --- | ---: |" + " ---: |" * len(heads),
    ]
    rows_of_size = rows[rows["n"] == 50].set_index(["spread", "trainings", "statistic", "method"])
    for spread in SPREADS:
        for n_trainings in N_TRAININGS:
            cells = []
            for statistic, method in methods:
                row = rows_of_size.loc[(spread, n_trainings, statistic, method)]
                cells.append(f"{100 * row['coverage']:.0f} % ({100 * row['width']:.1f})")
            lines.append(f"| {spread} | {n_trainings} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
