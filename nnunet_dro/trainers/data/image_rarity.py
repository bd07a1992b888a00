"""How often to draw each training case because its image looks like few others."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray
from torch import distributed as dist

from nnunet_dro.fingerprints import fingerprint
from nnunet_dro.sampling import rarity
from nnunet_dro.trainers.data.case_cache import CaseCache, reading

#: Largest number of threads; more would wait for the disk.
_MOST_JOBS = 8
#: Number of cases that the log names.
_N_NAMED = 6


def image_rarity(trainer: Any, cases: Sequence[str], *, cap: float) -> NDArray[np.float64]:
    """Weights of the training cases by the inverse density of their images, see `rarity`.

    The images are the preprocessed ones. They are looked at once, and their fingerprints kept for
    other folds and trainings beside the preprocessed data. Every rank may call this, and waits for
    no other.

    Args:
        trainer: A trainer of nnU-Net that knows its preprocessed data.
        cases: Names of its training cases.
        cap: How many times as often as by chance a case is drawn at most, > 1.

    Returns:
        Shape (n,), with a mean of 1.

    Raises:
        ValueError: If an image cannot be read, or has a value that is not finite.
        FileNotFoundError: If a case is not preprocessed.
    """
    dataset, _ = trainer.get_tr_and_val_datasets()
    # The input of a cascade is not looked at, so it need not be opened.
    dataset.folder_with_segs_from_previous_stage = None
    n_ranks = dist.get_world_size() if trainer.is_ddp else 1
    folder = Path(trainer.preprocessed_dataset_folder)
    kept = CaseCache(
        file=folder.with_name(f"{folder.name}_fingerprints.json"),
        folder=folder,
        endings=(".b2nd", ".npz", ".npy"),
        key="fingerprint",
        parse=_parse,
    )
    fingerprints = kept.values(
        cases,
        lambda case: _fingerprint_of_case(dataset, case, folder),
        doing="Looking at the images of",
        log=trainer.print_to_log_file,
        jobs=max(1, min(_MOST_JOBS, cpu_count() // n_ranks)),
    )
    return rarity([fingerprints[case] for case in cases], cap=cap)


def rarest_cases(cases: Sequence[str], rarity: NDArray[np.float64]) -> str:
    """One line for the log that names the cases whose images look rarest."""
    rarest = np.argsort(-rarity, kind="stable")[:_N_NAMED]
    names = [f"{cases[i]} ({rarity[i]:.1f}x)" for i in rarest]
    return (
        f"Images that look like few others are drawn more often than by chance: {', '.join(names)}"
    )


def _fingerprint_of_case(dataset: Any, case: str, folder: Path) -> list[float]:
    with reading("image", case, folder):
        image = np.asarray(dataset.load_case(case)[0][:])

    if not np.isfinite(image).all():
        raise ValueError(
            f"The image of training case {case!r} in {folder} must have finite intensities. "
            "Repair it in the raw dataset and run nnUNetv2_preprocess again."
        )
    return fingerprint(image).tolist()


def _parse(numbers: Sequence[Any]) -> list[float]:
    return [float(number) for number in numbers]
