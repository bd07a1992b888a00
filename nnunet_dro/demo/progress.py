"""What a person sees of a running step."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class StepProgress:
    """The progress display of one step."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def update(self, n_done: int, n_total: int) -> None:
        """Say how many of the step's parts are done."""
        self._progress.update(self._task, completed=n_done, total=n_total)


@contextmanager
def step_progress(console: Console, title: str) -> Iterator[StepProgress]:
    """Show a step while it runs, and one line with its time when it is over.

    Args:
        console: Where to show it. A console that is no terminal gets only the lines at the ends.
        title: The step's name.

    Yields:
        The display to update.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    start = monotonic()
    if not console.is_terminal:
        console.print(f"{title} ...", highlight=False)
    with Progress(*columns, console=console, transient=True) as progress:
        yield StepProgress(progress, progress.add_task(title, total=None))
    console.print(f"{title}: {monotonic() - start:.0f} s", highlight=False)
