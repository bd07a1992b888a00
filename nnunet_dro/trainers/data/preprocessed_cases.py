"""Which cases of a fold are preprocessed, and predicted by the stage before in a cascade."""

import os
from collections.abc import Iterable
from pathlib import Path

from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import SPLITS_FILE

#: How the files end from which nnU-Net reads the image of a case, `X.b2nd` or `X.npz`.
_ENDINGS = (".b2nd", ".npz")


def check_preprocessed(folder: Path, cases: Iterable[str]) -> None:
    """Raise FileNotFoundError if a case of a fold is not preprocessed.

    nnU-Net would say so when the case is first drawn, hours later perhaps. Its own list of the
    cases of a folder lacks those called ``X_seg``, which it trains all the same. In a folder of
    another format no case is missed.
    """
    files = os.listdir(folder)
    if not any(file.endswith(_ENDINGS) for file in files):
        return

    missing = _missing(files, cases)
    if missing:
        raise FileNotFoundError(
            f"`{SPLITS_FILE}` must name preprocessed cases, got {name_some(missing)}, not in "
            f"{str(folder)!r}. Run nnUNetv2_preprocess again, or remove them from "
            f"{SPLITS_FILE}."
        )


def check_previous_stage(folder: Path, cases: Iterable[str]) -> None:
    """Raise FileNotFoundError if the stage before in a cascade has not predicted a case of a fold.

    nnU-Net would say so in one of its workers, above the errors of all others.

    Args:
        folder: ``MODEL/predicted_next_stage/CONFIGURATION``, with the predictions.
        cases: The training and validation cases.
    """
    missing = _missing(os.listdir(folder) if folder.is_dir() else [], cases)
    if missing:
        trainer, _, configuration = folder.parents[1].name.rsplit("__", 2)
        raise FileNotFoundError(
            f"The stage before must have predicted every case, got no {name_some(missing)} in "
            f"{str(folder)!r}. Train every fold of {configuration} with -tr {trainer}, or copy "
            f"there what another trainer's model of {configuration} has in predicted_next_stage."
        )


def _missing(files: Iterable[str], cases: Iterable[str]) -> list[str]:
    """The cases that none of the files is of."""
    present = {file.removesuffix(ending) for ending in _ENDINGS for file in files}
    return sorted(set(cases) - present)
