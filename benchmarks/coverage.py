"""How often 95 % intervals contain the true value, and how wide they are, by simulation.

Samples of 5 to 500 cases are drawn from six shapes: four of a fraction (Beta(8, 2); the same with a tenth of the cases
at 0; the same with a quarter at 1; uniform) and two of a distance (lognormal; the same with a tenth of the cases at 200
mm). For differences, a second method has values of a better shape, correlated with the first (a Gaussian copula, 0.8).
`printed` is what the reports print; the other methods are those that were considered. A bound that is not printed
cannot be wrong; an interval without any bound is not counted.

    python benchmarks/coverage.py [--out FILE] [--samples 2000]

It takes about 15 minutes. What is in the file already is not computed again. `--table` prints the table of the docs.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import interval_candidates as candidates
import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import ndtr

from nnunet_dro.evaluation import bootstrap
from nnunet_dro.evaluation.intervals import difference_intervals, intervals
from nnunet_dro.evaluation.mean_bounds import bounded_mean_and_std, mean_by_bootstrap_t
from nnunet_dro.evaluation.statistics import PERCENTILES, STATISTICS

SIZES = (5, 10, 20, 30, 50, 75, 100, 200, 500)
N_RESAMPLES = 1000
CORRELATION = 0.8
#: The bootstrap of paired differences is slow: it is tried on fewer samples.
N_PAIRED = 400
GRID = (np.arange(100_001) + 0.5) / 100_001


@dataclass(frozen=True)
class Shape:
    """A distribution, continuous but for one value that a share of the cases has."""

    quantile: Callable[[np.ndarray], np.ndarray]
    atom: float = 0.0
    share: float = 0.0

    @cached_property
    def table(self) -> np.ndarray:
        """The quantiles of the continuous part at `GRID`."""
        return self.quantile(GRID)

    def values(self, u: np.ndarray) -> np.ndarray:
        """The values at these probabilities; the atom is at one of the ends."""
        low = self.atom <= self.table[0]
        rest = (u - self.share if low else u) / (1 - self.share)
        inside = np.interp(np.clip(rest, 0, 1), GRID, self.table)
        return np.where(u <= self.share if low else u >= 1 - self.share, self.atom, inside) if self.share else inside

    @cached_property
    def truth(self) -> dict[str, float]:
        """The statistics of the distribution."""
        found = {name: float(self.values(np.array([p / 100]))[0]) for name, p in PERCENTILES.items()}
        every = self.values(GRID)
        return found | {"iqr": found["p75"] - found["p25"], "mean": every.mean(), "std": every.std()}


def beta(a: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda u: stats.beta.ppf(u, a, 2)


def lognormal(mean: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda u: stats.lognorm.ppf(u, 0.8, scale=np.exp(mean))


#: Name to the shapes of the baseline and of the method.
SHAPES = {
    "Beta(8, 2)": (Shape(beta(8)), Shape(beta(12))),
    "10 % at 0": (Shape(beta(8), 0, 0.1), Shape(beta(8), 0, 0.05)),
    "25 % at 1": (Shape(beta(8), 1, 0.25), Shape(beta(8), 1, 0.5)),
    "uniform": (Shape(lambda u: u), Shape(lambda u: 0.2 + 0.8 * u)),
    "lognormal (mm)": (Shape(lognormal(0.7)), Shape(lognormal(0.5))),
    "10 % at 200 mm": (Shape(lognormal(0.7), 200, 0.1), Shape(lognormal(0.5), 200, 0.05)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/coverage.csv"), help="File to write.")
    parser.add_argument("--samples", type=int, default=2000, help="Samples of each shape and size.")
    parser.add_argument("--table", action="store_true", help="Print the table of the docs instead.")
    arguments = parser.parse_args()
    done = pd.read_csv(arguments.out) if arguments.out.exists() else pd.DataFrame()
    if arguments.table:
        print(markdown(done))
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for n in SIZES:
        for name in SHAPES:
            if len(done) and ((done["shape"] == name) & (done["n"] == n)).any():
                continue
            rows = pd.DataFrame(list(study(name, n, arguments.samples)))
            done = pd.concat([done, rows], ignore_index=True)
            done.round(5).to_csv(arguments.out, index=False)
            print(f"{name}, {n} cases: done", flush=True)


def study(name: str, n: int, n_samples: int) -> Iterator[dict[str, object]]:
    """A row per statistic and method."""
    rng = np.random.default_rng([n, list(SHAPES).index(name)])
    shapes, bounded = SHAPES[name], "mm" not in name
    normal = rng.normal(size=(2, n_samples, n))
    normal[1] = CORRELATION * normal[0] + np.sqrt(1 - CORRELATION**2) * normal[1]
    before, after = (shape.values(ndtr(z)) for shape, z in zip(shapes, normal, strict=True))
    truth, later = (shape.truth for shape in shapes)
    change = {statistic: later[statistic] - truth[statistic] for statistic in truth}
    found: list[tuple[str, str, float, np.ndarray]] = []
    for method, kind, true, bounds in (
        ("printed", "", truth, intervals(list(before), bounded=[bounded] * n_samples, n_resamples=N_RESAMPLES)),
        ("percentile bootstrap", "", truth, bootstrap.intervals(list(before), n_resamples=N_RESAMPLES)),
        (
            "printed",
            "difference of ",
            change,
            difference_intervals(
                list(zip(before, after, strict=True)), bounded=[bounded] * n_samples, n_resamples=N_RESAMPLES
            ),
        ),
        (
            "percentile bootstrap",
            "difference of ",
            change,
            bootstrap.difference_intervals(
                list(zip(before[:N_PAIRED], after[:N_PAIRED], strict=True)), n_resamples=N_RESAMPLES
            ),
        ),
    ):
        of_statistic = dict(zip(STATISTICS, np.moveaxis(bounds, 1, 0), strict=True))
        found += [(f"{kind}{s}", method, value, of_statistic[s]) for s, value in true.items()]
    found += considered(before, after - before, truth, change["mean"], bounded, rng)
    for statistic, method, value, bounds in found:
        yield {"statistic": statistic, "method": method, "shape": name, "n": n} | held(bounds, value)


def considered(
    before: np.ndarray,
    changes: np.ndarray,
    truth: dict[str, float],
    change: float,
    bounded: bool,
    rng: np.random.Generator,
) -> Iterator[tuple[str, str, float, np.ndarray]]:
    """Statistic, method, true value and bounds of the other candidates."""
    weights = candidates.resample_weights(before.shape[1], N_RESAMPLES, rng)
    for statistic, samples, value, low in (
        ("mean", before, truth["mean"], 0),
        ("difference of mean", changes, change, -1),
    ):
        yield statistic, "BCa bootstrap", value, candidates.means_by_bca(samples, weights)
        yield statistic, "Student's t", value, candidates.means_by_students_t(samples)
        options = {"tail": candidates.TAIL, "n_resamples": N_RESAMPLES, "seed": 0}
        ascending = np.sort(samples, axis=1)
        yield statistic, "bootstrap-t", value, mean_by_bootstrap_t(ascending, **options)
        if bounded:
            yield statistic, "betting", value, candidates.means_by_betting(samples, low, 1)
            yield statistic, "empirical Bernstein", value, candidates.means_by_empirical_bernstein(samples, low, 1)
            mean, std = bounded_mean_and_std(ascending, low=low, high=1, **options)
            yield statistic, "one more case", value, mean
            if low == 0:
                yield "std", "one more case", truth["std"], std
    yield "std", "bootstrap-t", truth["std"], candidates.stds_by_bootstrap_t(before, weights)


def held(bounds: np.ndarray, value: float) -> dict[str, object]:
    """The number of samples with a bound, the share of them that holds, and the median width."""
    low, high = bounds.T
    printed = ~(np.isnan(low) & np.isnan(high))
    rounding = 1e-9
    holds = ~(low > value + rounding) & ~(high < value - rounding)
    width = (high - low)[~np.isnan(high - low)]
    return {
        "samples": int(printed.sum()),
        "coverage": float(holds[printed].mean()) if printed.any() else None,
        "width": float(np.median(width)) if len(width) else None,
    }


def markdown(rows: pd.DataFrame) -> str:
    """The lowest coverage over the shapes, with the median width for Beta(8, 2) in points, for every size."""
    lines = ["| | method | " + " | ".join(map(str, SIZES)) + " |", "| --- | --- |" + " ---: |" * len(SIZES)]
    for (statistic, method), group in rows.groupby(["statistic", "method"], sort=False):
        cells = []
        for n in SIZES:
            of_size = group[group["n"] == n]
            width = of_size.loc[of_size["shape"] == "Beta(8, 2)", "width"]
            least = of_size["coverage"].min()
            text = "" if np.isnan(least) else f"{100 * least:.0f} %"
            cells.append(text + (f" ({100 * width.iloc[0]:.1f})" if text and width.notna().any() else ""))
        lines.append(f"| {statistic} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
