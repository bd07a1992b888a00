"""Runs: each is made once and kept by a digest of its settings.

Some are made at the same time. A failed one is tried again by the next command.
"""

import hashlib
import json
import os
import time
import warnings
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from nnunet_dro.files.output_folder import write_files
from nnunet_dro.nnunet.command import CommandError, termination_as_exit


def cache_folder(name: str) -> Path:
    """Default folder for the runs of an experiment.

    ``~/.cache/nnunet-dro/<name>``, or below XDG_CACHE_HOME.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nnunet-dro" / name


def make_runs(
    folder: Path,
    runs: Mapping[str, Any],
    make: Callable[[str, Any], Mapping[str, Any]],
    *,
    minutes: Callable[[Any], float],
    jobs: int = 1,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Make the runs that are not in the folder, several in processes of their own.

    Each process has one thread. Each run has a JSON file, ``<name>-<digest>.json``, with the digest
    of its settings (a dataclass in JSON's types) and of torch's version. If this process is asked
    to end, they are ended.

    Returns:
        The name of a run to what ``make`` gave, as it comes back from JSON, and the name of one
        that failed to why. The latter is tried again by the next command.
    """
    keys = {name: _key(settings) for name, settings in runs.items()}
    paths = {name: folder / f"{name}-{_digest(key)}.json" for name, key in keys.items()}
    missing = {name: minutes(runs[name]) for name, path in paths.items() if not path.exists()}
    failures: dict[str, str] = {}
    console = Console(stderr=True)
    if missing:
        jobs = min(jobs, len(missing))
        words = announcement(list(missing.values()), jobs=jobs)
        console.print(words, highlight=False, soft_wrap=True)

    progress = _progress(console, is_shown=bool(missing))
    with termination_as_exit(), _workers_may_be_replaced(), progress:
        task = progress.add_task("runs", total=sum(missing.values()))
        with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
            ended = Parallel(return_as="generator_unordered")(
                delayed(_make)(partial(make, name, runs[name]), name, keys[name], paths[name])
                for name in missing
            )
        for name, seconds, failure in ended:
            progress.advance(task, missing[name])
            words = f"{name}: {shown_duration(seconds)}"
            if failure:
                failures[name] = failure
                words = f"{name}: failed: {failure.strip().splitlines()[-1]}"
            console.print(words, highlight=False, markup=False, soft_wrap=True)

    results = {}
    for name, path in paths.items():
        if name not in failures:
            results[name] = json.loads(path.read_text(encoding="utf-8"))["result"]
    return results, failures


def _key(settings: Any) -> dict[str, Any]:
    """Everything that determines a run."""
    return {"settings": asdict(settings), "torch": version("torch")}


def _digest(key: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]


def _progress(console: Console, *, is_shown: bool) -> Progress:
    """A bar on a terminal; in a log, the lines of the runs that have ended are enough."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (is_shown and console.is_terminal),
    )


def shown_duration(seconds: float) -> str:
    """A duration as it is shown: "2 h 5 min", "3 min 12 s" or "4.2 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{seconds:.1f} s"


def _make(
    make: Callable[[], Mapping[str, Any]], name: str, key: Mapping[str, Any], path: Path
) -> tuple[str, float, str]:
    """Make a run, unless another command has made it in the meantime.

    Returns:
        Its name, its seconds, and why it failed (empty if it did not).
    """
    start = time.monotonic()
    if not path.exists():
        try:
            content = json.dumps({**key, "result": dict(make())}, indent=1)
        except (CommandError, OSError, ValueError) as error:
            return name, time.monotonic() - start, str(error) or type(error).__name__
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files(path.parent, {path.name: f"{content}\n"})
    return name, time.monotonic() - start, ""


def add_jobs(parser: ArgumentParser) -> None:
    """Give a parser the option ``--jobs``."""
    parser.add_argument(
        "--jobs",
        type=_at_least_one,
        default=min(2, cpu_count()),
        metavar="N",
        help="Runs at the same time, each in one thread (default: two where there are two cores).",
    )


def _at_least_one(word: str) -> int:
    if word.isdecimal() and int(word):
        return int(word)
    raise ArgumentTypeError(f"must be a whole number from 1 on, got {word!r}")


def announcement(minutes: list[float], *, jobs: int) -> str:
    """How many runs there are, and how long they will take.

    The minutes are those of a processor core that each takes.
    """
    in_all = _about(sum(minutes))
    runs = "1 run to make" if len(minutes) == 1 else f"{len(minutes)} runs to make"
    if jobs == 1:
        return f"{runs}: {in_all} of a processor core."
    # The longest run sets the pace.
    at_least = _about(max(sum(minutes) / jobs, *minutes))
    return (
        f"{runs}, {jobs} at the same time: {at_least} on {jobs} processor cores, {in_all} in all."
    )


def _about(minutes: float) -> str:
    if minutes < 1:
        return "less than a minute"
    hours, rest = divmod(round(minutes), 60)
    if hours:
        return f"about {hours} h {rest} min"
    return f"about {rest} min"


@contextmanager
def _workers_may_be_replaced() -> Iterator[None]:
    """Accept that loky ends a process that has grown by 300 MB and starts another.

    Every training grows by so much. Loky says so with a warning, in a thread that nothing could go
    on without. Where warnings are errors, as in a suite of tests, that thread would end, and the
    runs would be waited for without end.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="A worker stopped while some jobs were given to the executor"
        )
        yield
