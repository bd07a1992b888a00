"""Rare modalities of cell nuclei: which way of drawing finds them without being told, and what do the others pay?

    python -m experiments.nuclei --data Dataset022_DSBNuclei [--quick] [--out FOLDER] [--cache FOLDER]

A training takes about four minutes of a processor core. Finished runs are kept in the cache: an interrupted experiment
continues where it stopped, and several of them, each with seeds of its own, may fill the same cache. The page has the
runs that are finished.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from experiments.curves import ScoredRun, decision, differences, draw_curves, results_table, scores_of
from experiments.datasets.nuclei import N_TEST, N_TRAIN, Image, read_nuclei, read_table, split_nuclei
from experiments.nuclei.methods import METHODS, ROLES
from experiments.nuclei.page import page_text
from experiments.nuclei.training import Run, train
from experiments.record import (
    OfSeed,
    add_jobs,
    cache_folder,
    cached_runs,
    experiment_parser,
    module_command,
    result_folder,
    write_result,
    write_table,
)

SEEDS = range(5)
ITERATIONS, QUICK_ITERATIONS = 4000, 10


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = nuclei_parser("nuclei", str(__doc__).splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    seeds, iterations = plan(arguments)
    images_of = divided_images(arguments.data, parser, quick=arguments.quick)
    runs = {
        f"{method}-seed{seed}": Run(trainer, seed, iterations) for seed in seeds for method, trainer in METHODS.items()
    }

    def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
        return asdict(train(runs[name], *images_of(runs[name].seed), progress=progress))

    keys = {name: asdict(run) for name, run in runs.items()}
    made = cached_runs(
        arguments.cache, keys, make, minutes=lambda name: minutes(runs[name].iterations), jobs=arguments.jobs
    )
    scores = scores_of(ScoredRun.of(name, runs[name], content, label="nucleus") for name, content in made.items())
    folder = result_folder(arguments.out, quick=arguments.quick)
    write_table(folder / "nuclei-all.csv", scores, float_format="%.4f")
    # The page shows what is in the file, rounded once.
    scores = pd.read_csv(folder / "nuclei-all.csv")
    found = differences(scores, ROLES)
    rule = decision(scores, ROLES)
    write_table(folder / "nuclei-rule.csv", rule, float_format="%.4f")
    page = write_result(
        folder,
        "nuclei",
        title="Rare modalities of cell nuclei",
        text=page_text(found, scores, iterations=iterations, seeds=seeds),
        table=results_table(found, ROLES),
        figure=draw_curves(scores, ROLES, N_TRAIN, cases="images"),
        command=module_command("experiments.nuclei", argv),
        seeds=seeds,
        quick=arguments.quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    sys.stdout.write(f"{page}\n")


def nuclei_parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser with the options of all experiments on the nuclei."""
    parser = experiment_parser(name, description)
    parser.add_argument("--data", type=Path, required=True, help="The raw dataset of nuclei in nnU-Net's format.")
    parser.add_argument("--seeds", type=int, nargs="+", help="Seeds to run (default: 0 to 4; with --quick 0).")
    parser.add_argument(
        "--cache", type=Path, default=cache_folder("nuclei"), help="Folder for finished runs (default: %(default)s)."
    )
    add_jobs(parser)
    return parser


def minutes(iterations: int) -> float:
    """Minutes of a processor core that a training takes with its tests, about.

    Args:
        iterations: Its length.
    """
    return 0.2 + iterations / 1000


def plan(arguments: argparse.Namespace, iterations: int = ITERATIONS) -> tuple[list[int], int]:
    """The seeds, and the iterations of a training: those given, or with --quick a few."""
    seeds = arguments.seeds or ([0] if arguments.quick else list(SEEDS))
    # One thread adds up in the same order on every machine.
    torch.set_num_threads(1)
    return seeds, QUICK_ITERATIONS if arguments.quick else iterations


def divided_images(
    data: Path, parser: argparse.ArgumentParser, *, quick: bool
) -> Callable[[int], tuple[list[Image], list[Image]]]:
    """A function of the seed that reads its training and test images; without data, the parser exits."""
    try:
        table = read_table(data)
    except FileNotFoundError as error:
        parser.exit(2, f"{error}\n")

    def read(seed: int) -> tuple[list[Image], list[Image]]:
        n_test = dict.fromkeys(N_TEST, 2) if quick else N_TEST
        split = split_nuclei(table, rng=np.random.default_rng([seed, 0]), n_test=n_test)
        train_images, test_images = (read_nuclei(data, split[side]) for side in ("train", "test"))
        return train_images, test_images

    return OfSeed(read)


if __name__ == "__main__":
    main()
