"""What a stale loss says: how much of it is due to the case, and how much to where the patch fell.

    python -m experiments.hardness_signals [--data Dataset004_Hippocampus] [--jobs 2] [--quick] [--out F] [--cache F]

A network is trained on phantoms with patches of three sizes. At several moments each training case is drawn many times,
augmented as in training, and the variance of each signal of hardness is split into the part between cases and the part
between patches of one case (one-way analysis of variance with random effects). With ``--data``, the same is done with
2d slices of the hippocampus data, of which many have no foreground. Finished trainings are kept in the cache: an
interrupted experiment continues.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import numpy as np
import pandas as pd
from filelock import FileLock
from rich.console import Console

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.hardness_signals.measurement import add_configurations, signals_of_patches, size_name
from experiments.hardness_signals.page import draw, page_text, shown_table
from experiments.nnunet_runs.plans import PLANS_NAME
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import (
    add_jobs,
    cache_folder,
    cached_runs,
    experiment_parser,
    module_command,
    result_folder,
    write_result,
)

#: The phantoms, and those of a smoke run.
COUNTS = Counts({"control": 40, "common": 12, "rare": 8}, validation=2, test=1)
QUICK_COUNTS = Counts({"control": 4, "common": 3, "rare": 3}, validation=1, test=1)

#: Training cases of the rare intensity ranges, and cases of the common one; and those of a smoke run.
RARE, COMMON = {"rescaled": 4, "8bit": 6}, {"train": 96, "validation": 1, "test": 1}
QUICK_RARE, QUICK_COMMON = {"rescaled": 2, "8bit": 2}, {"train": 8, "validation": 1, "test": 1}

#: The plain training that is measured.
TRAINERS = {BASELINE: "nnUNetTrainerHWS_beta0"}


@dataclass(frozen=True)
class Measurement:
    """What is measured on one dataset.

    Attributes:
        name: Name of the page.
        title: Heading of the page.
        study: The dataset.
        patches: Sizes of the patches, voxels along each axis.
        moments: Iterations of training before each measurement.
        n_draws: About how often each case is drawn at a moment.
        minutes: Minutes of a processor core that a size of patch takes, about.
    """

    name: str
    title: str
    study: Study
    patches: tuple[tuple[int, ...], ...]
    moments: tuple[int, ...]
    n_draws: int
    minutes: float


def volumes(*, quick: bool) -> Measurement:
    """The measurement with patches of phantoms."""
    counts = QUICK_COUNTS if quick else COUNTS
    study = Study(
        name="hardness-signals",
        title="What a stale loss says",
        dataset="Dataset910_Phantoms",
        by="pathology",
        rare=("rare",),
        common=("common", "control"),
        labels=("cerebellum",),
        epochs=1,
        iterations=1,
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={"train": dict(counts.train)},
        about="",
        trainers=TRAINERS,
    )
    sides = (12, SIZE) if quick else (12, 16, SIZE)
    return Measurement(
        "hardness-signals",
        study.title,
        study,
        patches=tuple((side,) * 3 for side in sides),
        moments=(2, 4) if quick else (100, 300, 600),
        n_draws=14 if quick else 30,
        minutes=0.3 if quick else 8.0,
    )


def slices(data: Path, *, quick: bool) -> Measurement:
    """The measurement with 2d slices of the hippocampus data.

    Args:
        data: The raw dataset.
        quick: Whether it is a smoke run.

    Raises:
        FileNotFoundError: If there is no such dataset.
        ValueError: If it lacks the column of intensity ranges, or has too few cases of a range.
    """
    rare, common = (QUICK_RARE, QUICK_COMMON) if quick else (RARE, COMMON)
    n_needed = {**{name: n_cases + 1 for name, n_cases in rare.items()}, "raw": sum(common.values())}
    hippocampus = read_hippocampus(data, n_needed=n_needed)

    def write(folder: Path, rng: np.random.Generator) -> None:
        write_hippocampus(folder, hippocampus, rare=rare, common=common, at_most=1, rng=rng)

    study = Study(
        name="hardness-signals-slices",
        title="What a stale loss says in slices",
        dataset="Dataset911_Hippocampus",
        by="range",
        rare=tuple(rare),
        common=("raw",),
        labels=hippocampus.labels,
        epochs=1,
        iterations=1,
        write=write,
        settings={"rare": rare, "common": common},
        about="",
        trainers=TRAINERS,
    )
    return Measurement(
        study.name,
        study.title,
        study,
        patches=((16, 16), (40, 32)) if quick else ((16, 16), (28, 20), (56, 40)),
        moments=(2, 4) if quick else (200, 600, 2000),
        n_draws=14 if quick else 40,
        minutes=0.3 if quick else 10.0,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("hardness_signals", str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, help="Raw hippocampus dataset, whose slices are measured instead.")
    cache = cache_folder("hardness-signals")
    parser.add_argument(
        "--cache", type=Path, default=cache, help="Folder for finished trainings (default: %(default)s)."
    )
    add_jobs(parser)
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    quick = arguments.quick
    measurement = volumes(quick=quick) if arguments.data is None else slices(arguments.data, quick=quick)
    patches = {size_name(patch): patch for patch in measurement.patches}
    with tempfile.TemporaryDirectory() as folder:
        runs = SeedRuns(Path(folder), measurement.study, seed=0)

        def make(name: str, progress: Callable[[float], None]) -> dict[str, object]:
            start = monotonic()
            _prepare(runs, measurement.patches)
            table = signals_of_patches(runs, patches[name], measurement.moments, measurement.n_draws, progress=progress)
            return {"signals": table.to_dict("list"), "seconds": monotonic() - start}

        fixed = {"moments": measurement.moments, "n_draws": measurement.n_draws, **measurement.study.settings}
        keys = {name: {"patch": patch, **fixed} for name, patch in patches.items()}
        cache, minutes = arguments.cache / measurement.name, measurement.minutes
        made = cached_runs(cache, keys, make, minutes=lambda _: minutes, jobs=arguments.jobs)
    table = pd.concat([pd.DataFrame(content["signals"]) for content in made.values()])
    page = write_result(
        result_folder(arguments.out, quick=quick),
        measurement.name,
        title=measurement.title,
        text=page_text(table, measurement.study, n_draws=measurement.n_draws),
        table=table,
        shown=shown_table(table),
        figure=draw(table),
        command=module_command("experiments.hardness_signals", argv),
        seeds=[0],
        quick=quick,
        seconds=sum(content["seconds"] for content in made.values()),
    )
    Console().print(f"{page} is written.", highlight=False)


def _prepare(runs: SeedRuns, patches: Sequence[Sequence[int]]) -> None:
    """Make the dataset with a configuration for each size of patch, unless another process has made it."""
    import torch

    torch.set_num_threads(1)
    # Read by nnU-Net as it is imported.
    os.environ.update(runs.environment)
    with FileLock(runs.folder / "configurations.lock"):
        runs.prepare()
        add_configurations(runs.preprocessed / f"{PLANS_NAME}.json", patches)


if __name__ == "__main__":
    main()
