"""The display of a study: the training that runs, and a line for each trial that has ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from nnunet_dro.nnunet.training_log import Epochs
from nnunet_dro.tuning.trials import REPEAT


class Display:
    """Shows trials on a console; one that is no terminal gets only the lines."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self._progress = console, progress
        self._task: TaskID | None = None

    def started(self, number: int, trainer: str) -> None:
        """Show that a trial starts."""
        self._clear()
        self._task = self._progress.add_task(f"trial {number} {escape(trainer)}", total=None, state="starts")

    def epochs(self, epochs: Epochs, n_epochs: int) -> None:
        """Show how far the training is."""
        if self._task is None or epochs.current is None:
            return
        dice = [*epochs.pseudo_dice.values()][-1:]
        shown = f", pseudo Dice {dice[0]:.3f}" if dice else ""
        over = epochs.pseudo_dice and max(epochs.pseudo_dice) >= n_epochs - 1
        state = f"validation{shown}" if over else f"epoch {epochs.current} of {n_epochs}{shown}"
        self._progress.update(self._task, state=state)

    def ended(self, trial: FrozenTrial, *, is_best: bool) -> None:
        """Show how a trial has ended."""
        self._clear()
        again = f", again ({trial.user_attrs[REPEAT]})" if REPEAT in trial.user_attrs else ""
        name = trial.user_attrs.get("trainer", "") + again
        minutes = f", {trial.duration.total_seconds() / 60:.1f} min" if trial.duration else ""
        if trial.state == TrialState.COMPLETE:
            best = ", the best so far" if is_best else ""
            self.note(f"trial {trial.number}: {trial.value:.4f} {name}{minutes}{best}")
        elif trial.state == TrialState.PRUNED:
            self.note(f"trial {trial.number}: pruned {name}{minutes}; {trial.user_attrs.get('reason', '')}")
        else:
            name = f" {name}" if name else ""
            self.note(f"trial {trial.number}: failed{name}; {trial.user_attrs.get('reason', '')}")
            for line in trial.user_attrs.get("lines", ())[:-1]:
                self.note(f"    {line}")

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)

    def _clear(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


@contextmanager
def trial_display(console: Console) -> Iterator[Display]:
    """Show trials while they run.

    Args:
        console: Console to show them on.

    Yields:
        The display to update.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as progress:
        yield Display(console, progress)
