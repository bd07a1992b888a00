"""Seeds that are added to a record, whose tables keep those of the seeds before."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

#: What the trainings of all seeds have in common, where a table says it.
_COMMON = ("kept", "method", "trainer", "epoch", "iteration", "stratum", "label", "n")


def add_more_seeds(parser: ArgumentParser) -> None:
    """Give a parser the option ``--add``."""
    parser.add_argument(
        "--add",
        action="store_true",
        help="Add the seeds to those in the tables that are already in --out, which need no finished runs.",
    )


def with_seeds_before(table: pd.DataFrame, path: Path, *, add: bool) -> pd.DataFrame:
    """A table of trainings, with the rows of the other seeds that are in its file.

    Args:
        table: The rows of the trainings that were made, with a column ``seed``.
        path: The file that the table is about to replace.
        add: Whether to keep the rows of other seeds; if not, the table is returned as it is.

    Returns:
        The rows in the order of their seeds.

    Raises:
        ValueError: If the file is not there, or its trainings of other seeds are not the same ones.
    """
    if not add:
        return table
    if not path.exists():
        raise ValueError(f"There is no table in {path} to which seeds can be added. Leave --add out.")
    before = pd.read_csv(path)
    if list(before) != list(table):
        raise ValueError(f"The table in {path} has other columns. Leave --add out and run all its seeds.")
    before = before[~before["seed"].isin(table["seed"])]
    columns = [name for name in _COMMON if name in table]
    if len(before) and _kinds(before, columns) != _kinds(table, columns):
        raise ValueError(
            f"The trainings of other seeds in {path} have other methods, moments or test cases. "
            "Give the same --methods, or leave --add out and run all its seeds."
        )
    return pd.concat([before, table], ignore_index=True).sort_values("seed", kind="stable", ignore_index=True)


def added_seeds(seeds: Sequence[int], table: pd.DataFrame) -> list[int]:
    """The seeds of a command that are not the only ones of a table: those that were added to the others.

    Args:
        seeds: Seeds of the command.
        table: The rows of all seeds, from `with_seeds_before`.
    """
    return sorted(set(seeds)) if set(table["seed"]) - set(seeds) else []


def _kinds(table: pd.DataFrame, columns: list[str]) -> set[tuple[object, ...]]:
    return set(table[columns].drop_duplicates().itertuples(index=False, name=None))
