"""An experiment: its settings, the runs that have them, and the record of what came out.

    python -m experiments NAME [--quick] [--seeds 0 1] [--add] [--jobs 2] [--work FOLDER] [--out FOLDER] [--render]

Finished runs are kept in the work folder: an interrupted experiment continues where it stopped, and
several commands, each with seeds of its own, may fill the same folder.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure

from experiments.record.page import how_it_was_made, write_page, write_picture, write_table
from experiments.record.runs import add_jobs, cache_folder, make_runs

#: Folder of the records that belong to the documentation, and that of smoke runs, which must never
#: replace those.
RESULTS = Path("docs/results")
QUICK_RESULTS = Path("build/quick-results")


@dataclass(frozen=True)
class Options:
    """What a command asks for."""

    quick: bool  # Whether it is a smoke run.
    seeds: tuple[int, ...]  # Seeds to run.
    methods: tuple[str, ...]  # Methods to run, where they can be chosen.
    data: Path  # The raw dataset, where one is needed.
    work: Path  # Folder of the finished runs, and of what they need.
    add: bool = False  # Whether the runs are added to those in the tables.


@dataclass(frozen=True)
class Page:
    """What a record shows."""

    text: str  # What was asked and what came out, markdown, with headings from the second level on.
    # Results; the page shows rounded numbers of the rows that `shown_rows` keeps, the CSV all rows
    # and digits.
    table: pd.DataFrame
    seeds: Sequence[int] | None = (
        None  # Seeds of the random numbers; None for those of the first table.
    )
    shown: pd.DataFrame | None = (
        None  # What the page shows in place of the table; nothing if it has no row.
    )
    # Other tables that follow from those of the runs, by what their files' names end with.
    more: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    # Name's end of a picture to what draws it.
    pictures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)


#: Name of a run to its settings and what it gave, as it comes back from JSON.
Finished = Mapping[str, tuple[Any, Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment."""

    name: str  # Its name on the command line and in the names of its files.
    title: str  # Heading of its page, or of its section of a page.
    # The runs by their names, each a dataclass of all that determines it; what needs another run
    # comes later. It raises OSError, ValueError or ImportError if the data are not there or do not
    # fit.
    runs: Callable[[Options], Sequence[Mapping[str, Any]]]
    # Makes a run, maybe in another process: all in JSON's types, and the ``seconds`` of the
    # processor among it.
    make: Callable[[Options, str, Any], Mapping[str, Any]]
    minutes: Callable[[Any], float]  # Minutes of a processor core that a run takes, about.
    # The tables that the page is made from, by what their files' names end with.
    tables: Callable[[Finished, Options], Mapping[str, pd.DataFrame]]
    # The page of the tables, as they are in their files, of a smoke run or not.
    page: Callable[[Mapping[str, pd.DataFrame], bool], Page]
    # What the names of the files end with that `page` needs, and how pandas reads them.
    inputs: Mapping[str, dict[str, Any]] = field(default_factory=lambda: {"-all": {}})
    # Draws the picture from the runs, where the tables do not have all of it.
    draw: Callable[[Finished], Figure] | None = None
    # The rows of a table in its order, after those of other commands have come to them.
    ordered: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    seeds: Sequence[int] = range(
        5
    )  # Seeds of a full run; a smoke run has the first. None if there are none to choose.
    methods: Sequence[str] = ()  # Methods to choose from; none if all are always run.
    default_methods: Sequence[str] = ()  # Those that are run if none are given; all if empty.
    data: str = ""  # What the raw dataset is that it needs; empty if it needs none.
    cache: str = ""  # Folder of its runs in the user's cache; its name if empty.
    folder: str = ""  # Folder of its runs in that folder, or in the one that is given.
    page_name: str = ""  # Name of its page if it is not that of the experiment.
    is_section: bool = (
        False  # Whether it is a section of that page, which another experiment begins.
    )
    # What a table's file name ends with to how its numbers are written: all digits if not told.
    formats: Mapping[str, str] = field(default_factory=lambda: {"-all": "%.4f"})


