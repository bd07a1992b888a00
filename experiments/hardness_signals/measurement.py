"""Trainings with patches of several sizes, and the signals of hardness at some of their moments."""

import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from scipy.stats import spearmanr

from experiments.hardness_signals.variance import share_between, variance_parts
from experiments.nnunet_runs.hardness import harder
from experiments.nnunet_runs.plans import CONFIGURATION, PLANS_NAME
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE

#: Signal of hardness (the trainer's option) to the name the loss has for it.
SIGNALS = {"loss": "loss", "hardCE": "ce", "hardPresent": "present"}

#: Momenta of a history for which the share between cases is computed.
MOMENTA = (0.0, 0.5, 0.9)


def measure(trainer: Any, loader: Any, n_batches: int) -> pd.DataFrame:
    """Draw cases uniformly and measure the signals: a row per patch with its case and the value of each signal."""
    import torch

    from nnunet_dro.trainers.case_columns import DrawColumns

    per_case = trainer.loss.per_case
    rows = []
    trainer.network.train()
    for _ in range(n_batches):
        batch = next(loader)
        with torch.no_grad():
            outputs = trainer.network(batch["data"])
            values = {}
            for name, setting in SIGNALS.items():
                per_case.hardness = setting
                values[name] = per_case(outputs, batch["target"]).hardness.numpy()
        per_case.hardness = "loss"
        rows += [
            {"case": int(case), **{name: float(value[i]) for name, value in values.items()}}
            for i, case in enumerate(DrawColumns.in_batch(batch).indices)
        ]
    return pd.DataFrame(rows)


def add_configurations(plans_file: Path, patches: Sequence[int]) -> None:
    """Add a configuration per size of patch to the plans."""
    plans = json.loads(plans_file.read_text(encoding="utf-8"))
    for size in patches:
        plans["configurations"][f"patch{size}"] = {"inherits_from": CONFIGURATION, "patch_size": [size] * 3}
    plans_file.write_text(json.dumps(plans, indent=2), encoding="utf-8")


def signals_of_patches(runs: SeedRuns, size: int, moments: Sequence[int], n_batches: int) -> pd.DataFrame:
    """Train with patches of one size, and measure at some moments: a row per moment and signal."""
    import torch

    from nnunet_dro.trainers.registry import trainer_class

    torch.manual_seed(runs.seed)
    np.random.seed(runs.seed)  # noqa: NPY002 - nnU-Net's
    plans = json.loads((runs.preprocessed / f"{PLANS_NAME}.json").read_text(encoding="utf-8"))
    dataset = json.loads((runs.preprocessed / "dataset.json").read_text(encoding="utf-8"))
    name = runs.study.trainer(BASELINE)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer: Any = trainer_class(name)(
            plans | {"continue_training": False}, f"patch{size}", 0, dataset, torch.device("cpu")
        )
        trainer.initialize()
        loader, _ = trainer.get_dataloaders()
    cases = trainer.hardness_log.table.cases
    pathology = pd.read_csv(runs.raw / "cases.csv", dtype=str).set_index("case")["pathology"].loc[list(cases)]
    rows, done = [], 0
    for moment in track(moments, f"patches of {size}", console=Console(stderr=True)):
        trainer.network.train()
        while done < moment:
            trainer.train_step(next(loader))
            done += 1
        values = measure(trainer, loader, n_batches)
        of_case = values.groupby("case").mean()
        rare = (pathology.to_numpy() == "rare")[values["case"]]
        for signal in SIGNALS:
            between, within = variance_parts(values[signal].to_numpy(), values["case"].to_numpy())
            rows.append(
                {
                    "patch": size,
                    "iterations": moment,
                    "signal": signal,
                    "sd between cases": between**0.5,
                    "sd within a case": within**0.5,
                    **{f"share, momentum {m:g}": share_between(between, within, momentum=m) for m in MOMENTA},
                    "rank correlation with mean loss": spearmanr(
                        values[signal], of_case["loss"].loc[values["case"]]
                    ).statistic,
                    "rare patch is harder": harder(values.loc[rare, signal], values.loc[~rare, signal]),
                }
            )
    return pd.DataFrame(rows)
