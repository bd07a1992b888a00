"""Trainings that have collapsed: there is a label that they find in no stratum."""

from collections.abc import Sequence

import pandas as pd

#: A label has not been learnt if its mean Dice is below this in every stratum.
NOT_LEARNT = 0.01
_TRAINING = ["method", "seed", "label"]


def collapsed_trainings(means: pd.DataFrame) -> pd.DataFrame:
    """The trainings that have not learnt a label in any stratum, a row of `_TRAINING` each.

    There is a row per training and stratum with these columns, ``stratum`` and the ``mean`` Dice in
    [0, 1].
    """
    highest = means.groupby(_TRAINING, sort=False)["mean"].max()
    return highest.index[highest < NOT_LEARNT].to_frame(index=False)


def without_collapsed(rows: pd.DataFrame, collapsed: pd.DataFrame) -> pd.DataFrame:
    """The rows (``method``, ``seed``, ``label``) of the other trainings."""
    trainings = pd.MultiIndex.from_frame(rows[_TRAINING])
    is_collapsed = trainings.isin(pd.MultiIndex.from_frame(collapsed))
    return rows[~is_collapsed]


def collapse_rates(
    means: pd.DataFrame, collapsed: pd.DataFrame, *, labels: Sequence[str]
) -> list[str]:
    """How many trainings of each method have collapsed for one of the labels, as "ERM 1 of 3"."""
    n_collapsed = collapsed[collapsed["label"].isin(labels)].groupby("method")["seed"].nunique()
    n_seeds = means.groupby("method", sort=False)["seed"].nunique()
    return [f"{method} {n_collapsed.get(method, 0)} of {n}" for method, n in n_seeds.items()]
