"""How often cases of rare kinds are drawn, and the most that a case is."""

import numpy as np
from numpy.typing import ArrayLike

from nnunet_dro.sampling.divergences import FloatArray

#: A kind with a smaller share of the cases than this is rare.
RARE_SHARE = 0.2


def draws_of_kinds(kinds: ArrayLike, *, cap: float) -> FloatArray:
    """How often to draw each case, relative to chance, so that rare kinds come more often.

    With s_k the share of the cases that kind k has, its cases are drawn in proportion to

        min(c, max(1, 0.2 / s_k)):

    as if a rare kind had a fifth of the cases, but at most c times as often as others. Where all
    are of one kind, or no kind is rare, cases are drawn by chance.

    Args:
        kinds: Number of the kind of each case, shape (n,), integers >= 0.
        cap: c, > 1.

    Returns:
        Shape (n,), with a mean of 1, and at most ``cap``.

    Raises:
        ValueError: If ``cap`` is out of range.

    Example:
        >>> draws_of_kinds([0] * 38 + [1] * 2, cap=4.0)[[0, -1]].round(2).tolist()
        [0.87, 3.48]
    """
    check_cap(cap)
    numbers = np.asarray(kinds, dtype=np.int64)
    shares = np.bincount(numbers)[numbers] / len(numbers)
    weights = np.clip(RARE_SHARE / shares, 1.0, cap)
    return np.asarray(weights / weights.mean())


def check_cap(cap: float) -> None:
    """Raise ValueError unless ``cap`` is > 1."""
    if not cap > 1:
        raise ValueError(
            f"`cap` must be > 1, got {cap!r}. 8 draws no case more than 8 times as often as by "
            "chance."
        )
