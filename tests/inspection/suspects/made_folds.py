"""Fold folders with logs written by hand."""

import csv
from functools import partial
from pathlib import Path

from tests.commands import run

HEADS = {
    "weights.csv": ("epoch", "case", "weight", "times_seen"),
    "hardness.csv": ("epoch", "case", "loss", "probability", "draws"),
}
LOGS = list(HEADS)


def fold_folder(root, dataset="Dataset123_Made", configuration="3d_fullres", fold="0"):
    folder = Path(root) / dataset / f"nnUNetTrainerX__nnUNetPlans__{configuration}" / f"fold_{fold}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_log(folder, file, epochs, times=None):
    """Write a log; an epoch is a mapping from case to its value, None for a case without one.

    Times are how often each case was seen in each epoch: a number, or one per epoch by case.
    """
    with (folder / file).open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEADS[file])
        for number, epoch in enumerate(epochs):
            for case, value in epoch.items():
                seen = (
                    times[number][case]
                    if isinstance(times, list)
                    else 10
                    if times is None
                    else times
                )
                between = [0.1] if file == "hardness.csv" else []
                writer.writerow(
                    (
                        number,
                        case,
                        "" if value is None else value,
                        *between,
                        0 if value is None else seen,
                    )
                )
    return folder / file


def ranked(file, order, n_epochs=9):
    """Epochs in which the first case of an order is the first to look at, in every epoch."""
    values = [0.1 + 0.2 * n for n in range(len(order))]
    return [
        dict(zip(order, values if file == "weights.csv" else values[::-1], strict=True))
    ] * n_epochs


#: Runs `nnunet-dro suspects`, whatever becomes of it.
suspects = partial(run, "suspects")
