"""A study: trials, each of which is a training, run one after the other until enough have finished."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from nnunet_dro.nnunet.command import SafeStop
from nnunet_dro.nnunet.training import Target, TrainingFailedError, train
from nnunet_dro.tuning.drawing import N_ATTEMPTS, draw_options, giving
from nnunet_dro.tuning.objective import Objective, score
from nnunet_dro.tuning.progress import Display, Watch
from nnunet_dro.tuning.repeats import queue_next, target_of
from nnunet_dro.tuning.sampler import Sampler, make_sampler, own_seed
from nnunet_dro.tuning.space import Space
from nnunet_dro.tuning.trials import FINISHED, PLAIN, REPEAT, TRAINER, best_trial, has_twin, queue_again, search_trials

#: Failures after which tuning stops: from the first trial on, later in a row, and refused names in a row.
_FIRST_FAILURES, _FAILURES_IN_A_ROW, _REFUSALS_IN_A_ROW = 3, 10, 50


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
        n_repeats: How often each of the best trainers is trained again at the end.
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
    n_repeats: int = 0


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
        self._seed = 0

    def run(self, after_each: Callable[[], object]) -> None:
        """Run trials until enough have finished, and then train the best of them again.

        The first trial of a new study is the trainer with its defaults.
        """
        if not self.study.get_trials(deepcopy=False):
            space = self.settings.space
            attributes = {PLAIN: True, TRAINER: space.trainer}
            self.study.enqueue_trial(space.defaults if space.has_defaults else {}, user_attrs=attributes)
        while self._is_needed() and self._draw():
            self._next(after_each)
        # Trials that run elsewhere may be better; whoever finishes the last one goes on.
        is_over = not search_trials(self.study, (TrialState.RUNNING,))
        while is_over and queue_next(self.study, self.settings.n_repeats):
            self.study.sampler = giving(None, seed=self._seed)
            self._next(after_each)

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
        is_queued = bool(self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)))
        self._seed = own_seed(
            settings.seed, n_before=len(self.study.get_trials(deepcopy=False)), is_shared=settings.is_shared
        )
        options = None
        if not is_queued:
            after_failure = self._n_failed > 0 or self._n_refused > 0
            sampler = make_sampler(
                settings.sampler, seed=self._seed, n_trials=settings.n_trials, after_failure=after_failure
            )
            options = draw_options(self.study, settings.space, sampler, seed=self._seed)
            if options is None:
                self.display.note(f"No other combination was found in {N_ATTEMPTS} draws; the search ends.")
                return False
        self.study.sampler = giving(options, seed=self._seed)
        return True

    def _next(self, after_each: Callable[[], object]) -> None:
        self.safe_stop.check()
        self._error = None
        self.study.optimize(self._attempt, n_trials=1, catch=(_TrialFailedError,))
        trial = self.study.get_trials(deepcopy=False)[self._number]
        error: _TrialFailedError | None = self._error
        best = best_trial(self.study)
        self.display.ended(trial, is_best=error is None and best is not None and best.number == trial.number)
        if error is None:
            self._n_succeeded += 1
            self._n_failed = self._n_refused = 0
        elif error.is_refusal:
            self._n_refused += 1
        else:
            self._n_failed += 1
        after_each()
        self._check_failures()

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

    def _attempt(self, trial: optuna.Trial) -> float:
        self._number = trial.number
        try:
            return self._value(trial)
        except KeyboardInterrupt:
            trial.set_user_attr("reason", "interrupted")
            queue_again(self.study, self.study.get_trials(deepcopy=False)[trial.number])
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
        repeat = trial.user_attrs.get(REPEAT, 0)
        target, environment = target_of(settings.target, settings.folder, repeat)
        train(
            target,
            trainer,
            device=settings.device,
            log=log_path(settings.folder, trial.number),
            watch=Watch(
                trial,
                self.display.progress,
                f"trial {trial.number} {trainer}{f', again ({repeat})' if repeat else ''}",
                n_epochs=settings.space.fixed.epochs,
                n_validation=len(target.validation_cases()),
                maximise=settings.objective.maximise,
                prune=not repeat,
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


def log_path(folder: Path, number: int) -> Path:
    """The log file of the training of a trial."""
    return folder / "logs" / f"trial_{number:04d}.txt"


def about(space: Space, target: Target, objective: Objective) -> dict[str, Any]:
    """What a study is about; if any of this differs, it is another study."""
    return {
        "dataset": target.dataset,
        "configuration": target.configuration,
        "fold": target.fold,
        "plans": target.plans,
        "trainer": space.trainer,
        "options": sorted([*(one.text for one in space.ranges), *(choice.name for choice in space.choices)]),
        "objective": objective.text,
    }
