"""The draw of a trial's options: what a sampler of Optuna proposes, unless its trainer has been tried already."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, GPSampler, PartialFixedSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from nnunet_dro.tuning.space import Space
from nnunet_dro.tuning.trials import FINISHED, copied

#: Random draws after which a space counts as exhausted.
N_ATTEMPTS = 500

#: Most trials that are drawn at random before a sampler learns from them (the default of Optuna).
_STARTUP_TRIALS = 10


def draw_options(study: optuna.Study, space: Space, sampler: BaseSampler, *, seed: int) -> dict[str, Any] | None:
    """Draw options whose trainer has not been tried in the study.

    Names of trainers are rounded, and words have few combinations: different proposals can mean the same trainer. The
    sampler proposes first. If that trainer has a result, runs elsewhere or is known to be refused, options are drawn at
    random instead: the sampler would propose the same again. It learns from every trial that has a value of all that is
    tuned, repetitions included; Optuna's Gaussian process ignores pruned ones. None if `N_ATTEMPTS` draws in a row have
    been tried.
    """
    tried = {_key_of(trial) for trial in study.get_trials(deepcopy=False)} - {None}
    distributions = space.distributions()

    def is_usable(trial: FrozenTrial) -> bool:
        return trial.params.keys() == distributions.keys()

    for proposing, n_attempts in ((sampler, 1), (RandomSampler(seed=seed), N_ATTEMPTS)):
        copy = copied(study, is_usable, sampler=proposing)
        for _ in range(n_attempts):
            values = space.as_written(copy.ask(distributions).params)
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
    """What a trial has tried; None for a training that failed, which may succeed another time."""
    attributes = trial.user_attrs
    if "trainer" in attributes:
        return attributes["trainer"] if trial.state in (*FINISHED, TrialState.RUNNING) else None
    return _combination(attributes["values"]) if "values" in attributes and trial.state == TrialState.FAIL else None


def giving(options: Mapping[str, Any] | None, *, seed: int) -> BaseSampler:
    """The sampler that gives a trial the options drawn for it; a queued trial (None) keeps its own."""
    return PartialFixedSampler(dict(options or {}), RandomSampler(seed=seed))


def own_seed(seed: int, *, n_before: int, is_shared: bool) -> int:
    """The random seed of a trial: with one seed for all, a second start would repeat the first.

    Processes that share a study must not draw the same options: there, it is another one in every call.
    """
    return int(np.random.SeedSequence(None if is_shared else [seed, n_before]).generate_state(1)[0])


def make_sampler(kind: str, *, seed: int, n_trials: int, after_failure: bool) -> BaseSampler:
    """Make the sampler of the next trial.

    A sampler learns nothing from failed trials and would choose the same options again: after a failure they are drawn
    at random.
    """
    if after_failure:
        return RandomSampler(seed=seed)
    n_startup = min(_STARTUP_TRIALS, max(1, n_trials // 2))
    return (TPESampler if kind == "tpe" else GPSampler)(seed=seed, n_startup_trials=n_startup)
