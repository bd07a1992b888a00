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
    """The random seed of a trial; with one seed for all trials, a second start would repeat the first.

    Args:
        seed: Random seed of the study.
        n_before: Number of trials that the study has.
        is_shared: Whether other processes, which must not draw the same options, work on the study. The seed is
            another one in every call then.
    """
    import numpy as np

    return int(np.random.SeedSequence(None if is_shared else [seed, n_before]).generate_state(1)[0])


def make_sampler(kind: Sampler, *, seed: int, n_trials: int, after_failure: bool) -> "optuna.samplers.BaseSampler":
    """Make the sampler of the next trial.

    Args:
        kind: The sampler to make.
        seed: Random seed of the trial.
        n_trials: Number of trials that have to finish.
        after_failure: Whether the last trial failed. A sampler learns nothing from failed trials and would choose the
            same options again, so that the next ones are drawn at random.

    Returns:
        The sampler.
    """
    from optuna import samplers

    n_startup = min(_STARTUP_TRIALS, max(1, n_trials // 2))
    if after_failure:
        return samplers.RandomSampler(seed=seed)
    if kind is Sampler.TPE:
        return samplers.TPESampler(seed=seed, n_startup_trials=n_startup)
    return samplers.GPSampler(seed=seed, n_startup_trials=n_startup)
