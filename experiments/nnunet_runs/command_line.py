"""The command line of the experiments that train nnU-Net."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from experiments.record import add_jobs, experiment_parser
from nnunet_dro.nnunet.command import CommandError

#: Seeds of the datasets, and those of a smoke run.
SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)


def study_parser(
    name: str,
    description: str,
    *,
    methods: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
) -> argparse.ArgumentParser:
    """A parser with the options of these experiments: those of all, and the folders, the seeds and the methods.

    Args:
        name: Name of the experiment's package.
        description: First lines of the help.
        methods: Methods to choose from; none if the experiment always trains all.
        seeds: Seeds that are run if none are given.
    """
    parser = experiment_parser(name, description)
    parser.add_argument("--work", type=Path, required=True, help="Folder for data, trainings and predictions.")
    default = " ".join(map(str, seeds))
    parser.add_argument("--seeds", type=int, nargs="+", help=f"Seeds of datasets and trainings (default: {default}).")
    add_jobs(parser)
    if methods:
        parser.add_argument(
            "--methods",
            nargs="+",
            choices=tuple(methods),
            help="Methods to train in addition to the baseline (default: all).",
            metavar="METHOD",
        )
    return parser


def report_page(name: str, make: Callable[[Console], Path]) -> int:
    """Make a page and print its path, or in one line what went wrong.

    Args:
        name: Name of the experiment.
        make: Makes the page; its argument is the console for the progress.

    Returns:
        The exit code: 2 if the input must be corrected, 1 if a command of nnU-Net fails.
    """
    console = Console(soft_wrap=True)
    try:
        page = make(console)
    except (ValueError, OSError, CommandError) as error:
        Console(stderr=True, soft_wrap=True).print(f"{name}: {error}", markup=False, highlight=False)
        return 1 if isinstance(error, CommandError) else 2
    console.print(page, highlight=False, markup=False)
    return 0


def page_command(start: str, *, seeds: Sequence[int], methods: Sequence[str] = (), quick: bool) -> str:
    """The command that makes a page again, in any work folder.

    Args:
        start: Name of the experiment's package, and the words that must follow it.
        seeds: Seeds of the datasets.
        methods: Methods that are compared; none if the experiment always trains all.
        quick: Whether it is a smoke run.
    """
    words = [f"python -m experiments.{start} --work FOLDER", "--seeds", *map(str, seeds)]
    words += ["--methods", *methods] if methods else []
    return " ".join([*words, *(["--quick"] if quick else [])])
