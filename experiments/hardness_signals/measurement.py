"""Trainings with patches of several sizes, and the signals of hardness at some of their moments."""

import contextlib
import io
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr

from experiments.device import device_name
from experiments.nnunet_runs.data import CONFIGURATION, PARENT, PLANS_NAME
from experiments.nnunet_runs.runs import SeedRuns
from experiments.spoilt_labels.separation import harder
from nnunet_dro.demo.preparation import small_plans

#: Signal of hardness of one patch (the trainer's option) to the name the loss has for it.
SIGNALS = {"loss": "loss", "hardCE": "ce", "hardPresent": "present"}
#: The signal that sums up the last patches of a case, and how many of them it remembers (1 - 1 /
#: memory).
POOLED = "hardPooled"
MEMORY = 0.9
#: The plain training that is measured.
TRAINER = "nnUNetTrainerHWS_beta0_1epochs_1iters"
#: Momenta of a history for which the share between cases is computed.
MOMENTA = (0.0, 0.5, 0.9)
#: Cases in a batch of 2d slices; nnU-Net plans several hundred for slices of this size.
SLICES_IN_BATCH = 8


def measure(trainer: Any, loader: Any, n_batches: int) -> pd.DataFrame:
    """Draw cases uniformly and measure the signals, without training on them.

    There is a row per patch. `POOLED` is NaN before its memory is full; ``whole`` is from as many
    other patches of the case, as one image.
    """
    from nnunet_dro.losses import PooledHardness

    trainer.network.train()
    trainer.loss.per_case.voxel_sums.finds_predicted = "everywhere"
    n = len(trainer.hardness_log.table.cases)
    pooled = PooledHardness(n, memory=MEMORY)
    visits = np.zeros(n, dtype=int)
    batches = []
    for _ in range(n_batches):
        places, outputs, target = _forward(trainer, next(loader))
        indices = places.cpu().numpy()
        values = {"case": indices}
        for name, setting in SIGNALS.items():
            trainer.loss.per_case.hardness = setting
            values[name] = trainer.loss.per_case(outputs, target).hardness.cpu().numpy()
        trainer.loss.per_case.hardness = "loss"
        values[POOLED] = pooled(places, trainer.loss.per_case(outputs, target)).cpu().numpy()
        np.add.at(visits, indices, 1)
        is_full = visits[indices] >= 1 / (1 - MEMORY)
        values[POOLED] = np.where(is_full, values[POOLED], np.nan)
        full_size = target[0] if isinstance(target, list) else target
        values["has_foreground"] = (full_size > 0).flatten(1).any(1).cpu().numpy()
        batches.append(pd.DataFrame(values))

    table = pd.concat(batches, ignore_index=True)
    whole = _whole_hardness(trainer, loader, n_batches, n)
    return table.assign(whole=whole[table["case"]])


def _whole_hardness(trainer: Any, loader: Any, n_batches: int, n: int) -> NDArray[np.float64]:
    """The hardness of each of n cases, from all of its patches as one image; NaN if it has none."""
    from nnunet_dro.losses import PooledHardness

    pooled = PooledHardness(n, memory=1 - 1e-9)
    whole = np.full(n, np.nan)
    for _ in range(n_batches):
        places, outputs, target = _forward(trainer, next(loader))
        hardness = pooled(places, trainer.loss.per_case(outputs, target))
        whole[places.cpu().numpy()] = hardness.cpu().numpy()
    return whole


def _forward(trainer: Any, batch: dict[str, Any]) -> tuple[Any, Any, Any]:
    import torch

    from nnunet_dro.trainers.case_columns import CaseColumns

    target = batch["target"]
    if isinstance(target, list):  # one for each resolution of deep supervision
        target = [part.to(trainer.device) for part in target]
    else:
        target = target.to(trainer.device)
    with torch.no_grad():
        places = torch.as_tensor(CaseColumns.in_batch(batch).indices).to(trainer.device)
        outputs = trainer.network(batch["data"].to(trainer.device))
    return places, outputs, target


def add_configurations(plans_file: Path, patches: Sequence[Sequence[int]]) -> None:
    """Add a small configuration per size of patch to the plans.

    Sizes with two axes are those of slices of the volumes for 3d.
    """
    plans = json.loads(plans_file.read_text(encoding="utf-8"))
    # Another process may be reading them.
    if all(size_name(patch) in plans["configurations"] for patch in patches):
        return
    for patch in patches:
        configuration: dict[str, object] = {"inherits_from": CONFIGURATION}
        if len(patch) == 2:
            small = small_plans(deepcopy(plans), parent="2d")["configurations"]["2d_small"]
            configuration = {
                "inherits_from": "2d",
                "data_identifier": plans["configurations"][PARENT]["data_identifier"],
                "batch_size": SLICES_IN_BATCH,
                "architecture": small["architecture"],
            }
        configuration["patch_size"] = list(patch)
        plans["configurations"][size_name(patch)] = configuration
    plans_file.write_text(json.dumps(plans, indent=2), encoding="utf-8")


