"""Times a draw and an update of the hardness table against softmax + numpy.random.choice.

There are 100 to 10 million cases.

The other method is the one that Fidon et al. 2022 (MELBA) time in their Table 4: it keeps a vector
of losses, and in each iteration computes the softmax of all losses and calls `numpy.random.choice`.
As there, the batch size is 2 and beta is 100. Both methods run in turn in one process, so that a
slow moment of the machine affects both. A table of 1,000 cases takes part as well and shows whether
the cost grows. The last row is for sub-volumes, 10 in each of 100,000 cases, and includes finding
the case and the position of the cell in its volume, which each draw needs then.

    python benchmarks/sampler.py [--quick] [--out FILE]
"""

import argparse
import json
import platform
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.data.subvolumes import Subvolumes

BATCH = 2
BETA = 100.0
SIZES = tuple(10**k for k in range(2, 8))
N_CASES_DIVIDED = 100_000
GRID = (1, 2, 5)
VOLUME = (160, 512, 512)
N_SMALL = 1000
ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        help="File to write; else it is in results/ or, with --quick, temporary.",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="Only time few cases once, to check that the script runs.",
    )
    arguments = parser.parse_args()
    out = (
        arguments.out
        or Path(tempfile.gettempdir() if arguments.quick else "benchmarks/results") / "sampler.json"
    )
    n_divided = 100 if arguments.quick else N_CASES_DIVIDED
    n_rounds = 1 if arguments.quick else ROUNDS
    rows = [measure(n, n_rounds=n_rounds) for n in (SIZES[:1] if arguments.quick else SIZES)]
    subvolumes = Subvolumes(tuple(f"case_{i:06d}" for i in range(n_divided)), GRID)
    cells = measure(len(subvolumes), subvolumes, n_rounds=n_rounds)
    rows.append(cells | construction(subvolumes))
    table = Table(
        title=f"Draw + update of a batch of {BATCH}, beta {BETA:g}: "
        f"microseconds, median of {n_rounds} rounds"
    )
    for column in (
        "items",
        "HardnessTable",
        "to 1,000",
        "to replace",
        "softmax + choice",
        "ratio",
        "bytes per item",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        items = f"{row['n']:,} cells" if "names_s" in row else f"{row['n']:,}"
        n_decimals = 5 if row["ratio"] < 0.01 else 2
        table.add_row(
            items,
            f"{row['table_us']:.1f}",
            f"{row['growth']:.2f} x",
            f"{row['distinct']:.2f} x",
            f"{row['choice_us']:,.1f}",
            f"{row['ratio']:.{n_decimals}f}",
            f"{row['bytes_per_case']:.1f}",
        )
    Console().print(table)
    Console().print(
        f"Creating {rows[-1]['n']:,} cells: names {rows[-1]['names_s']:.2f} s and "
        f"{rows[-1]['names_mb']:.0f} MB, "
        f"the table's own objects {rows[-1]['table_s']:.2f} s and {rows[-1]['table_mb']:.0f} MB"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "processor": platform.machine(),
    }
    out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def measure(n: int, subvolumes: Subvolumes | None = None, *, n_rounds: int) -> dict[str, float]:
    """One row: a table of n cases or sub-volumes beside the paper's method and a small table."""
    rng = np.random.default_rng(0)
    losses = rng.normal(0.5, 0.1, size=n)
    table = filled([str(i) for i in range(n)] if subvolumes is None else subvolumes.names, losses)
    independent = filled(list(table.cases), losses, replace=True)
    small = filled([str(i) for i in range(N_SMALL)], rng.normal(0.5, 0.1, size=N_SMALL))
    # The log counts the draws, and the table the age of each loss, with another int32 per case
    # each.
    shared = table._shared.nbytes + 8 * n
    fresh = rng.normal(0.5, 0.1, size=(1000, BATCH))
    legacy = np.random.RandomState(0)

    def ours(table: HardnessTable, cells: Subvolumes | None, i: int) -> None:
        draws = table.draw(BATCH, rng=rng)
        if cells is not None:
            for item in draws.indices:
                _ = cells.cases[cells.case_of[item]], cells.bounds(item, VOLUME)
        table.update(draws.indices, fresh[i % 1000])

    def theirs(i: int) -> None:
        weights = np.exp(BETA * (losses - losses.max()))
        indices = legacy.choice(n, size=BATCH, p=weights / weights.sum())
        losses[indices] = fresh[i % 1000]

    n_theirs = max(3, min(2000, 2_000_000 // n))
    methods = (
        (partial(ours, table, subvolumes), 2000),
        (theirs, n_theirs),
        (partial(ours, small, None), 2000),
        (partial(ours, independent, subvolumes), 2000),
    )
    times = np.array(
        [[per_call(method, n_calls) for method, n_calls in methods] for _ in range(n_rounds)]
    )
    table_us, choice_us, *_ = np.median(times, axis=0)
    return {
        "n": n,
        "table_us": table_us,
        "choice_us": choice_us,
        "ratio": float(np.median(times[:, 0] / times[:, 1])),
        "growth": float(np.median(times[:, 0] / times[:, 2])),
        "distinct": float(np.median(times[:, 0] / times[:, 3])),
        "bytes_per_case": shared / n,
    }


def filled(
    names: list[str], losses: NDArray[np.float64], *, replace: bool = False
) -> HardnessTable:
    """A table in which every case was seen."""
    table = HardnessTable(names, beta=BETA, replace=replace)
    table.load_state_dict(
        table.state_dict() | {"losses": losses, "seen": np.ones(len(names), dtype=bool)}
    )
    return table


def construction(subvolumes: Subvolumes) -> dict[str, float]:
    """Seconds and megabytes of Python objects that the names of the cells, and a table, take."""
    row: dict[str, float] = {}
    names = subvolumes.names
    for what, make in (
        ("names", lambda: subvolumes.names),
        ("table", lambda: HardnessTable(names, beta=BETA)),
    ):
        start = time.perf_counter()
        made = make()
        row[f"{what}_s"] = time.perf_counter() - start
        del made
        tracemalloc.start()  # in a second run, because it slows the code down
        made = make()
        row[f"{what}_mb"] = tracemalloc.get_traced_memory()[0] / 1e6
        tracemalloc.stop()
        del made
    return row


def per_call(function: Callable[[int], None], n_calls: int) -> float:
    """Microseconds per call."""
    start = time.perf_counter()
    for i in range(n_calls):
        function(i)
    return 1e6 * (time.perf_counter() - start) / n_calls


if __name__ == "__main__":
    main()
