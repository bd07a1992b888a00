"""What a stale loss says: how much of it is the case, and how much where its patch fell.

    python -m experiments.hardness_signals [--quick] [--out FOLDER]

A network is trained on phantoms with patches of three sizes. At several moments each training case is drawn many times,
augmented as in training, and the variance of each signal of hardness is split into the part between cases and the part
between patches of one case (one-way analysis of variance with random effects).
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy.stats import spearmanr

from experiments import record
from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.nnunet_runs.runs import CONFIGURATION, PLANS_NAME, SeedRuns
from experiments.segmentation.studies import phantom_study

SIGNALS = {"loss": "loss", "hardCE": "ce", "hardPresent": "present"}
MOMENTA = (0.0, 0.5, 0.9)
PATCHES = (12, 16, SIZE)
COUNTS = Counts({"control": 40, "common": 12, "rare": 8}, validation=2, test=1)
QUICK_COUNTS = Counts({"control": 4, "common": 3, "rare": 3}, validation=1, test=1)


def variance_parts(values: NDArray[np.float64], cases: NDArray[np.int64]) -> tuple[float, float]:
    """The variance between cases and that between the values of one case.

    Args:
        values: Shape (m,).
        cases: The case of each value, shape (m,); at least two cases, and two values of one.

    Returns:
        Both components; the one between cases is estimated without bias and cut at 0.

    Source: the one-way analysis of variance with random effects, unequal group sizes (Searle et al. 1992, chapter 3).
    """
    names, group, counts = np.unique(cases, return_inverse=True, return_counts=True)
    means = np.bincount(group, weights=values) / counts
    within = float(((values - means[group]) ** 2).sum() / (len(values) - len(names)))
    between = float((counts * (means - values.mean()) ** 2).sum() / (len(names) - 1))
    effective = (len(values) - (counts**2).sum() / len(values)) / (len(names) - 1)
    return max(0.0, (between - within) / effective), within


def share_between(between: float, within: float, *, momentum: float) -> float:
    """The share of a stale loss's variance that is between cases, with a history of this momentum.

    A history L <- m L + (1 - m) l of independent values has (1 - m) / (1 + m) of their variance.
    """
    remaining = within * (1 - momentum) / (1 + momentum)
    return between / (between + remaining)


def measure(trainer: Any, loader: Any, n_batches: int) -> pd.DataFrame:
    """Draw cases uniformly and look at them: a row per patch with its case and the value of each signal."""
    import torch

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
            for i, case in enumerate(batch["case_indices"])
        ]
    return pd.DataFrame(rows)


def add_configurations(plans_file: Path, patches: Sequence[int]) -> None:
    """A configuration per size of patch."""
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
    name = f"nnUNetTrainerDRO_beta0_1epochs_{moments[-1]}iters"
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = trainer_class(name)(
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


def harder(rare: "pd.Series[float]", others: "pd.Series[float]") -> float:
    """The probability that a patch of a rare case has a larger value than one of another; NaN if one is missing."""
    if not (len(rare) and len(others)):
        return float("nan")
    ranks = pd.concat([rare, others]).rank().to_numpy()
    return float((ranks[: len(rare)].sum() - len(rare) * (len(rare) + 1) / 2) / (len(rare) * len(others)))


def draw(table: pd.DataFrame) -> Figure:
    """Shares of the variance between cases: a panel per size of patch, a line per signal, without and with momentum."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    sizes = sorted(table["patch"].unique())
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    colours = dict(zip(SIGNALS, ("#000000", "#0072B2", "#D55E00"), strict=True))
    for panel, size in zip(panels, sizes, strict=True):
        for signal, rows in table[table["patch"] == size].groupby("signal", sort=False):
            for momentum, style in ((0.0, "-"), (0.9, ":")):
                label = signal if momentum == 0 else f"{signal}, momentum {momentum:g}"
                share = 100 * rows[f"share, momentum {momentum:g}"]
                panel.plot(rows["iterations"], share, style, marker="o", color=colours[str(signal)], label=label)
        whole = ", the whole volume" if size == SIZE else ""
        panel.set(title=f"patch {size} x {size} x {size}{whole}", xlabel="iterations", ylim=(0, 102))
        panel.grid(color="0.92")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("variance between cases (%)")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


_TEXT = """
## What was asked

Hardness weighted sampling draws a case again because its last loss was large. That is useful as far as the loss says
something about the case, and noise as far as it says where the patch fell and how it was augmented. How much of the
variance of the stale losses is between cases, for each signal of hardness and with a history of them?

{about} Batches of 4; a plain training (beta 0).
At each moment, every training case is drawn about {n_draws} times, augmented as nnU-Net does it, and not trained on.

## What came out

{findings}

`sd between cases` and `sd within a case` are standard deviations, in units of the signal; `share, momentum m` is the
share of a stale loss's variance that is between cases, with `momentum<m>`; `rank correlation with mean loss` is
Spearman's, between one value of the signal and its case's mean loss; `rare patch is harder` is the probability that a
patch of a rare case has a larger value than one of another case (0.5: no difference).
"""


def describe(table: pd.DataFrame) -> str:
    """The findings, in words made from the numbers."""
    lines = []
    last = table[table["iterations"] == table["iterations"].max()]
    for size, rows in last.groupby("patch"):
        shares = rows.set_index("signal")
        said = ", ".join(
            f"{100 * shares.loc[signal, 'share, momentum 0']:.0f} % with `{signal}`"
            + (" (the default)" if signal == "loss" else "")
            for signal in SIGNALS
        )
        history = 100 * shares.loc["loss", "share, momentum 0.9"]
        lines.append(
            f"- **Patches of {size} voxels**, at the end: {said}; with momentum 0.9 the default has\n  {history:.0f} %."
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser: argparse.ArgumentParser = record.experiment_parser(__doc__.splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    quick = arguments.quick
    counts = QUICK_COUNTS if quick else COUNTS
    moments, patches, n_draws = ((2, 4), (12, SIZE), 4) if quick else ((100, 300, 600), PATCHES, 30)
    start = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        study = replace(phantom_study(quick=quick), write=lambda raw, rng: write_dataset(raw, counts, rng=rng))
        runs = SeedRuns(Path(folder), study, seed=0)
        # Read by nnU-Net as it is imported.
        os.environ.update(runs.environment)
        runs.prepare(Console(stderr=True))
        add_configurations(runs.preprocessed / f"{PLANS_NAME}.json", patches)
        import torch

        torch.set_num_threads(1)
        n_cases = sum(counts.train.values())
        n_batches = -(-n_draws * n_cases // 4)
        table = pd.concat([signals_of_patches(runs, size, moments, n_batches) for size in patches])
    shares = ", ".join(f"{n} {pathology}" for pathology, n in counts.train.items())
    about = f"{n_cases} phantoms ({shares}), {SIZE} x {SIZE} x {SIZE} voxels."
    page = record.write_result(
        record.result_folder(arguments.out, quick=quick),
        "hardness-signals",
        title="What a stale loss says",
        text=_TEXT.format(about=about, n_draws=n_draws, findings=describe(table)),
        table=table,
        figure=draw(table),
        command=record.module_command("experiments.hardness_signals", argv),
        seeds=[0],
        quick=quick,
        seconds=monotonic() - start,
    )
    Console().print(f"{page} is written.", highlight=False)


if __name__ == "__main__":
    main()
