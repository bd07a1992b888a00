"""The progress of the commands: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds between two lines where there is no terminal; what ends earlier writes none.
SECONDS_BETWEEN_LINES = 30.0


class Progress(Protocol):
    """What shows progress."""

    def __call__(self, n_done: int, n_all: int, title: str = "") -> None:
        """Show how many items of how many are finished.

        Fewer than before begin another part of the work.
        """


@contextmanager
def progress_bar(title: str, *, console: "Console | None" = None) -> Iterator[Progress]:
    """Show progress and the time left on standard error.

    A bar if that is a terminal, else a line every 30 seconds.
    """
    from rich import progress as rich_progress
    from rich.console import Console

    console = console or Console(stderr=True)
    if not console.is_interactive:
        yield _lines(title)
        return

    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(n_done: int, n_all: int, title: str = "") -> None:
            if n_done < bar.tasks[0].completed:
                bar.reset(task)
            bar.update(task, completed=n_done, total=n_all, description=title or None)

        yield show


def _lines(title: str) -> Progress:
    """Write the progress to standard error, a line at a time.

    The time left follows from the items since the first ones that were shown: before those, models
    are loaded and processes started, and some items may have been finished by an earlier run.
    """
    started_at = last_line_at = time.monotonic()
    n_first: int | None = None
    n_before = 0
    last_title = title

    def show(n_done: int, n_all: int, title: str = "") -> None:
        nonlocal started_at, last_line_at, n_first, n_before, last_title
        now = time.monotonic()
        if n_done < n_before:
            last_line_at = now
            n_first = None
        if n_first is None:
            started_at = now
            n_first = n_done
        n_before = n_done
        last_title = title or last_title

        if not n_first < n_done < n_all or now - last_line_at < SECONDS_BETWEEN_LINES:
            return
        last_line_at = now
        seconds_left = (now - started_at) * (n_all - n_done) / (n_done - n_first)
        minutes_left = max(1, round(seconds_left / 60))
        sys.stderr.write(f"{last_title}: {n_done} of {n_all}, about {minutes_left} min left\n")
        sys.stderr.flush()

    return show
