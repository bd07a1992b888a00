"""A rare digit: is the gain of hardness weighted sampling one of speed, or does it remain when ERM has converged?

    python -m experiments.digits [--seeds 0 1 2] [--add] [--quick] [--out FOLDER] [--cache FOLDER]

The toy example of Fidon et al. 2020 and 2022. Finished runs are kept in the cache: an interrupted experiment continues
where it stopped, and several of them, each with seeds of its own, may fill the same cache. The page has the seeds that
are asked for, and with ``--add`` those that its tables have as well.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch

from experiments.datasets.mnist import load_digits
from experiments.digits.figure import draw_curves
from experiments.digits.page import page_text
from experiments.digits.plan import SEEDS, planned_runs
from experiments.digits.results import epochs_table, falls, in_order
from experiments.digits.split import split_digits
from experiments.digits.tables import quarters_table, stability_table, trainings_table
from experiments.digits.training import train
from experiments.record import (
    add_jobs,
    add_more_seeds,
    added_seeds,
    cache_folder,
    cached_runs,
    experiment_parser,
    module_command,
    result_folder,
    with_seeds_before,
    write_result,
    write_table,
)

#: Minutes of a processor core that an epoch takes for each beta and training image of a digit, about.
MINUTES = 5.7e-5


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("digits", str(__doc__).splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", help="Seeds to run (default: 0 to 4; with --quick 0).")
    parser.add_argument(
        "--cache", type=Path, default=cache_folder("digits"), help="Folder for finished runs (default: %(default)s)."
    )
    add_more_seeds(parser)
    add_jobs(parser)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds = arguments.seeds or ([0] if arguments.quick else list(SEEDS))
    try:
        images, labels = load_digits()
    except ImportError as error:
        parser.exit(2, f"{error}\n")
    # One thread adds up in the same order on every machine.
    torch.set_num_threads(1)
    runs = {f"share{run.share:g}-seed{run.seed}": run for run in planned_runs(seeds, quick=arguments.quick)}

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return asdict(train(runs[name], split_digits(images, labels, runs[name]), progress=progress))

    def minutes(name: str) -> float:
        return MINUTES * runs[name].epochs * len(runs[name].betas) * runs[name].n_train

    keys = {name: asdict(run) for name, run in runs.items()}
    made = cached_runs(arguments.cache, keys, make, minutes=minutes, jobs=arguments.jobs)
    folder = result_folder(arguments.out, quick=arguments.quick)
    everything = folder / "digits-all.csv"
    epochs = epochs_table((runs[name], result) for name, result in made.items())
    try:
        epochs = with_seeds_before(epochs, everything, add=arguments.add)
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    write_table(everything, in_order(epochs), float_format="%.5g")
    # The page shows what is in the file, rounded once.
    epochs = pd.read_csv(everything)
    write_table(folder / "digits-gains.csv", quarters_table(epochs))
    write_table(folder / "digits-stability.csv", stability_table(falls(epochs)), float_format="%.4g")
    all_seeds = sorted(epochs["seed"].unique().tolist())
    page = write_result(
        folder,
        "digits",
        title="A rare digit",
        text=page_text(epochs, next(iter(runs.values()))),
        table=trainings_table(epochs),
        shown=quarters_table(epochs),
        figure=draw_curves(epochs),
        command=module_command("experiments.digits", argv, seeds=all_seeds),
        seeds=all_seeds,
        added=added_seeds(seeds, epochs),
        quick=arguments.quick,
        seconds=sum(result["seconds"] for result in made.values()),
    )
    sys.stdout.write(f"{page}\n")


if __name__ == "__main__":
    main()
