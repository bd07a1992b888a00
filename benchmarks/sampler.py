"""What one draw and update costs, beside softmax + numpy.random.choice, from 100 to 10 million cases.

The other method is the one that Fidon et al. 2022 (MELBA) time in their Table 4: keep a vector of losses, and each
iteration compute the softmax of all of them and call `numpy.random.choice`. Batch 2, beta 100, as there. Both run in
turn in one process, so that a slow moment of the machine meets both.

    python benchmarks/sampler.py [--out FILE]
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from nnunet_dro.sampling import HardnessTable

BATCH, BETA = 2, 100.0
SIZES = tuple(10**k for k in range(2, 8))
ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sampler.json"))
    out = parser.parse_args().out
    rows = [measure(n) for n in SIZES]
    table = Table(title=f"Draw + update of a batch of {BATCH}, beta {BETA:g}: microseconds, median of {ROUNDS} rounds")
    for column in ("cases", "HardnessTable", "softmax + random.choice", "ratio", "bytes per case"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            f"{row['n']:,}",
            f"{row['table_us']:.1f}",
            f"{row['choice_us']:,.1f}",
            f"{row['ratio']:.5f}" if row["ratio"] < 0.01 else f"{row['ratio']:.2f}",
            f"{row['bytes_per_case']:.1f}",
        )
    Console().print(table)
    out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def measure(n: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    losses = rng.normal(0.5, 0.1, size=n)
    table = HardnessTable([str(i) for i in range(n)], beta=BETA)
    table.load_state_dict({"cases": table.cases, "losses": losses, "seen": np.ones(n, dtype=bool), "refused": 0})
    # Draws in the log are one int32 per case more.
    shared = sum(len(memory) * np.dtype(memory._type_).itemsize for memory in table._memory.values()) + 4 * n
    fresh = rng.normal(0.5, 0.1, size=(1000, BATCH))
    legacy = np.random.RandomState(0)

    def ours(i: int) -> None:
        draws = table.draw(BATCH, rng=rng)
        table.update(draws.indices, fresh[i % 1000])

    def theirs(i: int) -> None:
        weights = np.exp(BETA * (losses - losses.max()))
        indices = legacy.choice(n, size=BATCH, p=weights / weights.sum())
        losses[indices] = fresh[i % 1000]

    n_theirs = max(3, min(2000, 2_000_000 // n))
    times = np.array([(per_call(ours, 2000), per_call(theirs, n_theirs)) for _ in range(ROUNDS)])
    ratio = float(np.median(times[:, 0] / times[:, 1]))
    mine, other = np.median(times, axis=0)
    return {"n": n, "table_us": mine, "choice_us": other, "ratio": ratio, "bytes_per_case": shared / n}


def per_call(function: Callable[[int], None], n_calls: int) -> float:
    """Microseconds per call."""
    start = time.perf_counter()
    for i in range(n_calls):
        function(i)
    return 1e6 * (time.perf_counter() - start) / n_calls


if __name__ == "__main__":
    main()
