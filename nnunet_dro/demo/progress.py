"""The progress display of a running step."""

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
        """Show how many parts of the step are done."""
        self._progress.update(self._task, completed=n_done, total=n_total)


@contextmanager
def step_progress(console: Console, title: str) -> Iterator[StepProgress]:
    """Show a step while it runs, and a line with its duration once it has ended.

    Args:
        console: Console to show it on. One that is no terminal gets a line at the start and one at the end.
        title: Title of the step.

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