def run(experiment: Experiment, words: Sequence[str]) -> int:
    """Run what is not finished and write the record; returns the exit code."""
    given = _parser(experiment).parse_args(words)
    folder: Path = given.out or (QUICK_RESULTS if given.quick else RESULTS)
    try:
        if given.render:
            tables = {end: _read(experiment, folder, end) for end in experiment.inputs}
            path = _write(experiment, folder, experiment.page(tables, False))
        else:
            path = _run(experiment, given, words, folder)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        sys.stderr.write(f"{experiment.name}: {error}\n")
        return 1 if isinstance(error, RuntimeError) else 2
    sys.stdout.write(f"{path}\n")
    return 0


def _run(
    experiment: Experiment, given: argparse.Namespace, words: Sequence[str], folder: Path
) -> Path:
    seeds = given.seeds or (experiment.seeds[:1] if given.quick else experiment.seeds)
    work = given.work.absolute() / ("quick" if given.quick else "") / experiment.folder
    methods = given.methods or experiment.default_methods or experiment.methods
    options = Options(given.quick, tuple(seeds), tuple(methods), given.data, work, given.add)
    # One thread adds up in the same order on every machine.
    torch.set_num_threads(1)
    finished: dict[str, tuple[Any, Mapping[str, Any]]] = {}
    failures: dict[str, str] = {}
    for stage in experiment.runs(options):
        make = partial(experiment.make, options)
        made, failed = make_runs(
            work / "finished", stage, make, minutes=experiment.minutes, jobs=given.jobs
        )
        finished |= {name: (stage[name], result) for name, result in made.items()}
        failures |= failed
    if not finished:
        raise RuntimeError(
            "every run has failed. " + "; ".join(f"{name}: {why}" for name, why in failures.items())
        )
    for end, table in experiment.tables(finished, options).items():
        path = folder / f"{experiment.name}{end}.csv"
        if given.add and end not in experiment.inputs and not path.exists():
            # What earlier commands did not keep cannot be completed.
            continue
        whole = experiment.ordered(with_seeds_before(table, path) if given.add else table)
        write_table(path, whole, float_format=experiment.formats.get(end))
    # The page shows what is in the files, rounded once.
    tables = {end: _read(experiment, folder, end) for end in experiment.inputs}
    page = experiment.page(tables, given.quick)
    first = next(iter(tables.values()))
    shown_seeds = sorted(first["seed"].unique().tolist()) if page.seeds is None else page.seeds
    made_how = how_it_was_made(
        _command(experiment, words, shown_seeds, add=given.add),
        seeds=shown_seeds,
        added=added_seeds(options.seeds, first) if given.add else (),
        seconds=sum(result["seconds"] for _, result in finished.values()),
        failures=failures,
    )
    if experiment.draw is not None:
        write_picture(folder / f"{experiment.name}.png", experiment.draw(finished))
    return _write(experiment, folder, page, how=made_how, quick=given.quick)


def _write(
    experiment: Experiment, folder: Path, page: Page, *, how: str | None = None, quick: bool = False
) -> Path:
    """Write the pictures and tables that follow from the tables of the runs, and the page, last."""
    for end, draw in page.pictures.items():
        write_picture(folder / f"{experiment.name}{end}.png", draw())
    for end, table in {"": page.table, **page.more}.items():
        if end not in experiment.inputs:
            write_table(
                folder / f"{experiment.name}{end}.csv",
                table,
                float_format=experiment.formats.get(end),
            )
    return write_page(
        folder / f"{experiment.page_name or experiment.name}.md",
        experiment.name,
        title=experiment.title,
        text=page.text,
        table=page.table if page.shown is None else page.shown,
        how=how,
        picture="" in page.pictures or experiment.draw is not None,
        is_section=experiment.is_section,
        quick=quick,
    )


