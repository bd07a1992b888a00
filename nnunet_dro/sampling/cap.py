"""How often cases of rare kinds are drawn, and the most that a case is."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import check_number

#: A kind with a smaller share of the cases than this is rare.
RARE_SHARE = 0.2
#: Fewer cases than this are not drawn more often: a few images that look like no other may as well
#: be the tail of a common kind, or broken, and would be learnt by heart.
LEAST_CASES_OF_A_KIND = 5


def is_of_rare_kind(kinds: ArrayLike) -> NDArray[np.bool_]:
    """Which cases are of a kind that is rare: less than a fifth of all, but five cases at least.

    Args:
        kinds: As for `draws_of_kinds`.

    Returns:
        Shape (n,).
    """
    return np.asarray(_is_rare(_sizes(kinds)).any(axis=1))


def draws_of_kinds(kinds: ArrayLike, *, cap: float) -> FloatArray:
    """How often to draw each case, relative to chance, so that rare kinds come more often.

    With s_k the share of the cases that a rare kind k has, its cases are drawn in proportion to

        min(c, 0.2 / s_k),

    and all others to 1: as if a rare kind had a fifth of the cases, but at most c times as often as
    others. Where no kind is rare, or all kinds are equally large, cases are drawn by chance. If
    cases are divided into kinds in several ways, the largest number of each case counts.

    Args:
        kinds: Number of the kind of each case, integers >= 0, shape (n,), or (n, m) for m ways to
            divide them.
        cap: c, > 1.

    Returns:
        Shape (n,), with a mean of 1, and at most ``cap``.

    Raises:
        ValueError: If ``cap`` is out of range.

    Example:
        >>> draws_of_kinds([0] * 92 + [1] * 5 + [2] * 3, cap=4.0)[[0, 95, -1]].round(2).tolist()
        [0.87, 3.48, 0.87]
    """
    check_cap(cap)
    sizes = _sizes(kinds)
    as_a_fifth = np.minimum(cap, RARE_SHARE * len(sizes) / sizes)
    weights = np.where(_is_rare(sizes), as_a_fifth, 1.0).max(axis=1)
    if (weights == weights[0]).all():
        return np.ones(len(weights))  # whose mean no rounding changes
    return np.asarray(weights / weights.mean())


def _sizes(kinds: ArrayLike) -> NDArray[np.int64]:
    """How many cases are of the kinds of each case, shape (n, m)."""
    numbers = np.asarray(kinds, dtype=np.int64)
    ways = numbers.reshape(len(numbers), -1).T
    return np.stack([np.bincount(way)[way] for way in ways], axis=1)


def _is_rare(sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (sizes >= LEAST_CASES_OF_A_KIND) & (sizes < RARE_SHARE * len(sizes))


def check_cap(cap: float) -> None:
    """Raise ValueError unless ``cap`` is > 1."""
    check_number("cap", cap, "(1, inf)", "8 draws no case more than 8 times as often as by chance.")
