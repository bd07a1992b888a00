"""Which options a trial tries: a sampler of Optuna, seeded anew for every trial."""

import os
import socket
import zlib
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna

#: The most trials that are drawn at random before a sampler has something to go by (Optuna's own number).
_STARTUP_TRIALS = 10


class Sampler(str, Enum):
    """How options are chosen: by a Gaussian process, or by a tree-structured Parzen estimator."""

    GP = "gp"
    TPE = "tpe"


def make_sampler(
    kind: Sampler, *, seed: int, n_before: int, n_trials: int, is_shared: bool, after_failure: bool
) -> "optuna.samplers.BaseSampler":
    """The sampler for the next trial: with one seed for all, a second start would repeat the first.

    Args:
        kind: How options are chosen.
        seed: Of the study.
        n_before: How many trials the study has.
        n_trials: How many it is to have.
        is_shared: Whether other processes work on the study, which must not draw the same.
        after_failure: Whether the trial before failed. Failed trials teach a sampler nothing, it would ask for the same
            again: the next is drawn at random.

    Returns:
        The sampler.
    """
    import numpy as np
    from optuna import samplers

    entropy = [seed, n_before]
    if is_shared:
        entropy += [zlib.crc32(socket.gethostname().encode()), os.getpid()]
    own_seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    n_startup = min(_STARTUP_TRIALS, max(1, n_trials // 2))
    if after_failure:
        return samplers.RandomSampler(seed=own_seed)
    if kind is Sampler.TPE:
        return samplers.TPESampler(seed=own_seed, n_startup_trials=n_startup)
    return samplers.GPSampler(seed=own_seed, n_startup_trials=n_startup)
