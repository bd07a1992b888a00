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
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]
        return SeedRuns(
            options.work / f"{study.name}-{digest}" / f"seed{self.seed}", study, self.seed
        )


def runs_of(study: Study, options: Options) -> list[Mapping[str, StudyRun]]:
    """The trainings of each seed: those from random weights, then those that start from them."""
    settings = {"batch_size": study.network.batch_size, **study.settings}
    stages: list[dict[str, StudyRun]] = [{}, {}]
    for seed in options.seeds:
        for method in options.methods:
            made = StudyRun(method, study.trainer(method), seed, settings)
            stages[method in study.sources][f"{method}-seed{seed}"] = made
    return list(stages)


def rows_by_seed(finished: Finished, *, add: bool = False) -> pd.DataFrame:
    """Dice by seed: a row per seed, method, stratum and label, `ALL_LABELS` among them."""
    rows: list[dict[str, object]] = []
    for run, result in finished.values():
        dice = pd.DataFrame(result["dice"])
        of_cases = (
            dice.groupby(["case", "stratum"], as_index=False)["dice"]
            .mean()
            .assign(label=ALL_LABELS)
        )
        for (stratum, label), of in pd.concat([dice, of_cases]).groupby(
            ["stratum", "label"], sort=False
        )["dice"]:
            key = {
                "seed": run.seed,
                "method": run.method,
                "trainer": run.trainer,
                "stratum": stratum,
                "label": label,
            }
            rows.append(
                key
                | describe(of.to_numpy(dtype=np.float64))
                | {"cpu_seconds": result["cpu_seconds"]}
            )
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
    return (
        table if add else table[table["seed"].isin(table.loc[table["method"] == BASELINE, "seed"])]
    )


def dice_differences(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Means over the seeds of `rows_by_seed`, and differences to the baseline of the same seed, Dice in points."""
    return differences(scores.assign(iteration=0, share=np.nan), roles).drop(
        columns=["iteration", "share"]
    )


def not_learnt(scores: pd.DataFrame, study: Study) -> list[str]:
    """The trainings that have not learnt a label of the study in any stratum, as "ERM, seed 1 (cerebellum)"."""
    found = collapsed_trainings(scores[scores["label"].isin(study.labels)])
    return [f"{row.method}, seed {row.seed} ({row.label})" for row in found.itertuples()]
