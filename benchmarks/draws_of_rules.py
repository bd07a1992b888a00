"""Processor time of a draw and an update of a batch of 2 by rules that follow the losses.

It can be compared with the default rule of another build, of which a checkout is given: the two
builds run in processes of their own and take turns, so that a slow moment of the machine affects
both.

    python benchmarks/draws_of_rules.py [--before FOLDER] [--quick] [--out FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import nnunet_dro
from nnunet_dro import sampling

SIZES = (20, 100, 1000)
#: The rule of `nnUNetTrainerDRO` comes first.
RULES = {
    "hardest": lambda n: sampling.Hardest(),
    "hardest, rare kinds": lambda n: sampling.Hardest(base=rare_kinds(n)),
    "earned": lambda n: sampling.EarnedBall(0.0, 0.5),
    "softmax": lambda n: sampling.KL(10.0),
}
#: The rule of `nnUNetTrainerDRO` in version 0.3, with which another build is timed.
RULE_BEFORE = "earned"
BATCH = 2
ROUNDS = 9
N_DRAWS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="Checkout of the build to compare with.")
    parser.add_argument(
        "--quick", action="store_true", help="Only time few draws, to check that the script runs."
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/draws_of_rules.json"))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return

    now = started(Path(nnunet_dro.__file__).parents[1])
    before = started(arguments.before) if arguments.before else None
    rows = []
    for n in SIZES:
        rows += measure(n, now, before, n_rounds=2 if arguments.quick else ROUNDS)
    for process in filter(None, (now, before)):
        process.stdin.close()
        process.wait()

    for row in rows:
        line = f"{row['rule']:20} {row['n']:6,} cases {row['us']:8.1f} us"
        if before:
            line += f", {row['ratio']:.2f} times the {row['before_us']:.1f} us of the other build"
        print(line)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"before": arguments.before and arguments.before.name, "rows": rows}
    arguments.out.write_text(json.dumps(numbers, indent=1) + "\n")


def measure(n: int, now: Any, before: Any, *, n_rounds: int) -> list[dict[str, Any]]:
    """A row for each rule; the builds take turns, and ratios are medians over the turns."""
    times: dict[str, list[float]] = {rule: [] for rule in RULES}
    times_before = []
    for _ in range(n_rounds):
        if before:
            times_before.append(ask(before, RULE_BEFORE, n))
        for rule in RULES:
            times[rule].append(ask(now, rule, n))

    rows = []
    for rule in RULES:
        row = {"rule": rule, "n": n, "us": float(np.median(times[rule]))}
        if before:
            row["before_us"] = float(np.median(times_before))
            row["ratio"] = float(np.median(np.divide(times[rule], times_before)))
        rows.append(row)
    return rows


def started(checkout: Path) -> "subprocess.Popen[str]":
    """A process that times the build of a checkout when it is asked to."""
    return subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        env=os.environ | {"PYTHONPATH": str(checkout.resolve())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def ask(process: Any, rule: str, n: int) -> float:
    """Microseconds of a draw and an update in another process."""
    process.stdin.write(json.dumps([rule, n]) + "\n")
    return float(process.stdout.readline())


def serve() -> None:
    """Time rules and numbers of cases as they are read from the standard input."""
    tables: dict[tuple[str, int], sampling.HardnessTable] = {}
    for line in sys.stdin:
        rule, n = json.loads(line)
        losses = losses_of(n)
        if (rule, n) not in tables:
            table = sampling.HardnessTable(list(map(str, range(n))), rule=RULES[rule](n))
            table.update(np.arange(n), losses)
            tables[rule, n] = table
        print(microseconds(tables[rule, n], losses), flush=True)


def microseconds(table: sampling.HardnessTable, losses: np.ndarray) -> float:
    """Processor time of a draw and an update with losses that differ from patch to patch."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0.0, 0.02, (N_DRAWS, BATCH))
    start = time.process_time()
    for k in range(N_DRAWS):
        indices = table.draw(BATCH, rng=rng).indices
        table.update(indices, losses[indices] + noise[k])
    return 1e6 * (time.process_time() - start) / N_DRAWS


def losses_of(n: int) -> np.ndarray:
    """Losses of well segmented cases, and of a twentieth that is harder."""
    losses = np.random.default_rng(0).normal(-0.85, 0.05, n)
    losses[: max(1, n // 20)] = -0.5
    return losses


def rare_kinds(n: int) -> np.ndarray:
    """A tenth of the cases drawn more often than others."""
    base = np.ones(n)
    base[: n // 10] = 2.0
    return base / base.mean()


if __name__ == "__main__":
    main()
