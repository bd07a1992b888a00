"""What a made or divided raw dataset has beside its images.

That are the tables of its cases and its description, and what experiments give trainers as a column
of the training cases: shuffled strata, or weights.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnunet_dro.sampling import kl_ball_beta, kl_probabilities, with_exploration

#: Column of the case table that has the strata of other training cases, and that with weights by
#: the held-out Dice.
SHUFFLED = "shuffled"
HELD_OUT = "heldout"
#: Folds of an ensemble, and of plain training for the held-out Dice.
FOLDS = 3
#: Length of the latter as a share of the others'; what is drawn is the fixed share and exploration
#: of the default.
HELD_OUT_LENGTH = 0.25
DRAWN_SHARE = 0.5
EXPLORATION = 0.1


def begin_dataset(folder: Path) -> Path:
    """The empty folders of a dataset, under a name that `finish_dataset` changes in the end."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name in ("imagesTr", "labelsTr", "imagesTs", "labelsTs"):
        (partial / name).mkdir(parents=True)
    return partial


def finish_dataset(
    partial: Path, folder: Path, table: pd.DataFrame, description: Mapping[str, object]
) -> None:
    """Write ``cases.csv``, ``test_cases.csv`` and ``dataset.json``.

    The folder gets its name last: it is complete then.
    """
    table = table.sort_values("case")
    is_test = table["split"] == "test"
    table[~is_test].to_csv(partial / "cases.csv", index=False)
    table[is_test].to_csv(partial / "test_cases.csv", index=False)
    content = {**description, "numTraining": int((~is_test).sum())}
    (partial / "dataset.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.rename(folder)


def shuffled(strata: Sequence[str], seed: int) -> list[str]:
    """The strata of other cases."""
    permuted = np.random.default_rng([seed, 7]).permutation(strata)
    return [str(stratum) for stratum in permuted]


def held_out_weights(dice: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities of the default's fixed share, by the Dice of held-out cases.

    The hardness of a case is 1 minus its Dice.
    """
    hardness = 1 - dice
    drawn = kl_probabilities(hardness, beta=kl_ball_beta(hardness, share=DRAWN_SHARE))
    return with_exploration(drawn, epsilon=EXPLORATION)
