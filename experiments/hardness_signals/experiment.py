"""What a stale loss says: how much of it is due to the case, and how much to where the patch fell.

A network is trained on phantoms with patches of three sizes, or on 2d slices of the hippocampus
data, of which many have no foreground. At several moments each training case is drawn many times,
augmented as in training, and the variance of each signal of hardness is split into the part between
cases and the part between patches of one case (one-way analysis of variance with random effects).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import pandas as pd
from filelock import FileLock
from matplotlib.figure import Figure

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.phantoms import Counts, write_dataset
from experiments.hardness_signals.measurement import (
    POOLED,
    SIGNALS,
    add_configurations,
    signals_of_patches,
    size_name,
)
from experiments.nnunet_runs.data import PLANS_NAME, Data
from experiments.nnunet_runs.runs import SeedRuns
from experiments.record import Experiment, Options, Page, render

#: The phantoms, and those of a smoke run.
COUNTS = {
    False: Counts({"control": 40, "common": 12, "rare": 8}, validation=2, test=1),
    True: Counts({"control": 4, "common": 3, "rare": 3}, validation=1, test=1),
}
#: Training cases of the rare intensity ranges, and cases of the common one; and those of a smoke
#: run.
RANGES: dict[bool, tuple[dict[str, int], dict[str, int]]] = {
    False: ({"rescaled": 4, "8bit": 6}, {"train": 96, "validation": 1, "test": 1}),
    True: ({"rescaled": 2, "8bit": 2}, {"train": 8, "validation": 1, "test": 1}),
}
#: Axes of a patch to the sizes of patches, the iterations of training before each measurement, and
#: about how often each case is drawn there; and those of a smoke run.
SIZES: Mapping[bool, Mapping[int, tuple[Sequence[tuple[int, ...]], tuple[int, ...], int]]] = {
    False: {
        3: (((12,) * 3, (16,) * 3, (24,) * 3), (100, 300, 600), 30),
        2: (((16, 16), (28, 20), (56, 40)), (200, 600, 2000), 40),
    },
    True: {3: (((12,) * 3, (24,) * 3), (2, 4), 14), 2: (((16, 16), (40, 32)), (2, 4), 14)},
}


@dataclass(frozen=True)
class SignalsRun:
    """What is measured with patches of one size."""

    patch: tuple[int, ...]  # Voxels along each axis.
    moments: tuple[int, ...]  # Iterations of training before each measurement.
    n_draws: int  # About how often each case is drawn at a moment.
    data: dict[str, Any]  # What the dataset is made with.


def _data(n_axes: int, options: Options) -> Data:
    counts = COUNTS[options.quick]
    if n_axes == 3:
        return Data(
            dataset="Dataset910_Phantoms",
            by="pathology",
            rare=("rare",),
            write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
            settings={"train": dict(counts.train)},
        )
    rare, common = RANGES[options.quick]
    ranges = read_hippocampus(options.data, rare=rare, common=common)
    return Data(
        dataset="Dataset911_Hippocampus",
        by="range",
        rare=tuple(rare),
        write=lambda folder, rng: write_hippocampus(
            folder, options.data, ranges, rare=rare, common=common, at_most=1, rng=rng
        ),
        settings={"rare": rare, "common": common},
    )


def _runs(n_axes: int, options: Options) -> list[Mapping[str, SignalsRun]]:
    patches, moments, n_draws = SIZES[options.quick][n_axes]
    data = dict(_data(n_axes, options).settings)
    return [{size_name(patch): SignalsRun(patch, moments, n_draws, data) for patch in patches}]


def _make(experiment: str, options: Options, name: str, run: SignalsRun) -> Mapping[str, Any]:
    start = monotonic()
    n_axes = len(run.patch)
    runs = SeedRuns(options.work / experiment, _data(n_axes, options), seed=0)
    patches, _, _ = SIZES[options.quick][n_axes]
    _prepare(runs, patches)
    table = signals_of_patches(runs, run.patch, run.moments, run.n_draws)
    return {"signals": table.to_dict("list"), "seconds": monotonic() - start}


def _prepare(runs: SeedRuns, patches: Sequence[Sequence[int]]) -> None:
    """Make the dataset with a configuration for each size of patch.

    Nothing is done if another process has made it.
    """
    import torch

    torch.set_num_threads(1)
    # Read by nnU-Net as it is imported.
    os.environ.update(runs.environment)
    runs.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(runs.folder / "configurations.lock"):
        runs.prepare()
        add_configurations(runs.preprocessed / f"{PLANS_NAME}.json", patches)


def _page(n_axes: int, template: str, tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    table = tables[""]
    last = table[table["iterations"] == table["iterations"].max()]
    by_size = {}
    for size, rows in last.groupby("patch", sort=False):
        by_size[size] = rows.set_index("signal").to_dict("index")
    text = render(
        f"hardness_signals/{template}",
        signals=[*SIGNALS, POOLED],
        last=by_size,
        train=COUNTS[quick].train,
        rare=RANGES[quick][0],
        common=RANGES[quick][1],
        n_draws=SIZES[quick][n_axes][2],
    )
    left_out = ["sd between cases", "sd within a case", "share, momentum 0.5", "iterations"]
    shown = last[last["signal"].isin(["loss", POOLED])].drop(columns=left_out)
    shown = shown.dropna(axis="columns", how="all")
    return Page(text, table, [0], shown=shown, pictures={"": partial(draw, table)})


def _experiment(
    name: str, title: str, n_axes: int, template: str, minutes: float, **more: Any
) -> Experiment:
    return Experiment(
        name=name,
        title=title,
        runs=partial(_runs, n_axes),
        make=partial(_make, name),
        minutes=lambda run: minutes if run.n_draws > 14 else 0.3,
        tables=lambda finished, _: {
            "": pd.concat([pd.DataFrame(made["signals"]) for _, made in finished.values()])
        },
        page=partial(_page, n_axes, template),
        seeds=(),
        **more,
    )


_SLICES = {"data": "The hippocampus data", "section_of": "hardness-signals"}
EXPERIMENTS = {
    "hardness-signals": _experiment("hardness-signals", "What a stale loss says", 3, "page", 8.0),
    "hardness-signals-slices": _experiment(
        "hardness-signals-slices", "Slices", 2, "slices", 10.0, **_SLICES
    ),
}


def draw(table: pd.DataFrame) -> Figure:
    """Shares of the variance between cases.

    There is a panel per size of patch, and a line per signal, without and with momentum.
    """
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    sizes = table["patch"].unique()
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    colours = ("#000000", "#0072B2", "#D55E00", "#009E73")
    colour_of = dict(zip((*SIGNALS, POOLED), colours, strict=True))
    for panel, size in zip(panels, sizes, strict=True):
        for signal, rows in table[table["patch"] == size].groupby("signal", sort=False):
            for momentum, style in ((0.0, "-"), (0.9, ":")):
                label = f"{signal}, momentum {momentum:g}" if momentum else signal
                share = 100 * rows[f"share, momentum {momentum:g}"]
                if share.notna().all():
                    panel.plot(
                        rows["iterations"],
                        share,
                        style,
                        marker="o",
                        color=colour_of[str(signal)],
                        label=label,
                    )
        panel.set(title=f"patch {size.replace('x', ' x ')}", xlabel="iterations", ylim=(0, 102))
    panels[0].set_ylabel("variance between cases (%)")
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure
