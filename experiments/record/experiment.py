"""An experiment: its settings, the runs that have them, and the record of what came out.

    python -m experiments NAME [--quick] [--seeds 0 1] [--add] [--jobs 2]
        [--work FOLDER] [--out FOLDER] [--render]

Finished runs are kept in the work folder: an interrupted experiment continues where it stopped, and
several commands, each with seeds of its own, may fill the same folder.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.record.page import (
    how_before,
    how_it_was_made,
    write_page,
    write_picture,
    write_table,
)
from experiments.record.paragraphs import filled
from experiments.record.runs import add_jobs, cache_folder, make_runs
from experiments.record.templates import render

#: Folder of the records that belong to the documentation, and that of smoke runs, which must never
#: replace those.
RESULTS = Path("docs/results")
QUICK_RESULTS = Path("build/quick-results")
#: Name of an experiment that begins a page to that of the page, where it is another one.
PAGES = {"nuclei-factorial": "factorial", "nuclei-finetuning": "finetuning"}


@dataclass(frozen=True)
class Options:
    """What a command asks for."""

    quick: bool  # Whether it is a smoke run.
    seeds: tuple[int, ...]  # Seeds to run.
    methods: tuple[str, ...]  # Methods to run, where they can be chosen.
    data: Path  # The raw dataset, where one is needed.
    work: Path  # Folder of the finished runs, and of what they need.
    add: bool = False  # Whether the runs are added to those in the tables.

    def runs_of(
        self, run: Callable[[str, int], Any], methods: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The runs of these methods, or of those that are asked for, with every seed.

        A ``run`` is that of a method and a seed, by which it is named ``<method>-seed<seed>``.
        """
        chosen = self.methods if methods is None else methods
        places = product(self.seeds, chosen)
        return {f"{method}-seed{seed}": run(method, seed) for seed, method in places}


@dataclass(frozen=True)
class Page:
    """What a record shows."""

    text: str  # What was asked and what came out, markdown, with headings from the second level on.
    #: Results; the page shows rounded numbers of the rows that `shown_rows` keeps, the CSV all rows
    #: and digits.
    table: pd.DataFrame
    #: Seeds of the random numbers; None for those of the first table.
    seeds: Sequence[int] | None = None
    #: What the page shows in place of the table; nothing if it has no row.
    shown: pd.DataFrame | None = None
    #: Other tables that follow from those of the runs, by what their files' names end with.
    more: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    #: Name's end of a picture to what draws it.
    pictures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    has_picture_of_runs: bool = False  # Whether there is one that was drawn from the runs.


#: Name of a run to its settings and what it gave, as it comes back from JSON.
Finished = Mapping[str, tuple[Any, Mapping[str, Any]]]


