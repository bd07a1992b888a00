"""What a study shows while it runs."""

from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.markup import escape

from nnunet_dro.progress_bar import Progress
from nnunet_dro.tuning.trials import REPEAT


class Display:
    """Shows a line for each trial that has ended, and how far the training is that runs."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self.progress = progress

    def ended(self, trial: FrozenTrial, *, is_best: bool, minutes: float | None) -> None:
        """Show how a trial has ended, after how many minutes of all its starts if that is known."""
        attributes = trial.user_attrs
        name = attributes.get("trainer", "")
        if REPEAT in attributes:
            name += f", again ({attributes[REPEAT]})"
        duration = "" if minutes is None else f", {minutes:.1f} min"
        reason = attributes.get("reason", "")

        if trial.state == TrialState.COMPLETE:
            best = ", the best so far" if is_best else ""
            self.note(f"trial {trial.number}: {trial.value:.4f} {name}{duration}{best}")
        elif trial.state == TrialState.PRUNED:
            self.note(f"trial {trial.number}: pruned {name}{duration}; {reason}")
        else:
            failed = f"failed {name}" if name else "failed"
            self.note(f"trial {trial.number}: {failed}; {reason}")
            # The last of the lines stands in the reason.
            for line in attributes.get("lines", ())[:-1]:
                self.note(f"    {line}")

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)
