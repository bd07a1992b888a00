"""The progress bar of the commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr if that is a terminal.

    Args:
        title: What is going on.

    Yields:
        A function to call with the number of finished items and the number of all items.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # Where stderr is no terminal, rich would end with an empty line.
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as bar:
        task = bar.add_task(title, total=None)
        yield lambda n_done, n_all: bar.update(task, completed=n_done, total=n_all)
