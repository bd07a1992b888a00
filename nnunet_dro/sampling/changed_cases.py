"""How the training cases changed since a checkpoint."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.naming import name_some


def change_of_cases(here: Sequence[str], there: Sequence[str]) -> str | None:
    """One line for the log about cases that are new or gone since a checkpoint.

    Args:
        here: The cases now.
        there: The cases in the checkpoint.

    Returns:
        The line, or None if nothing changed.
    """
    now = set(here)
    before = set(there)
    new = [case for case in here if case not in before]
    gone = [case for case in there if case not in now]
    if not new and not gone:
        return None
    return (
        "The training cases changed since the checkpoint: "
        f"{len(new)} new (start unseen: {name_some(new, at_most=3)}), "
        f"{len(gone)} gone (dropped: {name_some(gone, at_most=3)})."
    )


def positions_in_common(
    here: Sequence[str], there: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the cases that two lists have in common, in the order of the first list.

    Returns:
        Their positions in the first list, and in the second one.

    Example:
        >>> [positions.tolist() for positions in positions_in_common(["a", "b", "c"], ["c", "a"])]
        [[0, 2], [1, 0]]
    """
    names_here = np.array(here, dtype=str)
    names_there = np.array(there, dtype=str)
    _, mine, theirs = np.intersect1d(names_here, names_there, return_indices=True)
    order = np.argsort(mine)
    return mine[order], theirs[order]


def restore(
    values: NDArray[Any],
    unknown: float,
    saved: ArrayLike,
    here: NDArray[np.int64],
    there: NDArray[np.int64],
) -> None:
    """Fill an array with the saved values of the cases in common, and the others as unknown.

    Args:
        values: The array to fill, shape (n,).
        unknown: The value of a case that was not saved.
        saved: The values of the cases in the checkpoint, shape (m,).
        here: See `positions_in_common`.
        there: See `positions_in_common`.
    """
    values[:] = unknown
    values[here] = np.asarray(saved)[there]
