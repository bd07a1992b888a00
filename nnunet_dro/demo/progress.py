"""The progress display of running steps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class StepProgress:
    """The progress display of one step."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress, self._title, self._start = progress, title, monotonic()
        self._task: TaskID | None = progress.add_task(title, total=None)

    def update(self, n_done: int, n_total: int) -> None:
        """Show how many parts of the step are done."""
        if self._task is not None:
            self._progress.update(self._task, completed=n_done, total=n_total)

    def end(self) -> None:
        """Show the duration instead of the progress; the first call counts."""
        if self._task is None:
            return
        self._progress.remove_task(self._task)
        self._task = None
        self._progress.console.print(f"{self._title}: {monotonic() - self._start:.0f} s", highlight=False)


@contextmanager
def steps_progress(console: Console, titles: Sequence[str]) -> Iterator[list[StepProgress]]:
    """Show steps that run at the same time, and a line with the duration of each once it has ended.

    A console that is no terminal gets a line at the start of each as well. Displays that are not told when their step
    ends take the end of this context for it.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    if not console.is_terminal:
        for title in titles:
            console.print(f"{title} ...", highlight=False)
    with Progress(*columns, console=console, transient=True) as progress:
        displays = [StepProgress(progress, title) for title in titles]
        yield displays
        for display in displays:
            display.end()
