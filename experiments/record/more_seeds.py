"""Trainings that are added to a record, whose tables keep those before."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

#: What all seeds have in common, where a table says it.
_COMMON = ("kept", "method", "trainer", "epoch", "iteration", "stratum", "label", "n")


def with_seeds_before(table: pd.DataFrame, path: Path, *, add: bool) -> pd.DataFrame:
    """A table of trainings, with the rows of the other ones (``method``, ``seed``) in its file, in the order of seeds.

    Raises ValueError if the file is not there, or the seeds would differ in more than their numbers. Unless ``add``,
    the table is returned as it is.
    """
    if not add:
        return table
    if not path.exists():
        raise ValueError(f"There is no table in {path} to which trainings can be added. Leave --add out.")
    before = pd.read_csv(path)
    if list(before) != list(table):
        raise ValueError(f"The table in {path} has other columns. Leave --add out and run all its trainings.")
    made = pd.MultiIndex.from_frame(table[["method", "seed"]])
    before = before[~pd.MultiIndex.from_frame(before[["method", "seed"]]).isin(made)]
    whole = pd.concat([before, table], ignore_index=True).sort_values("seed", kind="stable", ignore_index=True)
    columns = [name for name in _COMMON if name in table]
    kinds = [set(of[columns].drop_duplicates().itertuples(index=False, name=None)) for _, of in whole.groupby("seed")]
    if any(kind != kinds[0] for kind in kinds):
        raise ValueError(
            f"With the trainings in {path}, the seeds would have other methods, moments or test cases. "
            "Give the same --methods or --seeds, or leave --add out and run all trainings."
        )
    return whole


def added_seeds(seeds: Sequence[int], table: pd.DataFrame) -> list[int]:
    """The seeds of a command that are not the only ones of a table: those that were added to the others."""
    return sorted(set(seeds)) if set(table["seed"]) - set(seeds) else []
