"""Which cases of a fold are preprocessed."""

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

    present = {file.removesuffix(ending) for ending in _ENDINGS for file in files}
    missing = sorted(set(cases) - present)
    if missing:
        raise FileNotFoundError(
            f"`{SPLITS_FILE}` must name preprocessed cases, got {name_some(missing)}, not in "
            f"{str(folder)!r}. Run nnUNetv2_preprocess again, or remove them from "
            f"{SPLITS_FILE}."
        )
