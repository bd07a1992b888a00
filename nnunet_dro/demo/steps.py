"""A step of the demo, and how steps are carried out, several trainings at the same time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from nnunet_dro.demo.progress import StepProgress, steps_progress
from nnunet_dro.nnunet.command import Command, run_commands


@dataclass(frozen=True)
class Step:
    """A step of the demo, which is done once.

    Attributes:
        title: Title to show.
        done: The last file or folder that the step makes; if it exists, the step is complete.
        begin: Function that does what comes before the command, or all of the step if it has none.
        command: Command of nnU-Net that the step runs; empty without one.
        log: Log of the command.
        environment: Environment variables for that command alone.
        command_now: Function that returns the command for this run, if it differs from what a first run or a shell
            would use.
        show: Function that shows the progress of the command, called while it runs.
        end: Function that does what comes after the command.
        is_training: Whether the step may run at the same time as other trainings.
    """

    title: str
    done: Path
    begin: Callable[[StepProgress], None] = lambda _: None
    command: tuple[str, ...] = ()
    log: Path = Path()
    environment: Mapping[str, str] = field(default_factory=dict)
    command_now: Callable[[], tuple[str, ...]] | None = None
    show: Callable[[StepProgress], None] = lambda _: None
    end: Callable[[], object] = lambda: None
    is_training: bool = False


def together(steps: Iterable[Step], *, at_most: int) -> Iterator[list[Step]]:
    """Group steps that run at the same time: trainings that follow each other."""
    group: list[Step] = []
    for step in steps:
        if group and not (step.is_training and group[-1].is_training and len(group) < at_most):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def carry_out(steps: Sequence[Step], *, environment: Mapping[str, str], console: Console) -> None:
    """Carry out steps at the same time, with a line of progress for each."""
    with steps_progress(console, [step.title for step in steps]) as displays:
        for step, display in zip(steps, displays, strict=True):
            step.begin(display)

        def show() -> None:
            for step, display in zip(steps, displays, strict=True):
                if step.done.exists():
                    display.end()
                else:
                    step.show(display)

        commands = [
            Command(
                step.command_now() if step.command_now else step.command, step.log, {**environment, **step.environment}
            )
            for step in steps
            if step.command
        ]
        if commands:
            run_commands(commands, while_running=show)
        for step in steps:
            step.end()
