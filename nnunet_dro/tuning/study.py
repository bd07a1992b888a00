"""A study: trials, each of which is a training, run one after the other until enough have finished."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from nnunet_dro.nnunet.safe_stop import SafeStop
from nnunet_dro.nnunet.target import Target
from nnunet_dro.nnunet.training import TrainingFailedError, train
from nnunet_dro.nnunet.training_log import Epochs
from nnunet_dro.tuning.objective import Objective, score
from nnunet_dro.tuning.progress import Display
from nnunet_dro.tuning.sampler import Sampler, make_sampler
from nnunet_dro.tuning.space import Space

#: States of trials that count as finished.
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)

#: Failures after which tuning stops: from the first trial on, later in a row, and refused names in a row.
_FIRST_FAILURES, _FAILURES_IN_A_ROW, _REFUSALS_IN_A_ROW = 3, 10, 50

#: Seconds between two checks of a trial elsewhere that trains the same.
_TWIN_SECONDS = 5.0


@dataclass(frozen=True)
class Settings:
    """The settings of a study.

    Attributes:
        target: The fold to train on.
        space: The trainer and the options to tune.
        objective: The objective to optimise.
        cases: The case table; None if the objective needs none.
        device: ``cpu``, ``cuda`` or ``mps``.
        n_trials: Number of trials that have to finish, including those of earlier starts and other machines.
        sampler: The sampler that chooses the options.
        seed: Random seed of the sampler.
        prune: Whether hopeless trainings are stopped early.
        folder: Folder for logs and reports.
        is_shared: Whether other machines may work on the study.
    """

    target: Target
    space: Space
    objective: Objective
    cases: Path | None
    device: str
    n_trials: int
    sampler: Sampler
    seed: int
    prune: bool
    folder: Path
    is_shared: bool


class _TrialFailedError(Exception):
    """A trial has no value, perhaps because the trainer refused its options (``is_refusal``)."""

    def __init__(self, reason: str, *, is_refusal: bool = False) -> None:
        super().__init__(reason)
        self.is_refusal = is_refusal


class Tuner:
    """Runs the trials of a study."""

    def __init__(self, study: optuna.Study, settings: Settings, display: Display, safe_stop: SafeStop) -> None:
        self.study, self.settings, self.display, self.safe_stop = study, settings, display, safe_stop
        self._n_succeeded = self._n_failed = self._n_refused = 0
        self._error: _TrialFailedError | None = None
        self._number = -1
        epochs = settings.space.fixed.epochs
        # Slow learners have a quarter of the training to catch up.
        median = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=epochs // 4)
        study.pruner = median if settings.prune else optuna.pruners.NopPruner()

    def run(self, after_each: Callable[[], object]) -> None:
        """Run trials until enough have finished.

        Args:
            after_each: Function to call after each trial.

        Raises:
            KeyboardInterrupt: On Ctrl-C, once the training is stopped and its trial is queued for the next start.
            ValueError: If the first trials all fail, or too many fail in a row.
        """
        while self._is_needed():
            self.safe_stop.check()
            self._next()
            after_each()
            self._check_failures()

    def _is_needed(self) -> bool:
        if self.settings.is_shared:
            _fail_the_dead(self.study)
        trials = self.study.get_trials(deepcopy=False)
        n_finished = sum(trial.state in FINISHED for trial in trials)
        n_running = sum(trial.state == TrialState.RUNNING for trial in trials)
        if n_running and n_finished < self.settings.n_trials <= n_finished + n_running:
            self.display.note(f"{n_running} running elsewhere; no more trials are needed.")
        return n_finished + n_running < self.settings.n_trials

    def _next(self) -> None:
        self._error = None
        self.study.sampler = self._sampler()
        self.study.optimize(self._attempt, n_trials=1, catch=(_TrialFailedError,))
        trial = self.study.get_trials(deepcopy=False)[self._number]
        error: _TrialFailedError | None = self._error
        self.display.ended(trial, is_best=error is None and _is_best(self.study, trial))
        if error is None:
            self._n_succeeded += 1
            self._n_failed = self._n_refused = 0
        elif error.is_refusal:
            self._n_refused += 1
        else:
            self._n_failed += 1

    def _check_failures(self) -> None:
        allowed = _FAILURES_IN_A_ROW if self._n_succeeded else _FIRST_FAILURES
        if self._n_failed >= allowed:
            which = f"{allowed} trials in a row" if self._n_succeeded else f"the first {allowed} trials"
            log = log_path(self.settings.folder, self._number)
            raise ValueError(f"Tuning needs trials that succeed, got none of {which}: {self._error}. See {log}.")
        if self._n_refused >= _REFUSALS_IN_A_ROW:
            cure = "Tune options that can be combined."
            got = f"{self._n_refused} refused in a row"
            raise ValueError(f"`option` must allow combinations, got {got}: {self._error} {cure}")

    def _sampler(self) -> optuna.samplers.BaseSampler:
        settings = self.settings
        return make_sampler(
            settings.sampler,
            seed=settings.seed,
            n_before=len(self.study.get_trials(deepcopy=False)),
            n_trials=settings.n_trials,
            is_shared=settings.is_shared,
            after_failure=self._n_failed > 0 or self._n_refused > 0,
        )

    def _attempt(self, trial: optuna.Trial) -> float:
        self._number = trial.number
        try:
            return self._value(trial)
        except KeyboardInterrupt:
            trial.set_user_attr("reason", "interrupted")
            if len(trial.params) == len(self.settings.space.names):
                self.study.enqueue_trial(trial.params)
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
        values = settings.space.suggest(trial)
        trial.set_user_attr("values", values)
        try:
            trainer = settings.space.trainer_name(values)
        except ValueError as error:
            raise _TrialFailedError(str(error), is_refusal=True) from error
        trial.set_user_attr("trainer", trainer)
        self.display.started(trial.number, trainer)
        self._wait_for_twin(trial.number, trainer)
        watch = _Watch(trial, settings, self.display)
        train(
            settings.target,
            trainer,
            device=settings.device,
            log=log_path(settings.folder, trial.number),
            watch=watch,
            safe_stop=self.safe_stop,
        )
        return score(
            settings.objective,
            references=settings.target.references,
            fold=settings.target.fold_folder(trainer),
            dataset_json=settings.target.dataset_json,
            cases=settings.cases,
        )

    def _wait_for_twin(self, number: int, trainer: str) -> None:
        """Wait for a trial elsewhere with the same trainer: both trainings would write into one folder."""

        def is_twin(other: FrozenTrial) -> bool:
            return other.number < number and other.user_attrs.get("trainer") == trainer

        while any(map(is_twin, self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))):
            self.safe_stop.check()
            time.sleep(_TWIN_SECONDS)
            _fail_the_dead(self.study)


class _Watch:
    """Reports the progress of a training to Optuna and to the display, and stops it if it is hopeless."""

    def __init__(self, trial: optuna.Trial, settings: Settings, display: Display) -> None:
        self._trial, self._display = trial, display
        self._n_epochs, self._reported = settings.space.fixed.epochs, -1
        # Pruners compare in the direction of the study, but a larger pseudo Dice is always better.
        self._sign = 1.0 if settings.objective.maximise else -1.0

    def __call__(self, epochs: Epochs) -> None:
        self._display.epochs(epochs, self._n_epochs)
        new = [epoch for epoch in epochs.pseudo_dice if epoch > self._reported]
        for epoch in new:
            self._trial.report(self._sign * epochs.pseudo_dice[epoch], epoch)
            self._reported = epoch
        # After the last epoch, only the validation is left, which is worth its time.
        if new and self._reported < self._n_epochs - 1 and self._trial.should_prune():
            reason = (
                f"pseudo Dice {epochs.pseudo_dice[self._reported]:.4f} after epoch {self._reported}: below the median"
            )
            self._trial.set_user_attr("reason", reason)
            raise optuna.TrialPruned(reason)


def log_path(folder: Path, number: int) -> Path:
    """The log file of the training of a trial."""
    return folder / "logs" / f"trial_{number:04d}.txt"


def best_trial(study: optuna.Study) -> FrozenTrial | None:
    """The best of the complete trials; None if there is none."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    sign = 1 if study.direction == optuna.study.StudyDirection.MAXIMIZE else -1
    return max(trials, key=lambda trial: (sign * (trial.value or 0.0), -trial.number), default=None)


def _is_best(study: optuna.Study, trial: FrozenTrial) -> bool:
    best = best_trial(study)
    return best is not None and best.number == trial.number


def _fail_the_dead(study: optuna.Study) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


def about(space: Space, target: Target, objective: Objective) -> dict[str, Any]:
    """What a study is about; if any of this differs, it is another study."""
    hardness = space.fixed.history.hardness
    return {
        # Version 0.1 had other defaults under the same name. A study of its has no such entry.
        **({"hardness": hardness} if hardness == "pooled" else {}),
        "dataset": target.dataset,
        "configuration": target.configuration,
        "fold": target.fold,
        "plans": target.plans,
        "trainer": space.trainer,
        "options": sorted([*(one.text for one in space.ranges), *(choice.name for choice in space.choices)]),
        "objective": objective.text,
    }
