"""The watch over a training: it reports progress to Optuna and to the display, and stops what is hopeless."""

import optuna

from nnunet_dro.nnunet.training_log import Epochs
from nnunet_dro.tuning.progress import Display


class Watch:
    """Reports the progress of a training.

    Args:
        trial: Its trial.
        display: Where to show it.
        n_epochs: Number of epochs of the training.
        n_validation: Number of validation cases.
        maximise: Whether the objective is maximised.
        prune: Whether the pruner of the study may stop it.
    """

    def __init__(
        self,
        trial: optuna.Trial,
        display: Display,
        *,
        n_epochs: int,
        n_validation: int,
        maximise: bool,
        prune: bool,
    ) -> None:
        self._trial, self._display, self._prune = trial, display, prune
        self._n_epochs, self._n_validation, self._reported = n_epochs, n_validation, -1
        # Pruners compare in the direction of the study, but a larger pseudo Dice is always better.
        self._sign = 1.0 if maximise else -1.0

    def __call__(self, epochs: Epochs) -> None:
        """Report the epochs that are new.

        Raises:
            TrialPruned: If the training is to be stopped.
        """
        self._display.epochs(epochs, self._n_epochs, self._n_validation)
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
