"""The trials of a study: those of the search, and those that repeat the best of them.

The best trainers of a search are trained again, because nnU-Net seeds neither its first weights nor
its draws: the same command is another training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from nnunet_dro.tuning.space import Space
from nnunet_dro.tuning.storage import KILLED

_N_BEST = 3  # How many of the best trainers are trained again.
N_ATTEMPTS = 500  # Random draws after which a space counts as exhausted.
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)  # States of trials that count as finished.

#: States of trials whose trainer has had, or will have, its training.
_TAKEN = (*FINISHED, TrialState.RUNNING, TrialState.WAITING)

#: User attributes: the trainer's name, of the trial with its defaults, and of a repetition its
#: number and what it repeats. Queued trials have them from the beginning, so that what two machines
#: queue at the same moment is noticed.
TRAINER = "trainer"
PLAIN = "plain"
REPEAT = "repeat"
REPEAT_OF = "repeat_of"

#: The reason of a failed trial that recorded none: its machine no longer responds.
_SILENT = "no sign of life"


def reason_of(trial: FrozenTrial) -> str:
    """Why a trial has ended without a value; empty if it has one, or has not ended."""
    # A trial that was started again still has the reason of its first attempt.
    if trial.state == TrialState.PRUNED:
        return str(trial.user_attrs.get("reason", ""))
    if trial.state == TrialState.FAIL:
        return str(trial.user_attrs.get("reason", _SILENT))
    return ""


def minutes_of(trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> float | None:
    """Minutes of a trial, with those of the starts that it continues.

    None if it has not ended, or nobody knows when one of them did. ``trials`` are all of the study.
    """
    minutes = 0.0
    for number in dict.fromkeys((*trial.system_attrs.get("retry_history", ()), trial.number)):
        start = trials[number]
        # The trial of a process that was gone has been ended by a later one, perhaps days after.
        if not start.duration or reason_of(start) in (KILLED, _SILENT):
            return None
        minutes += start.duration.total_seconds() / 60
    return round(minutes, 2)


def is_search(trial: FrozenTrial) -> bool:
    """Whether a trial is one of the search, and no repetition."""
    return REPEAT not in trial.user_attrs


def search_trials(
    study: optuna.Study, states: Sequence[TrialState] | None = None
) -> list[FrozenTrial]:
    """The trials of the search, in these states or in all."""
    return [trial for trial in study.get_trials(deepcopy=False, states=states) if is_search(trial)]


def in_order_of_value(study: optuna.Study) -> list[FrozenTrial]:
    """The complete trials of the search, the best first; of equal ones, the earlier first."""
    complete = search_trials(study, (TrialState.COMPLETE,))
    return sorted(
        complete,
        key=lambda trial: trial.value or 0.0,
        reverse=study.direction == StudyDirection.MAXIMIZE,
    )


def best_trial(study: optuna.Study) -> FrozenTrial | None:
    """The best of the complete trials of the search; None if there is none."""
    return next(iter(in_order_of_value(study)), None)


def is_tried(study: optuna.Study, trainer: str) -> bool:
    """Whether a trial of the search with this trainer waits, runs or has finished."""
    return any(trial.user_attrs.get(TRAINER) == trainer for trial in search_trials(study, _TAKEN))


def has_twin(study: optuna.Study, trial: FrozenTrial) -> bool:
    """Whether an earlier trial of the same trainer and repetition waits, runs or has finished."""
    taken = study.get_trials(deepcopy=False, states=_TAKEN)
    earlier = [other for other in taken if other.number < trial.number]
    return any(_trainer_and_repeat(other) == _trainer_and_repeat(trial) for other in earlier)


def _trainer_and_repeat(trial: FrozenTrial) -> tuple[str | None, int | None]:
    return trial.user_attrs.get(TRAINER), trial.user_attrs.get(REPEAT)


def copied(
    study: optuna.Study, keep: Callable[[FrozenTrial], bool], **options: Any
) -> optuna.Study:
    """Copy a study into memory.

    Trials that wait or are left out become failed ones, so that numbers stay.
    """
    copy = optuna.create_study(study_name=study.study_name, direction=study.direction, **options)
    placeholder = optuna.trial.create_trial(state=TrialState.FAIL)
    for trial in study.get_trials(deepcopy=False):
        is_kept = trial.state != TrialState.WAITING and keep(trial)
        copy.add_trial(trial if is_kept else placeholder)
    return copy


@dataclass(frozen=True)
class Repeated:
    """A trainer that was trained again.

    Its value in the search says little of it, because it was chosen for that value.
    """

    trial: FrozenTrial  # that of the search
    values: tuple[float, ...]  # the objective of the further trainings

    @property
    def trainer(self) -> str:
        """The trainer's name."""
        return str(self.trial.user_attrs["trainer"])

    @property
    def mean(self) -> float:
        """Mean of the further trainings."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """Standard deviation (n - 1) of the further trainings; NaN for one."""
        if len(self.values) < 2:
            return float("nan")
        return float(np.std(self.values, ddof=1))


def _best(study: optuna.Study) -> list[FrozenTrial]:
    """The best trials of the search with different trainers."""
    by_trainer: dict[str, FrozenTrial] = {}
    for trial in in_order_of_value(study):
        by_trainer.setdefault(trial.user_attrs["trainer"], trial)
    return list(by_trainer.values())[:_N_BEST]


def _repetitions(
    study: optuna.Study, trial: FrozenTrial, *states: TrialState
) -> dict[int, FrozenTrial]:
    """The repetitions of a trial in these states by their number.

    Of several with one number, which two machines have queued at the same moment, the first counts.
    """
    repetitions: dict[int, FrozenTrial] = {}
    for other in study.get_trials(deepcopy=False, states=states):
        if other.user_attrs.get(REPEAT_OF) == trial.number:
            repetitions.setdefault(other.user_attrs[REPEAT], other)
    return repetitions


def repeated_trainers(study: optuna.Study) -> list[Repeated]:
    """The best trainers that have been trained again, with the best mean first."""
    trainers = []
    for trial in _best(study):
        complete = _repetitions(study, trial, TrialState.COMPLETE)
        if complete:
            values = tuple(float(complete[n].value or 0.0) for n in sorted(complete))
            trainers.append(Repeated(trial, values))

    maximise = study.direction == StudyDirection.MAXIMIZE
    return sorted(trainers, key=lambda trainer: trainer.mean, reverse=maximise)


def chosen_trial(study: optuna.Study) -> FrozenTrial | None:
    """The trial to use: the best in the further trainings, or else the best of the search.

    The further trainings decide once all of the best trainers have as many of them.
    """
    trainers = repeated_trainers(study)
    n_trainings = {len(trainer.values) for trainer in trainers}
    if len(n_trainings) == 1 and len(trainers) == len(_best(study)):
        return trainers[0].trial
    return best_trial(study)


def queue_next(study: optuna.Study, n_repeats: int) -> bool:
    """Queue the next repetition that is due, if it is not queued yet.

    Returns:
        Whether a repetition waits in the queue.
    """
    for n in range(1, n_repeats + 1):
        for trial in _best(study):
            if n in _repetitions(study, trial, TrialState.COMPLETE, TrialState.RUNNING):
                continue
            if n not in _repetitions(study, trial, TrialState.WAITING):
                attributes = {REPEAT: n, REPEAT_OF: trial.number}
                attributes |= {
                    name: value
                    for name, value in trial.user_attrs.items()
                    if name in (TRAINER, PLAIN)
                }
                study.enqueue_trial(trial.params, user_attrs=attributes)
            return True
    return False


def draw_options(
    study: optuna.Study, space: Space, sampler: BaseSampler, *, seed: int
) -> dict[str, Any] | None:
    """Draw options whose trainer has not been tried in the study.

    Names of trainers are rounded, and words have few combinations: different proposals can mean the
    same trainer. The sampler proposes first. If that trainer has a result, runs elsewhere or is
    known to be refused, options are drawn at random instead: the sampler would propose the same
    again.

    The sampler learns from every trial that has a value of all that is tuned, repetitions included;
    Optuna's Gaussian process ignores pruned ones.

    Returns:
        The options as in the trainer's name; None if `N_ATTEMPTS` draws in a row have been tried.
    """
    tried = {_key_of(trial) for trial in study.get_trials(deepcopy=False)}
    names = set(space.names)
    for proposing, n_attempts in ((sampler, 1), (RandomSampler(seed=seed), N_ATTEMPTS)):
        copy = copied(
            study,
            lambda trial: trial.params.keys() == names,
            sampler=proposing,
        )
        for _ in range(n_attempts):
            values = space.suggest(copy.ask())
            if _key(space, values) not in tried:
                return values
    return None


def _key(space: Space, values: Mapping[str, Any]) -> str:
    """The trainer's name; for a combination that it refuses, the combination."""
    try:
        return space.trainer_name(values)
    except ValueError:
        return _combination(values)


def _combination(values: Mapping[str, Any]) -> str:
    return repr(sorted(values.items()))


def _key_of(trial: FrozenTrial) -> str | None:
    """What a trial has tried, as in `_key`.

    None for a training that failed, which may succeed another time, and where nothing was drawn.
    """
    attributes = trial.user_attrs
    if "trainer" in attributes:
        is_tried = trial.state in (*FINISHED, TrialState.RUNNING)
        return attributes["trainer"] if is_tried else None
    if "values" in attributes and trial.state == TrialState.FAIL:
        return _combination(attributes["values"])
    return None
