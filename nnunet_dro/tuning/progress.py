"""The display of a study: how far the training is that runs, and a line for each trial that has ended."""

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.markup import escape

from nnunet_dro.nnunet.training_log import Epochs
from nnunet_dro.progress_bar import Progress
from nnunet_dro.tuning.trials import REPEAT


class Display:
    """Shows trials.

    Args:
        console: Console for the lines.
        progress: Shows how far the training is.
    """

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self._progress, self._title = console, progress, ""

    def started(self, number: int, trainer: str) -> None:
        """Remember which trial starts."""
        self._title = f"trial {number} {trainer}"

    def epochs(self, epochs: Epochs, n_epochs: int, n_validation: int) -> None:
        """Show how far the training is."""
        dice = [*epochs.pseudo_dice.values()][-1:]
        shown = f" (pseudo Dice {dice[0]:.3f})" if dice else ""
        n_done, n_all, what = epochs.progress(n_epochs, n_validation)
        self._progress(n_done, n_all, f"{self._title}{shown}, {what}")

    def ended(self, trial: FrozenTrial, *, is_best: bool) -> None:
        """Show how a trial has ended."""
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
