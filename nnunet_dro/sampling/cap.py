"""The most that a case is drawn, relative to chance."""

import numpy as np

from nnunet_dro.sampling.divergences import FloatArray


def capped(weights: FloatArray, *, cap: float) -> FloatArray:
    """Weights in the same proportions with a mean of 1, but for those that would exceed ``cap``.

    w_i = min(cap, kappa weights_i), with kappa such that their mean is 1.

    Args:
        weights: How often to draw each case, relative to the others, shape (n,), > 0.
        cap: How many times as often as by chance a case is drawn at most, > 1.

    Returns:
        Shape (n,).

    Raises:
        ValueError: If ``cap`` is out of range.

    Example:
        >>> capped(np.array([1.0, 1.0, 1.0, 9.0]), cap=2.0).round(2).tolist()
        [0.67, 0.67, 0.67, 2.0]
    """
    check_cap(cap)
    n = len(weights)
    is_bound = np.zeros(n, dtype=bool)
    while True:
        left = n - cap * np.count_nonzero(is_bound)
        scaled = weights * (left / weights[~is_bound].sum())
        is_new = (scaled > cap) & ~is_bound
        if not is_new.any():
            return np.where(is_bound, cap, scaled)
        is_bound |= is_new


def check_cap(cap: float) -> None:
    """Raise ValueError unless ``cap`` is > 1."""
    if not cap > 1:
        raise ValueError(
            f"`cap` must be > 1, got {cap!r}. 8 draws no case more than 8 times as often as by "
            "chance."
        )
