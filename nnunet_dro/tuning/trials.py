"""The trials of a study: those of the search, and the trainings that repeat the best of them."""

from collections.abc import Callable, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

#: States of trials that count as finished.
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)

#: User attributes: the trainer's name, of the trial with its defaults, and of a repetition its number and what it
#: repeats. Queued trials have them from the beginning, so that what two machines queue at the same moment is noticed.
TRAINER, PLAIN, REPEAT, REPEAT_OF = "trainer", "plain", "repeat", "repeat_of"

#: System attribute of Optuna with the options of a trial that was queued with them.
_FIXED = "fixed_params"


def is_search(trial: FrozenTrial) -> bool:
    """Whether a trial is one of the search, and no repetition."""
    return REPEAT not in trial.user_attrs


def search_trials(study: optuna.Study, states: Sequence[TrialState] | None = None) -> list[FrozenTrial]:
    """The trials of the search, in these states or in all."""
    return [trial for trial in study.get_trials(deepcopy=False, states=states) if is_search(trial)]


def in_order_of_value(study: optuna.Study) -> list[FrozenTrial]:
    """The complete trials of the search, the best first; of equal ones, the earlier first."""
    sign = -1 if study.direction == optuna.study.StudyDirection.MAXIMIZE else 1
    complete = search_trials(study, (TrialState.COMPLETE,))
    return sorted(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def best_trial(study: optuna.Study) -> FrozenTrial | None:
    """The best of the complete trials of the search; None if there is none."""
    return next(iter(in_order_of_value(study)), None)


def has_twin(study: optuna.Study, trial: FrozenTrial) -> bool:
    """Whether an earlier trial of the same trainer and repetition waits, runs or has finished."""

    def what(one: FrozenTrial) -> tuple[Any, ...]:
        return one.user_attrs.get(TRAINER), one.user_attrs.get(REPEAT)

    earlier = study.get_trials(deepcopy=False, states=(*FINISHED, TrialState.RUNNING, TrialState.WAITING))
    return any(what(other) == what(trial) for other in earlier if other.number < trial.number)


def queue_again(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue a trial that was stopped; one that had not chosen its options is forgotten."""
    params = {**trial.system_attrs.get(_FIXED, {}), **trial.params}
    known = (TRAINER, PLAIN, REPEAT, REPEAT_OF)
    attributes = {name: trial.user_attrs[name] for name in known if name in trial.user_attrs}
    if params or attributes:
        study.enqueue_trial(params, user_attrs=attributes)


def copied(study: optuna.Study, keep: Callable[[FrozenTrial], bool], **options: Any) -> optuna.Study:
    """Copy a study into memory, with failed trials in place of those that are left out, so that numbers stay.

    Trials that wait are left out in any case.
    """
    copy = optuna.create_study(study_name=study.study_name, direction=study.direction, **options)
    left_out = optuna.trial.create_trial(state=TrialState.FAIL)
    trials = study.get_trials(deepcopy=False)
    kept = [trial.state != TrialState.WAITING and keep(trial) for trial in trials]
    n_needed = max((n + 1 for n, is_kept in enumerate(kept) if is_kept), default=0)
    for trial, is_kept in zip(trials[:n_needed], kept, strict=False):
        copy.add_trial(trial if is_kept else left_out)
    return copy
