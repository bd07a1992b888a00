"""The cost of bootstrap intervals of all ten statistics, compared with scipy.stats.bootstrap.

The setting: 1,000 cases, 3 labels, 10 attributes with one stratum of all cases each, and 2,000 resamples. That makes
30 samples of 1,000 values, all different. The other method is scipy's, vectorised and with percentile intervals, one
call per statistic; it is timed on `N_SCIPY` of the samples, and its time is scaled up to all. Both also run on samples
of 100 cases, and ours alone on samples of 30 sizes, on 100,000 cases and on paired samples.

    python benchmarks/bootstrap.py [--out FILE]
"""

import argparse
import json
import platform
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.stats
from rich.console import Console
from rich.table import Table

from nnunet_dro.evaluation.bootstrap import difference_intervals, intervals
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.stratum_statistics import summarise

N_RESAMPLES, N_LABELS, N_STRATA = 2000, 3, 10
N_SCIPY = 2
ROUNDS = 3

SCIPY_STATISTICS = {
    "mean": lambda v, axis: np.mean(v, axis=axis),
    "std": lambda v, axis: np.std(v, axis=axis, ddof=1),
    "median": lambda v, axis: np.median(v, axis=axis),
    "iqr": lambda v, axis: np.subtract(*np.percentile(v, [75, 25], axis=axis)),
    **{f"p{q}": lambda v, axis, q=q: np.percentile(v, q, axis=axis) for q in (75, 25, 10, 5)},
    "min": lambda v, axis: np.min(v, axis=axis),
    "max": lambda v, axis: np.max(v, axis=axis),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/bootstrap.json"), help="File to write.")
    out = parser.parse_args().out
    rows = [measure(n) for n in (100, 1000)]
    ours_only = measure_others()
    table = Table(
        title=f"Intervals of ten statistics, {N_LABELS * N_STRATA} samples, {N_RESAMPLES:,} resamples: seconds"
    )
    for column in ("cases per sample", "nnunet-dro", "scipy.stats.bootstrap (scaled)", "ratio"):
        table.add_column(column, justify="right")
    for row in rows:
        cells = f"{row['ours_s']:.3f}", f"{row['scipy_s']:.1f}", f"{row['ratio']:.0f}"
        table.add_row(f"{row['n']:,}", *cells)
    Console().print(table)
    Console().print(ours_only)
    out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    machine |= {"processor": platform.machine()}
    out.write_text(json.dumps({"machine": machine, "rows": rows, "ours_only": ours_only}, indent=1) + "\n")


def measure(n: int) -> dict[str, float]:
    samples = list(np.random.default_rng(n).beta(5, 1, size=(N_LABELS * N_STRATA, n)))
    rng = np.random.default_rng(0)

    def theirs() -> None:
        for sample in samples[:N_SCIPY]:
            for statistic in STATISTICS:
                scipy.stats.bootstrap(
                    (sample,),
                    SCIPY_STATISTICS[statistic],
                    n_resamples=N_RESAMPLES,
                    vectorized=True,
                    method="percentile",
                    rng=rng,
                )

    pairs = [(seconds(lambda: intervals(samples, n_resamples=N_RESAMPLES)), seconds(theirs)) for _ in range(ROUNDS)]
    ours, scipy_subset = np.median(pairs, axis=0)
    scaled = scipy_subset * len(samples) / N_SCIPY
    return {
        "n": n,
        "samples": len(samples),
        "ours_s": ours,
        "scipy_s": scaled,
        "scipy_samples_timed": N_SCIPY,
        "ratio": scaled / ours,
    }


def measure_others() -> dict[str, float]:
    rng = np.random.default_rng(0)
    cases, labels = [f"c{i:04}" for i in range(1000)], [f"label {i}" for i in range(N_LABELS)]
    scores = pd.MultiIndex.from_product([cases, labels], names=["case", "label"]).to_frame(index=False)
    scores["dice"] = rng.beta(5, 1, size=len(scores))
    whole = {f"attribute {i}": pd.Series("every case", index=cases) for i in range(N_STRATA)}
    pairs = [(rng.random(1000), rng.random(1000)) for _ in range(N_LABELS * N_STRATA)]
    # Undefined values make samples of sizes of their own, which share no draws.
    sizes = [rng.random(1000 - i) for i in range(N_LABELS * N_STRATA)]
    large = [rng.random(100_000)]
    return {
        "summarise_1000_cases_s": seconds(lambda: summarise(scores, whole, n_resamples=N_RESAMPLES)),
        "samples_of_971_to_1000_s": seconds(lambda: intervals(sizes, n_resamples=N_RESAMPLES)),
        "paired_30_samples_of_1000_s": seconds(lambda: difference_intervals(pairs, n_resamples=N_RESAMPLES)),
        "one_sample_of_100000_s": seconds(lambda: intervals(large, n_resamples=N_RESAMPLES)),
        "summarise_1000_cases_peak_mb": megabytes(lambda: summarise(scores, whole, n_resamples=N_RESAMPLES)),
        "one_sample_of_100000_peak_mb": megabytes(lambda: intervals(large, n_resamples=N_RESAMPLES)),
    }


def megabytes(function: Callable[[], object]) -> float:
    """The most memory it holds beyond what was there."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
