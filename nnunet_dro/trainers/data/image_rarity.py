"""Which preprocessed images look rare, and how often to draw their cases for that.

A training looks at its training cases, and `doctor` at all cases of a dataset.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnunet_dro.files.output_folder import replacing
from nnunet_dro.fingerprints import (
    KINDS,
    fingerprint,
    kinds,
    kinds_in_words,
    parts,
    rarity_of_images,
)
from nnunet_dro.naming import name_some
from nnunet_dro.sampling import draws_of_kinds, expected_draws
from nnunet_dro.sampling.cap import is_of_rare_kind
from nnunet_dro.trainers.data.case_cache import CaseCache, reading, training_dataset

#: The file in the folder of a training with the rarity of each of its cases.
RARITY_FILE = "rarity.csv"
#: Number of cases that the log names.
_N_NAMED = 6


def draws_of_rare_images(
    trainer: Any, *, cap: float, batch_size: int | None = None
) -> NDArray[np.float64]:
    """How often to draw the training cases for their images, relative to chance.

    Cases of rare kinds of images come more often, see `nnunet_dro.fingerprints.kinds` and
    `draws_of_kinds`. The log names the rarest, and `RARITY_FILE` in the folder of the training has
    all. Every rank may call this, and waits for no other; the first one writes.

    Args:
        trainer: A trainer of nnU-Net that knows its preprocessed data.
        cap: How many times as often as by chance a case is drawn at most, > 1.
        batch_size: Number of cases in a batch, if these are distinct: none gets more draws than a
            place in every batch, and the log and the file say so. None if they are drawn with
            replacement.

    Returns:
        A number for each training case, in nnU-Net's order, shape (n,), with a mean of 1.

    Raises:
        ValueError: If an image cannot be read, or has a value that is not finite.
        FileNotFoundError: If a case is not preprocessed.
    """
    dataset, jobs = training_dataset(trainer)
    cases = [str(case) for case in dataset.identifiers]
    table = image_rarity(dataset, cases, log=trainer.print_to_log_file, jobs=jobs)
    draws = draws_of_kinds(table[list(KINDS)], cap=cap)
    table = table.assign(times_as_often=_times_as_often(draws, batch_size))
    if trainer.local_rank == 0:
        write_rarity(table, Path(trainer.output_folder) / RARITY_FILE)
    trainer.print_to_log_file(_rare_kinds(table))
    return draws


def image_rarity(
    dataset: Any,
    cases: Sequence[str],
    *,
    log: Callable[[str], object],
    jobs: int,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> pd.DataFrame:
    """How rare the preprocessed images of cases are among these, and of which kind.

    Each is looked at once: the fingerprints are kept beside the preprocessed data.

    Args:
        dataset: A dataset of nnU-Net, which opens the cases.
        cases: Their names.
        log: Takes a line on what is done.
        jobs: Number of threads, 8 at most.
        progress: Called with the numbers of images that were looked at and of all.

    Returns:
        A row per case in this order: ``case``, ``rarity``, with a mean of 1, and the columns of
        `KINDS`, 0 for the largest kind.

    Raises:
        ValueError: If an image cannot be read, or has a value that is not finite.
        FileNotFoundError: If a case is not preprocessed.
    """
    folder = Path(dataset.source_folder)
    kept = CaseCache(
        folder=folder,
        name="fingerprints",
        endings=(".b2nd", ".npz", ".npy"),
        # A shorter one, without details, was once kept as "fingerprint".
        key="fingerprint_with_details",
        parse=lambda numbers: list(map(float, numbers)),
    )
    by_case = kept.values(
        cases,
        lambda case: _fingerprint_of_case(dataset, case, folder),
        doing="Looking at the images of",
        log=log,
        jobs=jobs,
        progress=progress,
    )
    fingerprints = [by_case[case] for case in cases]
    table = pd.DataFrame({"case": list(cases), "rarity": rarity_of_images(fingerprints)})
    for column, numbers in zip(KINDS, parts(fingerprints), strict=True):
        table[column] = kinds(numbers)
    return table


def rarest_first(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `image_rarity`: cases of rare kinds, and then all others, each by rarity."""
    is_rare = is_of_rare_kind(table[list(KINDS)])
    order = np.lexsort([-table["rarity"], ~is_rare])
    return table.iloc[order].reset_index(drop=True)


def write_rarity(table: pd.DataFrame, path: Path) -> None:
    """Write such rows in the order of `rarest_first`."""
    with replacing(path) as partial:
        rarest_first(table).to_csv(partial, index=False, float_format="%.4g", lineterminator="\n")


def _times_as_often(draws: NDArray[np.float64], batch_size: int | None) -> NDArray[np.float64]:
    """How often cases are drawn into batches of distinct cases, relative to chance."""
    if batch_size is None or (draws == 1).all():
        return draws
    n_cases = len(draws)
    return expected_draws(draws / n_cases, size=batch_size) * n_cases / batch_size


def _rare_kinds(table: pd.DataFrame) -> str:
    """One line for the log on the kinds of images, and the cases of rare kinds."""
    told = f"Kinds of images: {kinds_in_words(table[list(KINDS)], 'case')}"
    more = table[table["times_as_often"] > 1].sort_values("rarity", ascending=False, kind="stable")
    if more.empty:
        return f"{told}. No case is drawn more often for its image"

    names = [f"{row.case} ({row.times_as_often:.1f}x)" for row in more.itertuples()]
    return f"{told}. Cases of rare kinds are drawn more often: {name_some(names, at_most=_N_NAMED)}"


def _fingerprint_of_case(dataset: Any, case: str, folder: Path) -> list[float]:
    with reading("image", case, folder):
        image = np.asarray(dataset.load_case(case)[0][:])

    if not np.isfinite(image).all():
        raise ValueError(
            f"The image of training case {case!r} in {folder} must have finite intensities. "
            "Repair it in the raw dataset and run nnUNetv2_preprocess again."
        )
    return fingerprint(image).tolist()
