"""The hippocampus data of the Medical Segmentation Decathlon, divided anew.

Its images come in three intensity conventions: 8bit, raw and rescaled.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.datasets.division import begin_dataset, finish_dataset
from nnunet_dro.evaluation import strata
from nnunet_dro.files.case_table import read_cases
from nnunet_dro.nnunet.folders import read_dataset_json
from nnunet_dro.nnunet.raw_dataset import training_cases

#: The column of the case table with the intensity convention.
INTENSITY_RANGE = "intensity_range"


def read_hippocampus(
    folder: Path, *, rare: Mapping[str, int], common: Mapping[str, int]
) -> "pd.Series[str]":
    """The intensity range of every case.

    Raises:
        ValueError: If there are too few cases for `write_hippocampus`.
    """
    ranges = strata(read_cases(folder / "cases.csv"), INTENSITY_RANGE)[training_cases(folder)]
    n_needed = {name: n_training + 1 for name, n_training in rare.items()}
    n_needed["raw"] = sum(common.values())
    for name, n_least in n_needed.items():
        n_cases = int((ranges == name).sum())
        if n_cases < n_least:
            cure = "Give the whole dataset."
            raise ValueError(
                f"`data` must have {n_least} cases of range {name!r}, got {n_cases}. {cure}"
            )
    return ranges


def write_hippocampus(
    folder: Path,
    data: Path,
    ranges: "pd.Series[str]",
    *,
    rare: Mapping[str, int],
    common: Mapping[str, int],
    at_most: int | None,
    rng: np.random.Generator,
) -> None:
    """Divide the cases anew and copy them into a raw dataset, written as a whole or not at all."""
    rows: list[tuple[str, str, str]] = []
    for stratum, n_training in rare.items():
        cases = rng.permutation(sorted(ranges.index[ranges == stratum]))
        test = cases[n_training:][:at_most]
        rows += [(str(case), stratum, "train") for case in cases[:n_training]]
        rows += [(str(case), stratum, "test") for case in test]
    drawn = iter(rng.permutation(sorted(ranges.index[ranges == "raw"])))
    for split, n_cases in common.items():
        rows += [(str(next(drawn)), "raw", split) for _ in range(n_cases)]

    partial = begin_dataset(folder)
    for case, _, split in rows:
        suffix = "Ts" if split == "test" else "Tr"
        for kind, name in (("images", f"{case}_0000.nii.gz"), ("labels", f"{case}.nii.gz")):
            shutil.copyfile(data / f"{kind}Tr" / name, partial / f"{kind}{suffix}" / name)
    table = pd.DataFrame(rows, columns=["case", "range", "split"])
    finish_dataset(partial, folder, table, read_dataset_json(data / "dataset.json"))
