"""A study: trials, each of which is a training, run one after the other and shown until enough have finished."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, PartialFixedSampler, RandomSampler, TPESampler
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.markup import escape

from nnunet_dro.nnunet.command import SafeStop
from nnunet_dro.nnunet.training import Epochs, Target, TrainingFailedError, train
from nnunet_dro.progress_bar import Progress
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
    queue_next,
    search_trials,
)

#: Failures after which tuning stops: from the first trial on, later in a row, and refused names in
#: a row.
_FIRST_FAILURES = 3
_FAILURES_IN_A_ROW = 10
_REFUSALS_IN_A_ROW = 50

_STARTUP_TRIALS = 10  # Most trials that are drawn at random before a sampler learns from them (the default of Optuna).


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


class Display:
    """Shows a line for each trial that has ended, and how far the training is that runs."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self.progress = console, progress

    def ended(self, trial: FrozenTrial, *, is_best: bool) -> None:
        """Show how a trial has ended."""
        again = f", again ({trial.user_attrs[REPEAT]})" if REPEAT in trial.user_attrs else ""
        name = trial.user_attrs.get("trainer", "") + again
        minutes = f", {trial.duration.total_seconds() / 60:.1f} min" if trial.duration else ""
        reason = trial.user_attrs.get("reason", "")
        if trial.state == TrialState.COMPLETE:
            best = ", the best so far" if is_best else ""
            self.note(f"trial {trial.number}: {trial.value:.4f} {name}{minutes}{best}")
        elif trial.state == TrialState.PRUNED:
            self.note(f"trial {trial.number}: pruned {name}{minutes}; {reason}")
        else:
            self.note(f"trial {trial.number}: failed{f' {name}' if name else ''}; {reason}")
            for line in trial.user_attrs.get("lines", ())[:-1]:
                self.note(f"    {line}")

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)


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
        self.study, self.settings, self.display, self.safe_stop = (
            study,
            settings,
            display,
            safe_stop,
        )
        self._n_succeeded = self._n_failed = self._n_refused = 0
        self._error: _TrialFailedError | None = None
        epochs = settings.space.fixed.epochs
        # Slow learners have a quarter of the training to catch up.
        median = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=epochs // 4)
        study.pruner = median if settings.prune else optuna.pruners.NopPruner()
        self._seed = 0

    def run(self, after_each: Callable[[], object]) -> None:
        """Run trials, the defaults first, until enough have finished, and then train the best of them again."""
        self._after_each = after_each
        if not self.study.get_trials(deepcopy=False):
            space = self.settings.space
            attributes = {PLAIN: True, TRAINER: space.trainer}
            self.study.enqueue_trial(
                space.defaults if space.has_defaults else {}, user_attrs=attributes
            )
        while self._is_needed() and self._draw():
            self._next()
        # Trials that run elsewhere may be better; whoever finishes the last one goes on.
        is_over = not search_trials(self.study, (TrialState.RUNNING,))
        while is_over and queue_next(self.study, self.settings.n_repeats):
            self.study.sampler = RandomSampler(seed=self._seed)
            self._next()

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
        options: dict[str, Any] = {}  # a queued trial keeps its own
        if not any(trial.state == TrialState.WAITING for trial in trials):
            drawn = draw_options(self.study, settings.space, self._sampler(), seed=self._seed)
            if drawn is None:
                self.display.note(
                    f"No other combination was found in {N_ATTEMPTS} draws; the search ends."
                )
                return False
            options = drawn
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
        self.safe_stop.check()
        self._error = None
        self.study.optimize(
            self._attempt, n_trials=1, catch=(_TrialFailedError,), callbacks=[self._ended]
        )

    def _ended(self, study: optuna.Study, trial: FrozenTrial) -> None:
        error = self._error
        best = best_trial(study)
        self.display.ended(
            trial, is_best=error is None and best is not None and best.number == trial.number
        )
        if error is None:
            self._n_succeeded += 1
            self._n_failed = self._n_refused = 0
        elif error.is_refusal:
            self._n_refused += 1
        else:
            self._n_failed += 1
        self._after_each()
        allowed = _FAILURES_IN_A_ROW if self._n_succeeded else _FIRST_FAILURES
        if self._n_failed >= allowed:
            which = (
                f"{allowed} trials in a row" if self._n_succeeded else f"the first {allowed} trials"
            )
            see = f"See {self._log(trial.number)}."
            raise ValueError(
                f"Tuning needs trials that succeed, got none of {which}: {error}. {see}"
            )
        if self._n_refused >= _REFUSALS_IN_A_ROW:
            got = f"{self._n_refused} refused in a row"
            cure = "Tune options that can be combined."
            raise ValueError(f"`option` must allow combinations, got {got}: {error} {cure}")

    def _log(self, number: int) -> Path:
        return self.settings.folder / "logs" / f"trial_{number:04d}.txt"

    def _attempt(self, trial: optuna.Trial) -> float:
        try:
            return self._value(trial)
        except KeyboardInterrupt:
            # Before it has a reason, which the next attempt must not inherit.
            RetryHeartbeatStaleTrialCallback()(
                self.study, self.study.get_trials(deepcopy=False)[trial.number]
            )
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

    def _value(self, trial: optuna.Trial) -> float:
        settings = self.settings
        is_plain = trial.user_attrs.get(PLAIN) and not settings.space.has_defaults
        values = settings.space.defaults if is_plain else settings.space.suggest(trial)
        trial.set_user_attr("values", values)
        try:
            trainer = settings.space.trainer_name(values)
        except ValueError as error:
            raise _TrialFailedError(str(error), is_refusal=True) from error
        trial.set_user_attr(TRAINER, trainer)
        # Two trainings would write into one folder.
        if has_twin(self.study, self.study.get_trials(deepcopy=False)[trial.number]):
            raise _TrialFailedError("an earlier trial trains the same", is_refusal=True)
        target = settings.target
        environment = {}
        if repeat := trial.user_attrs.get(REPEAT, 0):
            # Without a folder of its own, it would be taken for the training that is already there.
            results = settings.folder / "repeats" / str(repeat)
            target = replace(target, results=results / target.dataset)
            environment = {"nnUNet_results": str(results)}
        train(
            target,
            trainer,
            device=settings.device,
            log=self._log(trial.number),
            watch=self._watch(
                trial, f"{trainer}, again ({repeat})" if repeat else trainer, prune=not repeat
            ),
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

    def _watch(self, trial: optuna.Trial, title: str, *, prune: bool) -> Callable[[Epochs], None]:
        """What reports a training to the display and to Optuna, and stops it if it is hopeless."""
        n_epochs = self.settings.space.fixed.epochs
        n_validation = len(self.settings.target.validation_cases())
        # Pruners compare in the direction of the study, but a larger pseudo Dice is always better.
        sign = 1.0 if self.settings.objective.maximise else -1.0
        reported = -1

        def watch(epochs: Epochs) -> None:
            nonlocal reported
            last = max(epochs.pseudo_dice, default=-1)
            shown = f" (pseudo Dice {epochs.pseudo_dice[last]:.3f})" if last >= 0 else ""
            n_done, n_all, what = epochs.progress(n_epochs, n_validation)
            self.display.progress(n_done, n_all, f"trial {trial.number} {title}{shown}, {what}")
            new = [epoch for epoch in epochs.pseudo_dice if epoch > reported]
            for epoch in new:
                trial.report(sign * epochs.pseudo_dice[epoch], epoch)
            reported = max(reported, last)
            # After the last epoch, only the validation is left, which is worth its time.
            if new and prune and last < n_epochs - 1 and trial.should_prune():
                reason = f"pseudo Dice {epochs.pseudo_dice[last]:.4f} after epoch {last}: below the median"
                trial.set_user_attr("reason", reason)
                raise optuna.TrialPruned(reason)

        return watch


def about(space: Space, target: Target, objective: Objective) -> dict[str, Any]:
    """What a study is about; if any of this differs, it is another study."""
    return {
        "dataset": target.dataset,
        "configuration": target.configuration,
        "fold": target.fold,
        "plans": target.plans,
        "trainer": space.trainer,
        "options": sorted(
            [*(one.text for one in space.ranges), *(choice.name for choice in space.choices)]
        ),
        "objective": objective.text,
    }
