"""What a stale loss says: how much of it is due to the case, and how much to where the patch fell.

    python -m experiments.hardness_signals [--quick] [--out FOLDER]

A network is trained on phantoms with patches of three sizes. At several moments each training case is drawn many times,
augmented as in training, and the variance of each signal of hardness is split into the part between cases and the part
between patches of one case (one-way analysis of variance with random effects).
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pandas as pd
from rich.console import Console

from experiments.datasets.phantoms import SIZE, Counts, write_dataset
from experiments.hardness_signals.measurement import add_configurations, signals_of_patches
from experiments.hardness_signals.page import draw, page_text
from experiments.nnunet_runs.plans import PLANS_NAME
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import experiment_parser, module_command, result_folder, write_result

#: Sizes of the patches, voxels along each axis.
PATCHES = (12, 16, SIZE)

#: The phantoms, and those of a smoke run.
COUNTS = Counts({"control": 40, "common": 12, "rare": 8}, validation=2, test=1)
QUICK_COUNTS = Counts({"control": 4, "common": 3, "rare": 3}, validation=1, test=1)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment and write its page."""
    parser = experiment_parser("hardness_signals", str(__doc__).splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    quick = arguments.quick
    counts = QUICK_COUNTS if quick else COUNTS
    moments, patches, n_draws = ((2, 4), (12, SIZE), 4) if quick else ((100, 300, 600), PATCHES, 30)
    start = monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runs = SeedRuns(Path(folder), _study(counts, iterations=moments[-1]), seed=0)
        # Read by nnU-Net as it is imported.
        os.environ.update(runs.environment)
        runs.prepare(Console(stderr=True))
        add_configurations(runs.preprocessed / f"{PLANS_NAME}.json", patches)
        import torch

        torch.set_num_threads(1)
        n_batches = -(-n_draws * sum(counts.train.values()) // 4)
        table = pd.concat([signals_of_patches(runs, size, moments, n_batches) for size in patches])
    page = write_result(
        result_folder(arguments.out, quick=quick),
        "hardness-signals",
        title="What a stale loss says",
        text=page_text(table, train=counts.train, n_draws=n_draws),
        table=table,
        figure=draw(table),
        command=module_command("experiments.hardness_signals", argv),
        seeds=[0],
        quick=quick,
        seconds=monotonic() - start,
    )
    Console().print(f"{page} is written.", highlight=False)


def _study(counts: Counts, *, iterations: int) -> Study:
    """The phantoms and a plain training, as a study for the runs of nnU-Net."""
    return Study(
        name="hardness-signals",
        title="What a stale loss says",
        dataset="Dataset910_Phantoms",
        by="pathology",
        rare=("rare",),
        common=("common", "control"),
        labels=("cerebellum",),
        epochs=1,
        iterations=iterations,
        write=lambda folder, rng: write_dataset(folder, counts, rng=rng),
        settings={},
        about="",
        trainers={BASELINE: "nnUNetTrainerHWS_beta0"},
    )


if __name__ == "__main__":
    main()
