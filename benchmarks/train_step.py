"""Times an iteration of our trainers relative to nnUNetTrainer.

Both train on the same batches in turn, in one process. Times on a CPU are the processor's, which
do not count what other programs take; with several threads, that is the sum over them.

    python benchmarks/train_step.py [--device cuda] [--iterations 60] [--trainers NAME ...]
                                    [--settings NAME ...] [--quick] [--out FILE]

On a GPU it also compares the peak memory, of one trainer at a time, and counts the device
synchronisations of a step; torch.compile and cuDNN's search for the fastest algorithms are used
there, as in nnU-Net (nnUNet_compile=f turns the former off). The data are random. The networks are
nnU-Net's U-Net for 2D and 3D patches; they are smaller on the CPU.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from random_trainers import (
    GPU_SETTINGS,
    QUICK_SETTINGS,
    Setting,
    as_nnunet_sets_cudnn,
    count_synchronisations,
    forget_everything_compiled,
    make_batch,
    make_trainer,
    peak_memory,
)
from rich.console import Console
from rich.table import Table

CPU_SETTINGS = {
    "2d, batch 12": Setting((96, 96), 12, (16, 32, 64, 128), True),
    "2d, batch 49": Setting((64, 64), 49, (16, 32, 64, 128), True),
    "3d, batch 2": Setting((40, 56, 40), 2, (16, 32, 64, 128), False),
    # PyTorch's convolution of a single small volume is slow on a CPU; no stage of this network is
    # that small.
    "3d, batch 2, wide": Setting((56, 56, 56), 2, (32, 64, 128), False),
}
TRAINERS = (
    "nnUNetTrainerDRO",
    "nnUNetTrainerDRO_hardPresent",
    "nnUNetTrainerDRO_poly1",
    "nnUNetTrainerL2RW",
)
#: Iterations of each trainer that are not timed.
WARMUP = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--device", default="cpu", choices=("cpu", "cuda"), help="Device to train on."
    )
    parser.add_argument("--iterations", type=int, default=40, help="Number of iterations to time.")
    parser.add_argument(
        "--trainers",
        nargs="+",
        default=TRAINERS,
        help="Trainers to time. The options la and vs are not possible, because they count the "
        "voxels of a dataset.",
    )
    parser.add_argument(
        "--settings", nargs="+", help="Networks and batches to time, by name; else all of them."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="Only time a tiny network, to check that the script runs.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="File to write; else it is in results/ or, with --quick, temporary.",
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    device = torch.device(arguments.device)
    is_gpu = device.type == "cuda"
    usual = GPU_SETTINGS if is_gpu else CPU_SETTINGS
    rows = []
    settings = QUICK_SETTINGS if arguments.quick else usual
    for name in arguments.settings or settings:
        setting = settings[name]
        for trainer in arguments.trainers:
            row = measure(trainer, setting, device, arguments.iterations)
            if is_gpu:
                row["memory_ratio"] = _memory_ratio(trainer, setting, device)
            rows.append({"setting": name, "trainer": trainer.removeprefix("nnUNetTrainer"), **row})
    title = f"One training iteration on {arguments.device}, relative to nnUNetTrainer's, in turn"
    Console().print(_shown(rows, title))
    machine = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if is_gpu else f"{torch.get_num_threads()} threads",
    }
    # A GPU's numbers are no newer form of the CPU's, so they have a file of their own.
    results = Path(tempfile.gettempdir()) if arguments.quick else Path(__file__).parent / "results"
    out = arguments.out or results / f"train_step{'_gpu' if is_gpu else ''}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def _shown(rows: list[dict[str, Any]], title: str) -> Table:
    table = Table(title=title)
    for column in rows[0]:
        side = "left" if column in ("setting", "trainer") else "right"
        table.add_column(column.replace("_", " "), justify=side)
    for row in rows:
        cells = [
            f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()
        ]
        table.add_row(*cells)
    return table


def measure(
    trainer_name: str, setting: Setting, device: torch.device, n_iterations: int
) -> dict[str, float]:
    """Time a trainer and nnUNetTrainer in turns.

    On a GPU, count the synchronisations of each too.
    """
    as_nnunet_sets_cudnn()
    forget_everything_compiled()
    names = {"plain": "nnUNetTrainer", "dro": trainer_name}
    trainers = {
        which: make_trainer(name, setting, device, compiled=_is_compiled())
        for which, name in names.items()
    }
    batches = [make_batch(trainers["plain"], setting, seed) for seed in range(4)]
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    times: dict[str, list[float]] = {which: [] for which in names}
    for iteration in range(WARMUP + n_iterations):
        # The order alternates, so that neither trainer always finds warm caches.
        for which in list(names)[:: 1 if iteration % 2 else -1]:
            start = clock()
            loss = trainers[which].train_step(batches[iteration % 4])["loss"]
            if not np.isfinite(loss):
                raise FloatingPointError(
                    f"{names[which]} has the loss {loss} in iteration {iteration}."
                )
            if iteration >= WARMUP:
                times[which].append(clock() - start)
    row = _compared(np.array(times["dro"]), np.array(times["plain"]))
    if device.type == "cuda":
        for which, trainer in trainers.items():
            row[f"{which}_syncs"] = count_synchronisations(trainer, batches[0])
    return row


def _is_compiled() -> bool:
    return os.environ.get("nnUNet_compile", "t").lower() in ("true", "1", "t")


def _memory_ratio(name: str, setting: Setting, device: torch.device) -> float:
    mine, plain = (
        peak_memory(trainer, setting, device, compiled=_is_compiled())
        for trainer in (name, "nnUNetTrainer")
    )
    return mine / plain


def _compared(mine: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """The medians, and their ratio with a bootstrap interval, from times in seconds."""
    rng = np.random.default_rng(0)
    resampled = rng.integers(len(mine), size=(2000, len(mine)))
    low, high = np.percentile(np.median((mine / theirs)[resampled], axis=1), [2.5, 97.5])
    return {
        "plain_ms": float(1e3 * np.median(theirs)),
        "dro_ms": float(1e3 * np.median(mine)),
        "time_ratio": float(np.median(mine / theirs)),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "ratio_of_minima": float(mine.min() / theirs.min()),
    }


if __name__ == "__main__":
    main()
