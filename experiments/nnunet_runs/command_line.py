"""The command line of the experiments that train nnU-Net."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from experiments.record import experiment_parser
from nnunet_dro.nnunet.command import CommandError

#: Seeds of the datasets, and those of a smoke run.
SEEDS, QUICK_SEEDS = (0, 1, 2), (0,)


def study_parser(description: str, *, methods: Sequence[str] = ()) -> argparse.ArgumentParser:
    """What these experiments share: ``--quick``, ``--out``, ``--work``, ``--data``, ``--seeds`` and ``--methods``.

    Args:
        description: The first lines of the help.
        methods: Those to choose from; none for an experiment that always trains all.
    """
    parser = experiment_parser(description)
    parser.add_argument("--work", type=Path, required=True, help="folder for data, trainings and predictions")
    parser.add_argument("--data", type=Path, help="the raw hippocampus dataset, with cases.csv (default: phantoms)")
    parser.add_argument("--seeds", type=int, nargs="+", help="of the datasets (default: 0 1 2)")
    if methods:
        parser.add_argument("--methods", nargs="+", choices=tuple(methods), help="default: all", metavar="METHOD")
    return parser


def report_page(name: str, make: Callable[[Console], Path]) -> int:
    """Make a page and say where it is, or in one line what went wrong.

    Args:
        name: Of the experiment.
        make: Makes the page; it is given the console for its progress.

    Returns:
        The exit code: 2 if something must be put right first, 1 if a command of nnU-Net fails.
    """
    console = Console(soft_wrap=True)
    try:
        page = make(console)
    except (ValueError, OSError, CommandError) as error:
        Console(stderr=True, soft_wrap=True).print(f"{name}: {error}", markup=False, highlight=False)
        return 1 if isinstance(error, CommandError) else 2
    console.print(page, highlight=False, markup=False)
    return 0


def page_command(
    start: str, *, options: Sequence[str] = (), seeds: Sequence[int], methods: Sequence[str] = (), quick: bool
) -> str:
    """The command that makes a page again, in a folder of one's own.

    Args:
        start: Name of the experiment's package, and what follows it first.
        options: That say which study it is.
        seeds: Of the datasets.
        methods: Those that are compared; none if there is no choice.
        quick: Whether it is a smoke run.
    """
    words = [f"python -m experiments.{start} --work FOLDER", *options, "--seeds", *map(str, seeds)]
    words += ["--methods", *methods] if methods else []
    return " ".join([*words, *(["--quick"] if quick else [])])
