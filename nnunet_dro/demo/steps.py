"""A step of the demo, and how steps are carried out, several trainings at the same time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from nnunet_dro.nnunet.command import Command, run_commands


class StepProgress:
    """The progress display of one step."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._title = title
        self._start = monotonic()
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
        seconds = monotonic() - self._start
        self._progress.console.print(f"{self._title}: {seconds:.0f} s", highlight=False)


@contextmanager
def steps_progress(console: Console, titles: Sequence[str]) -> Iterator[list[StepProgress]]:
    """Show steps that run at the same time.

    The duration of each is shown once it, or this context, has ended.
    """
    if not console.is_terminal:
        for title in titles:
            console.print(f"{title} ...", highlight=False)

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        displays = [StepProgress(progress, title) for title in titles]
        yield displays
        for display in displays:
            display.end()


@dataclass(frozen=True)
class Step:
    """A step of the demo, which is done once."""

    title: str
    done: Path  # the last file or folder that the step makes; if it exists, the step is complete
    command: tuple[str, ...]  # command of nnU-Net that the step runs
    log: Path
    begin: Callable[[], object] = lambda: None  # function that does what comes before the command
    #: Environment variables for that command alone.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Function that returns the command for this run, if it differs from what a first run or a
    #: shell would use.
    command_now: Callable[[], tuple[str, ...]] | None = None
    #: Function that shows the progress of the command, called while it runs.
    show: Callable[[StepProgress], None] = lambda _: None
    end: Callable[[], object] = lambda: None  # function that does what comes after the command
    is_training: bool = False  # whether the step may run at the same time as other trainings


def together(steps: Iterable[Step], *, at_most: int) -> Iterator[list[Step]]:
    """Group steps that run at the same time: trainings that follow each other."""
    group: list[Step] = []
    for step in steps:
        if group:
            are_trainings = step.is_training and group[-1].is_training
            if not are_trainings or len(group) == at_most:
                yield group
                group = []
        group.append(step)
    if group:
        yield group


def carry_out(steps: Sequence[Step], *, environment: Mapping[str, str], console: Console) -> None:
    """Carry out steps at the same time, with a line of progress for each."""
    with steps_progress(console, [step.title for step in steps]) as displays:

        def show() -> None:
            for step, display in zip(steps, displays, strict=True):
                if step.done.exists():
                    display.end()
                else:
                    step.show(display)

        commands = []
        for step in steps:
            step.begin()
            words = step.command_now() if step.command_now else step.command
            commands.append(Command(words, step.log, {**environment, **step.environment}))
        run_commands(commands, while_running=show)

        for step in steps:
            step.end()