class Tables(dict[str, pd.DataFrame]):
    """The tables of a record, by what their files' names end with, read when they are asked for."""

    def __init__(self, start: Path) -> None:
        super().__init__()
        self.start = start  # What the files' names begin with.

    def has_file(self, end: str) -> bool:
        """Whether there is such a table."""
        return Path(f"{self.start}{end}.csv").exists()

    def __missing__(self, end: str) -> pd.DataFrame:
        """Read a table."""
        self[end] = pd.read_csv(f"{self.start}{end}.csv")
        return self[end]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment."""

    name: str  # Its name on the command line and in the names of its files.
    title: str  # Heading of its page, or of its section of a page.
    #: The runs by their names, each a dataclass of all that determines it; what needs another run
    #: comes later. It raises OSError, ValueError or ImportError if the data are not there or do not
    #: fit.
    runs: Callable[[Options], Sequence[Mapping[str, Any]]]
    #: Makes a run, maybe in another process: all in JSON's types, and the ``seconds`` of the
    #: processor among it.
    make: Callable[[Options, str, Any], Mapping[str, Any]]
    minutes: Callable[[Any], float]  # Minutes of a processor core that a run takes, about.
    #: What follows from the runs alone, by what the files' names end with: tables, the first of
    #: which every command has, and ``.png``, a picture of what they do not have.
    tables: Callable[[Finished, Options], Mapping[str, pd.DataFrame | Figure]]
    #: The page of the tables that it asks for, as they are in their files, of a smoke run or not.
    page: Callable[[Tables, bool], Page]
    #: The rows of a table in its order, after those of other commands have come to them.
    ordered: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    #: Seeds of a full run; a smoke run has the first. None if there are none to choose.
    seeds: Sequence[int] = range(5)
    #: Methods to choose from, and whether each is run if none are given.
    methods: Mapping[str, bool] = field(default_factory=dict)
    data: str = ""  # What the raw dataset is that it needs; empty if it needs none.
    #: Folder of its runs in the user's cache, and in that or the given one; its name if empty.
    work: str = ""
    #: Name of the experiment of whose page it is a section; empty if it has a page of its own.
    section_of: str = ""
    #: What a table's file name ends with to how its numbers are written: all digits if not told.
    formats: Mapping[str, str] = field(default_factory=lambda: {"-all": "%.4f"})


def run(experiment: Experiment, words: Sequence[str]) -> int:
    """Run what is not finished and write the record; returns the exit code."""
    arguments = _parser(experiment).parse_args(words)
    folder: Path = arguments.out or (QUICK_RESULTS if arguments.quick else RESULTS)
    try:
        if arguments.render:
            path = _write(experiment, folder)
        else:
            path = _run(experiment, arguments, words, folder)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        sys.stderr.write(f"{experiment.name}: {error}\n")
        return 1 if isinstance(error, RuntimeError) else 2
    sys.stdout.write(f"{path}\n")
    return 0


def _run(
    experiment: Experiment, arguments: argparse.Namespace, words: Sequence[str], folder: Path
) -> Path:
    options = _options(experiment, arguments)
    finished, failures = _finished(experiment, options, jobs=arguments.jobs)
    made = experiment.tables(finished, options)
    first, *_ = made
    tables: dict[Path, pd.DataFrame] = {}
    for end, content in made.items():
        path = folder / f"{experiment.name}{end}.csv"
        if isinstance(content, Figure):
            write_picture(folder / f"{experiment.name}{end}", content)
        elif not options.add:
            tables[path] = content
        # What earlier commands did not keep cannot be completed.
        elif end == first or path.exists():
            tables[path] = with_seeds_before(content, path, has_all_runs=end == first)
    for path, table in tables.items():
        end = path.stem.removeprefix(experiment.name)
        float_format = experiment.formats.get(end)
        write_table(path, experiment.ordered(table), float_format=float_format)

    def how(seeds: Sequence[int]) -> str:
        added: list[int] = []
        if options.add:
            added = added_seeds(options.seeds, seeds)
        return how_it_was_made(
            _command(experiment, words, seeds, add=options.add),
            seeds=seeds,
            added=added,
            seconds=sum(result["seconds"] for _, result in finished.values()),
            failures=failures,
        )

    return _write(experiment, folder, how=how, quick=options.quick)


def _options(experiment: Experiment, arguments: argparse.Namespace) -> Options:
    """What the arguments of a command ask for, with the defaults of the experiment."""
    seeds = arguments.seeds
    if not seeds:
        seeds = experiment.seeds[:1] if arguments.quick else experiment.seeds
    defaults = [method for method, is_default in experiment.methods.items() if is_default]
    methods = arguments.methods or defaults
    _, *folder = Path(experiment.work or experiment.name).parts
    work = arguments.work.absolute()
    if arguments.quick:
        work /= "quick"
    return Options(
        quick=arguments.quick,
        seeds=tuple(seeds),
        methods=tuple(methods),
        data=arguments.data,
        work=work.joinpath(*folder),
        add=arguments.add,
    )


def _finished(
    experiment: Experiment, options: Options, *, jobs: int
) -> tuple[dict[str, tuple[Any, Mapping[str, Any]]], dict[str, str]]:
    """All runs by their names, and why some have failed; RuntimeError if all have."""
    import torch

    # One thread adds up in the same order on every machine.
    torch.set_num_threads(1)
    finished: dict[str, tuple[Any, Mapping[str, Any]]] = {}
    failures: dict[str, str] = {}
    for stage in experiment.runs(options):
        results, reasons = make_runs(
            options.work / "finished",
            stage,
            partial(experiment.make, options),
            minutes=experiment.minutes,
            jobs=jobs,
        )
        for name, result in results.items():
            finished[name] = (stage[name], result)
        failures |= reasons

    if not finished:
        reasons_as_text = "; ".join(f"{name}: {why}" for name, why in failures.items())
        raise RuntimeError(f"every run has failed. {reasons_as_text}")
    return finished, failures


def _write(
    experiment: Experiment,
    folder: Path,
    *,
    how: Callable[[Sequence[int]], str] | None = None,
    quick: bool = False,
) -> Path:
    """Write what follows from the tables of the runs as they are in their files: rounded once.

    That are pictures, tables, and last the page. Without ``how``, which is told the seeds, the page
    says already how it was made.
    """
    name = experiment.name
    is_section = bool(experiment.section_of)
    first = experiment.section_of or name
    path = folder / f"{PAGES.get(first, first)}.md"
    tables = Tables(folder / name)
    page = experiment.page(tables, quick)
    seeds = page.seeds
    if seeds is None:
        seeds = sorted(next(iter(tables.values()))["seed"].unique().tolist())
    words = how(seeds) if how else how_before(path, name, is_section=is_section)

    for end, draw in page.pictures.items():
        write_picture(folder / f"{name}{end}.png", draw())
    for end, table in {"": page.table, **page.more}.items():
        if end not in tables:
            float_format = experiment.formats.get(end)
            write_table(folder / f"{name}{end}.csv", table, float_format=float_format)
    shown = page.table if page.shown is None else page.shown
    text = render(
        "record/record",
        title=experiment.title,
        name=name,
        text=page.text.strip(),
        table=shown,
        how=words.strip(),
        picture="" in page.pictures or page.has_picture_of_runs,
        quick=quick,
        is_section=is_section,
    )
    return write_page(path, name, f"{filled(text)}\n", is_section=is_section)


def _parser(experiment: Experiment) -> argparse.ArgumentParser:
    page = getattr(experiment.page, "func", experiment.page)
    description = sys.modules[page.__module__].__doc__ or ""
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments {experiment.name}",
        description=description.split("\n\n")[0],
    )
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
    cache = cache_folder(Path(experiment.work or experiment.name).parts[0])
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
    if add:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--seeds", nargs="+")
        parser.add_argument("--add", action="store_true")
        _, others = parser.parse_known_args(words)
        words = [*others, "--seeds", *map(str, seeds)]
    return shlex.join(["python", "-m", "experiments", experiment.name, *words])


#: What all seeds of a method have in common, where a table says it.
_COMMON = ("kept", "method", "trainer", "epoch", "iteration", "stratum", "label", "n")


def with_seeds_before(
    table: pd.DataFrame, path: Path, *, has_all_runs: bool = True
) -> pd.DataFrame:
    """A table with the other trainings (``method``, ``seed``) of its file, by seed.

    In a table that ``has_all_runs``, a method may lack some of the seeds, but not the first one,
    which others are compared with. Other tables may have other strata in each seed.

    Raises:
        ValueError: If the other trainings do not fit.
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

    new = pd.MultiIndex.from_frame(table[["method", "seed"]])
    is_replaced = pd.MultiIndex.from_frame(before[["method", "seed"]]).isin(new)
    whole = pd.concat([before[~is_replaced], table], ignore_index=True)
    whole = whole.sort_values("seed", kind="stable", ignore_index=True)

    if not has_all_runs:
        return whole

    columns = [name for name in _COMMON if name in table]
    first = whole["method"][0]
    fits = set(whole["seed"]) == set(whole.loc[whole["method"] == first, "seed"])
    # The trainer of other methods may have changed its name from one seed to the next.
    for _, rows in whole[whole["method"].isin(table["method"])].groupby("method"):
        by_seed = rows.groupby("seed")[columns]
        kinds = [set(tests.itertuples(index=False, name=None)) for _, tests in by_seed]
        fits &= all(kind == kinds[0] for kind in kinds)
    if not fits:
        raise ValueError(
            f"With the trainings in {path}, a seed would have no {first}, or a method other "
            "moments or test cases in some seeds. Give the same --methods or --seeds, or leave "
            "--add out and run all trainings."
        )
    return whole


def added_seeds(seeds: Sequence[int], all_seeds: Sequence[int]) -> list[int]:
    """The seeds of a command that were added to others of a table; none if there are no others."""
    return sorted(set(seeds)) if set(all_seeds) - set(seeds) else []
