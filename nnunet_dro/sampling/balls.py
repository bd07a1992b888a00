"""The search for the beta at which a divergence has a certain size."""

import math
from collections.abc import Callable

#: The search ends after this many steps; six or so are enough.
_MOST_STEPS = 60
#: How far the start may be above the solution, as a logarithm.
_LARGEST_ERROR = 40.0
#: Divergences and derivatives count as no smaller than this.
_TINY = 1e-300


def beta_of_divergence(
    divergence: Callable[[float], tuple[float, float]],
    wanted: float,
    *,
    start: float,
    largest: float,
    tolerance: float = 1e-10,
) -> float:
    """The beta at which a divergence is as large as wanted, or the largest one if none is.

    A divergence grows with beta, like its square at first and less later on. So Newton's method is
    applied to its logarithm as a function of log(beta), where it is close to a line. A step that
    would leave the interval in which the solution is known to be, or is not much shorter than the
    one before, halves that interval instead.

    Args:
        divergence: Gives, for a beta, the divergence D and its derivative dD / dlog(beta).
        wanted: The divergence to reach, > 0.
        start: Where the search begins, > 0.
        largest: The largest beta.
        tolerance: Relative error of the divergence. A step of Newton's method squares the error, so
            the last one is taken from where the square is as small as this, and not checked.

    Example:
        >>> beta = beta_of_divergence(lambda b: (b**2, 2 * b**2), 9.0, start=1.0, largest=100.0)
        >>> round(beta, 6)
        3.0
    """
    top = math.log(largest)
    position = min(math.log(start), top)
    lowest = position - _LARGEST_ERROR
    low = lowest
    high = top + 1
    last_step = math.inf
    for _ in range(_MOST_STEPS):
        value, slope = divergence(math.exp(position))
        missing = math.log(wanted / max(value, _TINY))
        if position == top and missing > 0:
            break

        if missing > 0:
            low = position
        else:
            high = position
        step = missing * value / max(slope, _TINY)
        is_slow = lowest < low and high <= top and abs(step) > last_step / 2
        if is_slow or not low < position + step < high:
            step = (low + high) / 2 - position
        last_step = abs(step)
        position = min(position + step, top)
        if missing**2 < tolerance:
            break
    return min(math.exp(position), largest)
