"""Experiments of whole trainings of nnU-Net: their runs, and the Dice of every seed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.results import Roles, differences
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import Finished, Options, collapsed_trainings
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: Stands for the mean over the labels of a case, in the place of a label.
ALL_LABELS = "all labels"


@dataclass(frozen=True)
class StudyRun:
    """A training of a study, and everything that determines it."""

    method: str  # Name of the method.
    trainer: str  # Name of the trainer, with its length.
    seed: int  # Seed of the data and of the training.
    settings: dict[str, Any]  # Settings of the data and the network.

    def of(self, study: Study, options: Options) -> SeedRuns:
        """What makes it, in a folder that no other settings share."""
        settings = json.dumps(self.settings, sort_keys=True)
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        folder = options.work / f"{study.name}-{digest}" / f"seed{self.seed}"
        return SeedRuns(folder, study, self.seed)


def runs_of(study: Study, options: Options) -> list[Mapping[str, StudyRun]]:
    """The trainings of each seed: those from random weights, then those that start from them."""
    settings = {"batch_size": study.network.batch_size, **study.settings}
    first: dict[str, StudyRun] = {}
    second: dict[str, StudyRun] = {}
    for seed in options.seeds:
        for method in options.methods:
            stage = second if method in study.sources else first
            run = StudyRun(method, study.trainer(method), seed, settings)
            stage[f"{method}-seed{seed}"] = run
    return [first, second]


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
            row["cpu_seconds"] = result["cpu_seconds"]
            rows.append(row)
    names = [
        "seed",
        "method",
        "trainer",
        "stratum",
        "label",
        "n",
        "n_undefined",
        *STATISTICS,
        "cpu_seconds",
    ]
    table: pd.DataFrame = pd.DataFrame(rows)[names]

    # Differences are to the baseline of the same seed; where rows are added, it may be in the table
    # already.
    if add:
        return table
    seeds = table.loc[table["method"] == BASELINE, "seed"]
    return table[table["seed"].isin(seeds)]


def dice_differences(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Means over the seeds of `rows_by_seed`, and differences to the baseline of the same seed.

    The Dice is in points of 100.
    """
    table = differences(scores.assign(iteration=0, share=np.nan), roles)
    return table.drop(columns=["iteration", "share"])


def not_learnt(scores: pd.DataFrame, study: Study) -> list[str]:
    """The trainings that have not learnt a label of the study in any stratum.

    They are named as "ERM, seed 1 (cerebellum)".
    """
    trainings = collapsed_trainings(scores[scores["label"].isin(study.labels)])
    return [f"{row.method}, seed {row.seed} ({row.label})" for row in trainings.itertuples()]