def _read(experiment: Experiment, folder: Path, end: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{experiment.name}{end}.csv", **experiment.inputs[end])


def _parser(experiment: Experiment) -> argparse.ArgumentParser:
    description = (
        sys.modules[getattr(experiment.page, "func", experiment.page).__module__].__doc__ or ""
    )
    prog = f"python -m experiments {experiment.name}"
    parser = argparse.ArgumentParser(prog=prog, description=description.split("\n\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="Smoke run: do everything once, on a small scale."
    )
    parser.add_argument(
        "--render",
        action="store_true",
        help="Run nothing; write page and pictures from the tables.",
    )
    default = f"default: {RESULTS}; with --quick {QUICK_RESULTS}"
    parser.add_argument("--out", type=Path, help=f"Folder of the record ({default}).")
    cache = cache_folder(experiment.cache or experiment.name)
    help_of_work = "Folder of finished runs, and of what they need (default: %(default)s)."
    parser.add_argument("--work", type=Path, default=cache, help=help_of_work)
    add_jobs(parser)
    parser.set_defaults(seeds=None, methods=None, data=Path(), add=False)
    if experiment.seeds:
        words = " ".join(map(str, experiment.seeds))
        parser.add_argument(
            "--seeds", type=int, nargs="+", help=f"Seeds to run (default: {words})."
        )
        parser.add_argument(
            "--add",
            action="store_true",
            help="Add the runs to those in the tables that are in --out.",
        )
    if experiment.methods:
        choices = tuple(experiment.methods)
        parser.add_argument(
            "--methods", nargs="+", choices=choices, metavar="METHOD", help="Methods to run."
        )
    if experiment.data:
        parser.add_argument(
            "--data", type=Path, default=Path(), help=f"{experiment.data} in nnU-Net's raw format."
        )
    return parser


def _command(
    experiment: Experiment, words: Sequence[str], seeds: Sequence[int], *, add: bool
) -> str:
    """The command that makes the record; where runs were added, the one of all seeds."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seeds", nargs="+")
    parser.add_argument("--add", action="store_true")
    rest = parser.parse_known_args(words)[1]
    words = [*rest, "--seeds", *map(str, seeds)] if add else words
    return shlex.join(["python", "-m", "experiments", experiment.name, *words])


#: What all seeds have in common, where a table says it.
_COMMON = ("kept", "method", "trainer", "epoch", "iteration", "stratum", "label", "n")


def with_seeds_before(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """A table with the other trainings (``method``, ``seed``) of its file, by seed.

    ValueError if they do not fit.
    """
    if not path.exists():
        raise ValueError(
            f"There is no table in {path} to which trainings can be added. Leave --add out."
        )
    before = pd.read_csv(path)
    if list(before) != list(table):
        raise ValueError(
            f"The table in {path} has other columns. Leave --add out and run all its trainings."
        )
    made = pd.MultiIndex.from_frame(table[["method", "seed"]])
    before = before[~pd.MultiIndex.from_frame(before[["method", "seed"]]).isin(made)]
    whole = pd.concat([before, table], ignore_index=True).sort_values(
        "seed", kind="stable", ignore_index=True
    )
    columns = [name for name in _COMMON if name in table]
    kinds = [
        set(of[columns].drop_duplicates().itertuples(index=False, name=None))
        for _, of in whole.groupby("seed")
    ]
    if any(kind != kinds[0] for kind in kinds):
        raise ValueError(
            f"With the trainings in {path}, the seeds would have other methods, moments or test cases. "
            "Give the same --methods or --seeds, or leave --add out and run all trainings."
        )
    return whole


def added_seeds(seeds: Sequence[int], table: pd.DataFrame) -> list[int]:
    """The seeds of a command that are not the only ones of a table.

    Those that were added to the others.
    """
    return sorted(set(seeds)) if set(table["seed"]) - set(seeds) else []
