"""The progress of the commands: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds between two lines where there is no terminal; what ends earlier writes none.
SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show progress and the time left on standard error: a bar if that is a terminal, else a line every 30 seconds.

    Args:
        title: What is going on.

    Yields:
        A function to call with the number of finished items and the number of all items.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_interactive:
        yield _lines(title)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda n_done, n_all: bar.update(task, completed=n_done, total=n_all)


def _lines(title: str) -> Callable[[int, int], None]:
    """Write the progress to standard error, a line at a time."""
    start = shown = time.monotonic()

    def show(n_done: int, n_all: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if not 0 < n_done < n_all or now - shown < SECONDS_BETWEEN_LINES:
            return
        shown = now
        minutes = (now - start) * (n_all - n_done) / n_done / 60
        sys.stderr.write(f"{title}: {n_done} of {n_all}, about {max(1, round(minutes))} min left\n")
        sys.stderr.flush()

    return show
