"""Long work of several pieces, some of them at the same time, with how long it will take said beforehand."""

import time
import warnings
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Generic, TypeVar

from joblib import Parallel, cpu_count, delayed, parallel_config
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from experiments.record.duration import shown_duration
from nnunet_dro.nnunet.command import termination_as_exit

Result = TypeVar("Result")

#: Seconds between two looks at how far the pieces are.
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Piece(Generic[Result]):
    """A piece of work.

    Attributes:
        run: Does it. Its argument is a function to call with the share that is done, 0 to 1.
        minutes: Minutes of a processor core that it takes, about.
    """

    run: Callable[[Callable[[float], None]], Result]
    minutes: float


def add_jobs(parser: ArgumentParser) -> None:
    """Give a parser the option ``--jobs``."""
    parser.add_argument(
        "--jobs",
        type=_at_least_one,
        default=min(2, cpu_count()),
        metavar="N",
        help="Trainings at the same time, each in one thread (default: two where there are two cores).",
    )


def _at_least_one(word: str) -> int:
    if word.isdecimal() and int(word):
        return int(word)
    raise ArgumentTypeError(f"must be a whole number from 1 on, got {word!r}")


def side_by_side(pieces: Mapping[str, Piece[Result]], *, jobs: int, console: Console) -> Iterator[tuple[str, Result]]:
    """Do pieces of work, some at the same time, and show how far they are.

    Several are done in processes of their own, in one thread each; a single one, or one after another, in this process.
    If one raises an error, or this process is asked to end, the others are ended.

    Args:
        pieces: Name of a piece to the piece, in the order in which they are begun.
        jobs: How many are done at the same time.
        console: Console for how long it will take, the progress, and how long each piece took.

    Yields:
        The name of a piece and what its function returned, as they end.

    Raises:
        ValueError: If ``jobs`` is not positive.
    """
    if jobs < 1:
        raise ValueError(f"`jobs` must be at least 1, got {jobs}. Give the number of trainings at the same time.")
    if not pieces:
        return
    jobs = min(jobs, len(pieces))
    minutes = [piece.minutes for piece in pieces.values()]
    console.print(announcement(minutes, jobs=jobs), highlight=False, soft_wrap=True)
    with (
        TemporaryDirectory() as folder,
        termination_as_exit(),
        _workers_may_be_replaced(),
        _display(Path(folder), pieces, console),
    ):
        with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
            ended = Parallel(return_as="generator_unordered")(
                delayed(_do)(name, piece, Path(folder, str(number)))
                for number, (name, piece) in enumerate(pieces.items())
            )
        for name, result, seconds in ended:
            console.print(f"{name}: {shown_duration(seconds)}", highlight=False, markup=False)
            yield name, result


def announcement(minutes: list[float], *, jobs: int) -> str:
    """How many pieces there are, and how long they will take.

    Args:
        minutes: Minutes of a processor core of each piece.
        jobs: How many are done at the same time.
    """
    in_all = _about(sum(minutes))
    runs = f"{len(minutes)} run{'s' if len(minutes) > 1 else ''} to make"
    if jobs == 1:
        return f"{runs}: {in_all} of a processor core."
    # The longest piece sets the pace.
    at_least = _about(max(sum(minutes) / jobs, *minutes))
    return f"{runs}, {jobs} at the same time: {at_least} on {jobs} processor cores, {in_all} in all."


def _about(minutes: float) -> str:
    if minutes < 1:
        return "less than a minute"
    hours, rest = divmod(round(minutes), 60)
    return f"about {hours} h {rest} min" if hours else f"about {rest} min"


class _Share:
    """Writes to a file which share of a piece is done, at most once between two looks at it."""

    def __init__(self, path: Path) -> None:
        self._path, self._last = path, 0.0

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self._last >= _POLL_SECONDS:
            self._path.write_text(f"{share:.4f}", encoding="ascii")
            self._last = now


def _do(name: str, piece: Piece[Result], path: Path) -> tuple[str, Result, float]:
    start = time.monotonic()
    path.write_text("0", encoding="ascii")
    result = piece.run(_Share(path))
    path.write_text("1", encoding="ascii")
    return name, result, time.monotonic() - start


@contextmanager
def _workers_may_be_replaced() -> Iterator[None]:
    """Accept that loky ends a process that has grown by 300 MB and starts another, as every training grows by so much.

    It says so with a warning, in a thread that nothing could go on without. Where warnings are errors, as in a suite of
    tests, that thread would end, and the pieces would be waited for without end.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
        yield


@contextmanager
def _display(folder: Path, pieces: Mapping[str, Piece[Any]], console: Console) -> Iterator[None]:
    """Show how far the pieces are, by the files in a folder."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    ended = Event()
    # In a log, the lines of the pieces that have ended are enough.
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("runs", total=sum(piece.minutes for piece in pieces.values()))

        def look() -> None:
            while not ended.wait(_POLL_SECONDS):
                shares = {name: share_in(folder / str(number)) for number, name in enumerate(pieces)}
                running = [name for name, share in shares.items() if share is not None and share < 1]
                done = sum((shares[name] or 0.0) * piece.minutes for name, piece in pieces.items())
                progress.update(task, completed=done, description=", ".join(running) or "runs")

        looking = Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()


def share_in(path: Path) -> float | None:
    """The share of a piece that is done, None if it has not begun."""
    try:
        # A file that is being written is empty for a moment.
        return float(path.read_text(encoding="ascii") or 0)
    except FileNotFoundError:
        return None
