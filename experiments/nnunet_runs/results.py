"""Experiments of whole trainings of nnU-Net: their runs, and the Dice of every seed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.results import Roles, differences
from experiments.nnunet_runs.data import MINUTES_AROUND, Data
from experiments.nnunet_runs.runs import SeedRuns
from experiments.record import Finished, Options, collapsed_trainings
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: The method all others are compared with.
BASELINE = "ERM"
#: Stands for the mean over the labels of a case, in the place of a label.
ALL_LABELS = "all labels"
#: A training that starts from the model of another has this share of its iterations.
CONTINUED = 0.1
#: Seconds of a processor core of an iteration on phantoms, about.
SECONDS = 0.1


@dataclass(frozen=True)
class TrainingRun:
    """A training, and everything that determines it."""

    method: str  # Name of the method.
    trainer: str  # Name of the trainer, with its length.
    seed: int  # Seed of the data and of the training.
    settings: dict[str, Any]  # Settings of the data and the network.


@dataclass(frozen=True, kw_only=True)
class Trainings:
    """Trainings of nnU-Net by its own commands, which are tested at their end."""

    name: str  # Name in names of folders.
    data: Data
    #: Method to the trainer's name without its length; ``{by}`` stands for the strata's column.
    trainers: Mapping[str, str]
    #: Method to the method whose model of the same seed it starts from; random weights if absent.
    sources: Mapping[str, str] = field(default_factory=dict)
    #: Method to the fold that has its training cases; 0 if absent.
    folds: Mapping[str, int] = field(default_factory=dict)
    epochs: int
    iterations: int  # Training iterations per epoch.
    #: Folders in which nnU-Net looks for trainers beside those of this package.
    trainer_folders: tuple[Path, ...] = ()

    def iterations_of(self, method: str) -> int:
        """Training iterations per epoch of a method."""
        share = CONTINUED if method in self.sources else 1
        return max(1, round(self.iterations * share))

    def trainer(self, method: str) -> str:
        """Name of a method's trainer, as given to nnU-Net's ``-tr``."""
        name = self.trainers[method].format(by=self.data.by)
        return f"{name}_{self.epochs}epochs_{self.iterations_of(method)}iters"

    def minutes(
        self, method: str, *, seconds: float = SECONDS, around: float = MINUTES_AROUND
    ) -> float:
        """Minutes of a processor core that a training takes, about.

        Its iterations take ``seconds``, its predictions and their evaluation the minutes
        ``around``.
        """
        return around + self.epochs * self.iterations_of(method) * seconds / 60

    def runs(self, options: Options) -> list[Mapping[str, TrainingRun]]:
        """The trainings of each seed: those from random weights, then those that start there."""
        settings = {"batch_size": self.data.network.batch_size, **self.data.settings}

        def run(method: str, seed: int) -> TrainingRun:
            return TrainingRun(method, self.trainer(method), seed, settings)

        first = [method for method in options.methods if method not in self.sources]
        second = [method for method in options.methods if method in self.sources]
        return [options.runs_of(run, first), options.runs_of(run, second)]

    def of_seed(self, run: TrainingRun, options: Options) -> SeedRuns:
        """What makes a run, in a folder that no other settings share."""
        settings = json.dumps(run.settings, sort_keys=True)
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        folder = options.work / f"{self.name}-{digest}" / f"seed{run.seed}"
        return SeedRuns(folder, self.data, run.seed, self.trainer_folders)

    def model(self, runs: SeedRuns, method: str) -> Path:
        """The folder of the model of a method."""
        return runs.fold(self.trainer(method), self.folds.get(method, 0))

    def make(self, options: Options, name: str, run: TrainingRun) -> dict[str, Any]:
        """Train, predict and evaluate, from the model of another method where it has a source."""
        runs = self.of_seed(run, options)
        source = None
        if run.method in self.sources:
            source = self.model(runs, self.sources[run.method])
        return runs.run(run.method, self.model(runs, run.method), source)


def rows_by_seed(finished: Finished, *, add: bool = False) -> pd.DataFrame:
    """Dice by seed: a row per seed, method, stratum and label, `ALL_LABELS` among them."""
    rows: list[dict[str, object]] = []
    for run, result in finished.values():
        dice = pd.DataFrame(result["dice"])
        means = dice.groupby(["case", "stratum"], as_index=False)["dice"].mean()
        all_labels = pd.concat([dice, means.assign(label=ALL_LABELS)])
        for (stratum, label), scores in all_labels.groupby(["stratum", "label"], sort=False):
            row = {
                "seed": run.seed,
                "method": run.method,
                "trainer": run.trainer,
                "stratum": stratum,
                "label": label,
            }
            row |= describe(scores["dice"].to_numpy(dtype=np.float64))
            rows.append({**row, "cpu_seconds": result["cpu_seconds"]})

    # Differences are to the baseline of the same seed; where rows are added, it may be in the table
    # already.
    table = pd.DataFrame(rows)
    seeds = table.loc[table["method"] == BASELINE, "seed"]
    return table if add else table[table["seed"].isin(seeds)]


def dice_differences(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Means over the seeds of `rows_by_seed`, and differences to the baseline of the same seed.

    The Dice is in points of 100.
    """
    table = differences(scores.assign(iteration=0, share=np.nan), roles)
    return table.drop(columns=["iteration", "share"])


def not_learnt(scores: pd.DataFrame, data: Data) -> list[str]:
    """The trainings that have not learnt a label of the data in any stratum.

    They are named as "ERM, seed 1 (cerebellum)".
    """
    trainings = collapsed_trainings(scores[scores["label"].isin(data.labels)])
    return [f"{row.method}, seed {row.seed} ({row.label})" for row in trainings.itertuples()]
