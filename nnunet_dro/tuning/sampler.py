"""The sampler of Optuna that chooses the options of a trial, with a random seed for every trial."""

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna

#: Most trials that are drawn at random before a sampler learns from them (the default of Optuna).
_STARTUP_TRIALS = 10


class Sampler(str, Enum):
    """The samplers: a Gaussian process, or a tree-structured Parzen estimator."""

    GP = "gp"
    TPE = "tpe"


def own_seed(seed: int, *, n_before: int, is_shared: bool) -> int:
    """The random seed of a trial: with one seed for all, a second start would repeat the first.

    Processes that share a study must not draw the same options: there, it is another one in every call.
    """
    import numpy as np

    return int(np.random.SeedSequence(None if is_shared else [seed, n_before]).generate_state(1)[0])


def make_sampler(kind: Sampler, *, seed: int, n_trials: int, after_failure: bool) -> "optuna.samplers.BaseSampler":
    """Make the sampler of the next trial.

    A sampler learns nothing from failed trials and would choose the same options again: after a failure they are drawn
    at random.
    """
    from optuna import samplers

    n_startup = min(_STARTUP_TRIALS, max(1, n_trials // 2))
    if after_failure:
        return samplers.RandomSampler(seed=seed)
    if kind is Sampler.TPE:
        return samplers.TPESampler(seed=seed, n_startup_trials=n_startup)
    return samplers.GPSampler(seed=seed, n_startup_trials=n_startup)
