"""How far each case is learnt, and which cases are hopeless, by their losses."""

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray

#: How far a case is learnt, its loss relative to the median: below the first it counts as not
#: learnt, from the second on as learnt.
NOT_LEARNT = 0.1
LEARNT = 0.3
#: Before the median loss has fallen this far, nothing can be told.
_LEAST_MEDIAN = 0.05
#: The largest share of the cases that is set aside as hopeless.
MOST_HOPELESS = 0.05


def learnt(losses: FloatArray, *, median: float) -> FloatArray:
    """How far each case is learnt, from 0 to 1, relative to the median case.

    A loss of Dice and cross-entropy is about 0 where nothing of a case is found, and -1 where all
    is. With the median loss m of all cases,

        g_i = min(1, max(0, (l_i / m - 0.1) / (0.3 - 0.1))),

    and 0 for all while m > -0.05, where nothing is learnt yet. The median does not follow a few
    cases, however bad they are.

    Args:
        losses: Negative Dice plus cross-entropy of some cases, shape (b,), finite.
        median: The median loss of all cases.

    Returns:
        g, shape (b,), in [0, 1].

    Example:
        >>> learnt(np.array([-0.9, -0.8, -0.16, 0.1]), median=-0.8).round(2).tolist()
        [1.0, 1.0, 0.5, 0.0]
    """
    if median > -_LEAST_MEDIAN:
        return np.zeros(len(losses))
    how_far = (losses / median - NOT_LEARNT) / (LEARNT - NOT_LEARNT)
    return np.asarray(np.minimum(np.maximum(how_far, 0.0), 1.0))


def earned(losses: FloatArray, *, more: FloatArray, rest: FloatArray) -> float:
    """How far what would be drawn more often is learnt, relative to the rest, from 0 to 1.

    With h the mean of the losses weighted by ``more``, and o that by ``rest``, it is the g of
    `learnt` of a case with the loss h where the median is o; 0 where either has no weight.

    Args:
        losses: Negative Dice plus cross-entropy of the cases, shape (n,), finite.
        more: By how much each case would be drawn more often, shape (n,), >= 0.
        rest: How much each case counts among the others, shape (n,), >= 0.
    """
    if not (more.any() and rest.any()):
        return 0.0
    hardest = more @ losses / more.sum()
    others = float(rest @ losses / rest.sum())
    (part,) = learnt(np.array([hardest]), median=others)
    return float(part)


def hopeless(losses: FloatArray, *, median: float) -> NDArray[np.intp]:
    """Positions of the few cases of which nothing is found that say nothing of the others.

    They are all cases that are not learnt (g = 0 in `learnt`), up to a twentieth of all. Above that
    fewer are set aside, and none from a tenth on: then what is hard here cannot be learnt, or not
    yet.

    Args:
        losses: Negative Dice plus cross-entropy of the cases, shape (n,), finite.
        median: Their median.

    Returns:
        Positions, hardest first.
    """
    not_learnt = np.flatnonzero(learnt(losses, median=median) == 0)
    most = int(MOST_HOPELESS * len(losses))
    n_aside = max(0, min(len(not_learnt), 2 * most - len(not_learnt)))
    hardest_first = not_learnt[np.argsort(-losses[not_learnt], kind="stable")]
    return np.asarray(hardest_first[:n_aside])
