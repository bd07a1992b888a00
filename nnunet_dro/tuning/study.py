"""A study: trials that run one after the other until enough of them have finished.

Each trial is a training with the options that a sampler has drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.pruners import MedianPruner, NopPruner
from optuna.samplers import BaseSampler, GPSampler, PartialFixedSampler, RandomSampler, TPESampler
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from nnunet_dro.nnunet.command import SafeStop
from nnunet_dro.nnunet.training import Epochs, Target, TrainingFailedError, train
from nnunet_dro.trainers.registry import check_trained
from nnunet_dro.tuning.display import Display
from nnunet_dro.tuning.objective import Objective, score
from nnunet_dro.tuning.space import Space
from nnunet_dro.tuning.trials import (
    FINISHED,
    N_ATTEMPTS,
    PLAIN,
    REPEAT,
    TRAINER,
    best_trial,
    draw_options,
    has_twin,
    is_tried,
    minutes_of,
    queue_next,
    search_trials,
)

#: Failures after which tuning stops: from the first trial on, later in a row, and refused names in
#: a row.
_FIRST_FAILURES = 3
_FAILURES_IN_A_ROW = 10
_REFUSALS_IN_A_ROW = 50

#: Most trials that are drawn at random before a sampler learns from them, as by default in Optuna.
_STARTUP_TRIALS = 10


@dataclass(frozen=True)
class Settings:
    """The settings of a study."""

    target: Target
    space: Space
    objective: Objective
    cases: Path | None  # the case table; None if the objective needs none
    device: str
    n_trials: int  # that have to finish, including those of earlier starts and other machines
    sampler: str  # ``gp`` or ``tpe``
    seed: int
    prune: bool  # whether hopeless trainings are stopped early
    folder: Path  # for logs and reports
    is_shared: bool  # whether other machines may work on the study
    n_repeats: int = 0  # how often each of the best trainers is trained again at the end


class _TrialFailedError(Exception):
    """A trial has no value, perhaps because the trainer refused its options (``is_refusal``)."""

    def __init__(self, reason: str, *, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.is_refusal = is_refusal


class Tuner:
    """Runs the trials of a study."""

    def __init__(
        self, study: optuna.Study, settings: Settings, display: Display, safe_stop: SafeStop
    ) -> None:
        self.study = study
        self.settings = settings
        self.display = display
        self.safe_stop = safe_stop

        self._n_succeeded = 0
        self._n_failed = 0  # in a row
        self._n_refused = 0  # in a row
        self._error: _TrialFailedError | None = None  # why the last trial failed
        self._seed = 0

        if settings.prune:
            # Slow learners have a quarter of the training to catch up.
            n_warmup = settings.space.fixed.epochs // 4
            study.pruner = MedianPruner(n_startup_trials=5, n_warmup_steps=n_warmup)
        else:
            study.pruner = NopPruner()

    def run(self, after_each: Callable[[], object]) -> None:
        """Run trials until enough have finished, and then train the best of them again.

        The defaults are tried first, again where they have failed. ``after_each`` is called at the
        end of every trial.
        """
        self._after_each = after_each
        if not is_tried(self.study, self.settings.space.trainer):
            self._queue_defaults()
        while self._is_needed() and self._draw():
            self._next()

        # Trials that run elsewhere may be better; whoever finishes the last one goes on.
        is_over = not search_trials(self.study, (TrialState.RUNNING,))
        while is_over and queue_next(self.study, self.settings.n_repeats):
            self.study.sampler = RandomSampler(seed=self._seed)
            self._next()

    def _queue_defaults(self) -> None:
        space = self.settings.space
        # Where the defaults lie outside of the ranges, Optuna must not know them.
        options = space.defaults if space.has_defaults else {}
        self.study.enqueue_trial(options, user_attrs={PLAIN: True, TRAINER: space.trainer})

    def _is_needed(self) -> bool:
        if self.settings.is_shared:
            optuna.storages.fail_stale_trials(self.study)
        trials = search_trials(self.study)
        n_finished = sum(trial.state in FINISHED for trial in trials)
        n_running = sum(trial.state == TrialState.RUNNING for trial in trials)
        if n_running and n_finished < self.settings.n_trials <= n_finished + n_running:
            self.display.note(f"{n_running} running elsewhere; no more trials are needed.")
        return n_finished + n_running < self.settings.n_trials

    def _draw(self) -> bool:
        """Draw the options of the next trial; False if there is none left to try."""
        settings = self.settings
        trials = self.study.get_trials(deepcopy=False)
        # With one seed for all, a second start would repeat the first; processes that share a study
        # draw other options.
        entropy = None if settings.is_shared else [settings.seed, len(trials)]
        self._seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])

        options: dict[str, Any] | None = {}  # a queued trial keeps its own
        if not any(trial.state == TrialState.WAITING for trial in trials):
            options = draw_options(self.study, settings.space, self._sampler(), seed=self._seed)
        if options is None:
            self.display.note(
                f"No other combination was found in {N_ATTEMPTS} draws; the search ends."
            )
            return False

        self.study.sampler = PartialFixedSampler(options, RandomSampler(seed=self._seed))
        return True

    def _sampler(self) -> BaseSampler:
        # A sampler learns nothing from failed trials, and would choose the same options again.
        if self._n_failed + self._n_refused > 0:
            return RandomSampler(seed=self._seed)

        n_startup = min(_STARTUP_TRIALS, max(1, self.settings.n_trials // 2))
        kind = TPESampler if self.settings.sampler == "tpe" else GPSampler
        return kind(seed=self._seed, n_startup_trials=n_startup)

    def _next(self) -> None:
        """Run the next trial of the queue, or one with the options that were drawn."""
        self.safe_stop.check()
        self._error = None
        self.study.optimize(
            self._attempt,
            n_trials=1,
            catch=(_TrialFailedError,),
            callbacks=[self._ended],
        )

    def _ended(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Show and count a trial that has ended, and stop if too many fail."""
        error = self._error
        best = best_trial(study)
        is_best = best is not None and best.number == trial.number
        minutes = minutes_of(trial, study.get_trials(deepcopy=False))
        self.display.ended(trial, is_best=is_best and error is None, minutes=minutes)

        if error is None:
            self._n_succeeded += 1
            self._n_failed = 0
            self._n_refused = 0
        elif error.is_refusal:
            self._n_refused += 1
        else:
            self._n_failed += 1
        self._after_each()
        self._check_failures(trial)

    def _check_failures(self, last: FrozenTrial) -> None:
        """Stop where trials go on failing: something is wrong with all of them."""
        if self._n_succeeded:
            allowed = _FAILURES_IN_A_ROW
            which = f"{allowed} trials in a row"
        else:
            allowed = _FIRST_FAILURES
            which = f"the first {allowed} trials"
        if self._n_failed >= allowed:
            raise ValueError(
                f"Tuning needs trials that succeed, got none of {which}: {self._error}. See "
                f"{self._log(last.number)}."
            )

        if self._n_refused >= _REFUSALS_IN_A_ROW:
            raise ValueError(
                f"`option` must allow combinations, got {self._n_refused} refused in a row: "
                f"{self._error} Tune options that can be combined."
            )

    def _log(self, number: int) -> Path:
        return self.settings.folder / "logs" / f"trial_{number:04d}.txt"

    def _attempt(self, trial: optuna.Trial) -> float:
        """The value of a trial; why it has none is kept with the trial."""
        try:
            return self._value(trial)
        except KeyboardInterrupt:
            # It is queued again before it has a reason, which the next attempt must not inherit.
            RetryHeartbeatStaleTrialCallback()(self.study, self._frozen(trial))
            trial.set_user_attr("reason", "interrupted")
            raise
        except TrainingFailedError as error:
            trial.set_user_attr("lines", error.lines)
            self._error = _TrialFailedError(error.reason)
        except _TrialFailedError as error:
            self._error = error
        except (ValueError, OSError) as error:
            self._error = _TrialFailedError(" ".join(str(error).splitlines()))
        trial.set_user_attr("reason", str(self._error))
        raise self._error

    def _frozen(self, trial: optuna.Trial) -> FrozenTrial:
        """A trial that runs, as it is stored."""
        return self.study.get_trials(deepcopy=False)[trial.number]

    def _value(self, trial: optuna.Trial) -> float:
        """Train with the options of a trial, and score the validation cases."""
        settings = self.settings
        trainer = self._trainer(trial)
        # Two trainings would write into one folder.
        if has_twin(self.study, self._frozen(trial)):
            raise _TrialFailedError("an earlier trial trains the same", is_refusal=True)

        target = settings.target
        title = trainer
        environment = {}
        repeat = trial.user_attrs.get(REPEAT, 0)
        if repeat:
            # Without a folder of its own, it would be taken for the training that is already there.
            results = settings.folder / "repeats" / str(repeat)
            target = replace(target, results=results / target.dataset)
            title = f"{trainer}, again ({repeat})"
            environment = {"nnUNet_results": str(results)}
        # What an earlier version has trained by this name may have been something else.
        check_trained(
            target.fold_folder(trainer),
            trainer,
            held_out=target.held_out_cases(),
        )

        train(
            target,
            trainer,
            device=settings.device,
            log=self._log(trial.number),
            watch=self._watch(trial, title, prune=not repeat),
            environment=environment,
            safe_stop=self.safe_stop,
        )
        return score(
            settings.objective,
            references=target.references,
            fold=target.fold_folder(trainer),
            dataset_json=target.dataset_json,
            cases=settings.cases,
        )

    def _trainer(self, trial: optuna.Trial) -> str:
        """The trainer of a trial; it and the values of its options are kept with the trial."""
        space = self.settings.space
        if trial.user_attrs.get(PLAIN) and not space.has_defaults:
            values = space.defaults
        else:
            values = space.suggest(trial)
        trial.set_user_attr("values", values)

        try:
            trainer = space.trainer_name(values)
        except ValueError as error:
            raise _TrialFailedError(str(error), is_refusal=True) from error
        trial.set_user_attr(TRAINER, trainer)
        return trainer

    def _watch(self, trial: optuna.Trial, title: str, *, prune: bool) -> Callable[[Epochs], None]:
        """What reports a training to the display and to Optuna, and stops it if it is hopeless."""
        n_epochs = self.settings.space.fixed.epochs
        n_validation = len(self.settings.target.validation_cases())
        # Pruners compare in the direction of the study, but a larger pseudo Dice is always better.
        sign = 1.0 if self.settings.objective.maximise else -1.0
        last_reported = -1

        def watch(epochs: Epochs) -> None:
            nonlocal last_reported
            pseudo_dice = epochs.pseudo_dice
            last = max(pseudo_dice, default=-1)
            shown = title
            if last >= 0:
                shown += f" (pseudo Dice {pseudo_dice[last]:.3f})"
            n_done, n_all, what = epochs.progress(n_epochs, n_validation)
            self.display.progress(n_done, n_all, f"trial {trial.number} {shown}, {what}")

            new = [epoch for epoch in pseudo_dice if epoch > last_reported]
            for epoch in new:
                trial.report(sign * pseudo_dice[epoch], epoch)
            last_reported = max(last_reported, last)

            # After the last epoch, only the validation is left, which is worth its time.
            is_last = last >= n_epochs - 1
            if new and prune and not is_last and trial.should_prune():
                dice = f"{pseudo_dice[last]:.4f}"
                reason = f"pseudo Dice {dice} after epoch {last}: below the median"
                trial.set_user_attr("reason", reason)
                raise optuna.TrialPruned(reason)

        return watch