def size_name(patch: Sequence[int]) -> str:
    """A size of patch in words: the voxels along each axis, such as 16x16x16."""
    return "x".join(str(length) for length in patch)


def signals_of_patches(
    runs: SeedRuns, patch: Sequence[int], moments: Sequence[int], n_draws: int
) -> pd.DataFrame:
    """Train with patches of one size, and measure at some moments: a row per moment and signal."""
    trainer, loader = _begin(runs, patch)
    cases = trainer.hardness_log.table.cases
    table = pd.read_csv(runs.raw / "cases.csv", dtype=str).set_index("case")
    is_rare_case = table[runs.data.by].loc[list(cases)].isin(runs.data.rare).to_numpy()
    n_batches = -(-n_draws * len(cases) // trainer.batch_size)
    rows = []
    n_done = 0
    for moment in moments:
        trainer.network.train()
        while n_done < moment:
            trainer.train_step(next(loader))
            n_done += 1

        values = measure(trainer, loader, n_batches)
        is_rare = is_rare_case[values["case"]]
        for signal in (*SIGNALS, POOLED):
            row: dict[str, object] = {"patch": size_name(patch), "iterations": moment}
            rows.append(row | signal_row(values, signal, is_rare))
    return pd.DataFrame(rows)


def _begin(runs: SeedRuns, patch: Sequence[int]) -> tuple[Any, Any]:
    """The trainer before its first iteration, and its loader of training batches."""
    import torch

    from nnunet_dro.trainers.registry import trainer_class

    torch.manual_seed(runs.seed)
    np.random.seed(runs.seed)  # noqa: NPY002 - nnU-Net's
    plans = json.loads((runs.preprocessed / f"{PLANS_NAME}.json").read_text(encoding="utf-8"))
    dataset = json.loads((runs.preprocessed / "dataset.json").read_text(encoding="utf-8"))
    with contextlib.redirect_stdout(io.StringIO()):
        trainer: Any = trainer_class(TRAINER)(
            plans | {"continue_training": False},
            size_name(patch),
            0,
            dataset,
            torch.device(device_name()),
        )
        trainer.initialize()
        loader, _ = trainer.get_dataloaders()
    return trainer, loader


def signal_row(
    values: pd.DataFrame, signal: str, is_rare: "np.ndarray[Any, np.dtype[np.bool_]]"
) -> dict[str, object]:
    """What one signal, a column of `measure`, says of the cases.

    Args:
        values: A row per patch, as `measure` gives them.
        signal: Name of the signal.
        is_rare: Whether each patch is one of a rare case.
    """
    has_value = values[signal].notna().to_numpy()
    values = values[has_value]
    is_rare = is_rare[has_value]
    is_empty = ~values["has_foreground"].to_numpy()
    hardness = values[signal]
    between, within = variance_parts(hardness.to_numpy(), values["case"].to_numpy())

    row: dict[str, object] = {
        "signal": signal,
        "sd between cases": between**0.5,
        "sd within a case": within**0.5,
    }
    for momentum in MOMENTA:
        share = share_between(between, within, momentum=momentum)
        if signal == POOLED and momentum > 0:
            # The patches that are pooled are not independent of each other, so the formula for a
            # history does not hold.
            share = float("nan")
        row[f"share, momentum {momentum:g}"] = share
    correlation = spearmanr(hardness, values["whole"]).statistic
    row["rank correlation with the whole case"] = correlation
    row["rare patch is harder"] = harder(hardness[is_rare], hardness[~is_rare])
    row["empty patch is harder"] = harder(hardness[is_empty], hardness[~is_empty])
    return row


def variance_parts(values: NDArray[np.float64], cases: NDArray[np.int64]) -> tuple[float, float]:
    """The variance between cases, and that between the values of one case.

    The first is estimated without bias and cut at 0.

    Source: One-way analysis of variance with random effects and unequal group sizes, Searle et al.
    1992, chapter 3.
    """
    names, group, counts = np.unique(cases, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=values) / counts
    within = float(((values - means[group]) ** 2).sum() / (len(values) - len(names)))
    between = float((counts * (means - values.mean()) ** 2).sum() / (len(names) - 1))
    effective = (len(values) - (counts**2).sum() / len(values)) / (len(names) - 1)
    return max(0.0, (between - within) / effective), within


def share_between(between: float, within: float, *, momentum: float) -> float:
    """Share of the variance that is between cases.

    A history L <- m L + (1 - m) l keeps (1 - m) / (1 + m) of the variance within a case.
    """
    remaining = within * (1 - momentum) / (1 + momentum)
    return between / (between + remaining)
