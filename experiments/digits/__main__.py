"""A rare digit: hardness weighted sampling on MNIST with most of one digit's training images taken away.

    python -m experiments.digits [--quick] [--out FOLDER] [--cache FOLDER]

The toy example of Fidon et al. 2020 and 2022. Finished runs are kept in the cache: an interrupted experiment continues
where it stopped.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch

from experiments.datasets.mnist import load_digits
from experiments.digits.page import COLOURS, draw_curves, page_text
from experiments.digits.results import phases, results_table
from experiments.digits.training import Curve, Run, split_digits, train
from experiments.record import cache_folder, cached_runs, experiment_parser, module_command, result_folder, write_result


def planned_runs(*, quick: bool) -> list[Run]:
    """All trainings of the experiment, a seed at a time."""
    if quick:
        return [Run(0.05, beta, 0, n_train=60, n_test=20, epochs=4) for beta in (0.0, 10.0, 100.0)]
    return [Run(share, beta, seed) for seed in range(3) for share in (0.01, 0.05) for beta in COLOURS]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("digits", str(__doc__).splitlines()[0])
    parser.add_argument(
        "--cache", type=Path, default=cache_folder("digits"), help="Folder for finished runs (default: %(default)s)."
    )
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    try:
        images, labels = load_digits()
    except ImportError as error:
        parser.exit(2, f"{error}\n")
    # One thread adds up in the same order on every machine.
    torch.set_num_threads(1)
    runs = {f"share{r.share:g}-beta{r.beta:g}-seed{r.seed}": r for r in planned_runs(quick=arguments.quick)}

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return asdict(train(runs[name], split_digits(images, labels, runs[name]), progress=progress))

    made = cached_runs(arguments.cache, {name: asdict(run) for name, run in runs.items()}, make)
    results = [(runs[name], Curve(**content)) for name, content in made.items()]
    rows = pd.DataFrame([phases(run, curve) for run, curve in results]).sort_values(["share", "seed", "beta"])
    # Against ERM, which comes first, of the same share and seed.
    rows["gain"] = rows["rare_late"] - rows.groupby(["share", "seed"])["rare_late"].transform("first")
    page = write_result(
        result_folder(arguments.out, quick=arguments.quick),
        "digits",
        title="A rare digit",
        text=page_text(rows, results[0][0]),
        table=results_table(rows),
        figure=draw_curves(results),
        command=module_command("experiments.digits", argv),
        seeds=sorted({run.seed for run in runs.values()}),
        quick=arguments.quick,
        seconds=sum(curve.seconds for _, curve in results),
    )
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main()
