"""The draws of one batch, and those of the first pass over the data, in which unseen cases come first."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.blocks import Blocks
from nnunet_dro.sampling.divergences import FloatArray
from nnunet_dro.sampling.systematic import draw_distinct


@dataclass(frozen=True)
class Draws:
    """The draws of one batch, and the numbers they were made with; arrays of shape (size,).

    Attributes:
        indices: Positions of the drawn cases in the table.
        stale_losses: Stale losses that decided the draws; NaN at a first visit and during a warm-up, where none did.
        probabilities: How often each case was expected in the batch, divided by ``size``; at most 1 / ``size`` where
            cases are distinct. With replacement this is the probability of each case in any one draw.
        shares: Probability of each case in one draw by the rule alone (for KL the softmax), without exploration and
            without the limit of distinct cases.
        explored: Part of its probability in one draw that each case has from exploration, in [0, 1]; 1 where no rule
            decided the draw.
        betas: Robustness of each draw, 1/loss units; 0 where no softmax of stale losses decided it.
    """

    indices: NDArray[np.int64]
    stale_losses: FloatArray
    probabilities: FloatArray
    shares: FloatArray
    explored: FloatArray
    betas: FloatArray


def first_visits(
    blocks: Blocks, size: int, rng: np.random.Generator, *, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    """Positions and probabilities of unseen cases: those not drawn yet before those whose loss is still on its way.

    The second kind is drawn with replacement, and so may fill a batch with one case. ``exploration`` is the share of
    uniform draws once the last missing loss has come back.
    """
    indices, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
    for k in range(size):
        drawn = blocks.draw_unclaimed(rng) or blocks.draw_unseen(rng)
        if drawn is None:  # the last missing loss has just come back
            (index,), (probability,) = blocks.draw_by_weight(1, rng, exploration=exploration)
            drawn = int(index), float(probability)
        indices[k], probabilities[k] = drawn
    return indices, probabilities


def distinct_first_visits(
    blocks: Blocks, size: int, rng: np.random.Generator, *, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    """The same with distinct cases: those that were not drawn yet, then those on their way, then any others by weight.

    With fewer cases than places, each comes size // n times or once more. The order is random.
    """
    rounds, n_places = divmod(size, blocks.n)
    if rounds:
        blocks.claim_all()
    indices: list[int] = []
    probabilities: list[float] = []
    while len(indices) < n_places and (drawn := blocks.draw_unclaimed(rng) or blocks.draw_unseen(rng, without=indices)):
        indices.append(drawn[0])
        probabilities.append(drawn[1])
    others, expected = draw_distinct(
        blocks, n_places - len(indices), rng, exploration=exploration, without=indices.copy()
    )
    all_indices = np.concatenate([np.tile(np.arange(blocks.n), rounds), indices, others]).astype(np.int64)
    all_probabilities = np.concatenate([np.full(rounds * blocks.n, 1 / blocks.n), probabilities, expected / size])
    order = rng.permutation(size)
    return all_indices[order], all_probabilities[order]
