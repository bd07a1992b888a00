"""The draws of one batch, and those of cases that were never seen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.sampling.blocks import Blocks
from nnunet_dro.sampling.systematic import all_cases, draw_distinct


@dataclass(eq=False, slots=True)
class Draws:
    """The draws of one batch, and the numbers they were made with; arrays of shape (size,).

    Attributes:
        indices: Positions of the drawn cases in the table.
        stale_losses: Stale losses that decided the draws; NaN in a batch of first visits and during
            a warm-up.
        probabilities: How often each case was expected in the batch, divided by ``size``; at most 1
            / ``size`` where cases are distinct. With replacement this is the probability of each
            case in any one draw. In a batch of first visits it is one over the number of cases.
        shares: Probability of each case in one draw by the rule alone (for KL the softmax), without
            exploration and without the limit of distinct cases.
        explored: Part of its probability in one draw that each case has from exploration, in [0,
            1]; 1 where no rule decided the draw.
        betas: Robustness of each draw, 1/loss units; 0 where no softmax of stale losses decided it,
            and in a batch of first visits.
    """

    indices: NDArray[np.int64]
    stale_losses: FloatArray
    probabilities: FloatArray
    shares: FloatArray
    explored: FloatArray
    betas: FloatArray


def draws_of_weight_one(indices: NDArray[np.int64], n: int) -> Draws:
    """The draws of a batch that no loss may correct, however long it waits in a queue.

    They are those of a warm-up, and of a batch of first visits, though others may fill it: their
    importance weights would say how much they changed since, in a batch in which the others have
    none. Each of the n cases is as likely as any other, over all batches of first visits.
    """
    size = len(indices)
    equal = np.full(size, 1 / n)
    return Draws(
        indices=indices,
        stale_losses=np.full(size, np.nan),
        probabilities=equal,
        shares=equal,
        explored=np.ones(size),
        betas=np.zeros(size),
    )


def first_visits(
    blocks: Blocks, size: int, rng: np.random.Generator, *, exploration: float
) -> NDArray[np.int64]:
    """Positions of distinct cases, those that were never seen first.

    The cases that were not drawn yet come before those whose loss is still on its way, and these
    before others, which are drawn by weight. They are returned in random order.
    """
    n = blocks.n
    rounds, n_places = divmod(size, n)
    if rounds:
        blocks.shared.claimed[:] = True
        blocks.shared.unclaimed[:] = 0

    indices: list[int] = []
    while len(indices) < n_places:
        index = blocks.draw_unclaimed(rng)
        if index is None:
            index = blocks.draw_unseen(rng, indices)
        if index is None:
            break
        indices.append(index)

    others, _ = draw_distinct(
        blocks,
        n_places - len(indices),
        rng,
        exploration=exploration,
        without=indices,
    )
    drawn = np.concatenate([all_cases(n, rounds), indices, others])
    return rng.permutation(drawn.astype(np.int64))
