"""Pictures of one label in nnU-Net's raw format, divided anew within their strata and made smaller.

What is rare among the training cases is what is rare in the data themselves, unless they are
thinned.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.datasets.division import begin_dataset, finish_dataset
from nnunet_dro.evaluation import strata
from nnunet_dro.files.case_table import read_cases
from nnunet_dro.nnunet.folders import read_dataset_json
from nnunet_dro.nnunet.raw_dataset import training_cases

#: Cases for nnU-Net's validation, which the experiments do not look at.
_N_VALIDATION = 2


def divided(
    table: "pd.Series[str]",
    *,
    n_test: int,
    at_most: Mapping[str, int] | None = None,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Draw so many test cases of each stratum; two others are for validation, the rest to train.

    Args:
        table: Stratum of each case.
        n_test: Test cases of each stratum.
        at_most: The strata that are taken, and their largest numbers of training cases; None for
            all cases of all strata.
        rng: Source of the division.

    Returns:
        Columns ``case``, ``stratum`` and ``split``: train, validation or test.

    Raises:
        ValueError: If a stratum has too few cases to train on any.
    """
    rows: list[tuple[str, str, str]] = []
    sizes = table.value_counts()
    most = dict(sizes if at_most is None else at_most)
    largest = max(most, key=lambda stratum: sizes[stratum])
    for stratum in sorted(most):
        if sizes[stratum] <= n_test + _N_VALIDATION:
            raise ValueError(
                f"`table` must have more than {n_test + _N_VALIDATION} cases of {stratum!r}, got "
                f"{sizes[stratum]}. Test with fewer."
            )
        cases = rng.permutation(sorted(table.index[table == stratum])).tolist()
        splits = ["test"] * n_test
        if stratum == largest:
            splits += ["validation"] * _N_VALIDATION
        n_train = len(cases) - len(splits)
        splits += ["train"] * min(n_train, most[stratum])
        rows += [(case, stratum, split) for case, split in zip(cases, splits, strict=False)]
    return pd.DataFrame(rows, columns=["case", "stratum", "split"])


def write_pictures(
    folder: Path,
    data: Path,
    by: str,
    *,
    n_test: int,
    smaller: int,
    at_most: Mapping[str, int] | None = None,
    rng: np.random.Generator,
) -> None:
    """Divide the pictures and write them as a raw dataset, as a whole or not at all.

    Args:
        folder: The raw dataset to write.
        data: The raw dataset to read, with a ``cases.csv``.
        by: Column of the strata.
        n_test: Test cases of each stratum.
        smaller: Height and width become so many times smaller: pictures by means of blocks, label
            maps by the majority.
        at_most: As for `divided`.
        rng: Source of the division.

    Raises:
        FileNotFoundError: If the data lack ``cases.csv`` or a picture.
        ValueError: If a stratum has too few cases.
    """
    column = strata(read_cases(data / "cases.csv"), by)[training_cases(data)]
    table = divided(column, n_test=n_test, at_most=at_most, rng=rng)

    partial = begin_dataset(folder)
    for case, split in zip(table["case"], table["split"], strict=True):
        suffix = "Ts" if split == "test" else "Tr"
        for kind, name in (("images", f"{case}_0000.png"), ("labels", f"{case}.png")):
            source = data / f"{kind}Tr" / name
            target = partial / f"{kind}{suffix}" / name
            _write_smaller(source, target, smaller, is_label_map=kind == "labels")

    table = table.rename(columns={"stratum": by})
    finish_dataset(partial, folder, table, read_dataset_json(data / "dataset.json"))


def _write_smaller(source: Path, target: Path, smaller: int, *, is_label_map: bool) -> None:
    import SimpleITK

    picture = SimpleITK.ReadImage(str(source))
    pixels = SimpleITK.GetArrayFromImage(picture)
    means = means_of_blocks(pixels, smaller)
    values = means > 0.5 if is_label_map else means.round()
    is_colour = pixels.ndim == 3
    written = SimpleITK.GetImageFromArray(values.astype(np.uint8), isVector=is_colour)
    SimpleITK.WriteImage(written, str(target))


def means_of_blocks(pixels: Any, size: int) -> Any:
    """Means of square blocks of pixels, shape (height, width) or (height, width, channels).

    Pixels at the right and below that fill no block are left out.
    """
    height, width = (length // size for length in pixels.shape[:2])
    cut = np.asarray(pixels, dtype=np.float64)[: height * size, : width * size]
    blocks = cut.reshape(height, size, width, size, *pixels.shape[2:])
    return blocks.mean(axis=(1, 3))


def training_numbers(sizes: Mapping[str, int], n_test: int) -> dict[str, int]:
    """Training cases of each stratum, given the cases of each, the largest stratum first."""
    largest = next(iter(sizes))
    numbers = {stratum: n - n_test for stratum, n in sizes.items()}
    numbers[largest] -= _N_VALIDATION
    return numbers
