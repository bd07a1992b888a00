"""Rare modalities of cell nuclei: the settings of Fidon et al. 2022, every one with every other.

The optimiser (SGD, or nnU-Net's with Nesterov momentum), beta, importance weights, and the momentum
of the stale losses. A training takes a minute and a half of a processor core; a seed has 28.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from experiments.curves.results import ScoredRun
from experiments.datasets.nuclei import read_table
from experiments.factorial.effects import Strata, statistics_of
from experiments.factorial.page import Words
from experiments.factorial.settings import SGD, Setting, settings
from experiments.nuclei.experiment import DATA, QUICK_ITERATIONS, make, minutes
from experiments.nuclei.methods import ROLES
from experiments.nuclei.training import MOMENTUM, OptimisedRun
from experiments.record import Experiment, Finished, Options

WORDS = Words(
    "nuclei-factorial",
    "nuclei/factorial",
    Strata(ROLES.rare, ROLES.common, as_rare="rare modalities", as_common=ROLES.common[0]),
    (1000, QUICK_ITERATIONS),
)


@dataclass(frozen=True, kw_only=True)
class FactorialRun(OptimisedRun):
    """A training with a setting of the factorial."""

    setting: Setting


def run_of(setting: Setting, seed: int, iterations: int) -> FactorialRun:
    """A training with a setting."""
    momentum = 0.0 if setting.optimiser == SGD else MOMENTUM
    return FactorialRun(setting.sampling, seed, iterations, setting.rate, momentum, setting=setting)


def _runs(options: Options) -> list[Mapping[str, FactorialRun]]:
    read_table(options.data)
    by_name = {setting.name: setting for setting in settings()}
    iterations = WORDS.iterations[options.quick]

    def run(name: str, seed: int) -> FactorialRun:
        return run_of(by_name[name], seed, iterations)

    return [options.runs_of(run, list(by_name))]


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    """Statistics of the Dice at the end, in points: a row per setting, seed and modality."""
    parts = []
    for name, (run, result) in finished.items():
        dice = ScoredRun.of(name, run, result, label="nucleus").dice
        at_the_end = dice[dice["iteration"] == run.iterations]
        part = statistics_of(run.setting, run.seed, at_the_end, ["stratum"])
        parts.append(part.assign(clipped=100 * result["clipped_share"]))
    return {"-all": pd.concat(parts, ignore_index=True)}


EXPERIMENT = Experiment(
    name="nuclei-factorial",
    title="Beta, weights, momentum and optimiser",
    runs=_runs,
    make=make,
    minutes=minutes,
    tables=_tables,
    page=WORDS.page,
    data=DATA,
    formats={"-all": "%.2f", "-effects": "%.4f"},
)
