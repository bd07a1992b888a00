"""Phantoms with a rare pathology: the settings of a paper, every one with every other.

The settings are those of Fidon et al. 2022, in nnU-Net itself: the optimiser (SGD, or nnU-Net's
with Nesterov momentum), beta, importance weights, and the momentum of the stale losses. A training
takes under two minutes of a processor core; a seed has 28.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from experiments.convergence.questions import phantoms
from experiments.convergence.training import QUICK, Run, make_run
from experiments.curves.results import ScoredRun
from experiments.factorial.effects import Strata, statistics_of
from experiments.factorial.page import Words
from experiments.factorial.settings import Setting, settings
from experiments.nnunet_runs.data import MINUTES_AROUND
from experiments.record import Experiment, Finished, Options

_PHANTOMS = phantoms(quick=False)
_N_TRAIN = sum(_PHANTOMS.n_train.values())
WORDS = Words(
    "phantoms-factorial",
    "convergence/factorial",
    Strata(
        ("rare",),
        ("control", "common"),
        as_rare="rare cerebellum",
        as_common="others",
        article="the",
    ),
    (1000, QUICK),
    label="cerebellum",
    values={
        "uniform": _PHANTOMS.n_train["rare"] / _N_TRAIN,
        "visits": lambda iterations: round(
            iterations * _PHANTOMS.data.network.batch_size / _N_TRAIN
        ),
    },
)


@dataclass(frozen=True)
class FactorialRun(Run):
    """A training with a setting of the factorial."""

    setting: Setting


def _runs(options: Options) -> list[Mapping[str, FactorialRun]]:
    by_name = {setting.name: setting for setting in settings()}
    iterations = WORDS.iterations[options.quick]

    def run(name: str, seed: int) -> FactorialRun:
        return FactorialRun(by_name[name].trainer, seed, iterations, by_name[name])

    return [options.runs_of(run, list(by_name))]


def _make(options: Options, name: str, run: FactorialRun) -> Mapping[str, Any]:
    data = phantoms(quick=options.quick).data
    return make_run(options.work, data, name, run, at=[run.iterations])


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    """Statistics of the Dice at the end, in points, and the share of the draws.

    The table has a row per training, pathology and label.
    """
    parts = []
    for name, (run, result) in finished.items():
        scored = ScoredRun.of(name, run, result)
        part = statistics_of(run.setting, run.seed, scored.dice, ["stratum", "label"])
        shares = scored.share.set_index("stratum")["share"]
        parts.append(part.assign(share=100 * part["stratum"].map(shares)))
    return {"-all": pd.concat(parts, ignore_index=True)}


EXPERIMENT = Experiment(
    name="phantoms-factorial",
    title="Phantoms, in nnU-Net",
    runs=_runs,
    make=_make,
    minutes=lambda run: MINUTES_AROUND + run.iterations * _PHANTOMS.seconds / 60,
    tables=_tables,
    page=WORDS.page,
    seeds=range(4),
    section_of="nuclei-factorial",
    formats={"-all": "%.2f", "-effects": "%.4f"},
)
