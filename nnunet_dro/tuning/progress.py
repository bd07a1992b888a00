"""What a study shows and reports: how far the training is that runs, and a line for each trial that has ended."""

import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.markup import escape

from nnunet_dro.nnunet.training import Epochs
from nnunet_dro.progress_bar import Progress
from nnunet_dro.tuning.trials import REPEAT


class Display:
    """Shows trials.

    Args:
        console: Console for the lines.
        progress: Shows how far the training is.
    """

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self.progress = console, progress

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


class Watch:
    """Reports a training to the display and to Optuna, and stops it if it is hopeless.

    Args:
        trial: Its trial.
        progress: Shows how far it is.
        title: What the trial trains, for the display.
        n_epochs: Number of epochs.
        n_validation: Number of validation cases.
        maximise: Whether the objective is maximised.
        prune: Whether the pruner of the study may stop it.
    """

    def __init__(
        self,
        trial: optuna.Trial,
        progress: Progress,
        title: str,
        *,
        n_epochs: int,
        n_validation: int,
        maximise: bool,
        prune: bool,
    ) -> None:
        self._trial, self._progress, self._title, self._prune = trial, progress, title, prune
        self._n_epochs, self._n_validation, self._reported = n_epochs, n_validation, -1
        # Pruners compare in the direction of the study, but a larger pseudo Dice is always better.
        self._sign = 1.0 if maximise else -1.0

    def __call__(self, epochs: Epochs) -> None:
        """Report what is new."""
        last = max(epochs.pseudo_dice, default=-1)
        shown = f" (pseudo Dice {epochs.pseudo_dice[last]:.3f})" if last >= 0 else ""
        n_done, n_all, what = epochs.progress(self._n_epochs, self._n_validation)
        self._progress(n_done, n_all, f"{self._title}{shown}, {what}")
        new = [epoch for epoch in epochs.pseudo_dice if epoch > self._reported]
        for epoch in new:
            self._trial.report(self._sign * epochs.pseudo_dice[epoch], epoch)
            self._reported = epoch
        # After the last epoch, only the validation is left, which is worth its time.
        may_end = self._prune and self._reported < self._n_epochs - 1
        if new and may_end and self._trial.should_prune():
            reason = (
                f"pseudo Dice {epochs.pseudo_dice[self._reported]:.4f} after epoch {self._reported}: below the median"
            )
            self._trial.set_user_attr("reason", reason)
            raise optuna.TrialPruned(reason)
