"""Processor time of the end of an epoch, and the size of the log, where there are many cases.

A training is played without images: in every epoch 500 cases get losses, and the log is written.
The times are those of the last epochs of the training, in which the log is longest. Pictures are
drawn as often as the log ever draws them, as in a training whose epochs are long.

    python benchmarks/epoch_end.py [--cases N] [--epochs N] [--measured N] [--out FILE]
"""

import argparse
import json
import tempfile
import time
from dataclasses import fields
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from nnunet_dro.sampling import Hardest, HardnessTable
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.log import hardness_log
from nnunet_dro.trainers.log.hardness_log import HardnessLog
from nnunet_dro.trainers.log.pace import PicturePace

#: nnU-Net's iterations of an epoch, and its smallest batch.
_N_ITERATIONS = 250
_BATCH_SIZE = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=1000, help="Epochs of the training.")
    parser.add_argument("--measured", type=int, default=64, help="Last epochs to measure.")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/epoch_end.json"))
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        seconds = play(
            arguments.cases,
            arguments.epochs,
            n_measured=arguments.measured,
            folder=folder,
        )
        megabytes = (folder / "hardness.csv").stat().st_size / 1e6

    numbers = {
        "n_cases": arguments.cases,
        "n_epochs": arguments.epochs,
        "mean_processor_seconds": float(np.mean(seconds)),
        "largest_processor_seconds": float(np.max(seconds)),
        "hardness_csv_mb": megabytes,
    }
    for name, number in numbers.items():
        print(f"{name:28} {number:10.4g}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(numbers, indent=1) + "\n")


def play(n_cases: int, n_epochs: int, *, n_measured: int, folder: Path) -> list[float]:
    """Play a training; returns the seconds of the processor of each measured end of an epoch."""
    rng = np.random.default_rng(0)
    cases = [f"case_{n:05}" for n in range(n_cases)]
    table = HardnessTable(cases, rule=Hardest())
    table.update(np.arange(n_cases), rng.normal(-0.7, 0.1, n_cases))
    log = HardnessLog(table, None, n_epochs=n_epochs)

    seconds = []
    for epoch in range(n_epochs):
        play_iterations(log, rng)
        if epoch < n_epochs - n_measured:
            with mock.patch.object(hardness_log, "save_picture"):
                log.end_epoch(epoch, folder)
            continue

        log.pace = PicturePace()
        start = time.process_time()
        log.end_epoch(epoch, folder)
        seconds.append(time.process_time() - start)
    return seconds


def play_iterations(log: HardnessLog, rng: np.random.Generator) -> None:
    """The iterations of an epoch, with losses that slowly fall."""
    indices = rng.integers(len(log.table), size=_N_ITERATIONS * _BATCH_SIZE)
    losses = log.table.losses[indices] - rng.exponential(1e-3, len(indices))
    log.table.update(indices, losses)

    rows = torch.zeros(len(indices), len(fields(CaseColumns)))
    rows[:, 0] = torch.from_numpy(indices)
    log.record(CaseColumns.of_rows(rows))


if __name__ == "__main__":
    main()
